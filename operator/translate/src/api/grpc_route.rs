//! `GRPCRoute`: matches by service and method; filters and backends are those of HTTPRoute.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::open::open_enum;
use super::{
    HttpBackendRef, HttpFilter, HttpHeaderMatch, Kind, ParentReference, RouteStatus, SectionName,
    UnknownFields,
};

/// `GRPCRoute.spec`
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteSpec {
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
    pub rules: Vec<GrpcRouteRule>,
}

/// A rule of a GRPCRoute.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteRule {
    /// Unique in the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SectionName>,
    /// Any of these; every request when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<GrpcRouteMatch>,
    /// What is done to requests and responses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<HttpFilter>,
    /// Where requests go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_refs: Vec<HttpBackendRef>,
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
pub struct GrpcRouteMatch {
    /// The service and method; all unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<GrpcMethodMatch>,
    /// The headers. Of entries with an equivalent name only the first counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HttpHeaderMatch>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A condition on service and method; at least one of the two is there.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcMethodMatch {
    /// `Exact` unless written.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<GrpcMethodMatchType>,
    /// The service with its package; all unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The method; all unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

open_enum! {
    /// How service and method are compared.
    GrpcMethodMatchType {
        /// Equal
        Exact = "Exact",
        /// By a regular expression
        RegularExpression = "RegularExpression",
    }
}

impl Kind for GrpcRouteSpec {
    const KIND: &'static str = "GRPCRoute";
    const VERSION: &'static str = "v1";
    type Status = RouteStatus;
}
