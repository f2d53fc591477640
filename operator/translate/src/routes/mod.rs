//! Rules of routes: what each matches, what it does, and why it cannot.

mod grpc;
mod http;

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use postern_config::{
    AppProtocol, BackendKey, BackendRef, Fault, Filter, ObjectKey, RouteKind, RouteMatch, RouteName,
    RouteRule, RuleAction, Target, Timeouts,
};

use crate::api::{
    GROUP, GrpcRoute, GrpcRouteSpec, HttpBackendRef, HttpFilter, HttpRoute, HttpRouteSpec, ParentReference,
};
use crate::backends;
use crate::filters::{self, Position};
use crate::grants::{Grants, Referrer};
use crate::outcome::Services;
use crate::status::{Reason, Refusal};

/// A route of any kind.
pub(crate) struct AnyRoute<'a> {
    pub(crate) name: RouteName,
    pub(crate) metadata: &'a ObjectMeta,
    pub(crate) parent_refs: &'a [ParentReference],
    pub(crate) hostnames: &'a [String],
    pub(crate) spec: AnySpec<'a>,
}

/// The spec of a route.
pub(crate) enum AnySpec<'a> {
    Grpc(&'a GrpcRouteSpec),
    Http(&'a HttpRouteSpec),
}

/// What became of the rules of one route.
#[derive(Default)]
pub(crate) struct Rules {
    /// All of them, in the order of the object.
    pub(crate) rules: Vec<RouteRule>,
    /// The ones that we cannot honour: index and why.
    pub(crate) dropped: Vec<(usize, Refusal)>,
    /// References that may not or cannot be followed: index of the rule and why.
    pub(crate) unresolved: Vec<(usize, Refusal)>,
}

impl Rules {
    /// Why the route is not accepted by anybody: none of its rules can be honoured.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let (_, first) = self.dropped.first()?;
        let all = self.dropped.len() == self.rules.len();
        all.then(|| first.reason.because(format!("no rule can be served: {}", numbered(&self.dropped))))
    }
}

/// Refusals for a message, with the numbers of their rules; the first few, since a message is for reading.
pub(crate) fn numbered(refusals: &[(usize, Refusal)]) -> String {
    const FEW: usize = 8;
    let few = refusals.iter().take(FEW).map(|(index, refusal)| format!("rule {index}: {}", refusal.message));
    let more =
        refusals.len().checked_sub(FEW).filter(|more| *more > 0).map(|more| format!("and {more} more"));
    few.chain(more).collect::<Vec<_>>().join("; ")
}

impl<'a> AnyRoute<'a> {
    /// A GRPCRoute.
    pub(crate) fn grpc(key: &ObjectKey, route: &'a GrpcRoute) -> Self {
        Self {
            name: RouteName { key: key.clone(), kind: RouteKind::Grpc },
            metadata: &route.metadata,
            parent_refs: &route.spec.parent_refs,
            hostnames: &route.spec.hostnames,
            spec: AnySpec::Grpc(&route.spec),
        }
    }

    /// An HTTPRoute.
    pub(crate) fn http(key: &ObjectKey, route: &'a HttpRoute) -> Self {
        Self {
            name: RouteName { key: key.clone(), kind: RouteKind::Http },
            metadata: &route.metadata,
            parent_refs: &route.spec.parent_refs,
            hostnames: &route.spec.hostnames,
            spec: AnySpec::Http(&route.spec),
        }
    }
}

/// Translates the rules of a route. They are the same for every parent.
pub(crate) fn translate(services: &Services<'_>, grants: &Grants<'_>, route: &AnyRoute<'_>) -> Rules {
    let drafts = match route.spec {
        AnySpec::Grpc(spec) => grpc::drafts(spec),
        AnySpec::Http(spec) => http::drafts(spec),
    };
    let mut rules = Rules::default();
    for draft in drafts {
        draft.finish(services, grants, &route.name, &mut rules);
    }
    rules
}

