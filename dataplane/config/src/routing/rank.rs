//! Which of two matches goes first: the specification's precedence as one order.

use std::cmp::Reverse;
use std::fmt;

use crate::{Hostname, RouteName};

/// How specific a match is. Smaller goes first; the fields stand in the order of the specification.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Rank<'a> {
    /// "Characters in a matching non-wildcard hostname", then "characters in a matching hostname", of the route's own
    /// hostname (feature GatewayRouteHostnameIntersectionPrecedence).
    pub hostname: HostnameRank<'a>,
    /// "Exact path match", then "prefix path match with largest number of characters".
    pub path: PathRank<'a>,
    /// "Method match".
    pub method: Reverse<bool>,
    /// "Largest number of header matches".
    pub headers: Reverse<usize>,
    /// "Largest number of query param matches".
    pub query: Reverse<usize>,
    /// "The oldest Route based on creation timestamp".
    pub created: i64,
    /// "The Route appearing first in alphabetical order by {namespace}/{name}"; then its kind.
    pub name: &'a RouteName,
    /// "The first matching rule (in list order)".
    pub rule: usize,
    /// The first match of the rule: two matches of one rule do the same, but one of them has to be the answer.
    pub match_index: usize,
}

/// The order of hostnames. The text is no criterion: two different hostnames that are equal up to it never match the
/// same host, and it keeps a hostname's candidates together.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum HostnameRank<'a> {
    /// An exact hostname, the longer the better.
    Exact(Reverse<usize>, &'a str),
    /// A wildcard, the longer the better.
    Wildcard(Reverse<usize>, &'a str),
    /// The route names no hostname.
    All,
}

/// The order of path matches. The text is no criterion, as in [`HostnameRank`].
///
/// The specification leaves the place of regular expressions open. They stand after every prefix but `/`: a rule for
/// everything, which is what a rule without matches is, must not shadow each expression beside it. GRPCRoute asks for
/// the same ("characters in a matching method"): a method without a service is an expression here.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum PathRank<'a> {
    /// The whole path.
    Exact(&'a str),
    /// A prefix other than `/`: the number of its characters, without a trailing slash.
    Prefix(Reverse<usize>, &'a str),
    /// A regular expression, whatever it says.
    RegularExpression,
    /// The prefix `/`.
    Everything,
}

/// Why a match went before another: the first field of [`Rank`] that differs, in words.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Advantage {
    /// An exact hostname before a wildcard or none.
    ExactHostname,
    /// A longer hostname, or one before none.
    LongerHostname,
    /// An exact path before any other.
    ExactPath,
    /// A longer prefix.
    LongerPrefix,
    /// A prefix before a regular expression.
    PrefixBeforeExpression,
    /// A regular expression before the prefix `/`.
    ExpressionBeforeEverything,
    /// A condition on the method before none.
    Method,
    /// More conditions on headers.
    MoreHeaders,
    /// More conditions on query parameters.
    MoreQueryParameters,
    /// An older route.
    OlderRoute,
    /// A `namespace/name` (then kind) that is first in the alphabet.
    Name,
    /// An earlier rule of the same route.
    RuleOrder,
    /// An earlier match of the same rule.
    MatchOrder,
}

impl Rank<'_> {
    /// What puts this rank before `other`, which also matches the request; `None` if it does not stand before it.
    pub fn advantage_over(&self, other: &Rank<'_>) -> Option<Advantage> {
        if self >= other {
            return None;
        }
        Some(if self.hostname != other.hostname {
            self.hostname.advantage()
        } else if self.path != other.path {
            self.path.advantage(&other.path)
        } else if self.method != other.method {
            Advantage::Method
        } else if self.headers != other.headers {
            Advantage::MoreHeaders
        } else if self.query != other.query {
            Advantage::MoreQueryParameters
        } else if self.created != other.created {
            Advantage::OlderRoute
        } else if self.name != other.name {
            Advantage::Name
        } else if self.rule != other.rule {
            Advantage::RuleOrder
        } else {
            Advantage::MatchOrder
        })
    }
}

impl<'a> HostnameRank<'a> {
    pub(super) fn new(hostname: Option<&'a Hostname>) -> Self {
        let Some(hostname) = hostname else { return Self::All };
        let characters = Reverse(hostname.characters());
        match hostname {
            Hostname::Exact(name) => Self::Exact(characters, name),
            Hostname::Wildcard(suffix) => Self::Wildcard(characters, suffix),
        }
    }

    fn advantage(&self) -> Advantage {
        // Two exact hostnames never match one host.
        match self {
            Self::Exact(..) => Advantage::ExactHostname,
            Self::Wildcard(..) | Self::All => Advantage::LongerHostname,
        }
    }
}

impl PathRank<'_> {
    fn advantage(&self, other: &Self) -> Advantage {
        match (self, other) {
            (Self::Exact(_), _) => Advantage::ExactPath,
            (Self::RegularExpression | Self::Everything, _) => Advantage::ExpressionBeforeEverything,
            (Self::Prefix(..), Self::RegularExpression) => Advantage::PrefixBeforeExpression,
            (Self::Prefix(..), Self::Prefix(..) | Self::Everything | Self::Exact(_)) => {
                Advantage::LongerPrefix
            }
        }
    }
}

impl fmt::Display for Advantage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExactHostname => "exact hostname",
            Self::LongerHostname => "longer hostname",
            Self::ExactPath => "exact path",
            Self::LongerPrefix => "longer prefix",
            Self::PrefixBeforeExpression => "prefix before regular expression",
            Self::ExpressionBeforeEverything => "regular expression before prefix `/`",
            Self::Method => "method",
            Self::MoreHeaders => "more headers",
            Self::MoreQueryParameters => "more query parameters",
            Self::OlderRoute => "older route",
            Self::Name => "name",
            Self::RuleOrder => "rule order",
            Self::MatchOrder => "match order",
        })
    }
}
