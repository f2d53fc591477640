//! The client's side of an exchange, whichever protocol it speaks.

use bytes::Bytes;
use http::{Method, StatusCode, Version, header};
use pingora::ErrorType;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::{v1, v2};

use super::body::{BodyWriter, Framing};
use super::fault::Fault;
use super::headers::Incoming;
use crate::listen::Conn;

/// A request that was read, and the way back to its client. Sessions are large and change hands: boxes are cheaper to move.
pub(super) enum Down {
    H1(Box<Down1>),
    H2(Box<v2::server::HttpSession>),
}

/// A request on an HTTP/1 connection. pingora's session reads; what goes back is written beside it.
pub(super) struct Down1 {
    session: v1::server::HttpSession,
    conn: Conn,
    /// Whether the connection is for another request after this one.
    keep_alive: bool,
    /// Whether bytes of a next request came with this one: it cannot become a tunnel then.
    pipelined: bool,
    answered: bool,
    until_close: bool,
    aborted: bool,
}

/// What becomes of an HTTP/1 connection after a request.
pub(super) enum After {
    /// It is for the next request.
    Keep,
    /// It ends, once the client has the answer.
    Close,
    /// It ends at once: what the client got is not a whole answer, and it must see that.
    Reset,
}

impl Down1 {
    /// A session whose head was read.
    pub(super) fn new(session: v1::server::HttpSession, conn: Conn, pipelined: bool) -> Self {
        let keep_alive = session.will_keepalive();
        Self { session, conn, keep_alive, pipelined, answered: false, until_close: false, aborted: false }
    }

    /// What becomes of the connection.
    pub(super) fn after(&self) -> After {
        match self {
            Self { aborted: true, until_close: true, .. } => After::Reset,
            Self { keep_alive: true, .. } => After::Keep,
            Self { .. } => After::Close,
        }
    }

    pub(super) fn into_session(self) -> v1::server::HttpSession {
        self.session
    }
}

impl Down {
    pub(super) fn request(&self) -> &RequestHeader {
        match self {
            Self::H1(down) => down.session.req_header(),
            Self::H2(session) => session.req_header(),
        }
    }

    pub(super) fn request_mut(&mut self) -> &mut RequestHeader {
        match self {
            Self::H1(down) => down.session.req_header_mut(),
            Self::H2(session) => session.req_header_mut(),
        }
    }

    /// Whether a body is announced. What came of it is known later.
    pub(super) fn has_body(&mut self) -> bool {
        match self {
            Self::H1(down) => !down.session.is_body_empty(),
            Self::H2(session) => !session.is_body_empty(),
        }
    }

    /// How the request's body is framed.
    pub(super) fn framing(&mut self) -> Framing {
        if !self.has_body() {
            return Framing::None;
        }
        let length = self.request().headers.get(header::CONTENT_LENGTH);
        match length.and_then(|length| length.to_str().ok()?.parse().ok()) {
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        }
    }

