//! What to run for each Gateway: its listeners, and what the routes attached to them need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use postern_config::{
    Attachment, Backend, BackendKey, Listener, ObjectKey, Protocol, Route, RouteName, RouteRule,
};

use crate::Plan;
use crate::api::ProtocolType;
use crate::attach::Parent;
use crate::backends::Slices;
use crate::listeners::{Gateways, OurGateway, OurListener, Service};
use crate::outcome::World;
use crate::routes::AnyRoute;
use crate::snapshot::Snapshot;
use crate::translator::Outcomes;
use crate::workload;

/// Puts together the plan of each Gateway.
pub(crate) fn per_gateway(
    snapshot: &Snapshot,
    world: &World<'_>,
    outcomes: &Outcomes,
) -> BTreeMap<ObjectKey, Plan> {
    let objects = &snapshot.objects;
    let mut needs: BTreeMap<&ObjectKey, Needs<'_>> = BTreeMap::new();
    for ((key, kind), outcome) in outcomes.all() {
        for (gateway, route) in &outcome.served {
            let needs = needs.entry(gateway).or_default();
            needs.routes.push((RouteName { key: key.clone(), kind }, route.clone()));
            needs.backends.extend(&outcome.backends);
        }
    }
    let slices = Slices::of(objects);
    let mut backends: BTreeMap<&BackendKey, Arc<Backend>> = BTreeMap::new();
    let plan = |(key, gateway): (&&ObjectKey, &OurGateway<'_>)| {
        let mut plan = listeners(snapshot, gateway);
        let needs = needs.remove(*key).unwrap_or_default();
        let backend = |key| {
            let backend = backends.entry(key).or_insert_with(|| Arc::new(slices.backend(objects, key)));
            (key.clone(), backend.clone())
        };
        plan.config.backends = needs.backends.into_iter().map(backend).collect();
        plan.config.routes = needs.routes.into_iter().collect();
        ((*key).clone(), plan)
    };
    world.gateways.iter().map(plan).collect()
}

/// What the routes of a Gateway need.
#[derive(Default)]
struct Needs<'a> {
    routes: Vec<(RouteName, Arc<Route>)>,
    backends: BTreeSet<&'a BackendKey>,
}

/// A route as each Gateway serves it.
pub(crate) fn served(
    gateways: &Gateways<'_>,
    route: &AnyRoute<'_>,
    parents: &[Parent<'_>],
    rules: Vec<RouteRule>,
) -> Vec<(ObjectKey, Arc<Route>)> {
    let created = route.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    let attachments = attachments(gateways, parents).into_iter();
    let served = attachments.map(|(gateway, attachments)| {
        (gateway.clone(), Arc::new(Route { created, attachments, rules: rules.clone() }))
    });
    served.collect()
}

fn listeners(snapshot: &Snapshot, gateway: &OurGateway<'_>) -> Plan {
    let mut plan = Plan::default();
    for listener in gateway.listeners.iter().filter(|listener| listener.service != Service::None) {
        if listener.service == Service::Full {
            plan.config.certificates.extend(listener.certificates.iter().cloned());
        }
        plan.config.listeners.insert(listener.spec.name.clone(), Arc::new(self::listener(listener)));
    }
    let settings = &snapshot.settings;
    let infrastructure = settings.infrastructure.as_ref().filter(|_| gateway.refusal.is_none());
    plan.workload = infrastructure
        .map(|given| workload::of(settings, given, gateway.object, &gateway.parameters, &plan.config));
    plan
}

fn listener(listener: &OurListener<'_>) -> Listener {
    let protocol = match listener.spec.protocol {
        ProtocolType::Https => {
            let certificates = listener.certificates.iter().filter(|_| listener.service == Service::Full);
            Protocol::Https { certificates: certificates.map(|(key, _)| key.clone()).collect() }
        }
        ProtocolType::Http
        | ProtocolType::Tls
        | ProtocolType::Tcp
        | ProtocolType::Udp
        | ProtocolType::Unknown(_) => Protocol::Http,
    };
    Listener { port: listener.spec.port, protocol, hostname: listener.hostname.clone() }
}

/// The listeners that serve a route, by Gateway. Several parentRefs may lead to the same one.
fn attachments<'a>(
    gateways: &Gateways<'_>,
    parents: &[Parent<'a>],
) -> BTreeMap<&'a ObjectKey, Vec<Attachment>> {
    let mut attachments: BTreeMap<&'a ObjectKey, Vec<Attachment>> = BTreeMap::new();
    for parent in parents {
        for landing in parent.verdict.iter().flatten() {
            let listener = &gateways[parent.gateway].listeners[landing.listener];
            let of = attachments.entry(parent.gateway).or_default();
            if listener.service == Service::Full && of.iter().all(|a| a.listener != listener.spec.name) {
                of.push(Attachment {
                    listener: listener.spec.name.clone(),
                    hostnames: landing.hostnames.clone(),
                });
            }
        }
    }
    for of in attachments.values_mut() {
        of.sort_by(|a, b| a.listener.cmp(&b.listener));
    }
    attachments.retain(|_, of| !of.is_empty());
    attachments
}
