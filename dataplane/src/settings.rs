//! What the program that embeds a data plane decides about it.

use std::fs;
use std::time::Duration;

use ipnet::IpNet;

use crate::{AccessLogTo, Binds};

/// How a [`crate::Plane`] runs. The default suits a person's own machine; only what differs needs to be said.
#[derive(Debug)]
pub struct Settings {
    /// The number of worker threads.
    pub workers: usize,
    /// Where the ports of listeners are bound.
    pub binds: Binds,
    /// Whether responses name the rule that took the request, in `x-postern-route`.
    pub route_header: bool,
    /// Peers whose `X-Forwarded-*` and `Forwarded` headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The limits on clients and backends.
    pub limits: Limits,
    /// Where the access log goes.
    pub access_log: AccessLogTo,
    /// How long connections of a port that left the configuration may take to finish.
    pub drain: Duration,
}

/// Limits that hold for everyone: without them, one client could take what all need.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open client connections in all. The default leaves a descriptor for a backend connection each.
    pub connections: usize,
    /// Open client connections from one address.
    pub connections_per_client: usize,
    /// Time from a TCP connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// Bytes of a request head, and of an HTTP/2 header list; more is answered 431.
    pub head_bytes: u32,
    /// Time from the first byte of a request head to its last; more is answered 408.
    pub head_time: Duration,
    /// Time a connection may stay without a request, and an exchange without a byte.
    pub idle: Duration,
    /// Time an upgraded connection may stay without a byte.
    pub tunnel_idle: Duration,
    /// Open HTTP/2 streams of a connection.
    pub streams: u32,
    /// Requests on a connection, after which it is closed (give or take a tenth, so that clients do not come back all
    /// at once): long-lived clients find new replicas by it.
    pub requests: u32,
    /// Time to connect to an endpoint.
    pub connect: Duration,
    /// Idle connections kept for an endpoint by each worker.
    pub upstream_idle: usize,
    /// Time an idle connection to an endpoint is kept.
    pub upstream_idle_time: Duration,
    /// Streams on one HTTP/2 connection to an endpoint; the endpoint may allow less.
    pub upstream_streams: usize,
}

/// Descriptors that are never given to clients: listening sockets, runtimes, logs.
const RESERVED_FILES: usize = 128;

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            binds: Binds::default(),
            route_header: false,
            trusted_proxies: Vec::new(),
            limits: Limits::default(),
            access_log: AccessLogTo::default(),
            drain: Duration::from_secs(30),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let connections = (open_files().saturating_sub(RESERVED_FILES) / 2).max(16);
        Self {
            connections,
            connections_per_client: connections,
            handshake: Duration::from_secs(10),
            head_bytes: 64 * 1024,
            head_time: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            tunnel_idle: Duration::from_secs(3600),
            streams: 100,
            requests: 10_000,
            connect: Duration::from_secs(5),
            upstream_idle: 256,
            upstream_idle_time: Duration::from_secs(60),
            upstream_streams: 100,
        }
    }
}

/// The number of files this process may have open, as the kernel reports it.
fn open_files() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(1024)
}
