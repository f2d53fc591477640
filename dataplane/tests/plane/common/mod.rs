//! What the socket tests share: configurations in few words, backends that say who they are, and plain clients.

#![allow(
    dead_code,
    unused_imports,
    clippy::allow_attributes,
    reason = "every test file uses its own part of this"
)]

pub mod client;
pub mod origin;
pub mod plan;
pub mod tls;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub use client::{Answer, Http1, Http2};
pub use origin::Origin;
pub use plan::{Plan, rule};
use postern_config::Config;
use postern_dataplane::{Applied, Binds, Plane, Settings};
pub use tls::Authority;

/// No step of a test takes longer than this, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for `what`, and fails the test if it does not come.
pub async fn within<T>(what: &str, step: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, step).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

/// Waits until the metrics have a line: what a client has seen is counted a moment later.
pub async fn counted(plane: &Plane, line: &str) {
    let is_there = async {
        while !plane.metrics().contains(line) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(line, is_there).await;
}

/// Settings for tests: two workers, and a free port of this machine for each listener port named.
pub fn settings(ports: impl IntoIterator<Item = u16>) -> Settings {
    postern_dataplane::install_crypto();
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let overrides = ports.into_iter().map(|port| (port, free)).collect();
    Settings { workers: 2, binds: Binds { overrides, ..Binds::default() }, ..Settings::default() }
}

/// Applies a configuration and expects all of it to be served.
pub async fn apply(plane: &Plane, config: Arc<Config>) -> Applied {
    let applied = within("applying", plane.apply(config)).await;
    assert!(applied.failed.is_empty() && applied.refused.is_empty(), "{applied:?}");
    applied
}

/// A plane that serves `config`, and what is open.
pub async fn serve(settings: Settings, config: Arc<Config>) -> (Plane, Applied) {
    let plane = Plane::start(settings).expect("threads");
    let applied = apply(&plane, config).await;
    (plane, applied)
}
