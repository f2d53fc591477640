//! The backend's side of an exchange, whichever protocol it speaks.

use http::{HeaderMap, Method, StatusCode, Version, header};
use memchr::memchr_iter;
use pingora::http::ResponseHeader;
use pingora::protocols::http::v1::client::HttpSession;
use pingora::protocols::http::v2::client::Http2Session;

use super::body::{BodyWriter, Framing, Piece};
use super::fault::Fault;
use super::headers::{Incoming, Outgoing};
use crate::backend::{self, PoolKey};
use crate::listen::Conn;
use crate::settings::Limits;

/// A request that was sent to an endpoint, and the answer that comes back. Boxed, as [`super::down::Down`] is.
pub(super) enum Up {
    H1(Box<Up1>),
    H2(Box<Http2Session>),
}

/// An exchange on an HTTP/1 connection. pingora's session reads the answer; the request is written beside it.
pub(super) struct Up1 {
    session: HttpSession,
    conn: Conn,
    key: PoolKey,
    /// Whether the connection has carried an exchange before, so that it may turn out to be closed.
    reused: bool,
    /// Whether the answer has no body because the request says so.
    head_only: bool,
    /// Whether the request asks for another protocol.
    upgrade: bool,
    /// What was read from the connection before, and how much of what was read since is heads.
    taken: u64,
    heads: u64,
}

impl Up {
    /// Puts the head of `request` on a connection; it leaves with the first flush of the writer.
    pub(super) fn h1(conn: Conn, key: PoolKey, reused: bool, request: &Outgoing<'_>) -> (Self, BodyWriter) {
        conn.put(|out| request.put(out));
        let writer = BodyWriter::h1(conn.clone(), request.body);
        let session = HttpSession::new(Box::new(conn.clone()));
        let head_only = request.request.method == Method::HEAD;
        let (taken, upgrade) = (conn.taken(), request.upgrade.is_some());
        let up = Up1 { session, conn, key, reused, head_only, upgrade, taken, heads: 0 };
        (Self::H1(Box::new(up)), writer)
    }

    /// Sends the head of `request` on a stream.
    pub(super) fn h2(mut session: Http2Session, request: &Outgoing<'_>) -> Result<(Self, BodyWriter), Fault> {
        let ended = request.body == Framing::None;
        let sent = session.write_request_header(request.for_h2()?, ended);
        sent.map_err(|error| h2_fault(&error))?;
        let stream = session.take_request_body_writer();
        let stream = stream.ok_or_else(|| Fault::Upstream("no stream for the body".into()))?;
        Ok((Self::H2(Box::new(session)), BodyWriter::h2(stream, ended)))
    }

    /// Reads the next head: any number of 1xx, then the answer's.
    pub(super) async fn read_head(&mut self) -> Result<(), Fault> {
        match self {
            Self::H1(up) => up.read_head().await,
            Self::H2(session) => session.read_response_header().await.map_err(|error| h2_fault(&error)),
        }
    }

    /// The head that was read last.
    pub(super) fn head(&self) -> Incoming<'_> {
        let head: &ResponseHeader = match self {
            Self::H1(up) => up.session.resp_header().expect("a head was read before it is asked for"),
            Self::H2(session) => session.response_header().expect("a head was read before it is asked for"),
        };
        Incoming {
            status: head.status,
            reason: head.get_reason_phrase(),
            headers: &head.headers,
            route: None,
        }
    }

    /// Whether the answer has no more to read. Fails when an HTTP/2 stream has ended by an error.
    pub(super) fn is_done(&mut self) -> Result<bool, Fault> {
        match self {
            Self::H1(up) => Ok(up.head_only || up.session.is_body_done()),
            Self::H2(session) => session.check_response_end_or_error().map_err(|error| h2_fault(&error)),
        }
    }

    /// The next piece of the answer's body; `None` at its end. A dropped read loses nothing.
    pub(super) async fn read_body(&mut self) -> Result<Option<Piece<'_>>, Fault> {
        match self {
            Self::H1(up) if up.head_only => Ok(None),
            Self::H1(up) => match up.session.read_body_ref().await {
                Ok(piece) => Ok(piece.map(Piece::Slice)),
                Err(error) => Err(Fault::Upstream(error.to_string())),
            },
            Self::H2(session) => match session.read_response_body().await {
                Ok(piece) => Ok(piece.map(Piece::Shared)),
                Err(error) => Err(h2_fault(&error)),
            },
        }
    }

    /// What comes after the body.
    pub(super) async fn read_trailers(&mut self) -> Result<Option<HeaderMap>, Fault> {
        match self {
            Self::H1(_) => Ok(None),
            Self::H2(session) => session.read_trailers().await.map_err(|error| h2_fault(&error)),
        }
    }

    /// Keeps the connection of an exchange that both sides have completed, if another one can follow on it.
    pub(super) async fn keep(self, limits: &Limits) {
        if let Self::H1(up) = self {
            up.keep(limits).await;
        }
    }
}

impl Up1 {
    /// Whether the request asks for another protocol.
    pub(super) fn is_upgrade(&self) -> bool {
        self.upgrade
    }

    pub(super) fn conn(&self) -> &Conn {
        &self.conn
    }

    async fn read_head(&mut self) -> Result<(), Fault> {
        match self.session.read_response().await {
            Ok(length) => self.heads += length as u64,
            Err(error) if self.reused && self.conn.taken() == self.taken => {
                return Err(Fault::Stale(error.to_string()));
            }
            Err(error) => return Err(Fault::Upstream(error.to_string())),
        }
        let head = self.session.resp_header().expect("a head was just read");
        let coding = head.headers.get(header::TRANSFER_ENCODING);
        if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
            return Err(Fault::Upstream("a transfer coding that was not asked for".into()));
        }
        // RFC 9112 5.2: a proxy that gets a folded header "MUST either discard the message and replace it with a 502 [...]
        // or replace each received obs-fold"
        let raw = self.session.get_headers_raw_bytes();
        let is_folded = memchr_iter(b'\n', &raw).any(|at| matches!(raw.get(at + 1), Some(b' ' | b'\t')));
        if is_folded || head.version < Version::HTTP_10 {
            return Err(Fault::Upstream("not an HTTP/1 answer".into()));
        }
        Ok(())
    }

    async fn keep(mut self, limits: &Limits) {
        self.session.respect_keepalive();
        if !self.session.will_keepalive() {
            return;
        }
        let clean = match self.head_only {
            // The session waits for a body that does not come; whether one did anyway, the count tells.
            true => self.conn.taken() - self.taken == self.heads,
            false => self.session.reuse().await.is_some(),
        };
        if clean {
            backend::keep(self.key, self.conn, limits);
        }
    }
}

/// Whether a status ends a message without a body.
pub(super) fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

fn h2_fault(error: &pingora::Error) -> Fault {
    let Some(cause) = error.root_cause().downcast_ref::<h2::Error>() else {
        return Fault::Upstream(error.to_string());
    };
    // RFC 9113 8.7: REFUSED_STREAM, and GOAWAY for the streams above its last one, say that nothing was processed.
    let graceful = cause.is_go_away() && cause.is_remote() && cause.reason() == Some(h2::Reason::NO_ERROR);
    if cause.reason() == Some(h2::Reason::REFUSED_STREAM) || graceful {
        return Fault::Unprocessed(cause.to_string());
    }
    Fault::Upstream(cause.to_string())
}
