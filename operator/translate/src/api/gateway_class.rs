//! `GatewayClass`: who implements a Gateway.

use serde::{Deserialize, Serialize};

use super::{GatewayClassStatus, Kind};

/// `GatewayClass.spec`
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// The controller that implements Gateways of this class.
    pub controller_name: String,
    /// Parameters for all Gateways of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ParametersReference>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A reference to an object with parameters.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParametersReference {
    /// Group of the target.
    #[serde(default)]
    pub group: String,
    /// Kind of the target.
    pub kind: String,
    /// Name of the target.
    pub name: String,
    /// Namespace of the target, for a GatewayClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl Kind for GatewayClassSpec {
    const KIND: &'static str = "GatewayClass";
    const VERSION: &'static str = "v1";
    type Status = GatewayClassStatus;
}
