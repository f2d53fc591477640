//! `HTTPRoute`: matches, filters and backends. The same filter type serves rules and backendRefs of HTTP and gRPC.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::open::open_enum;
use super::{Kind, ObjectReference, ParentReference, RouteStatus, SectionName, UnknownFields};

/// `HTTPRoute.spec`
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteSpec {
    /// Where the route wants to attach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parent_refs: Vec<ParentReference>,
    /// Whether it attaches to default Gateways (experimental).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_default_gateways: Option<String>,
    /// The hosts it is for; all hosts of the listener when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// The rules.
    pub rules: Vec<HttpRouteRule>,
}

/// A rule of an HTTPRoute.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteRule {
    /// Unique in the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SectionName>,
    /// Any of these; the prefix `/` when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<HttpRouteMatch>,
    /// What is done to requests and responses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<HttpFilter>,
    /// Where requests go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_refs: Vec<HttpBackendRef>,
    /// Limits on time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<HttpRouteTimeouts>,
    /// When and how often to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Value>,
    /// Keeping a client at its backend (experimental).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_persistence: Option<Value>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// Conditions on a request; all must hold.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteMatch {
    /// The path; the prefix `/` unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HttpPathMatch>,
    /// The headers. Of entries with an equivalent name only the first counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HttpHeaderMatch>,
    /// The query parameters. Of entries with the same name only the first counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub query_params: Vec<HttpHeaderMatch>,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A condition on the path.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpPathMatch {
    /// `PathPrefix` unless written.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<PathMatchType>,
    /// `/` unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

open_enum! {
    /// How a path is compared.
    PathMatchType {
        /// Equal
        Exact = "Exact",
        /// By whole segments from the start
        PathPrefix = "PathPrefix",
        /// By a regular expression
        RegularExpression = "RegularExpression",
    }
}

/// A condition on a header or a query parameter.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpHeaderMatch {
    /// `Exact` unless written.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<MatchType>,
    /// The name.
    pub name: String,
    /// The value or the expression.
    pub value: String,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

open_enum! {
    /// How a value is compared.
    MatchType {
        /// Equal
        Exact = "Exact",
        /// By a regular expression
        RegularExpression = "RegularExpression",
    }
}

/// A filter of a rule or of a backendRef.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpFilter {
    /// Which one; the field of the same name holds its settings.
    #[serde(rename = "type")]
    pub kind: FilterType,
    /// For `RequestHeaderModifier`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<HeaderModifierFilter>,
    /// For `ResponseHeaderModifier`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<HeaderModifierFilter>,
    /// For `RequestRedirect`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<RequestRedirectFilter>,
    /// For `URLRewrite`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<UrlRewriteFilter>,
    /// For `RequestMirror`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<Value>,
    /// For `CORS`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Value>,
    /// For `ExternalAuth` (experimental)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_auth: Option<Value>,
    /// For `ExtensionRef`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<Value>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

open_enum! {
    /// The type of a filter.
    FilterType {
        /// Changes request headers
        RequestHeaderModifier = "RequestHeaderModifier",
        /// Changes response headers
        ResponseHeaderModifier = "ResponseHeaderModifier",
        /// Sends a copy elsewhere
        RequestMirror = "RequestMirror",
        /// Answers with a redirect
        RequestRedirect = "RequestRedirect",
        /// Changes host and path
        UrlRewrite = "URLRewrite",
        /// Answers cross-origin preflights
        Cors = "CORS",
        /// Asks an authorization service
        ExternalAuth = "ExternalAuth",
        /// An implementation's own filter
        ExtensionRef = "ExtensionRef",
    }
}

/// Settings of both header modifiers.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderModifierFilter {
    /// Replaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HttpHeader>,
    /// Appends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HttpHeader>,
    /// Removes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A header.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct HttpHeader {
    /// The name, in any case.
    pub name: String,
    /// The value.
    pub value: String,
}

/// Settings of a redirect.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestRedirectFilter {
    /// `http` or `https`; the request's unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The request's unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The request's unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HttpPathModifier>,
    /// See the field's rules in the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// 302 unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// Settings of a rewrite.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UrlRewriteFilter {
    /// The host that the backend sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The path that the backend sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HttpPathModifier>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A change of a path.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpPathModifier {
    /// Which of the two.
    #[serde(rename = "type")]
    pub kind: PathModifierType,
    /// For `ReplaceFullPath`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_full_path: Option<String>,
    /// For `ReplacePrefixMatch`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_prefix_match: Option<String>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

open_enum! {
    /// How a path is changed.
    PathModifierType {
        /// All of it
        ReplaceFullPath = "ReplaceFullPath",
        /// The matched prefix
        ReplacePrefixMatch = "ReplacePrefixMatch",
    }
}

/// A backend with its weight and filters. GRPCRoute uses the same.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpBackendRef {
    /// The object.
    #[serde(flatten)]
    pub reference: ObjectReference,
    /// 1 unless written; at most 1,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Filters for this backend alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<HttpFilter>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// Limits on time, in the GEP-2257 format; `0s` is no limit.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteTimeouts {
    /// The whole exchange with the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// One exchange with a backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<String>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl Kind for HttpRouteSpec {
    const KIND: &'static str = "HTTPRoute";
    const VERSION: &'static str = "v1";
    type Status = RouteStatus;
}
