//! One request to one endpoint and its answer: the body goes up while the answer comes down.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

use super::body::{BodyWriter, Broken, Piece};
use super::clock::Clock;
use super::down::Down;
use super::fault::Fault;
use super::headers::Incoming;
use super::tunnel;
use super::up::{Up, is_interim};
use crate::listen::Inbound;
use crate::settings::Limits;

/// The body of a request on its way up; it outlives an attempt.
#[derive(Default)]
pub(super) struct Upload {
    /// Where it goes; `None` once the endpoint takes no more.
    writer: Option<BodyWriter>,
    /// What was read so far, to be sent again if the attempt fails; `None` if that is more than is kept.
    kept: Option<BytesMut>,
    /// Whether all of it was read.
    is_read: bool,
    /// Whether all of it has left.
    is_sent: bool,
    /// How many bytes were read.
    pub(super) bytes: u64,
}

/// What becomes of the answer.
pub(super) struct Return<'a> {
    /// Changes the headers; `None` if no filter does.
    pub(super) filter: Option<&'a (dyn Fn(&mut HeaderMap) + Send + Sync)>,
    /// `x-postern-route`.
    pub(super) route: Option<&'a str>,
    /// The client's connection, which may have to end with this answer; asked when its head is written.
    pub(super) inbound: &'a Inbound,
    pub(super) limits: &'a Limits,
}

/// What came of an exchange so far, also of one that broke.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The status that the client was given.
    pub(super) status: Option<StatusCode>,
    /// When the head of the answer came.
    pub(super) first_byte: Option<tokio::time::Instant>,
    /// Bytes of the answer's body that were passed on.
    pub(super) bytes: u64,
}

/// The most of a request's body that is kept to be sent again.
const KEEP: usize = 64 * 1024;

/// Carries out the exchange that `up` has begun.
pub(super) async fn exchange(
    down: &mut Down,
    mut up: Up,
    upload: &mut Upload,
    back: &Return<'_>,
    clock: &Clock,
    progress: &mut Progress,
) -> Result<(), Fault> {
    loop {
        read_head(down, &mut up, upload, clock).await?;
        clock.moved();
        let head = up.head();
        if !is_interim(head.status) {
            break;
        }
        if down.takes_interim() {
            down.interim(&head).await?;
        }
    }
    progress.first_byte = Some(tokio::time::Instant::now());
    upload.kept = None;
    if up.head().status == StatusCode::SWITCHING_PROTOCOLS {
        return Box::pin(tunnel::run(down, up, upload, back.limits, clock, progress)).await;
    }

    let ended = up.is_done()?;
    let mut writer = answer(down, &up.head(), ended, back)?;
    progress.status = Some(up.head().status);
    if upload.is_sent {
        download(&mut up, &mut writer, clock, progress).await?;
        up.keep(back.limits).await;
        return Ok(());
    }
    // The answer comes while the body is still on its way: both go on, and the end of the answer is the end.
    {
        let mut answered = pin!(download(&mut up, &mut writer, clock, progress));
        loop {
            tokio::select! {
                biased;
                answered = &mut answered => break answered?,
                sent = upload.run(down, clock), if !upload.is_sent => sent?,
            }
        }
    }
    if upload.is_sent {
        up.keep(back.limits).await;
    }
    Ok(())
}

/// Waits for the next head of the answer, while the body goes up.
async fn read_head(down: &mut Down, up: &mut Up, upload: &mut Upload, clock: &Clock) -> Result<(), Fault> {
    let mut head = pin!(up.read_head());
    while !upload.is_sent {
        tokio::select! {
            biased;
            head = &mut head => return head,
            sent = upload.run(down, clock) => sent?,
        }
    }
    tokio::select! {
        biased;
        head = &mut head => head,
        () = down.gone() => Err(Fault::ClientGone),
    }
}

fn answer(down: &mut Down, head: &Incoming<'_>, ended: bool, back: &Return<'_>) -> Result<BodyWriter, Fault> {
    let closing = back.inbound.is_at_its_last();
    let Some(filter) = back.filter else {
        return down.answer(&Incoming { route: back.route, ..*head }, ended, closing);
    };
    let mut headers = head.headers.clone();
    filter(&mut headers);
    down.answer(&Incoming { route: back.route, headers: &headers, ..*head }, ended, closing)
}

