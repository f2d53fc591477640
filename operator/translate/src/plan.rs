//! What to run for each Gateway: its listeners, and what the routes attached to them need.

use std::collections::BTreeMap;
use std::sync::Arc;

use postern_config::{Attachment, Backend, BackendKey, Listener, ObjectKey, Protocol, Route, RouteName};

use crate::Plan;
use crate::api::ProtocolType;
use crate::attach::{Attached, AttachedRoute};
use crate::backends::Slices;
use crate::listeners::{Gateways, OurGateway, OurListener, Service};
use crate::routes::{Rules, backends_of};
use crate::snapshot::Snapshot;
use crate::workload;

/// Puts together the plan of each Gateway.
pub(crate) fn per_gateway(
    snapshot: &Snapshot,
    gateways: &Gateways<'_>,
    attached: &Attached<'_>,
    rules: &BTreeMap<RouteName, Rules>,
) -> BTreeMap<ObjectKey, Plan> {
    let objects = &snapshot.objects;
    let mut plans: BTreeMap<&ObjectKey, Plan> =
        gateways.iter().map(|(key, gateway)| (*key, listeners(snapshot, gateway))).collect();
    let slices = Slices::of(objects);
    let mut backends: BTreeMap<&BackendKey, Arc<Backend>> = BTreeMap::new();
    for (name, attached) in &attached.routes {
        let rules = &rules[name];
        for (gateway, attachments) in attachments(gateways, attached) {
            let config = &mut plans.get_mut(gateway).expect("a parent is one of our Gateways").config;
            for key in backends_of(&rules.rules) {
                let backend = backends.entry(key).or_insert_with(|| Arc::new(slices.backend(objects, key)));
                config.backends.entry(key.clone()).or_insert_with(|| backend.clone());
            }
            let created =
                attached.route.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
            let route = Route { created, attachments, rules: rules.rules.clone() };
            config.routes.insert(name.clone(), Arc::new(route));
        }
    }
    plans.into_iter().map(|(key, plan)| (key.clone(), plan)).collect()
}

fn listeners(snapshot: &Snapshot, gateway: &OurGateway<'_>) -> Plan {
    let mut plan = Plan::default();
    for listener in gateway.listeners.iter().filter(|listener| listener.service != Service::None) {
        if listener.service == Service::Full {
            plan.config.certificates.extend(listener.certificates.iter().cloned());
        }
        plan.config.listeners.insert(listener.spec.name.clone(), Arc::new(served(listener)));
    }
    let settings = &snapshot.settings;
    let infrastructure = settings.infrastructure.as_ref().filter(|_| gateway.refusal.is_none());
    plan.workload = infrastructure
        .map(|given| workload::of(settings, given, gateway.object, &gateway.parameters, &plan.config));
    plan
}

fn served(listener: &OurListener<'_>) -> Listener {
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
    route: &AttachedRoute<'a>,
) -> BTreeMap<&'a ObjectKey, Vec<Attachment>> {
    let mut attachments: BTreeMap<&'a ObjectKey, Vec<Attachment>> = BTreeMap::new();
    for parent in &route.parents {
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
