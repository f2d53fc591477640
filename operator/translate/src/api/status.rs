//! Statuses as they stand in objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::{ParentReference, RouteGroupKind, SectionName};

/// A condition. Translation leaves `last_transition_time` empty; who writes the status sets it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// CamelCase, unique in its list.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// CamelCase, from the API where it names one.
    pub reason: String,
    /// For people: the fact, then what to do.
    pub message: String,
    /// The generation of the object that this speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When `status` changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows yet.
    Unknown,
}

/// `GatewayClass.status`
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayClassStatus {
    /// Accepted, SupportedVersion
    pub conditions: Vec<Condition>,
    /// What the implementation supports, in ascending order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_features: Vec<SupportedFeature>,
}

/// A feature name of the conformance suite.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct SupportedFeature {
    /// The name.
    pub name: String,
}

/// `Gateway.status`
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayStatus {
    /// Addresses that are bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<GatewayStatusAddress>,
    /// Accepted, Programmed, ResolvedRefs
    pub conditions: Vec<Condition>,
    /// One entry for each listener of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerStatus>,
    /// Accepted ListenerSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_listener_sets: Option<i32>,
}

/// An address that is bound.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatusAddress {
    /// `IPAddress` or `Hostname`
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The address.
    pub value: String,
}

/// The status of one listener.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerStatus {
    /// The listener.
    pub name: SectionName,
    /// The kinds of routes that may attach.
    pub supported_kinds: Vec<RouteGroupKind>,
    /// How many routes are attached and accepted.
    pub attached_routes: i32,
    /// Accepted, Conflicted, Programmed, ResolvedRefs
    pub conditions: Vec<Condition>,
}

/// `status` of all routes.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteStatus {
    /// One entry for each parentRef and controller.
    pub parents: Vec<ParentStatus>,
}

/// What one controller says of one parentRef.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentStatus {
    /// The parentRef, with its namespace written out.
    pub parent_ref: ParentReference,
    /// Who says it.
    pub controller_name: String,
    /// Accepted, ResolvedRefs, PartiallyInvalid
    pub conditions: Vec<Condition>,
}
