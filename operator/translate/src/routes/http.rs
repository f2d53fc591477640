//! Rules of an HTTPRoute.

use std::collections::BTreeSet;

use postern_config::routing::check_regex;
use postern_config::{HeaderMatch, PathMatch, RouteMatch, Timeouts, ValueMatch};

use super::Draft;
use crate::api::{
    HttpHeaderMatch, HttpPathMatch, HttpRouteMatch, HttpRouteRule, HttpRouteSpec, HttpRouteTimeouts,
    MatchType, PathMatchType, UnknownFields,
};
use crate::durations;
use crate::status::{Reason, Refusal};

/// The methods that the API knows.
const METHODS: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/// Reads the rules.
pub(super) fn drafts(spec: &HttpRouteSpec) -> Vec<Draft<'_>> {
    spec.rules.iter().enumerate().map(|(index, rule)| draft(index, rule)).collect()
}

fn draft(index: usize, rule: &HttpRouteRule) -> Draft<'_> {
    let mut refusals = Vec::new();
    unsupported(&mut refusals, "retry", &rule.retry);
    unsupported(&mut refusals, "sessionPersistence", &rule.session_persistence);
    unknown(&mut refusals, &rule.unknown);
    let timeouts =
        rule.timeouts.as_ref().map_or_else(Timeouts::default, |wanted| timeouts(&mut refusals, wanted));
    let matches = rule.matches.iter().map(|wanted| route_match(&mut refusals, wanted)).collect();
    Draft {
        index,
        name: rule.name.as_ref(),
        matches,
        filters: &rule.filters,
        backends: &rule.backend_refs,
        timeouts,
        refusals,
    }
}

/// Refuses a field that has a value and that we do not honour.
pub(super) fn unsupported(refusals: &mut Vec<Refusal>, field: &str, value: &Option<serde_json::Value>) {
    if value.is_some() {
        refusals.push(Reason::UnsupportedValue.because(format!("`{field}` is not supported: remove it")));
    }
}

/// Refuses fields that we do not know: what they mean may narrow what the rule is for.
pub(super) fn unknown(refusals: &mut Vec<Refusal>, fields: &UnknownFields) {
    for field in fields.keys() {
        refusals
            .push(Reason::UnsupportedValue.because(format!("the field `{field}` is not known: remove it")));
    }
}

/// Reads a match. A condition that cannot be read is left out, which makes the match wider: its rule then fails, for all
/// requests that the user can have meant.
fn route_match(refusals: &mut Vec<Refusal>, wanted: &HttpRouteMatch) -> RouteMatch {
    unknown(refusals, &wanted.unknown);
    let method = wanted.method.as_ref().filter(|method| {
        let known = METHODS.contains(&method.as_str());
        if !known {
            refusals.push(
                Reason::UnsupportedValue
                    .because(format!("the method `{method}` is not known: use one of HTTP's")),
            );
        }
        known
    });
    RouteMatch {
        path: wanted.path.as_ref().map_or_else(PathMatch::default, |path| path_match(refusals, path)),
        method: method.cloned(),
        headers: headers(refusals, &wanted.headers),
        query: query(refusals, &wanted.query_params),
    }
}

/// Reads a condition on the path. What stands for one that cannot be read takes at least what the user can have meant,
/// and no more than can be helped: the start of an expression as far as it is plain text, or else the prefix `/`, which
/// comes after all that is more specific.
fn path_match(refusals: &mut Vec<Refusal>, wanted: &HttpPathMatch) -> PathMatch {
    unknown(refusals, &wanted.unknown);
    let mut value = wanted.value.clone().unwrap_or_else(|| "/".into());
    let kind = wanted.kind.as_ref().unwrap_or(&PathMatchType::PathPrefix);
    if matches!(kind, PathMatchType::Exact | PathMatchType::PathPrefix) && !value.starts_with('/') {
        let message = format!("the path `{value}` has to begin with `/`");
        refusals.push(Reason::UnsupportedValue.because(message));
        value.insert(0, '/');
    }
    match kind {
        PathMatchType::Exact => PathMatch::Exact(value),
        PathMatchType::PathPrefix => PathMatch::PathPrefix(value),
        PathMatchType::RegularExpression => match regex("path", &value) {
            Ok(()) => PathMatch::RegularExpression(value),
            Err(refusal) => {
                refusals.push(refusal);
                plain_start(&value)
            }
        },
        PathMatchType::Unknown(kind) => {
            let hint = "use Exact, PathPrefix or RegularExpression";
            let message = format!("the path match type `{kind}` is not supported: {hint}");
            refusals.push(Reason::UnsupportedValue.because(message));
            PathMatch::default()
        }
    }
}

