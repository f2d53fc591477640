//! Matches, filters, backends and answers in words; `table` and `route` say the same thing the same way.

use std::collections::BTreeSet;

use postern_config::routing::Candidate;
use postern_config::{
    BackendRef, Config, Fault, Filter, HeaderMatch, HeaderModifier, Hostname, ObjectKey, PathMatch,
    PathModifier, Protocol, RequestRedirect, RouteKind, RouteMatch, RouteName, RouteRule, RuleAction, Target,
    UrlRewrite, ValueMatch,
};
use serde::Serialize;

/// `shop/app rule 0`, as in the header `x-postern-route`; GRPCRoutes say so
pub fn rule(route: &RouteName, index: usize) -> String {
    match route.kind {
        RouteKind::Http => format!("{} rule {index}", route.key),
        RouteKind::Grpc => format!("{route} rule {index}"),
    }
}

/// `shop/app rule 0 match 1`
pub fn candidate<A>(candidate: &Candidate<A>) -> String {
    let rule = rule(candidate.route(), candidate.rule().rule().index);
    format!("{rule} match {}", candidate.match_index())
}

/// The hostname, or `*` for all hosts
pub fn hostname(hostname: Option<&Hostname>) -> String {
    hostname.map_or("*".into(), ToString::to_string)
}

/// `HTTP` or `HTTPS`, as in `protocol:`
pub fn protocol(protocol: &Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "HTTP",
        Protocol::Https { .. } => "HTTPS",
    }
}

/// `Exact /api, method GET, header x-version=v2`
pub fn conditions(wanted: &RouteMatch) -> String {
    let path = std::iter::once(path(&wanted.path));
    let method = wanted.method.iter().map(|method| format!("method {method}"));
    let headers = wanted.headers.iter().map(|header| format!("header {}", value(header)));
    let query = wanted.query.iter().map(|parameter| format!("query {}", value(parameter)));
    path.chain(method).chain(headers).chain(query).collect::<Vec<_>>().join(", ")
}

fn path(path: &PathMatch) -> String {
    match path {
        PathMatch::Exact(value) => format!("Exact {value}"),
        PathMatch::PathPrefix(value) => format!("PathPrefix {value}"),
        PathMatch::RegularExpression(value) => format!("RegularExpression {value}"),
    }
}

fn value(wanted: &HeaderMatch) -> String {
    match &wanted.value {
        ValueMatch::Exact(value) => format!("{}={value}", wanted.name),
        ValueMatch::RegularExpression(value) => format!("{}~{value}", wanted.name),
    }
}

/// The name of a filter as in `type:`, and what it does.
pub fn filter(filter: &Filter) -> (&'static str, String) {
    match filter {
        Filter::RequestHeaderModifier(change) => ("RequestHeaderModifier", headers(change)),
        Filter::ResponseHeaderModifier(change) => ("ResponseHeaderModifier", headers(change)),
        Filter::RequestRedirect(to) => ("RequestRedirect", redirect(to)),
        Filter::UrlRewrite(to) => ("URLRewrite", rewrite(to)),
    }
}

fn headers(change: &HeaderModifier) -> String {
    let set = change.set.iter().map(|header| format!("set {}: {}", header.name, header.value));
    let add = change.add.iter().map(|header| format!("add {}: {}", header.name, header.value));
    let remove = change.remove.iter().map(|name| format!("remove {name}"));
    set.chain(add).chain(remove).collect::<Vec<_>>().join(", ")
}

fn redirect(to: &RequestRedirect) -> String {
    let scheme = to.scheme.iter().map(|scheme| format!("scheme {}", scheme.as_str()));
    let hostname = to.hostname.iter().map(|hostname| format!("hostname {hostname}"));
    let port = to.port.iter().map(|port| format!("port {port}"));
    let path = to.path.iter().map(path_change);
    let parts: Vec<_> = scheme.chain(hostname).chain(port).chain(path).collect();
    if parts.is_empty() {
        format!("{}", to.status_code)
    } else {
        format!("{} to {}", to.status_code, parts.join(", "))
    }
}

fn rewrite(to: &UrlRewrite) -> String {
    let hostname = to.hostname.iter().map(|hostname| format!("hostname {hostname}"));
    hostname.chain(to.path.iter().map(path_change)).collect::<Vec<_>>().join(", ")
}

