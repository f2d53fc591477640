//! What is done to a request or a response on its way.

use serde::{Deserialize, Serialize};

use crate::Hostname;

/// A filter of a rule or of a backendRef, already checked: names and values are legal on the wire.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Filter {
    /// Changes request headers before the request goes to the backend.
    RequestHeaderModifier(HeaderModifier),
    /// Changes response headers before the response goes to the client.
    ResponseHeaderModifier(HeaderModifier),
    /// Answers with a redirect; nothing is forwarded.
    RequestRedirect(RequestRedirect),
    /// Changes host and path of the forwarded request.
    UrlRewrite(UrlRewrite),
}

/// Header changes, in the order set, add, remove. Names are lower case.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderModifier {
    /// Headers that replace any of that name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HeaderValue>,
    /// Values that are appended to what is there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HeaderValue>,
    /// Names of headers that are removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// A header name (lower case) and its value.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct HeaderValue {
    /// The name, in lower case.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A redirect. What is `None` is taken from the request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRedirect {
    /// The scheme of the new location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// The host of the new location; never a wildcard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// The port of the new location. Without one: the well-known port of `scheme` if that is given, else the listener's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The change of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
    /// 301, 302, 303, 307 or 308.
    pub status_code: u16,
}

/// `http` or `https`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// `http`, port 80
    Http,
    /// `https`, port 443
    Https,
}

impl Scheme {
    /// As it stands in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// 80 or 443.
    pub fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A change of a path. The query stays as it is.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "camelCase")]
pub enum PathModifier {
    /// The whole path becomes this.
    ReplaceFullPath(String),
    /// The prefix that the rule's PathPrefix matched becomes this.
    ReplacePrefixMatch(String),
}

/// A rewrite of what is forwarded. At least one of the two is there.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlRewrite {
    /// The Host that the backend sees; never a wildcard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// The change of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
}
