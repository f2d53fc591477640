//! What can go wrong with a request: whose fault it is, what the client is told, and what the access log says.

use std::fmt;

use http::StatusCode;

/// Why a request has no ordinary answer.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The request is not one: 400, and the connection closes, for nobody knows where the next one begins.
    Malformed(&'static str),
    /// The head is larger than the limit: 431.
    HeadTooLarge,
    /// The head, or the next piece of the body, did not come in time: 408.
    ClientTooSlow,
    /// A method that is not served: 405.
    Method,
    /// A transfer coding that is not served: 501.
    Coding,
    /// A version that is not served: 505.
    Version,
    /// The host belongs to another listener than the TLS server name: 421.
    Misdirected,
    /// No rule takes the request: 404.
    NoRoute,
    /// The rule, or the backendRef whose turn it is, cannot be honoured: 500.
    Refused,
    /// The backend has no endpoint that is ready: 503.
    NoEndpoint,
    /// No connection to the endpoint: 502.
    Connect(String),
    /// A kept connection turned out to be closed before a byte of a response came. If repeating the request is safe, it is
    /// asked again once, else 502.
    Stale(String),
    /// The endpoint says that it has not begun with the request: asked again once, then 502.
    Unprocessed(String),
    /// The endpoint broke the exchange off or the protocol: 502.
    Upstream(String),
    /// The rule's limit on time is over: 504.
    Timeout,
    /// Nothing moved for too long while the endpoint was to act: 504.
    Idle,
    /// The client has left: nobody to tell.
    ClientGone,
}

impl Fault {
    /// The answer; `None` if there is nobody to answer.
    pub(crate) fn status(&self) -> Option<StatusCode> {
        Some(match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::ClientTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Coding => StatusCode::NOT_IMPLEMENTED,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::Refused => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoEndpoint => StatusCode::SERVICE_UNAVAILABLE,
            Self::Connect(_) | Self::Stale(_) | Self::Unprocessed(_) | Self::Upstream(_) => {
                StatusCode::BAD_GATEWAY
            }
            Self::Timeout | Self::Idle => StatusCode::GATEWAY_TIMEOUT,
            Self::ClientGone => return None,
        })
    }

    /// The word for it in the access log and in metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed_request",
            Self::HeadTooLarge => "head_too_large",
            Self::ClientTooSlow => "client_too_slow",
            Self::Method => "method_not_served",
            Self::Coding => "coding_not_served",
            Self::Version => "version_not_served",
            Self::Misdirected => "misdirected",
            Self::NoRoute => "no_route",
            Self::Refused => "rule_not_served",
            Self::NoEndpoint => "no_endpoint",
            Self::Connect(_) => "connect",
            Self::Stale(_) | Self::Unprocessed(_) | Self::Upstream(_) => "upstream",
            Self::Timeout => "timeout",
            Self::Idle => "idle",
            Self::ClientGone => "client_gone",
        }
    }

    /// What was behind it, for whoever looks after the gateway; clients are not told.
    pub(crate) fn cause(&self) -> Option<&str> {
        match self {
            Self::Connect(cause) | Self::Stale(cause) | Self::Unprocessed(cause) | Self::Upstream(cause) => {
                Some(cause)
            }
            _ => None,
        }
    }

    /// Whether what follows on the connection cannot be trusted to be the next request.
    pub(crate) fn spoils_connection(&self) -> bool {
        matches!(
            self,
            Self::Malformed(_)
                | Self::HeadTooLarge
                | Self::ClientTooSlow
                | Self::Method
                | Self::Coding
                | Self::Version
                | Self::ClientGone
        )
    }
}

/// The sentence in the body of the answer.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed(what) => what,
            Self::HeadTooLarge => "the request head is too large",
            Self::ClientTooSlow => "the request did not come in time",
            Self::Method => "the method is not served here",
            Self::Coding => "the transfer coding is not served here",
            Self::Version => "the HTTP version is not served here",
            Self::Misdirected => "this host is not served on this connection",
            Self::NoRoute => "no route for this request",
            Self::Refused => "the route for this request is not valid",
            Self::NoEndpoint => "no endpoint is ready",
            Self::Connect(_) => "the backend cannot be reached",
            Self::Stale(_) | Self::Unprocessed(_) | Self::Upstream(_) => "the backend gave no valid answer",
            Self::Timeout | Self::Idle => "the backend did not answer in time",
            Self::ClientGone => "the client has left",
        })
    }
}