/// Passes the body of the answer on. What was written leaves when there is nothing to read, or when it is much.
async fn download(
    up: &mut Up,
    writer: &mut BodyWriter,
    clock: &Clock,
    progress: &mut Progress,
) -> Result<(), Fault> {
    let trailers = loop {
        // Asked before the flush, so that the last piece leaves together with the end.
        if writer.is_complete() || up.is_done()? {
            break None;
        }
        if writer.is_full() {
            writer.flush(clock).await.map_err(|_| Fault::ClientGone)?;
            clock.moved();
        }
        let piece = {
            let mut read = pin!(up.read_body());
            poll_fn(|cx| {
                if let Poll::Ready(piece) = read.as_mut().poll(cx) {
                    return Poll::Ready(piece);
                }
                match writer.poll_flush(cx) {
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Fault::ClientGone)),
                    Poll::Ready(Ok(())) | Poll::Pending => {}
                }
                writer.poll_gone(cx).map(|()| Err(Fault::ClientGone))
            })
            .await?
        };
        clock.moved();
        match piece {
            Some(piece) => {
                progress.bytes += piece.len() as u64;
                writer.offer(piece).map_err(|_| Fault::Upstream("more than was announced".into()))?;
            }
            None => break up.read_trailers().await?,
        }
    };
    writer.end(trailers).map_err(|_| Fault::Upstream("less than was announced".into()))?;
    writer.flush(clock).await.map_err(|_| Fault::ClientGone)
}

impl Upload {
    /// A body that is still to be read, or none.
    pub(super) fn new(has_body: bool) -> Self {
        let kept = has_body.then(BytesMut::new);
        Self { kept, is_read: !has_body, is_sent: !has_body, ..Self::default() }
    }

    /// Begins with an attempt, for which there is a new writer; what was read before is sent again.
    pub(super) async fn begin(&mut self, mut writer: BodyWriter, clock: &Clock) -> Result<(), Broken> {
        if self.is_read && self.bytes == 0 {
            self.is_sent = true;
            return writer.flush(clock).await;
        }
        self.is_sent = false;
        if let Some(kept) = self.kept.as_ref().filter(|kept| !kept.is_empty()) {
            writer.offer(Piece::Shared(kept.clone().freeze()))?;
        }
        if self.is_read {
            writer.end(None)?;
        }
        self.writer = Some(writer);
        Ok(())
    }

    /// Whether the client has sent all of it.
    pub(super) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Whether another attempt can begin: nothing of the body is lost.
    pub(super) fn can_begin_again(&self) -> bool {
        self.bytes == 0 || self.kept.is_some()
    }

    /// Reads the body and sends it up until all of it has left. Dropping it loses nothing; calling it again goes on.
    ///
    /// An endpoint that takes no more is no error yet: it may have answered already, and that answer counts.
    pub(super) async fn run(&mut self, down: &mut Down, clock: &Clock) -> Result<(), Fault> {
        loop {
            let Some(writer) = &mut self.writer else {
                return std::future::pending().await;
            };
            if self.is_read || writer.is_full() {
                if writer.flush(clock).await.is_err() {
                    self.writer = None;
                    continue;
                }
                clock.moved();
                if self.is_read {
                    self.is_sent = true;
                    return Ok(());
                }
            }
            let piece = {
                let mut read = pin!(down.read_body());
                poll_fn(|cx| {
                    if let Poll::Ready(piece) = read.as_mut().poll(cx) {
                        return Poll::Ready(Some(piece));
                    }
                    match writer.poll_flush(cx) {
                        Poll::Ready(Err(_)) => Poll::Ready(None),
                        Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
                    }
                })
                .await
            };
            let taken = match piece {
                None => Err(Broken::Reader),
                Some(piece) => self.take(piece?)?,
            };
            clock.moved();
            if taken.is_err() {
                self.writer = None;
            }
        }
    }

    /// Passes a piece on. The inner result is the endpoint's part, the outer one the client's.
    fn take(&mut self, piece: Option<Bytes>) -> Result<Result<(), Broken>, Fault> {
        let Some(writer) = &mut self.writer else { return Ok(Err(Broken::Reader)) };
        let Some(piece) = piece else {
            self.is_read = true;
            return writer.end(None).map(Ok).map_err(|_| Fault::ClientGone);
        };
        self.bytes += piece.len() as u64;
        match &mut self.kept {
            Some(kept) if kept.len() + piece.len() <= KEEP => kept.extend_from_slice(&piece),
            Some(_) => self.kept = None,
            None => {}
        }
        match writer.offer(Piece::Shared(piece)) {
            Ok(()) => Ok(Ok(())),
            Err(Broken::Length) => Err(Fault::Malformed("the body is longer than announced")),
            Err(Broken::Reader) => Ok(Err(Broken::Reader)),
        }
    }
}
