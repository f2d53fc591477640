//! What the backend is told about the client: `X-Forwarded-*` and `Forwarded` are ours to say.

use std::net::IpAddr;

use http::{HeaderName, HeaderValue, header};
use pingora::http::RequestHeader;
use postern_config::Scheme;

use super::headers::{authority, put_line};
use crate::listen::Inbound;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What is said about the client of a connection to every backend.
pub(super) struct Forwarding {
    /// Whether the client is a proxy whose own word is kept.
    trusted: bool,
    client: String,
    /// `client` as a node of `Forwarded` (RFC 7239 6).
    node: String,
    scheme: Scheme,
    port: u16,
    /// The lines that are the same for every request.
    lines: String,
}

impl Forwarding {
    pub(super) fn new(inbound: &Inbound) -> Self {
        let client = inbound.client.ip().to_canonical();
        let (port, scheme) = (inbound.port, inbound.scheme());
        let node = match client {
            IpAddr::V4(_) => client.to_string(),
            IpAddr::V6(_) => format!("\"[{client}]\""),
        };
        let lines = format!(
            "x-forwarded-for: {client}\r\nx-forwarded-port: {port}\r\nx-forwarded-proto: {}\r\n",
            scheme.as_str()
        );
        Self { trusted: inbound.is_trusted(), client: client.to_string(), node, scheme, port, lines }
    }

    /// The forwarding headers of a request, in place of those it came with; a trusted proxy's are added to.
    pub(super) fn each(&self, request: &RequestHeader, asked: &str, mut put: impl FnMut(&HeaderName, &str)) {
        let before = |name: &HeaderName| {
            let values = request.headers.get_all(name);
            if self.trusted { joined(values.iter()) } else { None }
        };
        let append = |before: Option<String>, own: &str| match before {
            Some(before) => format!("{before}, {own}"),
            None => own.to_owned(),
        };
        put(&FOR, &append(before(&FOR), &self.client));
        put(&PORT, &before(&PORT).unwrap_or_else(|| self.port.to_string()));
        put(&PROTO, &before(&PROTO).unwrap_or_else(|| self.scheme.as_str().to_owned()));
        let host = match asked {
            // HTTP/1.0 knows requests for no host.
            "" => String::new(),
            _ => {
                put(&HOST, &before(&HOST).unwrap_or_else(|| asked.to_owned()));
                format!(";host=\"{asked}\"")
            }
        };
        let own = format!("for={}{host};proto={}", self.node, self.scheme.as_str());
        put(&header::FORWARDED, &append(before(&header::FORWARDED), &own));
    }

    /// The same as lines of an HTTP/1 head.
    pub(super) fn put(&self, request: &RequestHeader, asked: &str, out: &mut Vec<u8>) {
        if self.trusted || asked.is_empty() {
            return self.each(request, asked, |name, value| put_line(out, name.as_str(), value.as_bytes()));
        }
        out.extend_from_slice(self.lines.as_bytes());
        put_line(out, "x-forwarded-host", asked.as_bytes());
        for part in
            ["forwarded: for=", &self.node, ";host=\"", asked, "\";proto=", self.scheme.as_str(), "\r\n"]
        {
            out.extend_from_slice(part.as_bytes());
        }
    }

    /// Puts them into the request itself, for filters to change.
    pub(super) fn settle(&self, request: &mut RequestHeader) {
        let mut settled = Vec::with_capacity(5);
        self.each(request, authority(request), |name, value| {
            if let Ok(value) = HeaderValue::from_str(value) {
                settled.push((name.clone(), value));
            }
        });
        for (name, value) in settled {
            // Inserting fails only for names that are no header names.
            let _ = request.insert_header(name, value);
        }
    }
}

/// Whether it is one of the headers that say for whom a request was forwarded.
pub(super) fn is_forwarding(name: &HeaderName) -> bool {
    let is_ours = |name: &str| matches!(name, "for" | "host" | "port" | "proto");
    *name == header::FORWARDED || name.as_str().strip_prefix("x-forwarded-").is_some_and(is_ours)
}

fn joined<'a>(values: impl Iterator<Item = &'a HeaderValue>) -> Option<String> {
    let texts: Vec<_> =
        values.filter_map(|value| value.to_str().ok()).filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}
