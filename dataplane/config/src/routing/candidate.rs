//! A candidate: one match of one rule under one hostname of its route, ready to be compared with requests.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use super::Request;
use super::header::HeaderCondition;
use super::path;
use super::query::QueryCondition;
use super::rank::{HostnameRank, PathRank, Rank};
use super::regex::Pattern;
use crate::{Hostname, PathMatch, Route, RouteMatch, RouteName, RouteRule};

/// A rule with what it compiles to, shared by its candidates.
pub struct Rule<A> {
    name: Arc<RouteName>,
    route: Arc<Route>,
    /// Where it stands in the route, which is not its index in the object if rules before it were not translated.
    position: usize,
    action: A,
}

/// One match of one rule, under one of the hostnames that its route gives to a listener.
pub struct Candidate<A> {
    rule: Arc<Rule<A>>,
    hostname: Option<Arc<Hostname>>,
    match_index: usize,
    pub(super) path: PathCondition,
    pub(super) method: Option<Box<str>>,
    pub(super) headers: Box<[HeaderCondition]>,
    pub(super) query: Box<[QueryCondition]>,
}

/// The condition on the path, normalized.
#[derive(Debug)]
pub(super) enum PathCondition {
    Exact(Arc<str>),
    /// Without trailing slash, so `/` is empty.
    Prefix(Arc<str>),
    RegularExpression(Pattern),
}

/// The candidate that takes a request.
pub struct Selected<'a, A> {
    /// What its rule compiles to.
    pub action: &'a A,
    /// The candidate, which tells its route, rule and match.
    pub candidate: &'a Candidate<A>,
}

impl<A> Rule<A> {
    pub(super) fn new(name: Arc<RouteName>, route: Arc<Route>, position: usize, action: A) -> Self {
        Self { name, route, position, action }
    }

    /// The route.
    pub fn route(&self) -> &RouteName {
        &self.name
    }

    /// The rule as it was written; its `index` is the one in the object.
    pub fn rule(&self) -> &RouteRule {
        &self.route.rules[self.position]
    }

    /// What it compiles to.
    pub fn action(&self) -> &A {
        &self.action
    }
}

impl<A> Candidate<A> {
    pub(super) fn new(rule: Arc<Rule<A>>, hostname: Option<Arc<Hostname>>, match_index: usize) -> Self {
        let RouteMatch { path, method, headers, query } = &rule.rule().matches[match_index];
        Self {
            path: PathCondition::new(path),
            method: method.as_deref().map(Into::into),
            headers: headers.iter().map(HeaderCondition::new).collect(),
            query: query.iter().map(QueryCondition::new).collect(),
            rule,
            hostname,
            match_index,
        }
    }

    /// The rule.
    pub fn rule(&self) -> &Rule<A> {
        &self.rule
    }

    /// The route.
    pub fn route(&self) -> &RouteName {
        &self.rule.name
    }

    /// The route's own hostname that this candidate stands for; `None` if the route names none.
    pub fn hostname(&self) -> Option<&Hostname> {
        self.hostname.as_deref()
    }

    /// The match as it was written.
    pub fn matches(&self) -> &RouteMatch {
        &self.rule.rule().matches[self.match_index]
    }

    /// The index of the match in its rule.
    pub fn match_index(&self) -> usize {
        self.match_index
    }

    /// Its place among all candidates.
    pub fn rank(&self) -> Rank<'_> {
        Rank {
            hostname: HostnameRank::new(self.hostname()),
            path: self.path.rank(),
            method: Reverse(self.method.is_some()),
            headers: Reverse(self.headers.len()),
            query: Reverse(self.query.len()),
            created: self.rule.route.created,
            name: &self.rule.name,
            rule: self.rule.rule().index,
            match_index: self.match_index,
        }
    }

    /// What follows the matched prefix in `path`, which is a request's that this candidate takes: empty, or beginning
    /// with a slash. `None` if the match is no PathPrefix. `ReplacePrefixMatch` puts its value before it.
    pub fn after_prefix<'p>(&self, path: &'p str) -> Option<&'p str> {
        match &self.path {
            PathCondition::Prefix(prefix) => path::after_prefix(path, prefix),
            PathCondition::Exact(_) | PathCondition::RegularExpression(_) => None,
        }
    }

    /// Whether all conditions but those on host and path hold.
    #[inline]
    pub(super) fn holds_beside_path(&self, request: &Request<'_>) -> bool {
        self.method.as_deref().is_none_or(|method| method == request.method.as_str())
            && self.headers.iter().all(|condition| condition.holds(request.headers))
            && self.query.iter().all(|condition| condition.holds(request.query))
    }
}

impl PathCondition {
    fn new(path: &PathMatch) -> Self {
        match path {
            PathMatch::Exact(value) => Self::Exact(path::exact_of(value).into()),
            PathMatch::PathPrefix(value) => Self::Prefix(path::prefix_of(value).into()),
            PathMatch::RegularExpression(pattern) => Self::RegularExpression(Pattern::new(pattern)),
        }
    }

    fn rank(&self) -> PathRank<'_> {
        match self {
            Self::Exact(path) => PathRank::Exact(path),
            Self::Prefix(prefix) if prefix.is_empty() => PathRank::Everything,
            Self::Prefix(prefix) => PathRank::Prefix(Reverse(prefix.len()), prefix),
            Self::RegularExpression(_) => PathRank::RegularExpression,
        }
    }

    /// Whether it holds for `path`, in which slashes are merged.
    #[inline]
    pub(super) fn holds(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => **exact == *path,
            Self::Prefix(prefix) => path
                .strip_prefix(&**prefix)
                .is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('/')),
            Self::RegularExpression(pattern) => pattern.is_match(path.as_bytes()),
        }
    }
}

impl<A> Clone for Selected<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Selected<'_, A> {}

impl<A> fmt::Debug for Candidate<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rule {} match {}", self.route(), self.rule.rule().index, self.match_index)
    }
}

impl<A> fmt::Debug for Selected<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.candidate.fmt(f)
    }
}
