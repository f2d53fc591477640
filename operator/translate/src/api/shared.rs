//! References that several kinds share, with the defaults of the API written in.

use serde::{Deserialize, Serialize};

use super::GROUP;

/// The name of a listener or of a Service port inside its object.
pub type SectionName = String;

fn gateway_group() -> String {
    GROUP.into()
}

fn gateway_kind() -> String {
    "Gateway".into()
}

fn service_kind() -> String {
    "Service".into()
}

fn secret_kind() -> String {
    "Secret".into()
}

/// A route's claim on a parent, and the key of the parent's entry in the route's status.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// Group of the parent, `gateway.networking.k8s.io` unless written.
    #[serde(default = "gateway_group")]
    pub group: String,
    /// Kind of the parent, `Gateway` unless written.
    #[serde(default = "gateway_kind")]
    pub kind: String,
    /// Namespace of the parent; the route's own unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the parent.
    pub name: String,
    /// One listener of the parent; all unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<SectionName>,
    /// The listeners of one port; all unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A reference to a Service or another kind of backend.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group of the target, core (empty) unless written.
    #[serde(default)]
    pub group: String,
    /// Kind of the target, `Service` unless written.
    #[serde(default = "service_kind")]
    pub kind: String,
    /// Name of the target.
    pub name: String,
    /// Namespace of the target; the referrer's own unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Port of the Service, required by the API for Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A reference to a Secret.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretObjectReference {
    /// Group of the target, core (empty) unless written.
    #[serde(default)]
    pub group: String,
    /// Kind of the target, `Secret` unless written.
    #[serde(default = "secret_kind")]
    pub kind: String,
    /// Name of the target.
    pub name: String,
    /// Namespace of the target; the referrer's own unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}
