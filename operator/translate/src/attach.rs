//! Which listeners a route is attached to: parentRefs, kinds, namespaces and hostnames.

use std::collections::BTreeSet;

use postern_config::{Hostname, ObjectKey, RouteKind, RouteName};

use crate::Note;
use crate::api::{GROUP, ParentReference};
use crate::conflicts::quoted;
use crate::kinds::ObjectSet;
use crate::listeners::{Gateways, OurGateway, OurListener};
use crate::namespaces;
use crate::nearest::nearest;
use crate::routes::AnyRoute;
use crate::status::{Reason, Refusal};

/// A parentRef to a Gateway of ours. Each is judged apart.
pub(crate) struct Parent<'a> {
    /// As the user wrote it, with the namespace written out.
    pub(crate) reference: ParentReference,
    /// The Gateway.
    pub(crate) gateway: &'a ObjectKey,
    /// The listeners that accept the route, or why none does.
    pub(crate) verdict: Result<Vec<Landing>, Refusal>,
}

/// A listener that accepts a route.
pub(crate) struct Landing {
    /// The place of the listener in its Gateway.
    pub(crate) listener: usize,
    /// The route's own hostnames that have a host in common with the listener's; empty when the route names none.
    pub(crate) hostnames: Vec<Hostname>,
}

/// Judges the parentRefs of a route; those to Gateways of ours are left, in their order. And what no status can say.
pub(crate) fn parents<'a>(
    objects: &ObjectSet,
    gateways: &Gateways<'a>,
    route: &AnyRoute<'_>,
) -> (Vec<Parent<'a>>, Vec<Note>) {
    let hostnames = hostnames(route);
    let mut seen = BTreeSet::new();
    let (mut parents, mut notes) = (Vec::new(), Vec::new());
    for reference in route.parent_refs {
        let mut reference = reference.clone();
        let key = gateway(route, &reference);
        reference.namespace.get_or_insert_with(|| key.namespace.clone());
        match gateways.get_key_value(&key) {
            _ if (reference.group.as_str(), reference.kind.as_str()) != (GROUP, "Gateway") => {}
            Some((key, gateway)) if seen.insert(reference.clone()) => {
                let verdict = judge(objects, route, &hostnames, &reference, key, gateway);
                parents.push(Parent { reference, gateway: key, verdict });
            }
            Some(_) => {}
            None => notes.extend(missing_gateway(objects, route, &key)),
        }
    }
    (parents, notes)
}

/// The Gateway that a parentRef names, if it names one.
pub(crate) fn gateway(route: &AnyRoute<'_>, reference: &ParentReference) -> ObjectKey {
    let namespace = reference.namespace.as_ref().unwrap_or(&route.name.key.namespace);
    ObjectKey::new(namespace.as_str(), reference.name.as_str())
}