    /// Whether the client waits for a 100 (Continue) before it sends its body.
    pub(super) fn expects_continue(&self) -> bool {
        let request = self.request();
        request.version == Version::HTTP_11
            && request
                .headers
                .get(header::EXPECT)
                .is_some_and(|e| e.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    }

    /// Whether 1xx responses can be sent: HTTP/1.0 does not know them, and pingora's HTTP/2 session cannot.
    pub(super) fn takes_interim(&self) -> bool {
        self.request().version == Version::HTTP_11
    }

    /// The connection, if it can become a tunnel.
    pub(super) fn upgradable(&self) -> Option<&Conn> {
        match self {
            Self::H1(down) if !down.pipelined => Some(&down.conn),
            Self::H1(_) | Self::H2(_) => None,
        }
    }

    /// The next piece of the request's body; `None` at its end.
    pub(super) async fn read_body(&mut self) -> Result<Option<Bytes>, Fault> {
        let piece = match self {
            Self::H1(down) => down.session.read_body_bytes().await,
            Self::H2(session) => session.read_body_bytes().await,
        };
        piece.map_err(|error| match error.etype() {
            ErrorType::Custom("InvalidChunk") => Fault::Malformed("the body is not framed as announced"),
            _ => Fault::ClientGone,
        })
    }

    /// Resolves when the client has left. For the time before the answer.
    pub(super) async fn gone(&mut self) {
        match self {
            Self::H1(down) => down.conn.closed().await,
            Self::H2(session) => drop(session.idle().await),
        }
    }

    /// Passes a 1xx response on. Sent with the next flush.
    pub(super) async fn interim(&mut self, interim: &Incoming<'_>) -> Result<(), Fault> {
        match self {
            Self::H1(down) => {
                down.conn.put(|out| interim.put(Framing::None, None, out));
                down.conn.send().await.map_err(|_| Fault::ClientGone)
            }
            Self::H2(_) => Ok(()),
        }
    }

    /// Writes the head of the answer; its body goes to the writer. `ended` says that there is none, `closing` that the
    /// connection should take no further request.
    pub(super) fn answer(
        &mut self,
        response: &Incoming<'_>,
        ended: bool,
        closing: bool,
    ) -> Result<BodyWriter, Fault> {
        let head_only = self.request().method == Method::HEAD;
        match self {
            Self::H1(down) => Ok(down.answer(response, head_only, ended, closing)),
            Self::H2(session) => {
                let bodiless = matches!(response.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
                let ended = ended || head_only || bodiless;
                let mut parts = http::Response::new(()).into_parts().0;
                parts.status = response.status;
                parts.headers = response.for_h2(head_only);
                let head = Box::new(ResponseHeader::from(parts));
                session.write_response_header(head, ended).map_err(|_| Fault::ClientGone)?;
                let stream = session.take_response_body_writer().ok_or(Fault::ClientGone)?;
                Ok(BodyWriter::h2(stream, ended))
            }
        }
    }

    /// Writes the head of the answer that turns the connection into a tunnel.
    pub(super) fn upgrade(&mut self, response: &Incoming<'_>) {
        if let Self::H1(down) = self {
            down.answered = true;
            down.keep_alive = false;
            down.conn.put(|out| response.put_upgrade(out));
        }
    }

    /// Whether the head of the answer is out, so that there can be no other.
    pub(super) fn is_answered(&self) -> bool {
        match self {
            Self::H1(down) => down.answered,
            Self::H2(session) => session.response_written().is_some(),
        }
    }

    /// Ends an answer that cannot be completed so that the client cannot take it for a whole one.
    pub(super) fn abort(&mut self) {
        match self {
            Self::H1(down) => {
                down.keep_alive = false;
                down.aborted = true;
                // Otherwise the missing bytes, or the missing last chunk, say it.
                if down.until_close {
                    down.conn.reset_on_close();
                }
            }
            Self::H2(session) => session.shutdown_with_reason(h2::Reason::INTERNAL_ERROR),
        }
    }

    /// No request after this one.
    pub(super) fn close(&mut self) {
        if let Self::H1(down) = self {
            down.keep_alive = false;
        }
    }
}

impl Down1 {
    fn answer(&mut self, response: &Incoming<'_>, head_only: bool, ended: bool, closing: bool) -> BodyWriter {
        let http10 = self.session.req_header().version == Version::HTTP_10;
        let framing = response.framing(head_only, http10, ended);
        self.until_close = framing == Framing::UntilClose;
        // What is unread of the request would be taken for the next one.
        if closing || self.until_close || !self.session.is_body_done() {
            self.keep_alive = false;
        }
        let connection = match (self.keep_alive, http10) {
            (false, _) => Some("close"),
            (true, true) => Some("keep-alive"),
            (true, false) => None,
        };
        self.conn.put(|out| response.put(framing, connection, out));
        self.answered = true;
        BodyWriter::h1(self.conn.clone(), framing)
    }
}
