//! RequestRedirect: the answer is another URL.

use http::StatusCode;
use postern_config::{PathModifier, RequestRedirect, Scheme};

use super::{Apply, Change};
use crate::http::headers;

#[derive(Debug)]
pub(super) struct Redirect {
    scheme: Option<Scheme>,
    hostname: Option<String>,
    port: Option<u16>,
    path: Option<PathModifier>,
    status: StatusCode,
}

/// A redirect as it is answered.
#[derive(Debug)]
pub(crate) struct Location {
    pub(crate) status: StatusCode,
    pub(crate) url: String,
}

impl Redirect {
    pub(super) fn new(redirect: &RequestRedirect) -> Self {
        Self {
            scheme: redirect.scheme,
            hostname: redirect.hostname.as_ref().map(ToString::to_string),
            port: redirect.port,
            path: redirect.path.clone(),
            status: StatusCode::from_u16(redirect.status_code).unwrap_or(StatusCode::FOUND),
        }
    }
}

impl Apply for Redirect {
    fn request(&self, change: &mut Change<'_>) -> Option<Location> {
        let scheme = self.scheme.unwrap_or(change.scheme);
        // HTTPRequestRedirectFilter.port: "If no port is specified, the redirect port MUST be derived using the following
        // rules: If redirect scheme is not-empty, the redirect port MUST be the well-known port associated with the redirect
        // scheme. [...] If redirect scheme is empty, the redirect port MUST be the Gateway Listener port."
        let port = self.port.or(self.scheme.map(Scheme::port)).unwrap_or(change.port);
        let authority = headers::authority(change.request);
        let host = self.hostname.as_deref().unwrap_or_else(|| without_port(authority));
        let path = match &self.path {
            Some(modifier) => change.modified(modifier),
            None => headers::target(change.request).to_owned(),
        };
        let scheme_text = scheme.as_str();
        let url = match port == scheme.port() {
            true => format!("{scheme_text}://{host}{path}"),
            false => format!("{scheme_text}://{host}:{port}{path}"),
        };
        Some(Location { status: self.status, url })
    }
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}
