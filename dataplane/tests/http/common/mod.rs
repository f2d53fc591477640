//! A data plane with a small configuration, and raw sockets on both of its sides.

mod anyone;
mod backend;
mod client;
pub mod h2c;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use backend::{Backend, Peer};
pub use client::{Answer, Client};
use postern_config::Config;
use postern_dataplane::{Applied, Binds, Plane, Settings};
use serde_json::{Value, json};
pub use tls::{certificate, handshake};
use tokio::runtime::Runtime;

/// How long a test waits for anything before it fails.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A running data plane with the listener `http` on port 80.
pub struct Gateway {
    runtime: Runtime,
    plane: Option<Plane>,
    applied: Applied,
}

impl Gateway {
    /// Serves the rules of one route with the default settings.
    pub fn start(rules: &[Value], backends: &[(&str, SocketAddr)]) -> Self {
        Self::with(|_| (), config(rules, backends))
    }

    /// Serves a configuration with changed settings.
    pub fn with(change: impl FnOnce(&mut Settings), config: Value) -> Self {
        postern_dataplane::install_crypto();
        let free: SocketAddr = ([127, 0, 0, 1], 0).into();
        let overrides = [80, 443, 8080, 8443].map(|port| (port, free)).into();
        let binds = Binds { overrides, ..Binds::default() };
        let mut settings = Settings { workers: 1, binds, ..Settings::default() };
        change(&mut settings);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let plane = Plane::start(settings).expect("a plane");
        let mut gateway = Self { runtime, plane: Some(plane), applied: Applied::default() };
        gateway.apply(config);
        gateway
    }

    /// Replaces the configuration.
    pub fn apply(&mut self, config: Value) {
        let config: Config = serde_json::from_value(config).expect("a configuration");
        let plane = self.plane.as_ref().expect("a plane that runs");
        self.applied = self.runtime.block_on(plane.apply(Arc::new(config)));
        assert!(self.applied.failed.is_empty(), "{:?}", self.applied);
        assert!(self.applied.refused.is_empty(), "{:?}", self.applied);
    }

    /// Where a listener port is bound.
    pub fn address(&self, port: u16) -> SocketAddr {
        self.applied.open[&port]
    }

    /// A new connection to port 80.
    pub fn client(&self) -> Client {
        Client::connect(self.address(80))
    }

    /// Sends one request on a new connection and reads the answer.
    pub fn ask(&self, request: &str) -> Answer {
        let mut client = self.client();
        client.send(request);
        client.answer()
    }

    /// Begins to drain in the background.
    pub fn drain(&mut self, within: Duration) {
        let plane = self.plane.take().expect("a plane that runs");
        self.runtime.spawn(plane.drain(within));
    }

    /// The metrics.
    pub fn metrics(&self) -> String {
        self.plane.as_ref().expect("a plane that runs").metrics()
    }

    /// The runtime of the test, for clients that need one.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// A configuration with one listener and one route.
pub fn config(rules: &[Value], backends: &[(&str, SocketAddr)]) -> Value {
    let indexed = rules.iter().enumerate().map(|(index, rule)| {
        let mut rule = rule.clone();
        rule["index"] = index.into();
        rule
    });
    let endpoints =
        backends.iter().map(|(key, address)| ((*key).to_owned(), json!({ "endpoints": [address] })));
    json!({
        "listeners": { "http": { "port": 80, "protocol": { "type": "http" } } },
        "routes": { "HTTPRoute/shop/web": {
            "created": 0,
            "attachments": [{ "listener": "http" }],
            "rules": indexed.collect::<Vec<_>>(),
        } },
        "backends": endpoints.collect::<serde_json::Map<_, _>>(),
    })
}

/// A rule that forwards what begins with `path` to `backend`.
pub fn rule(path: &str, backend: &str) -> Value {
    json!({
        "matches": [{ "path": { "type": "PathPrefix", "value": path } }],
        "action": {
            "type": "forward",
            "filters": [],
            "backends": [{ "target": { "backend": backend }, "weight": 1 }],
            "timeouts": {},
        },
    })
}

/// The same, the backend speaking HTTP/2 in cleartext.
pub fn h2c_rule(path: &str, backend: &str) -> Value {
    let mut rule = rule(path, backend);
    rule["action"]["backends"][0]["protocol"] = json!("h2c");
    rule
}

/// A rule with filters.
pub fn filtered(path: &str, backend: &str, filters: Value) -> Value {
    let mut rule = rule(path, backend);
    rule["action"]["filters"] = filters;
    rule
}

/// A gateway that forwards everything to a backend that repeats the request.
pub fn echo() -> (Gateway, Backend) {
    let backend = Backend::echo();
    let gateway = Gateway::start(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]);
    (gateway, backend)
}

/// A gateway that forwards everything to a backend that does what `talk` does with each connection.
pub fn talk(talk: impl Fn(Peer) + Send + Sync + 'static) -> (Gateway, Backend) {
    let backend = Backend::start(talk);
    let gateway = Gateway::start(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]);
    (gateway, backend)
}
