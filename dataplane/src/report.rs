//! What there is to say of a request when it is over, for metrics and the access log alike.

use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, Version};

use crate::listen::Inbound;
use crate::state::RuleName;

/// A request that is over, whichever way. Whoever served it fills this in and passes it to [`crate::Shared::report`].
pub(crate) struct Report<'a> {
    /// The connection that it came on.
    pub(crate) inbound: &'a Inbound,
    pub(crate) method: &'a Method,
    pub(crate) version: Version,
    /// The host as routing saw it.
    pub(crate) host: &'a str,
    /// The path as it came, without the query.
    pub(crate) path: &'a str,
    /// The status that was answered; 0 if the client left before there was one.
    pub(crate) status: u16,
    /// Why the answer is our own, or why the exchange broke, in a word or two: `no_route`, `connect_failed`, `timeout`.
    pub(crate) reason: Option<&'static str>,
    /// The listener, if one took the request.
    pub(crate) listener: Option<&'a str>,
    /// The rule, if one took the request.
    pub(crate) rule: Option<&'a RuleName>,
    /// The backend, if the request was to be forwarded to one.
    pub(crate) backend: Option<&'a str>,
    /// The endpoint that was asked last.
    pub(crate) endpoint: Option<SocketAddr>,
    /// How often an endpoint was asked.
    pub(crate) tries: u32,
    /// Bytes of the request's body that came in.
    pub(crate) request_bytes: u64,
    /// Bytes of the response's body that went out.
    pub(crate) response_bytes: u64,
    pub(crate) times: Times,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// From the end of the request's head to the end of the exchange.
    pub(crate) total: Duration,
    /// Making a connection, if one was made.
    pub(crate) connect: Option<Duration>,
    /// From the end of the request's head to the head of the backend's answer.
    pub(crate) first_byte: Option<Duration>,
}

impl crate::Shared {
    /// Counts and logs a request that is over. Cheap enough for every request: no lock is shared, nothing waits.
    pub(crate) fn report(&self, report: &Report<'_>) {
        self.metrics.record(report);
        self.access_log.write(report);
    }
}
