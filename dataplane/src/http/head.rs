//! Whether a request head may be trusted to mean one thing: what is refused before anything is read into it.
//!
//! The raw bytes are judged first, for parsers repair things (pingora drops a Content-Length beside a Transfer-Encoding and
//! takes a bare LF for a line end), and what one server repairs another may read differently: that is how requests are
//! smuggled.

use bytes::{Buf, BytesMut};
use http::{Method, Version, header};
use memchr::{memchr, memchr2};
use pingora::http::RequestHeader;

use super::fault::Fault;
use crate::listen::Conn;

/// The state of reading one HTTP/1 head.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    /// Where the first line begins that has not been judged.
    line: usize,
    in_headers: bool,
    lengths: u8,
    codings: u8,
    hosts: u8,
    http10: bool,
}

/// Reads to the end of a request head, which stays in `buffer` with whatever came after it.
///
/// Gives the length of the head; `None` if the client left without a byte.
pub(super) async fn read(conn: &Conn, buffer: &mut BytesMut, limit: usize) -> Result<Option<usize>, Fault> {
    let mut scan = HeadScan::default();
    loop {
        if !buffer.is_empty() && scan.advance(buffer, limit)? {
            return Ok(Some(scan.line));
        }
        buffer.reserve(4096);
        match conn.read(buffer).await {
            Ok(true) => {}
            Ok(false) if buffer.is_empty() => return Ok(None),
            Ok(false) | Err(_) => return Err(Fault::ClientGone),
        }
    }
}

impl HeadScan {
    /// Judges the lines that are complete; true when the head is.
    fn advance(&mut self, buffer: &mut BytesMut, limit: usize) -> Result<bool, Fault> {
        // RFC 9112 2.2: "a server [...] SHOULD ignore at least one empty line (CRLF) received prior to the request-line"
        while !self.in_headers && self.line == 0 && buffer.starts_with(b"\r\n") {
            buffer.advance(2);
        }
        loop {
            let rest = &buffer[self.line..];
            let Some(end) = memchr2(b'\r', b'\n', rest) else { break };
            if rest[end] == b'\n' {
                return Err(Fault::Malformed("a line of the head ends with a bare LF"));
            }
            match rest.get(end + 1) {
                None => break,
                Some(b'\n') => {}
                Some(_) => return Err(Fault::Malformed("a bare CR in the head")),
            }
            let line = &rest[..end];
            self.line += end + 2;
            if self.line > limit {
                return Err(Fault::HeadTooLarge);
            }
            if line.is_empty() {
                return self.whole().map(|()| true);
            }
            let (line, first) = (self.line - end - 2..self.line - 2, !self.in_headers);
            if first {
                self.request_line(&buffer[line])?;
            } else {
                self.header_line(&buffer[line])?;
            }
        }
        if buffer.len() > limit {
            return Err(Fault::HeadTooLarge);
        }
        Ok(false)
    }

    /// `method SP request-target SP HTTP-version`, with nothing else between.
    fn request_line(&mut self, line: &[u8]) -> Result<(), Fault> {
        self.in_headers = true;
        let mut parts = line.split(|byte| *byte == b' ');
        let (method, target, version) = (parts.next(), parts.next(), parts.next());
        let (Some(method), Some(target), Some(version), None) = (method, target, version, parts.next())
        else {
            return Err(Fault::Malformed("the request line is not one"));
        };
        // A fragment is for the client alone (RFC 9110 4.2.5).
        let is_visible = |byte: &u8| *byte > b' ' && !matches!(byte, b'#' | 0x7f);
        if method.is_empty() || target.is_empty() || !target.iter().all(is_visible) {
            return Err(Fault::Malformed("the request line is not one"));
        }
        match version {
            b"HTTP/1.1" => {}
            b"HTTP/1.0" => self.http10 = true,
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => return Err(Fault::Version),
            _ => return Err(Fault::Malformed("the request line is not one")),
        }
        Ok(())
    }

