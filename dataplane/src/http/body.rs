//! The half of a message that is written: pieces of a body, framed for the protocol that carries them.

use std::future::poll_fn;
use std::io::Write;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::SendStream;
use http::HeaderMap;

use super::clock::Clock;
use crate::listen::Conn;

/// A piece of a body: borrowed from the reader's buffer by HTTP/1, shared by HTTP/2.
pub(super) enum Piece<'a> {
    Slice(&'a [u8]),
    Shared(Bytes),
}

/// How an HTTP/1 message says where its body ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Framing {
    /// There is no body, whatever the headers say (HEAD, 204, 304).
    None,
    /// So many bytes are still to come.
    Length(u64),
    Chunked,
    /// Until the connection closes: a response to HTTP/1.0 without a length, or a tunnel.
    UntilClose,
}

/// Why a body cannot go on.
#[derive(Debug)]
pub(super) enum Broken {
    /// Whoever reads it is gone, or reads no more.
    Reader,
    /// Whoever wrote it gave more or less than announced.
    Length,
}

/// Writes a body without its session, so that the other direction is free.
///
/// [`BodyWriter::offer`] takes a piece, [`BodyWriter::poll_flush`] sends it. A dropped flush loses nothing.
pub(super) enum BodyWriter {
    H1 { conn: Conn, framing: Framing },
    H2 { stream: SendStream<Bytes>, piece: Bytes, end: End },
}

/// How far an HTTP/2 body is from its end.
pub(super) enum End {
    Open,
    /// END_STREAM goes with the last piece or with the trailers.
    Wanted(Option<Box<HeaderMap>>),
    Sent,
}

/// So much may wait before the source is asked to pause.
const ENOUGH: usize = 64 * 1024;

impl Piece<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Slice(slice) => slice.len(),
            Self::Shared(bytes) => bytes.len(),
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Slice(slice) => slice,
            Self::Shared(bytes) => bytes,
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Slice(slice) => Bytes::copy_from_slice(slice),
            Self::Shared(bytes) => bytes,
        }
    }
}

impl BodyWriter {
    pub(super) fn h1(conn: Conn, framing: Framing) -> Self {
        Self::H1 { conn, framing }
    }

    pub(super) fn h2(stream: SendStream<Bytes>, ended: bool) -> Self {
        Self::H2 { stream, piece: Bytes::new(), end: if ended { End::Sent } else { End::Open } }
    }

    /// Takes a piece. The one before has been flushed.
    pub(super) fn offer(&mut self, piece: Piece<'_>) -> Result<(), Broken> {
        if piece.len() == 0 {
            return Ok(());
        }
        match self {
            Self::H1 { conn, framing } => match framing {
                Framing::None => {}
                Framing::Length(left) => {
                    *left = left.checked_sub(piece.len() as u64).ok_or(Broken::Length)?;
                    conn.put(|out| out.extend_from_slice(piece.as_slice()));
                }
                Framing::Chunked => conn.put(|out| put_chunk(out, piece.as_slice())),
                Framing::UntilClose => conn.put(|out| out.extend_from_slice(piece.as_slice())),
            },
            Self::H2 { piece: waiting, .. } => *waiting = piece.into_bytes(),
        }
        Ok(())
    }

    /// No more pieces. Trailers are sent where the protocol has them.
    pub(super) fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), Broken> {
        match self {
            Self::H1 { conn, framing } => match framing {
                Framing::None | Framing::UntilClose | Framing::Length(0) => {}
                Framing::Length(_) => return Err(Broken::Length),
                Framing::Chunked => conn.put(|out| out.extend_from_slice(b"0\r\n\r\n")),
            },
            Self::H2 { end: End::Sent, .. } => {}
            Self::H2 { end, .. } => *end = End::Wanted(trailers.map(Box::new)),
        }
        Ok(())
    }

    /// Whether so much waits that the source should pause.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::H1 { .. } => self.waiting() >= ENOUGH,
            Self::H2 { .. } => self.waiting() > 0,
        }
    }

    /// Sends what was taken; ready when nothing waits.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        match self {
            Self::H1 { conn, .. } => conn.poll_send(cx).map_err(|_| Broken::Reader),
            Self::H2 { stream, piece, end } => {
                poll_flush_h2(stream, piece, end, cx).map_err(|_| Broken::Reader)
            }
        }
    }

    /// Sends what was taken. A reader that takes a little at a time is slow, not silent: the clock hears of it.
    pub(super) async fn flush(&mut self, clock: &Clock) -> Result<(), Broken> {
        let mut waiting = usize::MAX;
        poll_fn(|cx| {
            let flushed = self.poll_flush(cx);
            if flushed.is_pending() && self.waiting() < std::mem::replace(&mut waiting, self.waiting()) {
                clock.moved();
            }
            flushed
        })
        .await
    }

    /// How many bytes were taken and have not left.
    fn waiting(&self) -> usize {
        match self {
            Self::H1 { conn, .. } => conn.pending(),
            Self::H2 { piece, .. } => piece.len(),
        }
    }

    /// Whether every byte that was announced has been taken, so that nothing more can come.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Self::H1 { framing: Framing::Length(0) | Framing::None, .. })
    }

    /// Ready when the reader has left.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::H1 { conn, .. } => conn.poll_closed(cx),
            Self::H2 { stream, end: End::Open, .. } => stream.poll_reset(cx).map(drop),
            Self::H2 { .. } => Poll::Pending,
        }
    }
}

fn put_chunk(out: &mut Vec<u8>, piece: &[u8]) {
    // Writing to a vector does not fail.
    let _ = write!(out, "{:x}\r\n", piece.len());
    out.extend_from_slice(piece);
    out.extend_from_slice(b"\r\n");
}

fn poll_flush_h2(
    stream: &mut SendStream<Bytes>,
    piece: &mut Bytes,
    end: &mut End,
    cx: &mut Context<'_>,
) -> Poll<Result<(), h2::Error>> {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let mut room = stream.capacity();
        if room == 0 {
            room = match ready!(stream.poll_capacity(cx)) {
                Some(room) => room?,
                None => return Poll::Ready(Err(h2::Reason::STREAM_CLOSED.into())),
            };
        }
        let part = piece.split_to(room.min(piece.len()));
        let last = piece.is_empty() && matches!(end, End::Wanted(None));
        stream.send_data(part, last)?;
        if last {
            *end = End::Sent;
        }
    }
    if let End::Wanted(trailers) = end {
        match trailers.take() {
            Some(trailers) => stream.send_trailers(*trailers)?,
            None => stream.send_data(Bytes::new(), true)?,
        }
        *end = End::Sent;
    }
    Poll::Ready(Ok(()))
}
