//! The connections of a load, and one request on one of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::{Target, Way};

/// How many HTTP/1.1 connections are kept. More are opened when all of them are in use, and closed after one request.
const KEPT: usize = 48;
/// How many HTTP/2 connections are shared.
const SHARED: usize = 4;

type Body = Empty<Bytes>;
type Answer = Result<http::Response<Incoming>, TrySendError<Request<Body>>>;

/// What is open to a target.
pub(super) struct Connections {
    target: Arc<Target>,
    pub(super) began: Instant,
    /// How many requests were sent again because the server had not looked at them, and had said so.
    pub(super) handed_back: AtomicU32,
    room: Arc<Semaphore>,
    idle: Mutex<VecDeque<Kept>>,
    shared: [tokio::sync::Mutex<Option<Opened<http2::SendRequest<Body>>>>; SHARED],
}

/// A connection, and since when it is there.
#[derive(Clone)]
struct Opened<S> {
    sender: S,
    at: Duration,
}

/// A connection with its place among those that are kept.
struct Kept {
    opened: Opened<http1::SendRequest<Body>>,
    place: OwnedSemaphorePermit,
}

/// Why a request has no right answer.
enum Failed {
    /// It was not sent, for its connection had been closed before. A server may do that; the request goes elsewhere.
    Unsent,
    /// It crossed with a GOAWAY of HTTP/2 that says that it was not looked at, and may be sent again (RFC 9113 section 6.8).
    HandedBack,
    /// It is lost.
    Lost(String),
}

impl Connections {
    pub(super) fn new(target: Arc<Target>, began: Instant) -> Self {
        let room = Arc::new(Semaphore::new(KEPT));
        let handed_back = AtomicU32::default();
        Self { target, began, handed_back, room, idle: Mutex::default(), shared: Default::default() }
    }

    /// One request, sent once. `connected` becomes the time at which its connection was there.
    ///
    /// Fails with the cause for which it is lost.
    pub(super) async fn ask(
        &self,
        way: Way,
        number: u32,
        connected: &mut Option<Duration>,
    ) -> Result<(), String> {
        loop {
            let asked = match way {
                Way::Kept => self.ask_kept(number, connected).await,
                Way::New => self.ask_new(number, connected).await,
                Way::H2 => self.ask_shared(number, connected).await,
            };
            match asked {
                Ok(()) => return Ok(()),
                Err(Failed::Lost(cause)) => return Err(cause),
                Err(Failed::Unsent) => {}
                Err(Failed::HandedBack) => {
                    self.handed_back.fetch_add(1, Ordering::Relaxed);
                }
            }
            *connected = None;
        }
    }

    async fn ask_new(&self, number: u32, connected: &mut Option<Duration>) -> Result<(), Failed> {
        let Opened { mut sender, at } = self.connect1().await?;
        *connected = Some(at);
        let answer = sender.try_send_request(self.request1(number)).await;
        self.judge(answer, number).await.map_err(at_once)
    }

    async fn ask_kept(&self, number: u32, connected: &mut Option<Duration>) -> Result<(), Failed> {
        let (opened, place) = match self.take() {
            (Some(opened), place) => (Ok(opened), place),
            (None, place) => (Err(self.connect1().await?), place),
        };
        let is_fresh = opened.is_err();
        let (Ok(mut opened) | Err(mut opened)) = opened;
        *connected = Some(opened.at);
        let answer = opened.sender.try_send_request(self.request1(number)).await;
        let judged = self.judge(answer, number).await;
        match place {
            // After `Connection: close` it is not ready again, and forgotten.
            Some(place) if judged.is_ok() && opened.sender.ready().await.is_ok() => {
                self.idle().push_back(Kept { opened, place });
            }
            _ => {}
        }
        if is_fresh { judged.map_err(at_once) } else { judged }
    }