    fn header_line(&mut self, line: &[u8]) -> Result<(), Fault> {
        if matches!(line[0], b' ' | b'\t') {
            return Err(Fault::Malformed("a header is folded over two lines"));
        }
        let Some(colon) = memchr(b':', line) else {
            return Err(Fault::Malformed("a header without a colon"));
        };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if name.is_empty() || name.last().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(Fault::Malformed("no header name, or a space after it"));
        }
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.hosts = self.hosts.saturating_add(1),
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let value = value.trim_ascii();
                if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
                    return Err(Fault::Malformed("Content-Length is not a number"));
                }
                self.lengths = self.lengths.saturating_add(1);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Fault::Coding);
                }
                self.codings = self.codings.saturating_add(1);
            }
            _ => {}
        }
        Ok(())
    }

    /// What only the whole head tells.
    fn whole(&self) -> Result<(), Fault> {
        match self {
            Self { in_headers: false, .. } => Err(Fault::Malformed("the request line is not one")),
            Self { lengths: 1.., codings: 1.., .. } => {
                Err(Fault::Malformed("Content-Length together with Transfer-Encoding"))
            }
            Self { lengths: 2.., .. } => Err(Fault::Malformed("more than one Content-Length")),
            Self { codings: 2.., .. } => Err(Fault::Malformed("more than one Transfer-Encoding")),
            // RFC 9112 6.1: "A server [...] that receives [...] Transfer-Encoding [...] in an HTTP/1.0 message MUST treat
            // the message as if the framing is faulty"
            Self { codings: 1.., http10: true, .. } => Err(Fault::Malformed("Transfer-Encoding in HTTP/1.0")),
            Self { hosts: 2.., .. } => Err(Fault::Malformed("more than one Host")),
            // RFC 9112 3.2: "A server MUST respond with a 400 [...] to any HTTP/1.1 request message that lacks a Host"
            Self { hosts: 0, http10: false, .. } => Err(Fault::Malformed("no Host")),
            _ => Ok(()),
        }
    }
}

/// Judges a parsed head, of either protocol: method, target and authority.
pub(super) fn check(request: &RequestHeader) -> Result<(), Fault> {
    if request.method == Method::CONNECT {
        return Err(Fault::Method);
    }
    let authority = match request.uri.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => request.headers.get(header::HOST).map_or(&b""[..], |host| host.as_bytes()),
    };
    let required = request.version != Version::HTTP_10 || !authority.is_empty();
    if required && !is_authority(authority) {
        return Err(Fault::Malformed("the host is not one"));
    }
    let target = request.raw_path();
    let is_served = match target {
        [b'/', ..] => true,
        b"*" => request.method == Method::OPTIONS,
        // RFC 9112 3.2.2: "a server MUST accept the absolute-form in requests"; pingora has compared it with Host.
        _ => [&b"http://"[..], b"https://"]
            .iter()
            .any(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))),
    };
    if !is_served || memchr(b'#', target).is_some() || std::str::from_utf8(target).is_err() {
        return Err(Fault::Malformed("the request target is not one"));
    }
    Ok(())
}

/// `host` or `host:port`, the host being a name, an IPv4 address or an IPv6 address in brackets. No userinfo.
fn is_authority(text: &[u8]) -> bool {
    let (host, port) = match text {
        [b'[', rest @ ..] => match memchr(b']', rest) {
            Some(end) => {
                let inside = rest[..end].iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
                if !inside || end == 0 {
                    return false;
                }
                (&rest[..end], &rest[end + 1..])
            }
            None => return false,
        },
        _ => text.split_at(memchr(b':', text).unwrap_or(text.len())),
    };
    let name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':');
    let digits = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    !host.is_empty() && host.iter().all(name) && digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(head: &str) -> Result<bool, Fault> {
        HeadScan::default().advance(&mut BytesMut::from(head), 1000)
    }

    #[test]
    fn a_head_that_arrives_byte_by_byte_is_judged_as_one_that_arrives_at_once() {
        let head = "\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
        let (mut scan, mut buffer) = (HeadScan::default(), BytesMut::new());
        for (at, byte) in head.bytes().enumerate() {
            buffer.extend_from_slice(&[byte]);
            let done = scan.advance(&mut buffer, 1000).expect("a good head");
            assert_eq!(done, at + 1 == head.len());
        }
        assert!(self::scan(head).expect("a good head"));
    }

    #[test]
    fn what_is_no_authority() {
        for text in ["a", "a.b:80", "[::1]:80", "[::1]", "10.0.0.1", "a:", "a_b", "A"] {
            assert!(is_authority(text.as_bytes()), "{text}");
        }
        for text in
            ["", ":80", "a:b", "a b", "a@b", "a/b", "[::1", "[]", "a:123456", "[::1]x", "a,b", "a:80:80"]
        {
            assert!(!is_authority(text.as_bytes()), "{text}");
        }
    }
}
