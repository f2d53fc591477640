//! Connections to endpoints between two exchanges, one set for each worker, so that no lock is needed.
//!
//! HTTP/1 connections are taken by the exchange and come back after it, the latest first, so that those nobody needs grow
//! old. HTTP/2 connections stay here and are shared by their streams.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

use pingora::connectors::http::v2::ConnectionRef;
use postern_config::AppProtocol;
use tokio::sync::watch;

use crate::listen::Conn;
use crate::settings::Limits;

/// Connections with the same key are as good as each other.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct PoolKey {
    /// The endpoint.
    pub(crate) address: SocketAddr,
    /// What is spoken to it.
    pub(crate) protocol: AppProtocol,
}

/// The connections of one key.
#[derive(Default)]
struct Node {
    idle: Vec<(Conn, Instant)>,
    shared: Vec<(ConnectionRef, Instant)>,
    /// There while a shared connection is being made: closes when that is done, with a word if it failed.
    dialing: Option<watch::Receiver<String>>,
}

type Pool = HashMap<PoolKey, Node, foldhash::fast::RandomState>;

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// An idle connection on which nothing unexpected has happened.
pub(crate) fn take(key: &PoolKey) -> Option<Conn> {
    POOL.with_borrow_mut(|pool| {
        let idle = &mut pool.get_mut(key)?.idle;
        while let Some((conn, _)) = idle.pop() {
            if conn.is_fit() {
                return Some(conn);
            }
        }
        None
    })
}

/// Keeps a connection whose exchange is over, unless enough are kept.
pub(crate) fn keep(key: PoolKey, conn: Conn, limits: &Limits) {
    POOL.with_borrow_mut(|pool| {
        let idle = &mut pool.entry(key).or_default().idle;
        if idle.len() < limits.upstream_idle {
            idle.push((conn, Instant::now()));
        }
    });
}

/// What there is for a new stream.
pub(super) enum Shared {
    /// A connection with room for a stream.
    Ready(ConnectionRef),
    /// Somebody is making one: look again when this closes, unless it says why there is none.
    Dialing(watch::Receiver<String>),
    /// Nothing: make one, drop this when it is in the pool, or say here why there is none.
    Dial(watch::Sender<String>),
}

/// A shared connection with room for one more stream, or whose turn it is to make one.
pub(super) fn shared(key: PoolKey) -> Shared {
    POOL.with_borrow_mut(|pool| {
        let node = pool.entry(key).or_default();
        node.shared.retain(|(conn, _)| is_alive(conn));
        if let Some((conn, used)) = node.shared.iter_mut().rev().find(|(conn, _)| conn.more_streams_allowed())
        {
            *used = Instant::now();
            return Shared::Ready(conn.clone());
        }
        if let Some(dialing) = node.dialing.as_ref().filter(|dialing| dialing.has_changed().is_ok()) {
            return Shared::Dialing(dialing.clone());
        }
        let (sender, receiver) = watch::channel(String::new());
        node.dialing = Some(receiver);
        Shared::Dial(sender)
    })
}

/// Adds a connection for all to share.
pub(super) fn share(key: PoolKey, conn: ConnectionRef) {
    POOL.with_borrow_mut(|pool| pool.entry(key).or_default().shared.push((conn, Instant::now())));
}

/// Closes what has become old or unfit, and what leads to endpoints that are no longer in the configuration.
pub(crate) fn sweep(limits: &Limits, is_wanted: impl Fn(SocketAddr) -> bool) {
    let now = Instant::now();
    POOL.with_borrow_mut(|pool| {
        pool.retain(|key, node| {
            let wanted = is_wanted(key.address);
            let is_young = |since: Instant| now.duration_since(since) < limits.upstream_idle_time;
            node.idle.retain_mut(|(conn, since)| wanted && is_young(*since) && conn.is_fit());
            // One that is in use ends with its last stream, since nobody else holds on to it then.
            node.shared
                .retain(|(conn, used)| is_alive(conn) && wanted && (is_young(*used) || !conn.is_idle()));
            !node.idle.is_empty()
                || !node.shared.is_empty()
                || node.dialing.as_ref().is_some_and(|d| d.has_changed().is_ok())
        });
    });
}

/// Closes everything, while the runtime that it belongs to still stands.
pub(crate) fn clear() {
    POOL.with_borrow_mut(Pool::clear);
}

fn is_alive(conn: &ConnectionRef) -> bool {
    !conn.is_closed() && !conn.is_shutting_down() && !conn.ping_timedout()
}
