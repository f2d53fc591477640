//! Names of objects as users wrote them; everything served, logged or explained carries one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Namespace and name of a namespaced object, ordered and printed as `namespace/name`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectKey {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl ObjectKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// Kinds of routes that carry HTTP requests.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum RouteKind {
    /// `GRPCRoute`
    #[serde(rename = "GRPCRoute")]
    Grpc,
    /// `HTTPRoute`
    #[serde(rename = "HTTPRoute")]
    Http,
}

/// Kind, namespace and name of a route, printed as `HTTPRoute/namespace/name`.
///
/// Ordered by `namespace/name` first, which is the specification's last tie-breaker between routes.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RouteName {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The kind of the route.
    pub kind: RouteKind,
}

/// A name that is not of the form it should have.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("`{0}` is not of the form {1}")]
pub struct InvalidName(String, &'static str);

impl InvalidName {
    pub(crate) fn new(text: &str, form: &'static str) -> Self {
        Self(text.into(), form)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for ObjectKey {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self::new(namespace, name))
            }
            _ => Err(InvalidName::new(text, "NAMESPACE/NAME")),
        }
    }
}

impl fmt::Display for RouteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc => "GRPCRoute",
            Self::Http => "HTTPRoute",
        })
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.key)
    }
}

impl FromStr for RouteName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let wrong = || InvalidName::new(text, "KIND/NAMESPACE/NAME");
        let (kind, key) = text.split_once('/').ok_or_else(wrong)?;
        let kind = match kind {
            "GRPCRoute" => RouteKind::Grpc,
            "HTTPRoute" => RouteKind::Http,
            _ => return Err(wrong()),
        };
        Ok(Self { key: key.parse()?, kind })
    }
}

impl TryFrom<String> for ObjectKey {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<ObjectKey> for String {
    fn from(key: ObjectKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for RouteName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<RouteName> for String {
    fn from(name: RouteName) -> Self {
        name.to_string()
    }
}
