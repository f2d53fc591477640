//! `ReferenceGrant`: consent, given in the namespace that is referred to.

use serde::{Deserialize, Serialize};

use super::Kind;

/// `ReferenceGrant.spec`
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReferenceGrantSpec {
    /// Who may refer; any of these.
    pub from: Vec<ReferenceGrantFrom>,
    /// To what; any of these.
    pub to: Vec<ReferenceGrantTo>,
}

/// Objects that may refer.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantFrom {
    /// Group of the referrer; empty is the core group.
    pub group: String,
    /// Kind of the referrer.
    pub kind: String,
    /// Namespace of the referrer.
    pub namespace: String,
}

/// Objects that may be referred to.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantTo {
    /// Group of the target; empty is the core group.
    pub group: String,
    /// Kind of the target.
    pub kind: String,
    /// Name of the target; absent or empty is every name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Kind for ReferenceGrantSpec {
    const KIND: &'static str = "ReferenceGrant";
    const VERSION: &'static str = "v1";
    type Status = ();
}
