//! A route as it is served: whom it is attached to, what it matches, and what it does.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{AppProtocol, BackendKey, Filter, Hostname, ListenerName};

/// A route of the Gateway, under the name of the object that the user wrote.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// `metadata.creationTimestamp` in seconds since 1970; the older route wins a tie. Files without one count as 0.
    pub created: i64,
    /// The listeners it is attached to, each once.
    pub attachments: Vec<Attachment>,
    /// The rules, in the order of the object.
    pub rules: Vec<RouteRule>,
}

/// A listener that accepted the route.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The listener.
    pub listener: ListenerName,
    /// The route's own hostnames that have a host in common with the listener's; empty when the route names none, which
    /// matches every host of the listener.
    ///
    /// They are kept as the user wrote them, not intersected: precedence counts the route's own hostname, and the listener
    /// is chosen by its hostname before its routes are looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<Hostname>,
}

/// One rule of a route.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteRule {
    /// The rule's index in the object: rules that were not translated keep their number.
    pub index: usize,
    /// The rule's name, if the user gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The requests that it takes: those that any of these match. Never empty.
    pub matches: Vec<RouteMatch>,
    /// What it does with them.
    pub action: RuleAction,
}

/// What a rule does with a request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RuleAction {
    /// Runs the filters and forwards to one of the backends, chosen by weight. Without backends, or with weights that are
    /// all zero, the answer is 500.
    Forward {
        /// The filters of the rule, in order. One may be a redirect, which then is the answer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        filters: Vec<Filter>,
        /// The backends, in the order of the object.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        backends: Vec<BackendRef>,
        /// The limits on time.
        #[serde(default)]
        timeouts: Timeouts,
    },
    /// A rule that cannot be honoured keeps its matches and answers 500 to them: dropping it would hand its requests to
    /// another rule.
    Fail(Fault),
}

/// Why something that the user wrote is not served.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// The API's reason, for example `BackendNotFound`.
    pub reason: String,
    /// A sentence for the person who wrote it.
    pub message: String,
}

/// Conditions on a request; all of them must hold.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteMatch {
    /// The path.
    pub path: PathMatch,
    /// The method, in upper case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The headers: each name once, in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderMatch>,
    /// The query parameters: each name once, case-sensitive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<HeaderMatch>,
}

/// A condition on the path of a request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value")]
pub enum PathMatch {
    /// The whole path, case-sensitive.
    Exact(String),
    /// Whole segments from the start, case-sensitive; a trailing slash makes no difference.
    PathPrefix(String),
    /// A regular expression for the whole path (anchored at both ends).
    RegularExpression(String),
}

impl Default for PathMatch {
    fn default() -> Self {
        Self::PathPrefix("/".into())
    }
}

/// A condition on a header or a query parameter.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct HeaderMatch {
    /// The name.
    pub name: String,
    /// The condition on the value.
    #[serde(flatten)]
    pub value: ValueMatch,
}

/// A condition on a value.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value")]
pub enum ValueMatch {
    /// Equal, case-sensitive.
    Exact(String),
    /// A regular expression for the whole value (anchored at both ends).
    RegularExpression(String),
}

/// A backend of a rule, and its share.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendRef {
    /// Where its share goes.
    pub target: Target,
    /// What is spoken to the target.
    #[serde(default)]
    pub protocol: AppProtocol,
    /// Its share is `weight` over the sum of all weights of the rule.
    pub weight: u32,
    /// Filters for requests that go here; they run after the rule's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
}

/// The target of a backendRef.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// A backend of this [`crate::Config`].
    Backend(BackendKey),
    /// A reference that may not or cannot be followed: it keeps its share, and its share answers 500.
    Invalid(Fault),
}

/// Limits on the time of an exchange; what is `None` has no limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// The whole exchange with the client, from the request's head to the last byte of the response.
    #[serde(skip_serializing_if = "Option::is_none", with = "milliseconds")]
    pub request: Option<Duration>,
    /// One exchange with a backend, a retry being a new one.
    #[serde(skip_serializing_if = "Option::is_none", with = "milliseconds")]
    pub backend_request: Option<Duration>,
}

/// Durations as whole milliseconds, the finest unit of GEP-2257.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        value.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}
