//! Why a request goes where it goes: every candidate of the listener, judged.

use std::borrow::Cow;
use std::fmt;

use super::header::LastHeader;
use super::path::merge_slashes;
use super::rank::Advantage;
use super::{Candidate, ListenerTable, Request};
use crate::{HeaderMatch, PathMatch, ValueMatch};

/// All candidates of a listener in the order of precedence, each with what became of it.
///
/// Law: its winner is what [`ListenerTable::select`] selects.
pub struct Explanation<'a, A> {
    /// The candidates, in the order of precedence.
    pub judgements: Vec<Judgement<'a, A>>,
}

/// What became of a candidate.
pub struct Judgement<'a, A> {
    /// The candidate.
    pub candidate: &'a Candidate<A>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a candidate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It takes the request.
    Matched,
    /// The first of its conditions that does not hold.
    Mismatch(Mismatch),
    /// It matches too, and this is what the winner has before it.
    Outranked(Advantage),
}

/// A condition that does not hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mismatch {
    /// The condition's subject.
    pub condition: Condition,
    /// What the candidate asks for, as its author wrote it; regular expressions are marked as such.
    pub expected: String,
    /// What the request has; `None` if there is nothing.
    pub found: Option<String>,
}

/// The subject of a condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Condition {
    /// The host.
    Hostname,
    /// The path.
    Path,
    /// The method.
    Method,
    /// The header of this name.
    Header(String),
    /// The query parameter of this name.
    Query(String),
}

impl<'a, A> Explanation<'a, A> {
    pub(super) fn new(listener: &'a ListenerTable<A>, request: &Request<'_>) -> Self {
        let mut winner: Option<&Candidate<A>> = None;
        let judge = |candidate: &'a Candidate<A>| {
            let outcome = match (mismatch(candidate, request), winner) {
                (Some(mismatch), _) => Outcome::Mismatch(mismatch),
                (None, None) => {
                    winner = Some(candidate);
                    Outcome::Matched
                }
                // Candidates that are equal in rank are the same match, given twice.
                (None, Some(winner)) => Outcome::Outranked(
                    winner.rank().advantage_over(&candidate.rank()).unwrap_or(Advantage::MatchOrder),
                ),
            };
            Judgement { candidate, outcome }
        };
        Self { judgements: listener.candidates().map(judge).collect() }
    }

    /// The candidate that takes the request.
    pub fn winner(&self) -> Option<&'a Candidate<A>> {
        self.judgements.iter().find(|judgement| judgement.outcome == Outcome::Matched).map(|j| j.candidate)
    }

    /// The candidate that would take the request without the winner, and what the winner has before it.
    pub fn runner_up(&self) -> Option<(&'a Candidate<A>, Advantage)> {
        self.judgements.iter().find_map(|judgement| match judgement.outcome {
            Outcome::Outranked(advantage) => Some((judgement.candidate, advantage)),
            Outcome::Matched | Outcome::Mismatch(_) => None,
        })
    }
}

/// The first condition that does not hold, in the order host, path, method, headers, query.
fn mismatch<A>(candidate: &Candidate<A>, request: &Request<'_>) -> Option<Mismatch> {
    let wanted = candidate.matches();
    if let Some(hostname) = candidate.hostname().filter(|hostname| !hostname.matches(request.host)) {
        let found = (!request.host.is_empty()).then(|| request.host.into());
        return Some(Mismatch { condition: Condition::Hostname, expected: hostname.to_string(), found });
    }
    if !candidate.path.holds(&merge_slashes(request.path)) {
        let found = Some(request.path.into());
        return Some(Mismatch { condition: Condition::Path, expected: expected_path(&wanted.path), found });
    }
    let beside = candidate.beside.as_ref()?;
    if let Some(method) = beside.method.as_deref().filter(|method| *method != request.method.as_str()) {
        let found = Some(request.method.to_string());
        return Some(Mismatch { condition: Condition::Method, expected: method.into(), found });
    }
    for (condition, wanted) in beside.headers.iter().zip(&wanted.headers) {
        if !condition.holds(request.headers, &mut LastHeader::default()) {
            let found = condition.found(request.headers);
            return Some(Mismatch::of(Condition::Header(wanted.name.clone()), wanted, found));
        }
    }
    for (condition, wanted) in beside.query.iter().zip(&wanted.query) {
        if !condition.holds(request.query) {
            let found = condition.found(request.query);
            return Some(Mismatch::of(Condition::Query(wanted.name.clone()), wanted, found));
        }
    }
    None
}

fn expected_path(path: &PathMatch) -> String {
    match path {
        PathMatch::Exact(value) => format!("exactly {value}"),
        PathMatch::PathPrefix(value) => format!("prefix {value}"),
        PathMatch::RegularExpression(pattern) => format!("regular expression {pattern}"),
    }
}

impl Mismatch {
    fn of(condition: Condition, wanted: &HeaderMatch, found: Option<Cow<'_, [u8]>>) -> Self {
        let expected = match &wanted.value {
            ValueMatch::Exact(value) => value.clone(),
            ValueMatch::RegularExpression(pattern) => format!("regular expression {pattern}"),
        };
        let found = found.map(|value| String::from_utf8_lossy(&value).into_owned());
        Self { condition, expected, found }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hostname => f.write_str("host"),
            Self::Path => f.write_str("path"),
            Self::Method => f.write_str("method"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Query(name) => write!(f, "query parameter {name}"),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, ", self.condition, self.expected)?;
        match &self.found {
            Some(found) => write!(f, "found {found}"),
            None => f.write_str("found none"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matched => f.write_str("matched"),
            Self::Mismatch(mismatch) => mismatch.fmt(f),
            Self::Outranked(advantage) => write!(f, "outranked: {advantage}"),
        }
    }
}
