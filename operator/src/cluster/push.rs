//! The way of configuration to data planes: each gets its own Gateway's, as the difference from what it holds.
//!
//! An update is sent when the one before was answered: a slow data plane gets the newest difference, never a backlog.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::{Stream, stream};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use postern_config::ObjectKey;
use postern_config::delta::Inventory;
use postern_config::wire::{
    self, ConfigServer, ConfigService, Holdings, MAX_MESSAGE, Malformed, Report, Update,
};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::cluster::editions::{Edition, Editions, Peer, Tracker, publish};
use crate::cluster::identity::{Authenticate, Denied, Identity};
use crate::cluster::observe::Acknowledgements;
use crate::cluster::telemetry::Telemetry;
use crate::cluster::translation::Current;

/// Connections at one time, those that have not shown a token included.
const CONNECTIONS: usize = 4096;
/// Time for a TLS handshake, for what a data plane says first, and for its answer to an update.
const HANDSHAKE: Duration = Duration::from_secs(10);
const GREETING: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(30);
/// How long a connection may be there without a stream that was let in.
const UNUSED: Duration = Duration::from_secs(10);
/// A silent peer is asked for a sign of life this often, and has this long for it.
const KEEPALIVE: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// The life of a stream whose token does not say when it ends.
const LIFE: Duration = Duration::from_secs(3600);
/// Streams on a connection; a data plane has one.
const STREAMS: u32 = 4;
/// Reports a data plane may send in a second, its answers to updates included.
const REPORTS: u32 = 1000;

/// Serves configuration until the runtime ends.
///
/// `tls` is looked at for every connection; there are none before it is known. What data planes acknowledge goes to
/// `acknowledged`.
pub async fn serve(
    listener: TcpListener,
    tls: watch::Receiver<Option<Arc<ServerConfig>>>,
    authenticate: impl Authenticate,
    current: watch::Receiver<Option<Arc<Current>>>,
    acknowledged: watch::Sender<Acknowledgements>,
    telemetry: Telemetry,
) {
    let tracker = Tracker::new(acknowledged, telemetry);
    let (editions_to, editions) = watch::channel(None);
    let desk = Arc::new(Desk { authenticate, editions, tracker: Arc::clone(&tracker) });
    tokio::join!(publish(current, editions_to, tracker), accept(listener, tls, desk));
}

async fn accept<A: Authenticate>(
    listener: TcpListener,
    tls: watch::Receiver<Option<Arc<ServerConfig>>>,
    desk: Arc<Desk<A>>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    // They end with this loop.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others will be closed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(tls) = tls.borrow().clone() else { continue };
        let desk = Arc::clone(&desk);
        connections.spawn(async move {
            if let Err(error) = connection(stream, tls, desk).await {
                tracing::debug!(%error, "A connection of a data plane broke");
            }
            drop(permit);
        });
    }
}

async fn connection<A: Authenticate>(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    desk: Arc<Desk<A>>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream)).await??;
    let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    server
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(32 * 1024);
    let (streams_to, streams) = watch::channel(0);
    let service =
        ConfigServer::new(Service { desk, streams: streams_to }).max_decoding_message_size(MAX_MESSAGE);
    let served = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::select! {
        served = served => served.map_err(io::Error::other),
        () = is_unused(streams) => Err(io::Error::other("nobody subscribed")),
    }
}

/// Ends once there has been no stream for too long: who shows no token keeps no place from those who do.
async fn is_unused(mut streams: watch::Receiver<usize>) {
    while streams.wait_for(|count| *count == 0).await.is_ok() {
        if timeout(UNUSED, streams.wait_for(|count| *count > 0)).await.is_err() {
            return;
        }
    }
}

/// What all connections share.
struct Desk<A> {
    authenticate: A,
    editions: watch::Receiver<Editions>,
    tracker: Arc<Tracker>,
}

/// The one RPC there is, on one connection.
struct Service<A> {
    desk: Arc<Desk<A>>,
    /// How many streams the connection has.
    streams: watch::Sender<usize>,
}

#[tonic::async_trait]
impl<A: Authenticate> ConfigService for Service<A> {
    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<Update, Status>> + Send>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<Report>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let desk = &*self.desk;
        let token = bearer(request.metadata()).ok_or_else(|| Status::unauthenticated("there is no token"))?;
        let identity = desk.authenticate.authenticate(token).await.map_err(|denied| {
            tracing::warn!(error = %denied, "Refused a data plane");
            status(&denied)
        })?;
        let Identity { gateway, pod, expires } = identity;
        let too_many = || Status::resource_exhausted("the Gateway has too many streams");
        let peer = desk.tracker.join(&gateway, &pod).ok_or_else(too_many)?;
        tracing::info!(%gateway, pod, "A data plane subscribed");
        // At most one part waits here.
        let (updates, mut sent) = mpsc::channel(1);
        let conversation = Conversation { gateway, peer, editions: desk.editions.clone(), updates };
        let task = tokio::spawn(conversation.run(request.into_inner(), end(expires)));
        let task = Ends::of(task, self.streams.clone());
        Ok(Response::new(Box::pin(stream::poll_fn(move |cx| {
            let _until_here = &task;
            sent.poll_recv(cx)
        }))))
    }
}

fn bearer(metadata: &MetadataMap) -> Option<&str> {
    metadata.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")
}