fn path_change(change: &PathModifier) -> String {
    match change {
        PathModifier::ReplaceFullPath(path) => format!("path {path}"),
        PathModifier::ReplacePrefixMatch(prefix) => format!("prefix {prefix}"),
    }
}

/// All filters of a rule; a rule that fails has none.
pub fn filters(rule: &RouteRule) -> &[Filter] {
    match &rule.action {
        RuleAction::Forward { filters, .. } => filters,
        RuleAction::Fail(_) => &[],
    }
}

/// One backendRef of a rule: its share, and what its share meets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// `namespace/name:port`; absent for a reference that is invalid
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// As the user wrote it.
    pub weight: u32,
    /// Of all requests of the rule, from 0 to 100.
    pub percent: f64,
    /// Filters for this share, by name and in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
    /// The addresses that are ready; absent where the input has no EndpointSlice of the Service, which leaves it open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<String>>,
    /// What this share is answered by us, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// An answer that does not come from a backend.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The API's reason, for what is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, as a sentence without a full stop.
    pub because: String,
}

impl Answer {
    /// An answer and its reason.
    pub fn new(status: u16, because: impl Into<String>) -> Self {
        Self { status, reason: None, because: because.into() }
    }

    /// `500 BackendNotFound`, `503` or `301`
    pub fn short(&self) -> String {
        self.reason
            .as_ref()
            .map_or_else(|| self.status.to_string(), |reason| format!("{} {reason}", self.status))
    }

    fn fault(fault: &Fault) -> Self {
        Self { reason: Some(fault.reason.clone()), ..Self::new(500, fault.message.clone()) }
    }
}

/// The shares of a rule, in the order of the object. `unknown` are the Services of which the input has no EndpointSlice.
pub fn shares(config: &Config, rule: &RouteRule, unknown: &BTreeSet<ObjectKey>) -> Vec<Share> {
    let RuleAction::Forward { backends, .. } = &rule.action else { return Vec::new() };
    let total: u64 = backends.iter().map(|backend| u64::from(backend.weight)).sum();
    backends.iter().map(|backend| share(config, backend, total, unknown)).collect()
}

fn share(config: &Config, reference: &BackendRef, total: u64, unknown: &BTreeSet<ObjectKey>) -> Share {
    let (backend, endpoints, answer) = match &reference.target {
        Target::Invalid(fault) => (None, None, Some(Answer::fault(fault))),
        Target::Backend(key) if redirect_of(&reference.filters).is_some() => {
            (Some(key.to_string()), None, redirect_of(&reference.filters))
        }
        Target::Backend(key) if unknown.contains(&key.service) => (Some(key.to_string()), None, None),
        Target::Backend(key) => {
            let endpoints = config.backends.get(key).map_or(&[][..], |backend| &backend.endpoints);
            let none =
                endpoints.is_empty().then(|| Answer::new(503, format!("no endpoint of {key} is ready")));
            (Some(key.to_string()), Some(endpoints.iter().map(ToString::to_string).collect()), none)
        }
    };
    let percent = if total == 0 { 0.0 } else { f64::from(reference.weight) * 100.0 / total as f64 };
    let filters = reference.filters.iter().map(|reference| named(filter(reference))).collect();
    Share { backend, weight: reference.weight, percent, filters, endpoints, answer }
}

/// `Name: what it does`
pub fn named((name, words): (&str, String)) -> String {
    format!("{name}: {words}")
}

/// What all requests of a rule are answered by us, when that is so: a redirect, or a failure and its reason.
pub fn answer(rule: &RouteRule) -> Option<Answer> {
    match &rule.action {
        RuleAction::Fail(fault) => Some(Answer::fault(fault)),
        RuleAction::Forward { filters, backends, .. } => {
            let nowhere = || match backends.iter().all(|backend| backend.weight == 0) {
                true if backends.is_empty() => Some(Answer::new(500, "the rule has no backendRefs")),
                true => Some(Answer::new(500, "the weights of all backendRefs are 0")),
                false => None,
            };
            redirect_of(filters).or_else(nowhere)
        }
    }
}

fn redirect_of(filters: &[Filter]) -> Option<Answer> {
    filters.iter().find_map(|filter| match filter {
        Filter::RequestRedirect(to) => Some(Answer::new(to.status_code, "the request is redirected")),
        Filter::RequestHeaderModifier(_) | Filter::ResponseHeaderModifier(_) | Filter::UrlRewrite(_) => None,
    })
}