/// A rule with its matches read, the rest as the user wrote it.
pub(crate) struct Draft<'a> {
    pub(crate) index: usize,
    pub(crate) name: Option<&'a String>,
    /// What the rule takes; everything, if there is none. Where `refusals` has an entry, it takes at least what the user meant.
    pub(crate) matches: Vec<RouteMatch>,
    pub(crate) filters: &'a [HttpFilter],
    pub(crate) backends: &'a [HttpBackendRef],
    pub(crate) timeouts: Timeouts,
    /// Why the rule cannot be honoured, as far as it is known.
    pub(crate) refusals: Vec<Refusal>,
}

impl Draft<'_> {
    fn finish(mut self, services: &Services<'_>, grants: &Grants<'_>, route: &RouteName, to: &mut Rules) {
        if self.matches.is_empty() {
            self.matches.push(RouteMatch::default());
        }
        let filters = self.filters(self.filters, Position::Rule, route.kind);
        if filters.iter().any(|filter| matches!(filter, Filter::RequestRedirect(_)))
            && !self.backends.is_empty()
        {
            let message = "a RequestRedirect cannot have backendRefs: remove one of the two";
            self.refusals.push(Reason::UnsupportedValue.because(message));
        }
        let mut backends = Vec::with_capacity(self.backends.len());
        for wanted in self.backends {
            http::unknown(&mut self.refusals, &wanted.unknown);
            let filters = self.filters(&wanted.filters, Position::Backend, route.kind);
            let (target, protocol) = match backend(services, grants, route, wanted) {
                Ok((key, protocol)) => (Target::Backend(key), protocol),
                Err(refusal) => {
                    let fault = Fault::from(&refusal);
                    to.unresolved.push((self.index, refusal));
                    (Target::Invalid(fault), AppProtocol::default())
                }
            };
            backends.push(BackendRef { target, protocol, weight: wanted.weight.unwrap_or(1), filters });
        }
        let action = match self.refusals.first() {
            Some(refusal) => RuleAction::Fail(refusal.into()),
            None => RuleAction::Forward { filters, backends, timeouts: self.timeouts },
        };
        let (references, own): (Vec<_>, Vec<_>) =
            self.refusals.into_iter().partition(|refusal| refusal.reason.is_of_a_reference());
        to.unresolved.extend(references.into_iter().map(|refusal| (self.index, refusal)));
        to.dropped.extend(own.into_iter().next().map(|refusal| (self.index, refusal)));
        to.rules.push(RouteRule {
            index: self.index,
            name: self.name.cloned(),
            matches: self.matches,
            action,
        });
    }

    fn filters(&mut self, filters: &[HttpFilter], position: Position, kind: RouteKind) -> Vec<Filter> {
        filters::translate(filters, position, kind, &self.matches).unwrap_or_else(|refusals| {
            self.refusals.extend(refusals);
            Vec::new()
        })
    }
}

fn backend(
    services: &Services<'_>,
    grants: &Grants<'_>,
    route: &RouteName,
    wanted: &HttpBackendRef,
) -> Result<(BackendKey, AppProtocol), Refusal> {
    let kind = route.kind.to_string();
    let from = Referrer { group: GROUP, kind: &kind, namespace: &route.key.namespace };
    let (key, protocol) = backends::resolve(services, grants, from, &wanted.reference)?;
    Ok((key, if route.kind == RouteKind::Grpc { AppProtocol::H2c } else { protocol }))
}

/// The backends that rules forward to.
pub(crate) fn backends_of(rules: &[RouteRule]) -> BTreeSet<&BackendKey> {
    let actions = rules.iter().map(|rule| &rule.action);
    let references = actions.flat_map(|action| match action {
        RuleAction::Forward { backends, .. } => backends.as_slice(),
        RuleAction::Fail(_) => &[],
    });
    references
        .filter_map(|reference| if let Target::Backend(key) = &reference.target { Some(key) } else { None })
        .collect()
}
