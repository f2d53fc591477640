//! Which headers go on, and as what: hop-by-hop ones end here, framing is the writer's.

use std::io::Write;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header, uri};
use pingora::http::RequestHeader;

use super::body::Framing;
use super::fault::Fault;
use super::forwarding::{Forwarding, is_forwarding};

/// A request as it goes to a backend.
pub(super) struct Outgoing<'a> {
    pub(super) request: &'a RequestHeader,
    /// The host that the backend sees.
    pub(super) host: &'a str,
    /// The host that the client asked for.
    pub(super) asked: &'a str,
    pub(super) path_and_query: &'a str,
    pub(super) body: Framing,
    /// The protocol that the client wants to change to, if that is passed on.
    pub(super) upgrade: Option<&'a HeaderValue>,
    /// Whether `Expect` goes on: the client can be told what the backend says to it.
    pub(super) expect: bool,
    /// `None` if the forwarding headers stand in the request already.
    pub(super) forwarding: Option<&'a Forwarding>,
}

/// A response as it goes to the client.
pub(super) struct Incoming<'a> {
    pub(super) status: StatusCode,
    pub(super) reason: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    /// `x-postern-route`.
    pub(super) route: Option<&'a str>,
}

/// The host a request asks for, as the client wrote it.
pub(super) fn authority(request: &RequestHeader) -> &str {
    match request.uri.authority() {
        Some(authority) => authority.as_str(),
        None => request.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    }
}

/// Path and query that a request asks for, whatever form its target has.
pub(super) fn target(request: &RequestHeader) -> &str {
    match request.uri.path_and_query() {
        Some(whole) => whole.as_str(),
        None => "/",
    }
}

/// The path that a request asks for, and what stands after `?`.
pub(super) fn path_and_query(request: &RequestHeader) -> (&str, Option<&str>) {
    (request.uri.path(), request.uri.query())
}

/// The protocol that a client wants to change to. Not HTTP/2: it would carry requests past us that nobody looked at.
pub(super) fn upgrade(request: &RequestHeader) -> Option<&HeaderValue> {
    if request.version != Version::HTTP_11 {
        return None;
    }
    let mut protocols = request.headers.get_all(header::UPGRADE).iter();
    let (protocol, None) = (protocols.next()?, protocols.next()) else { return None };
    let named = request.headers.get_all(header::CONNECTION).iter().any(|value| {
        value
            .as_bytes()
            .split(|byte| *byte == b',')
            .any(|token| token.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
    });
    let is_token = |byte: &u8| byte.is_ascii_graphic() && *byte != b',';
    let is_http = protocol.as_bytes().eq_ignore_ascii_case(b"h2c");
    (named && !is_http && protocol.as_bytes().iter().all(is_token)).then_some(protocol)
}

/// Removes the headers that `Connection` names from a request.
///
/// It is refused when it names something that is not for the next hop alone: to have it removed would change what the backend
/// takes the request for.
pub(super) fn remove_nominated(request: &mut RequestHeader) -> Result<(), Fault> {
    const MOST: usize = 9;
    if !request.headers.contains_key(header::CONNECTION) {
        return Ok(());
    }
    let names = nominated(&request.headers).map_err(|()| Fault::Malformed("Connection names no header"))?;
    if names.len() > MOST {
        return Err(Fault::Malformed("Connection names too many headers"));
    }
    for name in names {
        if is_protected(&name) {
            return Err(Fault::Malformed("Connection names a header that is not its own"));
        }
        request.remove_header(&name);
    }
    Ok(())
}

/// The headers that `Connection` names beside the usual ones; empty in the usual case, without allocating.
fn nominated(headers: &HeaderMap) -> Result<Vec<HeaderName>, ()> {
    let mut names = Vec::new();
    for value in headers.get_all(header::CONNECTION) {
        for token in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            const USUAL: [&[u8]; 5] = [b"", b"close", b"keep-alive", b"upgrade", b"te"];
            if USUAL.iter().any(|usual| token.eq_ignore_ascii_case(usual)) {
                continue;
            }
            names.push(HeaderName::from_bytes(token).map_err(drop)?);
        }
    }
    Ok(names)
}

fn is_protected(name: &HeaderName) -> bool {
    is_forwarding(name)
        || [header::HOST, header::CONTENT_LENGTH, header::AUTHORIZATION, header::COOKIE, header::EXPECT]
            .contains(name)
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONNECTION
            | header::TE
            | header::TRAILER
            | header::TRANSFER_ENCODING
            | header::UPGRADE
            | header::PROXY_AUTHENTICATE
            | header::PROXY_AUTHORIZATION
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "http2-settings")
}

