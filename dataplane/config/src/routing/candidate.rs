//! A candidate: one match of one rule under one hostname of its route, ready to be compared with requests.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use super::Request;
use super::header::{HeaderCondition, LastHeader};
use super::path;
use super::query::QueryCondition;
use super::rank::{HostnameRank, PathRank, Rank};
use super::regex::{Compiler, Pattern};
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
///
/// In a big table each is met outside the processor's caches, so it fits into one cache line, short paths included.
#[repr(align(64))]
pub struct Candidate<A> {
    pub(super) path: PathCondition,
    /// The conditions beside those on host and path; most matches have none.
    pub(super) beside: Option<Box<Conditions>>,
    rule: Arc<Rule<A>>,
    hostname: Option<Arc<Hostname>>,
    match_index: u32,
}

/// The conditions of a match beside those on host and path.
pub(super) struct Conditions {
    pub(super) method: Option<Box<str>>,
    pub(super) headers: Box<[HeaderCondition]>,
    pub(super) query: Box<[QueryCondition]>,
}

/// The condition on the path, normalized.
#[derive(Debug)]
pub(super) enum PathCondition {
    Exact(SmolStr),
    /// Without trailing slash, so `/` is empty.
    Prefix(SmolStr),
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
    /// One for each match of the rule.
    pub(super) fn of_rule(
        rule: &Arc<Rule<A>>,
        hostname: Option<&Arc<Hostname>>,
        compiler: &mut Compiler<'_>,
    ) -> impl Iterator<Item = Self> {
        (0..).zip(&rule.rule().matches).map(move |(match_index, wanted)| Self {
            path: PathCondition::new(&wanted.path, compiler),
            beside: Conditions::new(wanted, compiler),
            rule: Arc::clone(rule),
            hostname: hostname.cloned(),
            match_index,
        })
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
        &self.rule.rule().matches[self.match_index()]
    }

    /// The index of the match in its rule.
    pub fn match_index(&self) -> usize {
        self.match_index as usize
    }

    /// Its place among all candidates.
    pub fn rank(&self) -> Rank<'_> {
        let wanted = self.matches();
        Rank {
            hostname: HostnameRank::new(self.hostname()),
            path: self.path.rank(),
            method: Reverse(wanted.method.is_some()),
            headers: Reverse(wanted.headers.len()),
            query: Reverse(wanted.query.len()),
            created: self.rule.route.created,
            name: &self.rule.name,
            rule: self.rule.rule().index,
            match_index: self.match_index(),
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
    pub(super) fn holds_beside_path<'c, 'r>(
        &'c self,
        request: &Request<'r>,
        last: &mut LastHeader<'c, 'r>,
    ) -> bool {
        self.beside.as_ref().is_none_or(|conditions| conditions.hold(request, last))
    }
}

impl Conditions {
    fn new(wanted: &RouteMatch, compiler: &mut Compiler<'_>) -> Option<Box<Self>> {
        let RouteMatch { path: _, method, headers, query } = wanted;
        if method.is_none() && headers.is_empty() && query.is_empty() {
            return None;
        }
        Some(Box::new(Self {
            method: method.as_deref().map(Into::into),
            headers: headers.iter().map(|wanted| HeaderCondition::new(wanted, compiler)).collect(),
            query: query.iter().map(|wanted| QueryCondition::new(wanted, compiler)).collect(),
        }))
    }

    fn hold<'c, 'r>(&'c self, request: &Request<'r>, last: &mut LastHeader<'c, 'r>) -> bool {
        self.method.as_deref().is_none_or(|method| method == request.method.as_str())
            && self.headers.iter().all(|condition| condition.holds(request.headers, last))
            && self.query.iter().all(|condition| condition.holds(request.query))
    }
}

impl PathCondition {
    fn new(path: &PathMatch, compiler: &mut Compiler<'_>) -> Self {
        match path {
            PathMatch::Exact(value) => Self::Exact(path::exact_of(value).into()),
            PathMatch::PathPrefix(value) => Self::Prefix(path::prefix_of(value).into()),
            PathMatch::RegularExpression(pattern) => Self::RegularExpression(compiler.pattern(pattern)),
        }
    }

    pub(super) fn rank(&self) -> PathRank<'_> {
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
            Self::Exact(exact) => exact == path,
            Self::Prefix(prefix) => path
                .strip_prefix(prefix.as_str())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_fits_into_one_cache_line() {
        assert_eq!(size_of::<Candidate<String>>(), 64);
    }
}
