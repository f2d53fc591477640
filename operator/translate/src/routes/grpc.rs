//! Rules of a GRPCRoute: service and method are the two segments of the path.

use postern_config::{PathMatch, RouteMatch, Timeouts};

use super::Draft;
use super::http::{headers, plain_start, regex, unknown, unsupported};
use crate::api::{GrpcMethodMatch, GrpcMethodMatchType, GrpcRouteMatch, GrpcRouteRule, GrpcRouteSpec};
use crate::status::{Reason, Refusal};

/// Reads the rules.
pub(super) fn drafts(spec: &GrpcRouteSpec) -> Vec<Draft<'_>> {
    spec.rules.iter().enumerate().map(|(index, rule)| draft(index, rule)).collect()
}

fn draft(index: usize, rule: &GrpcRouteRule) -> Draft<'_> {
    let mut refusals = Vec::new();
    unsupported(&mut refusals, "sessionPersistence", &rule.session_persistence);
    unknown(&mut refusals, &rule.unknown);
    let matches = rule.matches.iter().map(|wanted| route_match(&mut refusals, wanted)).collect();
    Draft {
        index,
        name: rule.name.as_ref(),
        matches,
        filters: &rule.filters,
        backends: &rule.backend_refs,
        timeouts: Timeouts::default(),
        refusals,
    }
}

fn route_match(refusals: &mut Vec<Refusal>, wanted: &GrpcRouteMatch) -> RouteMatch {
    unknown(refusals, &wanted.unknown);
    RouteMatch {
        path: wanted.method.as_ref().map_or_else(PathMatch::default, |method| path_match(refusals, method)),
        headers: headers(refusals, &wanted.headers),
        ..RouteMatch::default()
    }
}

/// The path of `/service/method`. A service alone is a prefix of it, so that longer services come first, as the
/// specification asks; a method alone is an expression, which comes after all services.
fn path_match(refusals: &mut Vec<Refusal>, wanted: &GrpcMethodMatch) -> PathMatch {
    unknown(refusals, &wanted.unknown);
    let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let (service, method) = (given(&wanted.service), given(&wanted.method));
    let mut refuse = |message: String| {
        refusals.push(Reason::UnsupportedValue.because(message));
        PathMatch::default()
    };
    match wanted.kind.as_ref().unwrap_or(&GrpcMethodMatchType::Exact) {
        GrpcMethodMatchType::Exact => {
            if let Some(name) = service.iter().chain(&method).find(|name| !is_name(name)) {
                return refuse(format!("`{name}` cannot be the name of a gRPC service or method"));
            }
            match (service, method) {
                (Some(service), Some(method)) => PathMatch::Exact(format!("/{service}/{method}")),
                (Some(service), None) => PathMatch::PathPrefix(format!("/{service}")),
                (None, Some(method)) => {
                    PathMatch::RegularExpression(format!("/[^/]+/{}", method.replace('.', r"\.")))
                }
                (None, None) => PathMatch::default(),
            }
        }
        GrpcMethodMatchType::RegularExpression => {
            let parts = [("gRPC service", service), ("gRPC method", method)];
            for (what, pattern) in &parts {
                if let Some(Err(refusal)) = pattern.as_ref().map(|pattern| regex(what, pattern)) {
                    refusals.push(refusal);
                    let [service, method] = parts.map(|(_, pattern)| pattern.unwrap_or_else(|| ".*".into()));
                    return plain_start(&format!("/{service}/{method}"));
                }
            }
            let [service, method] =
                parts.map(|(_, pattern)| pattern.map_or("[^/]+".into(), |pattern| format!("(?:{pattern})")));
            let whole = format!("/{service}/{method}");
            match regex("gRPC service and method", &whole) {
                Ok(()) => PathMatch::RegularExpression(whole),
                Err(refusal) => {
                    refusals.push(refusal);
                    PathMatch::default()
                }
            }
        }
        GrpcMethodMatchType::Unknown(kind) => {
            refuse(format!("the method match type `{kind}` is not supported: use Exact or RegularExpression"))
        }
    }
}

/// Whether a name may stand in a gRPC path: nothing that would need escaping in a path or, but for the dot, in an expression.
fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}
