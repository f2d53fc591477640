//! `postern-dataplane`: the settings, the subscription, and the run of one Gateway's data plane.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Duration;

use clap::Parser;
use http::Uri;
use ipnet::IpNet;
use postern_dataplane::admin::{self, Readiness};
use postern_dataplane::{AccessLogTo, Binds, Channel, Limits, Plane, Settings, Subscriber, install_crypto};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serve one Gateway as the operator says
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where the operator is
    #[arg(long, env = "POSTERN_CHANNEL", value_name = "https://HOST:PORT")]
    channel: Uri,
    /// The certificates that the operator's is signed by
    #[arg(long, env = "POSTERN_CA", value_name = "FILE")]
    ca: PathBuf,
    /// The token that says who we are
    #[arg(long, env = "POSTERN_TOKEN", value_name = "FILE")]
    token: PathBuf,
    /// Keep the last good configuration in this file, keys included: it should be in memory
    #[arg(long, env = "POSTERN_STATE", value_name = "FILE")]
    state: Option<PathBuf>,
    /// Serve /healthz/ready, /healthz/live and /metrics at this address
    #[arg(long, env = "POSTERN_ADMIN", value_name = "ADDRESS:PORT", default_value = "[::]:15021")]
    admin: SocketAddr,
    /// Worker threads; one for each core unless given
    #[arg(long, env = "POSTERN_WORKERS", value_name = "N")]
    workers: Option<usize>,
    /// The address that the ports of listeners are opened at
    #[arg(long, env = "POSTERN_BIND", value_name = "ADDRESS", default_value_t = IpAddr::V6(Ipv6Addr::UNSPECIFIED))]
    bind: IpAddr,
    /// Added to the ports of listeners, for machines where low ones are taken
    #[arg(long, env = "POSTERN_PORT_OFFSET", value_name = "N", default_value_t = 0)]
    port_offset: u16,
    /// Seconds to serve on after a signal to end, new connections too, while others may still send them here
    #[arg(long, env = "POSTERN_LEAVE", value_name = "SECONDS", default_value_t = 0)]
    leave: u64,
    /// Seconds that connections may take to end after that
    #[arg(long, env = "POSTERN_DRAIN", value_name = "SECONDS", default_value_t = 10)]
    drain: u64,
    /// Open client connections in all; half of the descriptors unless given
    #[arg(long, env = "POSTERN_CONNECTIONS", value_name = "N")]
    connections: Option<usize>,
    /// Open connections of one client; all unless given
    #[arg(long, env = "POSTERN_CONNECTIONS_PER_CLIENT", value_name = "N")]
    connections_per_client: Option<usize>,
    /// Networks whose `X-Forwarded-*` and `Forwarded` headers are believed
    #[arg(long, env = "POSTERN_TRUSTED_PROXIES", value_name = "NETWORK", value_delimiter = ',')]
    trusted_proxies: Vec<IpNet>,
    /// Write no access log to standard output
    #[arg(long, env = "POSTERN_NO_ACCESS_LOG")]
    no_access_log: bool,
}

fn main() -> ExitCode {
    install_crypto();
    let arguments = Arguments::parse();
    let filter = tracing_subscriber::EnvFilter::builder();
    let info = tracing_subscriber::filter::LevelFilter::INFO;
    let filter = filter.with_default_directive(info.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).json().init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(run(arguments))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "Cannot run");
            ExitCode::FAILURE
        }
    }
}

/// Fails when the machine gives no threads, no signals, or not the admin address.
async fn run(arguments: Arguments) -> std::io::Result<()> {
    let mut signals =
        Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
    let drain = Duration::from_secs(arguments.drain);
    let plane = Arc::new(Plane::start(settings(&arguments, drain))?);
    let (readiness, ready) = watch::channel(Readiness::Starting);
    answer(arguments.admin, Arc::downgrade(&plane), ready).await?;
    let mut subscriber = Subscriber::new(Arc::clone(&plane));
    let mut standing = subscriber.standing();
    let channel = Channel { address: arguments.channel, ca: arguments.ca, token: arguments.token };
    let follow = async {
        if let Some(state) = arguments.state {
            subscriber.keep(state).await;
        }
        subscriber.run(channel).await;
    };
    // Ready means: what is configured is served as far as it can be, even if that is nothing.
    let report = async {
        if standing.wait_for(|standing| standing.version.is_some()).await.is_ok() {
            readiness.send_if_modified(|readiness| {
                let is_first = *readiness == Readiness::Starting;
                if is_first {
                    *readiness = Readiness::Ready;
                }
                is_first
            });
        }
        std::future::pending::<()>().await
    };
    let end = async {
        signals.next().await;
        tracing::info!("Ending");
        readiness.send_replace(Readiness::Leaving);
        // Until then, what changes is followed: backends may be leaving, too.
        tokio::select! {
            () = leave(&plane, Duration::from_secs(arguments.leave)) => {}
            () = signals.next() => {}
        }
    };
    tokio::select! {
        () = follow => {}
        () = report => {}
        () = end => {}
    }
    // The subscriber is gone by now; a scrape that is under way holds the plane for a moment.
    let mut held = Some(plane);
    while let Some(plane) = held.take() {
        match Arc::try_unwrap(plane) {
            Ok(plane) => plane.drain(drain).await,
            Err(plane) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                held = Some(plane);
            }
        }
    }
    Ok(())
}

/// The signals that end this process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Resolves when the next one comes.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Serves on until those who choose among us have heard that we end. Who is sent away in the first half would come back to us;
/// in the second half, clients that ask often are told to, and nothing of theirs crosses with the end of a connection.
async fn leave(plane: &Plane, time: Duration) {
    tokio::time::sleep(time / 2).await;
    plane.leave();
    tokio::time::sleep(time / 2).await;
}

/// Says whether we are ready on a thread of its own: this one may be compiling a large configuration, and who gets no
/// answer sends us no more connections.
///
/// Fails when the machine gives no thread, or not the address.
async fn answer(
    address: SocketAddr,
    plane: Weak<Plane>,
    readiness: watch::Receiver<Readiness>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (started_to, started) = oneshot::channel();
    std::thread::Builder::new().name("admin".into()).spawn(move || {
        runtime.block_on(async {
            let _ = started_to.send(admin::start(address, plane, readiness).await);
            std::future::pending::<()>().await
        });
    })?;
    started.await.map_err(std::io::Error::other)?.map(drop)
}

fn settings(arguments: &Arguments, drain: Duration) -> Settings {
    let defaults = Settings::default();
    let connections = arguments.connections.unwrap_or(defaults.limits.connections);
    Settings {
        workers: arguments.workers.unwrap_or(defaults.workers).max(1),
        binds: Binds { ip: arguments.bind, offset: arguments.port_offset, ..Binds::default() },
        access_log: if arguments.no_access_log { AccessLogTo::Off } else { AccessLogTo::Stdout },
        drain,
        trusted_proxies: arguments.trusted_proxies.clone(),
        limits: Limits {
            connections,
            connections_per_client: arguments.connections_per_client.unwrap_or(connections),
            ..defaults.limits
        },
        ..defaults
    }
}