impl Outgoing<'_> {
    fn goes_on(&self, name: &HeaderName) -> bool {
        match *name {
            header::HOST => false,
            header::EXPECT => self.expect,
            header::CONTENT_LENGTH => true,
            _ if self.forwarding.is_some() && is_forwarding(name) => false,
            _ => !is_hop_by_hop(name),
        }
    }

    /// The head for HTTP/1.1.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.reserve(768);
        for part in
            [self.request.method.as_str(), " ", self.path_and_query, " HTTP/1.1\r\nhost: ", self.host, "\r\n"]
        {
            out.extend_from_slice(part.as_bytes());
        }
        let headers = &self.request.headers;
        let mut cookies = self.request.version == Version::HTTP_2;
        for (name, value) in headers {
            if *name == header::COOKIE && self.request.version == Version::HTTP_2 {
                // RFC 9113 8.2.3: "these MUST be concatenated into a single octet string using the two-octet delimiter [; ]"
                if std::mem::take(&mut cookies) {
                    put_cookies(out, headers);
                }
            } else if self.goes_on(name) {
                put_line(out, name.as_str(), value.as_bytes());
            }
        }
        if let Some(forwarding) = self.forwarding {
            forwarding.put(self.request, self.asked, out);
        }
        if let Some(protocol) = self.upgrade {
            out.extend_from_slice(b"connection: upgrade\r\n");
            put_line(out, "upgrade", protocol.as_bytes());
        }
        if self.body == Framing::Chunked {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The head for HTTP/2.
    pub(super) fn for_h2(&self) -> Result<Box<RequestHeader>, Fault> {
        let mut parts = http::Request::new(()).into_parts().0;
        parts.method = self.request.method.clone();
        parts.version = Version::HTTP_2;
        // The connection is in cleartext, whatever the client used to reach us.
        let uri = uri::Builder::new().scheme("http").authority(self.host).path_and_query(self.path_and_query);
        parts.uri = uri.build().map_err(|_| Fault::Malformed("the request target is not one"))?;
        parts.headers.reserve(self.request.headers.len() + 6);
        for (name, value) in &self.request.headers {
            // RFC 9113 8.2.2: TE "MUST NOT contain any value other than "trailers""; gRPC servers ask for it.
            if self.goes_on(name) || (*name == header::TE && value == "trailers") {
                parts.headers.append(name, value.clone());
            }
        }
        if let Some(forwarding) = self.forwarding {
            forwarding.each(self.request, self.asked, |name, value| {
                if let Ok(value) = HeaderValue::from_str(value) {
                    parts.headers.insert(name, value);
                }
            });
        }
        Ok(Box::new(RequestHeader::from(parts)))
    }
}

impl<'a> Incoming<'a> {
    /// A response of our own.
    pub(super) fn new(status: StatusCode, headers: &'a HeaderMap) -> Self {
        Self { status, reason: None, headers, route: None }
    }
}

impl Incoming<'_> {
    /// How the body is framed for HTTP/1, and `content-length` if it has one.
    pub(super) fn framing(&self, head_only: bool, http10: bool, ended: bool) -> Framing {
        if head_only || matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Framing::None;
        }
        match self.length() {
            Some(length) => Framing::Length(length),
            None if ended => Framing::Length(0),
            None if http10 => Framing::UntilClose,
            None => Framing::Chunked,
        }
    }

    /// The announced length, which the codec has found to be one number.
    fn length(&self) -> Option<u64> {
        let value = self.headers.get(header::CONTENT_LENGTH)?.to_str().ok()?;
        value.split(',').next()?.trim().parse().ok()
    }

    fn each(&self, mut put: impl FnMut(&HeaderName, &HeaderValue)) {
        // A backend that names nonsense here names nothing.
        let nominated = match self.headers.contains_key(header::CONNECTION) {
            true => nominated(self.headers).unwrap_or_default(),
            false => Vec::new(),
        };
        for (name, value) in self.headers {
            let length = *name == header::CONTENT_LENGTH;
            if !length && !is_hop_by_hop(name) && (nominated.is_empty() || !nominated.contains(name)) {
                put(name, value);
            }
        }
    }

    /// The length that a response announces without a body to count.
    fn announced(&self, framing: Framing) -> Option<u64> {
        match framing {
            Framing::Length(length) => Some(length),
            Framing::None if self.status != StatusCode::NO_CONTENT => self.length(),
            _ => None,
        }
    }

    /// The head for HTTP/1. `connection` is the value of that header, if it is needed.
    pub(super) fn put(&self, framing: Framing, connection: Option<&str>, out: &mut Vec<u8>) {
        out.reserve(512);
        let reason = self.reason.or(self.status.canonical_reason()).unwrap_or_default();
        for part in ["HTTP/1.1 ", self.status.as_str(), " ", reason, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        self.each(|name, value| put_line(out, name.as_str(), value.as_bytes()));
        if self.status.is_informational() {
            out.extend_from_slice(b"\r\n");
            return;
        }
        if let Some(length) = self.announced(framing) {
            // Writing to a vector does not fail.
            let _ = write!(out, "content-length: {length}\r\n");
        }
        if framing == Framing::Chunked {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        if !self.headers.contains_key(header::DATE) {
            put_line(out, "date", pingora::protocols::http::date::get_cached_date().as_bytes());
        }
        if let Some(route) = self.route {
            put_line(out, "x-postern-route", route.as_bytes());
        }
        if let Some(connection) = connection {
            put_line(out, "connection", connection.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The head of a response that changes the protocol.
    pub(super) fn put_upgrade(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n");
        if let Some(protocol) = self.headers.get(header::UPGRADE) {
            put_line(out, "upgrade", protocol.as_bytes());
        }
        self.each(|name, value| put_line(out, name.as_str(), value.as_bytes()));
        out.extend_from_slice(b"\r\n");
    }

    /// The headers for HTTP/2.
    pub(super) fn for_h2(&self, head_only: bool) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 2);
        self.each(|name, value| {
            headers.append(name, value.clone());
        });
        if let Some(length) = self.announced(self.framing(head_only, false, false)) {
            headers.insert(header::CONTENT_LENGTH, length.into());
        }
        if let Some(route) = self.route.and_then(|route| HeaderValue::from_str(route).ok()) {
            headers.insert(HeaderName::from_static("x-postern-route"), route);
        }
        headers
    }
}

pub(super) fn put_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn put_cookies(out: &mut Vec<u8>, headers: &HeaderMap) {
    out.extend_from_slice(b"cookie: ");
    for (at, crumb) in headers.get_all(header::COOKIE).iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(crumb.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}
