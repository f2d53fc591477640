//! `postern serve`: the Gateways of the files on this machine.

use std::fmt::Display;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;

use crate::input::source::Files;
use crate::output;
use crate::output::failure::{Failure, Message, Verdict};
use crate::standalone::addresses::{Addresses, Bind};
use crate::standalone::admin::{self, Board};
use crate::standalone::endpoints::{Backend, Endpoints};
use crate::standalone::gateways::Gateways;
use crate::standalone::serving::{Dev, Serving};
use crate::standalone::sources::Sources;
use crate::standalone::watch::Watch;

/// Serve the Gateways of the files on this machine, and follow the files
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Send requests for a Service to this URL instead of to the endpoints in the files; http:// or h2c://; may be repeated
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]=URL")]
    backend: Vec<Backend>,
    /// Open a listener's port at this address instead of at port + 8000 on 127.0.0.1; port 0 takes a free one; may be repeated
    #[arg(long, value_name = "[NAMESPACE/NAME:]PORT=ADDRESS:PORT")]
    bind: Vec<Bind>,
    /// Help out: self-signed certificates for Secrets that are missing, an echo backend for each Service without
    /// EndpointSlices, and the header `x-postern-route` on responses
    #[arg(long)]
    dev: bool,
    /// Serve /status, /config, /metrics and /ready at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// Write a line of JSON for each request to standard output
    #[arg(long)]
    access_log: bool,
}

/// Serves until it is told to stop.
pub fn run(args: Args) -> Result<Verdict, Failure> {
    log();
    let runtime = Runtime::new().map_err(|error| failed("cannot start a runtime", error))?;
    let ended = runtime.block_on(serve(args));
    // After a second signal, connections may still be open.
    runtime.shutdown_background();
    ended
}

async fn serve(args: Args) -> Result<Verdict, Failure> {
    let mut stop = Stop::new().map_err(|error| failed("cannot wait for signals", error))?;
    let endpoints = resolve(&args.backend)?;
    let mut sources = Sources::new(args.files);
    let first = sources.first()?;
    // The watch begins before the files are served, so that no change falls in between.
    let mut watch =
        Watch::start(&sources.watched()).map_err(|error| failed("cannot watch the files", error))?;
    let gateways = Arc::new(Mutex::new(Gateways::new(Addresses::new(args.bind), args.dev, args.access_log)));
    let board = Board::default();
    let mut serving = Serving::new(
        endpoints,
        args.dev.then(Dev::default),
        gateways.clone(),
        args.admin.is_some().then(|| board.clone()),
    );
    let outcome = serving.load(first).await.map_err(|error| failed("cannot serve", error))?;
    if outcome.open == 0 && outcome.failed > 0 {
        let hint = "choose free addresses with --bind PORT=ADDRESS:PORT, where port 0 takes a free one";
        return Err(Failure::Failed(Message::new("no port could be opened").hint(hint)));
    }
    if let Some(address) = args.admin {
        let bound = admin::start(address, board, gateways.clone()).await;
        let bound = bound.map_err(|error| failed(&format!("cannot serve --admin at {address}"), error))?;
        output::note(&format!("admin: http://{bound}"));
    }
    loop {
        tokio::select! {
            () = watch.changed() => if let Some(reading) = sources.again() {
                output::note("the files have changed");
                if let Err(error) = serving.load(reading).await {
                    output::note(&output::as_error(format!("cannot serve the change: {error}")));
                }
            },
            () = stop.asked() => break,
        }
    }
    output::note("stopping: open requests are finished, a second signal ends them");
    let mut gateways = gateways.lock().await;
    tokio::select! {
        () = gateways.drain() => Ok(Verdict::Good),
        () = stop.asked() => Err(Failure::Failed(Message::new("stopped with requests open"))),
    }
}

/// The two signals that mean the end.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn resolve(backends: &[Backend]) -> Result<Vec<Endpoints>, Failure> {
    let resolved = backends.iter().map(|backend| {
        backend
            .resolve()
            .map_err(|fact| Failure::Failed(Message::new(format!("--backend {}: {fact}", backend.service))))
    });
    resolved.collect()
}

/// What the parts of the program have to say besides, on standard error: warnings unless `POSTERN_LOG` asks for more.
fn log() {
    let filter = tracing_subscriber::EnvFilter::builder().with_env_var("POSTERN_LOG");
    let filter =
        filter.with_default_directive(tracing_subscriber::filter::LevelFilter::WARN.into()).from_env_lossy();
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .init();
}

fn failed(fact: &str, error: impl Display) -> Failure {
    Failure::Failed(Message::new(format!("{fact}: {error}")))
}