fn status(denied: &Denied) -> Status {
    match denied {
        Denied::Unauthenticated => Status::unauthenticated(denied.to_string()),
        Denied::Forbidden => Status::permission_denied(denied.to_string()),
        // What the API server said is for our log alone.
        Denied::Unknown(_) => Status::unavailable("the token cannot be reviewed now"),
    }
}

/// When a stream ends: before its token does, and not with all others.
fn end(expires: Option<SystemTime>) -> Instant {
    let left = expires.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
    Instant::now() + left.unwrap_or(LIFE).min(LIFE).mul_f64(0.85 + 0.1 * fastrand::f64())
}

/// Ends a task with its stream, which counts until then.
struct Ends {
    task: JoinHandle<()>,
    streams: watch::Sender<usize>,
}

impl Ends {
    fn of(task: JoinHandle<()>, streams: watch::Sender<usize>) -> Self {
        streams.send_modify(|count| *count += 1);
        Self { task, streams }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.task.abort();
        self.streams.send_modify(|count| *count -= 1);
    }
}

/// One stream of one data plane.
struct Conversation {
    gateway: ObjectKey,
    peer: Peer,
    editions: watch::Receiver<Editions>,
    updates: mpsc::Sender<Result<Update, Status>>,
}

impl Conversation {
    async fn run(mut self, mut reports: Streaming<Report>, end: Instant) {
        if let Err(status) = self.converse(&mut reports, end).await {
            tracing::debug!(gateway = %self.gateway, error = %status, "A stream ended");
            let _ = self.updates.send(Err(status)).await;
        }
    }

    async fn converse(&mut self, reports: &mut Streaming<Report>, end: Instant) -> Result<(), Status> {
        let late = || Status::deadline_exceeded("the data plane does not answer");
        let greeting = timeout(GREETING, greeting(reports)).await.map_err(|_| late())?;
        let Some((mut holds, first)) = greeting? else { return Ok(()) };
        let standing = wire::standing(&first);
        let mut at = standing.version.clone();
        self.peer.report(standing);
        // By when the last update must be answered, if it was not yet.
        let mut answer: Option<Instant> = None;
        let mut budget = Budget::default();
        loop {
            if answer.is_none()
                && !first.observes
                && let Some(edition) = self.edition()?
                && (at.as_ref() != Some(&edition.contents.version) || holds != edition.contents.inventory)
            {
                self.send(&holds, &edition).await?;
                at = Some(edition.contents.version.clone());
                holds = Arc::clone(&edition.contents.inventory);
                answer = Some(Instant::now() + ANSWER);
            }
            tokio::select! {
                () = sleep_until(end) => return Ok(()),
                () = sleep_until(answer.unwrap_or(end)), if answer.is_some() => return Err(late()),
                () = self.updates.closed() => return Ok(()),
                changed = self.editions.changed() => if changed.is_err() { return Ok(()) },
                report = reports.message() => {
                    let Some(report) = report? else { return Ok(()) };
                    budget.spend()?;
                    let standing = wire::standing(&report);
                    if standing.version == at {
                        answer = None;
                    }
                    self.peer.report(standing);
                }
            }
        }
    }

    /// What the data plane should have. Nothing before the cluster is known.
    ///
    /// Fails when the Gateway is gone: so is the right to its configuration.
    fn edition(&mut self) -> Result<Option<Arc<Edition>>, Status> {
        let editions = self.editions.borrow_and_update();
        let Some(editions) = editions.as_ref() else { return Ok(None) };
        let edition = editions.get(&self.gateway).cloned();
        edition.map(Some).ok_or_else(|| Status::permission_denied("the Gateway is gone"))
    }

    async fn send(&self, holds: &Inventory, edition: &Edition) -> Result<(), Status> {
        let (parts, too_large) = wire::updates(holds, &edition.contents);
        for key in too_large {
            tracing::error!(gateway = %self.gateway, resource = %key, "Left out a resource that is too large to send");
        }
        let late = |_| Status::deadline_exceeded("the data plane does not read");
        for part in parts {
            let sent = timeout(ANSWER, self.updates.send(Ok(part))).await.map_err(late)?;
            sent.map_err(|_| Status::cancelled("the data plane left"))?;
        }
        self.peer.sent();
        Ok(())
    }
}

/// What the data plane holds, and the last part in which it says so; `None` when it leaves before.
async fn greeting(reports: &mut Streaming<Report>) -> Result<Option<(Arc<Inventory>, Report)>, Status> {
    let mut holdings = Holdings::default();
    while let Some(report) = reports.message().await? {
        let malformed = |error: Malformed| Status::invalid_argument(error.to_string());
        if let Some(holds) = holdings.add(&report).map_err(malformed)? {
            return Ok(Some((Arc::new(holds), report)));
        }
    }
    Ok(None)
}

/// How much a data plane may say.
#[derive(Debug)]
struct Budget {
    second: Instant,
    spent: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { second: Instant::now(), spent: 0 }
    }
}

impl Budget {
    fn spend(&mut self) -> Result<(), Status> {
        if self.second.elapsed() >= Duration::from_secs(1) {
            *self = Self::default();
        }
        self.spent += 1;
        if self.spent > REPORTS {
            return Err(Status::resource_exhausted("too many reports"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