/// Every path that an expression can be for that begins like this one, which cannot be read.
pub(super) fn plain_start(pattern: &str) -> PathMatch {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    let end = pattern.find(|c| r"\.+*?()|[]{}^$".contains(c)).unwrap_or(pattern.len());
    let mut plain = &pattern[..end];
    if pattern[end..].starts_with(['*', '?', '{']) {
        plain = plain.char_indices().next_back().map_or("", |(last, _)| &plain[..last]);
    }
    match plain {
        "" | "/" => PathMatch::default(),
        _ if pattern.contains('|') || !plain.starts_with('/') => PathMatch::default(),
        plain => PathMatch::RegularExpression(format!("{plain}.*")),
    }
}

/// Reads conditions on headers. "If multiple entries specify equivalent header names, only the first entry with an
/// equivalent name MUST be considered for a match."
pub(super) fn headers(refusals: &mut Vec<Refusal>, wanted: &[HttpHeaderMatch]) -> Vec<HeaderMatch> {
    let mut seen = BTreeSet::new();
    let mut conditions = Vec::new();
    for header in wanted {
        let name = header.name.to_ascii_lowercase();
        if !seen.insert(name.clone()) {
            continue;
        }
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            let message =
                format!("`{}` cannot be the name of a header: use letters, digits and `-`", header.name);
            refusals.push(Reason::UnsupportedValue.because(message));
            continue;
        }
        let value = keep(refusals, value_match(&format!("header `{name}`"), header));
        conditions.extend(value.map(|value| HeaderMatch { name, value }));
    }
    conditions
}

/// Reads conditions on query parameters; of a name, which is case-sensitive, the first counts.
fn query(refusals: &mut Vec<Refusal>, wanted: &[HttpHeaderMatch]) -> Vec<HeaderMatch> {
    let mut seen = BTreeSet::new();
    let first = wanted.iter().filter(|parameter| seen.insert(parameter.name.as_str()));
    let read = first.filter_map(|parameter| {
        let value = keep(refusals, value_match(&format!("query parameter `{}`", parameter.name), parameter))?;
        Some(HeaderMatch { name: parameter.name.clone(), value })
    });
    read.collect()
}

fn value_match(what: &str, wanted: &HttpHeaderMatch) -> Result<ValueMatch, Refusal> {
    if let Some(field) = wanted.unknown.keys().next() {
        return Err(Reason::UnsupportedValue
            .because(format!("the field `{field}` of {what} is not known: remove it")));
    }
    let value = wanted.value.clone();
    match wanted.kind.as_ref().unwrap_or(&MatchType::Exact) {
        MatchType::Exact => Ok(ValueMatch::Exact(value)),
        MatchType::RegularExpression => regex(what, &value).map(|()| ValueMatch::RegularExpression(value)),
        MatchType::Unknown(kind) => Err(Reason::UnsupportedValue.because(format!(
            "the match type `{kind}` of {what} is not supported: use Exact or RegularExpression"
        ))),
    }
}

/// Refuses an expression that does not compile or would compile to too much.
pub(super) fn regex(what: &str, pattern: &str) -> Result<(), Refusal> {
    check_regex(pattern).map_err(|problem| {
        Reason::UnsupportedValue
            .because(format!("the expression `{pattern}` for the {what} cannot be used: {problem}"))
    })
}

/// The value, or nothing once its refusal is kept.
fn keep<T>(refusals: &mut Vec<Refusal>, result: Result<T, Refusal>) -> Option<T> {
    result.map_err(|refusal| refusals.push(refusal)).ok()
}

fn timeouts(refusals: &mut Vec<Refusal>, wanted: &HttpRouteTimeouts) -> Timeouts {
    unknown(refusals, &wanted.unknown);
    let mut read = |field: &str, text: &Option<String>| {
        let text = text.as_ref()?;
        let parsed = durations::parse(text).ok_or_else(|| {
            Reason::UnsupportedValue.because(format!(
                "`timeouts.{field}` is `{text}`, which is no duration: write 500ms, 10s or 1m30s"
            ))
        });
        // HTTPRouteTimeouts: "a zero-valued timeout (\"0s\") SHOULD be interpreted as disabling the timeout"
        keep(refusals, parsed).filter(|duration| !duration.is_zero())
    };
    let timeouts = Timeouts {
        request: read("request", &wanted.request),
        backend_request: read("backendRequest", &wanted.backend_request),
    };
    if let (Some(request), Some(backend_request)) = (timeouts.request, timeouts.backend_request)
        && backend_request > request
    {
        let message =
            "`timeouts.backendRequest` is longer than `timeouts.request`, of which it is a part: shorten it";
        refusals.push(Reason::UnsupportedValue.because(message));
    }
    timeouts
}
