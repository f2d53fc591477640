//! Hostnames as Gateway API writes them: exact, or with a wildcard for one or more leading labels.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A hostname of a listener or a route, in lower case.
///
/// "All" is the absence of a hostname, so it is an `Option<Hostname>` where it can occur.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Hostname {
    /// `app.example.com`
    Exact(String),
    /// `*.example.com`: holds `.example.com`, with its leading dot.
    Wildcard(String),
}

/// Text that is neither a hostname nor a wildcard hostname.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("`{0}` is not a hostname: write labels of letters, digits and `-`, with at most one leading `*.`")]
pub struct InvalidHostname(String);

impl Hostname {
    /// Whether a request for `host` (lower case, without port) is for this hostname.
    ///
    /// A wildcard stands for one or more labels and never for the bare domain.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name == host,
            Self::Wildcard(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
        }
    }

    /// The hostname that both match, which is the narrower of the two; `None` when they have no host in common.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let narrower = match (self, other) {
            (Self::Exact(a), b) if b.matches(a) => self,
            (a, Self::Exact(b)) if a.matches(b) => other,
            (Self::Wildcard(a), Self::Wildcard(b)) if a.ends_with(b.as_str()) => self,
            (Self::Wildcard(a), Self::Wildcard(b)) if b.ends_with(a.as_str()) => other,
            _ => return None,
        };
        Some(narrower.clone())
    }

    /// The number of characters as written, wildcard included: what the specification's precedence counts.
    pub fn characters(&self) -> usize {
        match self {
            Self::Exact(name) => name.len(),
            Self::Wildcard(suffix) => suffix.len() + 1,
        }
    }

    /// Whether it begins with `*.`.
    pub fn is_wildcard(&self) -> bool {
        matches!(self, Self::Wildcard(_))
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Wildcard(suffix) => write!(f, "*{suffix}"),
        }
    }
}

impl FromStr for Hostname {
    type Err = InvalidHostname;

    fn from_str(text: &str) -> Result<Self, InvalidHostname> {
        let lower = text.to_ascii_lowercase();
        let (wildcard, name) = match lower.strip_prefix('*') {
            Some(rest) => (true, rest.strip_prefix('.').ok_or_else(|| InvalidHostname(text.into()))?),
            None => (false, lower.as_str()),
        };
        let valid = name.len() <= 253 && name.split('.').all(is_label);
        match (valid, wildcard) {
            (false, _) => Err(InvalidHostname(text.into())),
            (true, false) => Ok(Self::Exact(lower)),
            (true, true) => Ok(Self::Wildcard(lower[1..].into())),
        }
    }
}

/// RFC 1123: letters, digits and inner hyphens, at most 63 of them.
fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= 63
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

impl TryFrom<String> for Hostname {
    type Error = InvalidHostname;

    fn try_from(text: String) -> Result<Self, InvalidHostname> {
        text.parse()
    }
}

impl From<Hostname> for String {
    fn from(hostname: Hostname) -> Self {
        hostname.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Hostname {
        text.parse().expect(text)
    }

    #[test]
    fn a_wildcard_is_one_or_more_labels_and_never_the_bare_domain() {
        let wildcard = host("*.example.com");
        assert!(wildcard.matches("a.example.com"));
        assert!(wildcard.matches("a.b.example.com"));
        assert!(!wildcard.matches("example.com"));
        assert!(!wildcard.matches(".example.com"));
        assert!(!wildcard.matches("badexample.com"));
    }

    #[test]
    fn an_intersection_is_the_narrower_hostname() {
        for (a, b, both) in [
            ("*.shop.test", "app.shop.test", Some("app.shop.test")),
            ("*.shop.test", "*.eu.shop.test", Some("*.eu.shop.test")),
            ("*.shop.test", "shop.test", None),
            ("app.shop.test", "app.shop.test", Some("app.shop.test")),
            ("app.shop.test", "web.shop.test", None),
            ("*.shop.test", "*.hop.test", None),
        ] {
            assert_eq!(host(a).intersect(&host(b)), both.map(host), "{a} and {b}");
            assert_eq!(host(b).intersect(&host(a)), both.map(host), "{b} and {a}");
        }
    }

    #[test]
    fn what_is_not_a_hostname_is_refused() {
        for text in ["", "*", "*.", "a..b", "-a.com", "a.*.com", "a_b.com", "*a.com", "a.com:80"] {
            assert!(text.parse::<Hostname>().is_err(), "{text}");
        }
        assert_eq!(host("*.Example.COM").to_string(), "*.example.com");
    }
}
