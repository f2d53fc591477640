//! One Gateway's data plane: takes a [`Config`] at any time and serves it on real sockets.
//!
//! A [`Plane`] owns a few worker threads, each with a single-threaded runtime. [`Plane::apply`] compiles a configuration
//! beside the traffic, opens and closes ports, and swaps one pointer; requests that are on their way finish on what they
//! started with. [`Plane::drain`] is the end of the story.

mod access_log;
pub mod admin;
mod backend;
mod channel;
mod compile;
mod drain;
mod http;
pub mod last_good;
mod limits;
mod listen;
mod metrics;
mod report;
mod retire;
mod settings;
mod state;
mod subscribe;
mod worker;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use crate::http::{Preview, Previewed, preview};
pub use access_log::AccessLogTo;
use arc_swap::ArcSwap;
pub use channel::{Broken, Channel};
pub use listen::{Binds, check_certificate};
use postern_config::{CertificateKey, Config};
pub use settings::{Limits, Settings};
pub use subscribe::Subscriber;

use crate::access_log::AccessLog;
use crate::compile::Compiler;
use crate::limits::Connections;
use crate::listen::Ports;
use crate::metrics::Metrics;
use crate::retire::Retired;
use crate::state::State;
use crate::worker::Workers;

/// A running data plane. Dropping it cuts what it serves; [`Plane::drain`] ends it well.
pub struct Plane {
    shared: Arc<Shared>,
    control: tokio::sync::Mutex<Control>,
}

/// What became of a configuration. Whatever is not named here as failed or refused is served from now on.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// The open ports: listener port to the address that is bound for it.
    pub open: BTreeMap<u16, SocketAddr>,
    /// The ports that could not be opened, with a message that names the next step. Applying again tries again.
    pub failed: BTreeMap<u16, String>,
    /// The certificates that do not load, and why. A listener that is left without any refuses its handshakes.
    pub refused: BTreeMap<CertificateKey, String>,
}

/// What the tasks of all workers share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) state: ArcSwap<State>,
    pub(crate) metrics: Metrics,
    pub(crate) access_log: AccessLog,
    pub(crate) connections: Arc<Connections>,
    /// Whether [`Plane::leave`] was called.
    pub(crate) is_leaving: AtomicBool,
}

/// What only changes of the configuration touch.
struct Control {
    binds: Binds,
    ports: Ports,
    compiler: Compiler,
    retired: Retired,
    workers: Workers,
}

/// Makes ring the crypto provider of this process, once, first thing in `main`.
///
/// Chosen over aws-lc-rs because it builds with a C compiler alone and is what the measured figures were taken with.
pub fn install_crypto() {
    // A second call, or a provider that the embedding program chose, is no reason to stop.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Plane {
    /// Starts the workers. Nothing is open until the first [`Plane::apply`].
    ///
    /// Fails when the operating system gives no threads or no random numbers.
    pub fn start(mut settings: Settings) -> io::Result<Self> {
        let connections = Connections::new(&settings.limits);
        let metrics = Metrics::new(Arc::clone(&connections));
        let access_log = AccessLog::start(std::mem::take(&mut settings.access_log), metrics.clone())?;
        let binds = std::mem::take(&mut settings.binds);
        let compiler = Compiler::new()?;
        let retired = Retired::start()?;
        let state = ArcSwap::from_pointee(State::empty());
        let is_leaving = AtomicBool::new(false);
        let shared = Arc::new(Shared { settings, state, metrics, access_log, connections, is_leaving });
        let workers = Workers::start(shared.settings.workers, &shared)?;
        let control = Control { binds, ports: Ports::default(), compiler, retired, workers };
        Ok(Self { shared, control: tokio::sync::Mutex::new(control) })
    }

    /// Serves `config` from now on.
    ///
    /// Total: what cannot be served is named in the answer and harms nothing else. Compiling takes the caller's thread for
    /// as long as the configuration is large; the workers go on meanwhile. New connections and new requests see the new
    /// configuration when this returns.
    pub async fn apply(&self, config: Arc<Config>) -> Applied {
        let mut control = self.control.lock().await;
        let Control { binds, ports, compiler, retired, workers } = &mut *control;
        let (state, refused) = compiler.compile(&config);
        let wanted = state.ports();
        // Connections that wait in the queue of a port that goes are still taken under the routes they were made for.
        ports.close_unwanted(&wanted, workers, self.shared.settings.drain).await;
        retired.add(self.shared.state.swap(Arc::new(state)));
        // A new port is opened only now, so that its first connection finds its routes.
        let (open, failed) = ports.open_wanted(&wanted, binds, workers);
        workers.sweep();
        self.shared.metrics.keep_rules(&compiler.rule_ids());
        Applied { open, failed, refused }
    }

    /// Binds ports that open from the next [`Plane::apply`] on at these addresses. What is open stays where it is.
    pub async fn rebind(&self, binds: Binds) {
        self.control.lock().await.binds = binds;
    }

    /// The metrics in OpenMetrics text form.
    pub fn metrics(&self) -> String {
        self.shared.metrics.encode()
    }

    /// The number of open client connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.open()
    }

    /// Serves on, and says with every HTTP/1 answer from now on that it is the last on its connection (RFC 9112 section 9.6), so
    /// that clients come back elsewhere, if others are there. New connections are taken. HTTP/2 has no such word for one
    /// answer: its connections hear of the end when [`Plane::drain`] begins.
    pub fn leave(&self) {
        self.shared.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Takes no more connections, lets what is under way finish, and returns when all of it has, at the latest after
    /// `within`. What is left then is cut.
    pub async fn drain(self, within: Duration) {
        let Control { mut ports, workers, .. } = self.control.into_inner();
        ports.close_all(&workers, within).await;
        // Connections hear of the deadline themselves; the extra moment lets them say goodbye.
        let left =
            tokio::time::timeout(within + Duration::from_millis(100), self.shared.connections.none_left());
        if left.await.is_err() {
            tracing::warn!(
                connections = self.shared.connections.open(),
                "Cut connections that did not end in time"
            );
        }
        // Joining threads waits; the caller's runtime should not.
        let _ = tokio::task::spawn_blocking(move || drop(workers)).await;
    }
}
