//! What holds for every translation: order is nothing, twice is once, and a broken object is nobody else's trouble.

#[path = "shared/graphs.rs"]
mod graphs;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use graphs::{gateway_mistakes, graph, rule_mistakes};
use postern_config::{BackendKey, Config, ObjectKey, RouteKind, RouteName, RuleAction, Target};
use postern_translate::api::RouteStatus;
use postern_translate::snapshot::{Claim, Snapshot};
use postern_translate::{Translation, Translator, translate};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_objects_changes_nothing((objects, shuffled) in graph().prop_flat_map(|graph| {
        (Just(graph.clone()), Just(graph).prop_shuffle())
    })) {
        prop_assert_eq!(translated(&objects), translated(&shuffled));
    }

    #[test]
    fn translating_twice_is_the_same(objects in graph()) {
        let snapshot = snapshot(&objects);
        prop_assert_eq!(translate(&snapshot), translate(&snapshot));
    }

    #[test]
    fn what_was_translated_before_changes_nothing(
        one in graph(), other in graph(), steps in prop::collection::vec(any::<u64>(), 1..6),
    ) {
        let mut translator = Translator::default();
        let mut now: BTreeMap<_, Value> = one.into_iter().map(named).collect();
        let other: BTreeMap<_, Value> = other.into_iter().map(named).collect();
        let names: BTreeSet<_> = now.keys().chain(other.keys()).cloned().collect();
        for step in std::iter::once(0).chain(steps) {
            // Some objects become those of the other graph, or go, or come.
            for name in names.iter().enumerate().filter(|(i, _)| step >> (i % 64) & 3 == 3).map(|(_, name)| name) {
                match other.get(name) {
                    Some(object) => drop(now.insert(name.clone(), object.clone())),
                    None => drop(now.remove(name)),
                }
            }
            let objects: Vec<Value> = now.values().cloned().collect();
            let snapshot = snapshot(&objects);
            prop_assert_eq!(translator.translate(&snapshot), translate(&snapshot));
            prop_assert_eq!(translator.translate(&snapshot), translate(&snapshot));
        }
    }

    #[test]
    fn every_route_that_is_served_is_attached_and_every_name_in_a_config_is_there(objects in graph()) {
        for plan in translated(&objects).plans.values() {
            let config = &plan.config;
            for route in config.routes.values() {
                prop_assert!(!route.attachments.is_empty());
                prop_assert!(route.attachments.iter().all(|a| config.listeners.contains_key(&a.listener)));
                let mut backends = route.rules.iter().flat_map(|rule| backends(&rule.action));
                prop_assert!(backends.all(|key| config.backends.contains_key(key)));
            }
        }
    }

    #[test]
    fn a_broken_rule_is_nobody_elses_trouble(
        objects in graph(), which in any::<Index>(), rule in any::<Index>(), mistake in rule_mistakes(),
    ) {
        let mut broken = objects.clone();
        let routes: Vec<&mut Value> = broken.iter_mut().filter(|o| kind(o).ends_with("Route")).collect();
        let route = which.index(routes.len());
        let route = routes.into_iter().nth(route).expect("a graph has routes");
        let name = RouteName {
            key: key(route),
            kind: if kind(route) == "GRPCRoute" { RouteKind::Grpc } else { RouteKind::Http },
        };
        let rules = route["spec"]["rules"].as_array_mut().expect("a route has rules");
        let rule = rule.index(rules.len());
        rules[rule][mistake.0] = mistake.1;
        let (before, after) = (translated(&objects), translated(&broken));
        for (gateway, plan) in &before.plans {
            prop_assert_eq!(without(&plan.config, &name), without(&after.plans[gateway].config, &name));
        }
        prop_assert_eq!(uncounted(&before), uncounted(&after));
        prop_assert_eq!(routes_without(&before, &name), routes_without(&after, &name));
    }

    #[test]
    fn a_broken_gateway_is_nobody_elses_trouble(objects in graph(), which in any::<Index>(), mistake in gateway_mistakes()) {
        let mut broken = objects.clone();
        let gateways: Vec<&mut Value> = broken.iter_mut().filter(|o| kind(o) == "Gateway").collect();
        let gateway = which.index(gateways.len());
        let gateway = gateways.into_iter().nth(gateway).expect("a graph has Gateways");
        let name = key(gateway);
        gateway["spec"][mistake.0] = mistake.1;
        let (before, after) = (translated(&objects), translated(&broken));
        for (other, plan) in before.plans.iter().filter(|(other, _)| **other != name) {
            prop_assert_eq!(plan, &after.plans[other]);
            prop_assert_eq!(&before.statuses.gateways[other], &after.statuses.gateways[other]);
        }
        prop_assert_eq!(parents_without(&before, &name), parents_without(&after, &name));
    }
}

fn snapshot(objects: &[Value]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.settings.claim = Claim::Every;
    for object in objects {
        snapshot.objects.insert(shared::object(object.clone()));
    }
    snapshot
}

fn named(object: Value) -> ((String, ObjectKey), Value) {
    ((kind(&object).to_owned(), key(&object)), object)
}

fn translated(objects: &[Value]) -> Translation {
    translate(&snapshot(objects))
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

fn key(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    ObjectKey::new(text("namespace"), text("name"))
}

fn backends(action: &RuleAction) -> Vec<&BackendKey> {
    let RuleAction::Forward { backends, .. } = action else { return Vec::new() };
    backends
        .iter()
        .filter_map(|reference| match &reference.target {
            Target::Backend(key) => Some(key),
            Target::Invalid(_) => None,
        })
        .collect()
}

/// A config without a route and the backends that only it needs.
fn without(config: &Config, route: &RouteName) -> Config {
    let mut config = config.clone();
    config.routes.remove(route);
    let needed: Vec<_> = config
        .routes
        .values()
        .flat_map(|route| route.rules.iter().flat_map(|rule| backends(&rule.action)))
        .cloned()
        .collect();
    config.backends.retain(|key, _| needed.contains(key));
    config
}

/// The statuses of Gateways but for their counts of routes: a route that is not accepted any more does not count.
fn uncounted(translation: &Translation) -> BTreeMap<ObjectKey, postern_translate::api::GatewayStatus> {
    let mut gateways = translation.statuses.gateways.clone();
    for listener in gateways.values_mut().flat_map(|gateway| &mut gateway.listeners) {
        listener.attached_routes = 0;
    }
    gateways
}

type RouteStatuses = BTreeMap<RouteName, Arc<RouteStatus>>;

fn routes(translation: &Translation) -> RouteStatuses {
    let statuses = &translation.statuses;
    let of = |kind: RouteKind, routes: &BTreeMap<ObjectKey, Arc<RouteStatus>>| -> RouteStatuses {
        routes.iter().map(|(key, status)| (RouteName { key: key.clone(), kind }, status.clone())).collect()
    };
    let mut routes = of(RouteKind::Http, &statuses.http_routes);
    routes.extend(of(RouteKind::Grpc, &statuses.grpc_routes));
    routes
}

fn routes_without(translation: &Translation, route: &RouteName) -> RouteStatuses {
    let mut routes = routes(translation);
    routes.remove(route);
    routes
}

/// What routes are told of other Gateways than this one.
fn parents_without(translation: &Translation, gateway: &ObjectKey) -> RouteStatuses {
    let mut routes = routes(translation);
    for status in routes.values_mut() {
        Arc::make_mut(status).parents.retain(|parent| {
            let reference = &parent.parent_ref;
            reference.namespace.as_ref() != Some(&gateway.namespace) || reference.name != gateway.name
        });
    }
    routes.retain(|_, status| !status.parents.is_empty());
    routes
}