    /// The connection that was idle for longest, once there are enough of them; and the place for it or for a new one.
    fn take(&self) -> (Option<Opened<http1::SendRequest<Body>>>, Option<OwnedSemaphorePermit>) {
        loop {
            if let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
                return (None, Some(place));
            }
            let Some(Kept { opened, place }) = self.idle().pop_front() else { return (None, None) };
            if !opened.sender.is_closed() {
                return (Some(opened), Some(place));
            }
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, VecDeque<Kept>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn ask_shared(&self, number: u32, connected: &mut Option<Duration>) -> Result<(), Failed> {
        let mut slot = self.shared[number as usize / 5 % SHARED].lock().await;
        let known = slot.take().filter(|opened| !opened.sender.is_closed());
        let is_fresh = known.is_none();
        let Opened { mut sender, at } = match known {
            Some(opened) => opened,
            None => self.connect2().await?,
        };
        *slot = Some(Opened { sender: sender.clone(), at });
        drop(slot);
        *connected = Some(at);
        let Target { host, .. } = &*self.target;
        let answer = sender.try_send_request(request(format!("http://{host}{}", path(number)), None)).await;
        let judged = self.judge(answer, number).await;
        if is_fresh { judged.map_err(at_once) } else { judged }
    }

    async fn connect1(&self) -> Result<Opened<http1::SendRequest<Body>>, Failed> {
        let (sender, connection) = http1::handshake(self.tcp().await?).await.map_err(lost)?;
        // What becomes of it is heard by the request on it.
        tokio::spawn(connection);
        Ok(Opened { sender, at: self.began.elapsed() })
    }

    async fn connect2(&self) -> Result<Opened<http2::SendRequest<Body>>, Failed> {
        let tcp = self.tcp().await?;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), tcp).await.map_err(lost)?;
        tokio::spawn(connection);
        Ok(Opened { sender, at: self.began.elapsed() })
    }

    async fn tcp(&self) -> Result<TokioIo<TcpStream>, Failed> {
        let tcp = TcpStream::connect(self.target.address).await;
        let tcp = tcp.map_err(|error| Failed::Lost(format!("cannot connect: {}", error.kind())))?;
        tcp.set_nodelay(true).map_err(lost)?;
        Ok(TokioIo::new(tcp))
    }

    fn request1(&self, number: u32) -> Request<Body> {
        request(path(number), Some(&self.target.host))
    }

    /// Whether the answer is the right one: whole, 200, of the right backend, and to this very request.
    async fn judge(&self, answer: Answer, number: u32) -> Result<(), Failed> {
        let response = match answer {
            Ok(response) => response,
            Err(error) if error.message().is_some() => return Err(Failed::Unsent),
            Err(error) if is_handed_back(error.error()) => return Err(Failed::HandedBack),
            Err(error) => return Err(lost(error.error())),
        };
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| Failed::Lost(format!("answer cut: {}", told(&error))))?.to_bytes();
        if status != 200 {
            return Err(Failed::Lost(format!("status {}", status.as_u16())));
        }
        let has = |text: &str| memchr::memmem::find(&body, text.as_bytes()).is_some();
        // The quotation mark: `/1` is not the beginning of `/12`.
        if has(&self.target.mark) && has(&format!("{}\"", path(number))) {
            Ok(())
        } else {
            Err(Failed::Lost("the answer of somebody else".into()))
        }
    }
}

fn path(number: u32) -> String {
    format!("/request/{number}")
}

fn request(uri: String, host: Option<&str>) -> Request<Body> {
    let mut request = Request::get(uri);
    if let Some(host) = host {
        request = request.header(http::header::HOST, host);
    }
    request.body(Body::new()).expect("the path is a number, the host one of ours")
}

/// A new connection that was closed before its first request is no answer.
fn at_once(failed: Failed) -> Failed {
    match failed {
        Failed::Unsent => Failed::Lost("closed as soon as it was open".into()),
        Failed::HandedBack | Failed::Lost(_) => failed,
    }
}

/// Whether a stream was above the last one of a GOAWAY that ends a connection in good order.
fn is_handed_back(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        cause.is_go_away() && cause.is_remote() && cause.reason() == Some(h2::Reason::NO_ERROR)
    })
}

fn lost(error: impl std::error::Error) -> Failed {
    Failed::Lost(told(&error))
}

/// What an error says, and what its causes say.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