/// The listeners that accept a route, each once, by Gateway and place.
pub(crate) fn landings(parents: &[Parent<'_>]) -> BTreeSet<(ObjectKey, usize)> {
    let of = |parent: &'_ Parent<'_>| {
        let places: Vec<usize> = parent.verdict.iter().flatten().map(|landing| landing.listener).collect();
        let gateway = parent.gateway.clone();
        places.into_iter().map(move |place| (gateway.clone(), place))
    };
    parents.iter().flat_map(of).collect()
}

/// The three gates, in the order of the specification: a listener that is named, that allows the route, and whose
/// hostname has a host in common with the route's.
///
/// Whether the listener is itself in order plays no part: "Listener or Route status does not impact successful attachment".
fn judge(
    objects: &ObjectSet,
    route: &AnyRoute<'_>,
    hostnames: &Result<Vec<Hostname>, Refusal>,
    reference: &ParentReference,
    key: &ObjectKey,
    gateway: &OurGateway<'_>,
) -> Result<Vec<Landing>, Refusal> {
    let named: Vec<(usize, &OurListener<'_>)> = gateway
        .listeners
        .iter()
        .enumerate()
        .filter(|(_, listener)| {
            reference.section_name.as_ref().is_none_or(|name| *name == listener.spec.name)
        })
        .filter(|(_, listener)| reference.port.is_none_or(|port| port == listener.spec.port))
        .collect();
    if named.is_empty() {
        return Err(no_matching_parent(reference, key, gateway));
    }
    let hostnames = hostnames.as_ref().map_err(Refusal::clone)?;
    let allowed = named.iter().filter(|(_, listener)| allows(objects, listener, key, &route.name));
    let allowed: Vec<(usize, &OurListener<'_>)> = allowed.copied().collect();
    if allowed.is_empty() {
        let names: Vec<&str> = named.iter().map(|(_, listener)| listener.spec.name.as_str()).collect();
        return Err(Reason::NotAllowedByListeners.because(format!(
            "listener {} of Gateway `{key}` takes no {}s of namespace `{}`: see its allowedRoutes",
            quoted(&names),
            route.name.kind,
            route.name.key.namespace
        )));
    }
    let landings: Vec<Landing> =
        allowed.iter().filter_map(|(index, listener)| land(*index, listener, hostnames)).collect();
    if landings.is_empty() {
        let theirs = allowed.iter().filter_map(|(_, listener)| listener.spec.hostname.as_deref());
        return Err(Reason::NoMatchingListenerHostname.because(format!(
            "the hostnames {} of the route and {} of Gateway `{key}` have no host in common: change one of them",
            quoted(hostnames),
            quoted(theirs.collect::<BTreeSet<_>>()),
        )));
    }
    Ok(landings)
}

fn land(listener: usize, of: &OurListener<'_>, hostnames: &[Hostname]) -> Option<Landing> {
    let Some(own) = &of.hostname else { return Some(Landing { listener, hostnames: hostnames.to_vec() }) };
    let common: Vec<Hostname> =
        hostnames.iter().filter(|hostname| hostname.intersect(own).is_some()).cloned().collect();
    (hostnames.is_empty() || !common.is_empty()).then_some(Landing { listener, hostnames: common })
}

fn allows(objects: &ObjectSet, listener: &OurListener<'_>, gateway: &ObjectKey, route: &RouteName) -> bool {
    let namespaces = listener.spec.allowed_routes.as_ref().and_then(|allowed| allowed.namespaces.as_ref());
    listener.kinds.contains(&route.kind)
        && namespaces::allow(objects, namespaces, &gateway.namespace, &route.key.namespace)
}

/// The route's hostnames, each once. One that is none makes the route unfit: without it the route could be for all hosts.
fn hostnames(route: &AnyRoute<'_>) -> Result<Vec<Hostname>, Refusal> {
    let parsed: Result<BTreeSet<Hostname>, _> = route.hostnames.iter().map(|text| text.parse()).collect();
    parsed
        .map(|hostnames| hostnames.into_iter().collect())
        .map_err(|e| Reason::UnsupportedValue.because(e.to_string()))
}

fn no_matching_parent(reference: &ParentReference, key: &ObjectKey, gateway: &OurGateway<'_>) -> Refusal {
    let wanted = match (&reference.section_name, reference.port) {
        (Some(name), Some(port)) => format!(" named `{name}` on port {port}"),
        (Some(name), None) => format!(" named `{name}`"),
        (None, Some(port)) => format!(" on port {port}"),
        (None, None) => String::new(),
    };
    let there = gateway
        .listeners
        .iter()
        .map(|listener| format!("`{}` on port {}", listener.spec.name, listener.spec.port));
    let there = there.collect::<Vec<_>>().join(", ");
    let there = if there.is_empty() { "none" } else { &there };
    Reason::NoMatchingParent.because(format!("Gateway `{key}` has no listener{wanted}: it has {there}"))
}

/// A parentRef to a Gateway that does not exist gets no status from anybody: that silence is worth a note.
fn missing_gateway(objects: &ObjectSet, route: &AnyRoute<'_>, key: &ObjectKey) -> Option<Note> {
    if objects.gateways.contains_key(key) {
        return None;
    }
    let same_namespace = objects.gateways.range(ObjectKey::new(key.namespace.as_str(), "")..);
    let names = same_namespace.map(|(other, _)| other).take_while(|other| other.namespace == key.namespace);
    let hint = nearest(&key.name, names.map(|other| other.name.as_str()));
    Some(Note {
        kind: match route.name.kind {
            RouteKind::Grpc => "GRPCRoute",
            RouteKind::Http => "HTTPRoute",
        },
        object: route.name.key.clone(),
        message: format!(
            "Gateway `{key}` of a parentRef does not exist, so no controller will write a status for it{hint}"
        ),
    })
}
