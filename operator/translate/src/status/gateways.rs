//! The status of a Gateway: what it and each of its listeners can be, and what the world made of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use postern_config::ObjectKey;

use super::{ConditionType, Conditions, Counts, Reason, Refusal};
use crate::api::{GROUP, GatewayStatus, GatewayStatusAddress, ListenerStatus, ProtocolType, RouteGroupKind};
use crate::conflicts::quoted;
use crate::listeners::{OurGateway, OurListener, Service};
use crate::snapshot::{Observed, ObservedGateway};

/// The status of one Gateway.
pub(super) fn status(
    key: &ObjectKey,
    ours: &OurGateway<'_>,
    observed: &Observed,
    counts: &Counts<'_>,
) -> GatewayStatus {
    let asked = matches!(observed, Observed::Known(_));
    let observed = world(key, ours, observed);
    let not_yet = not_yet(ours, asked, &observed);
    let listeners = ours.listeners.iter().enumerate();
    let states: Vec<Option<Refusal>> = ours
        .listeners
        .iter()
        .map(|listener| not_programmed(ours, listener, not_yet.as_ref(), &observed))
        .collect();
    let entries = listeners.zip(&states).map(|((index, listener), state)| {
        let attached = counts.get(&(key, index)).copied().unwrap_or_default();
        entry(&ours.object.metadata, listener, state.as_ref(), attached)
    });
    GatewayStatus {
        listeners: entries.collect(),
        conditions: conditions(ours, not_yet, &states),
        addresses: observed.addresses,
        attached_listener_sets: None,
    }
}

/// What is known of the Gateway, or what is assumed of one that has anything to serve.
fn world(key: &ObjectKey, ours: &OurGateway<'_>, observed: &Observed) -> ObservedGateway {
    match observed {
        Observed::Known(gateways) => gateways.get(key).cloned().unwrap_or_default(),
        Observed::Assumed => {
            let serves = ours.listeners.iter().any(|listener| listener.service != Service::None);
            let address =
                || GatewayStatusAddress { kind: Some("IPAddress".into()), value: "127.0.0.1".into() };
            ObservedGateway {
                addresses: serves.then(address).into_iter().collect(),
                ..ObservedGateway::default()
            }
        }
    }
}

fn conditions(
    ours: &OurGateway<'_>,
    not_yet: Option<Refusal>,
    states: &[Option<Refusal>],
) -> Vec<crate::api::Condition> {
    let conditions = Conditions::of(&ours.object.metadata);
    let invalid = names(ours, |listener| listener.refusal.is_some());
    let none_valid = invalid.len() == ours.listeners.len();
    let refusal =
        ours.refusal.clone().or_else(|| none_valid.then(|| Reason::ListenersNotValid.because(why(&invalid))));
    let (reason, message) = match invalid.as_slice() {
        [] => (Reason::Accepted, "the Gateway and all of its listeners are valid".into()),
        invalid => (Reason::ListenersNotValid, why(invalid)),
    };
    let conditions = conditions.unless(refusal.as_ref(), ConditionType::Accepted, reason, message);

    let programmed = match refusal {
        Some(_) => Some(Reason::Invalid.because("the Gateway is not accepted: see the condition Accepted")),
        None => not_yet.or_else(|| {
            let none = states.iter().all(Option::is_some);
            none.then(|| {
                Reason::Invalid.because("no listener is programmed: see the conditions of the listeners")
            })
        }),
    };
    let message = "data planes serve this generation of the Gateway";
    let conditions =
        conditions.unless(programmed.as_ref(), ConditionType::Programmed, Reason::Programmed, message);

    let unresolved = names(ours, |listener| listener.unresolved.is_some());
    let unresolved = ours.unresolved.clone().or_else(|| {
        let message =
            format!("references of listener {} cannot be followed: see its conditions", quoted(&unresolved));
        (!unresolved.is_empty()).then(|| Reason::ListenersNotResolved.because(message))
    });
    let message = "all references can be followed";
    conditions
        .unless(unresolved.as_ref(), ConditionType::ResolvedRefs, Reason::ResolvedRefs, message)
        .sorted()
}

fn names<'a>(ours: &OurGateway<'a>, which: impl Fn(&OurListener<'a>) -> bool) -> Vec<&'a str> {
    ours.listeners
        .iter()
        .filter(|listener| which(listener))
        .map(|listener| listener.spec.name.as_str())
        .collect()
}

fn why(invalid: &[&str]) -> String {
    match invalid {
        [] => "the Gateway has no listeners: add one".into(),
        invalid => format!("listener {} is not valid: see its conditions", quoted(invalid)),
    }
}

/// Why nothing of the Gateway is programmed, as far as the world goes.
fn not_yet(ours: &OurGateway<'_>, asked: bool, observed: &ObservedGateway) -> Option<Refusal> {
    if !asked {
        return None;
    }
    if let Some(obstacle) = &observed.obstacle {
        return Some(Reason::Invalid.because(obstacle.as_str()));
    }
    let given = |value: &String| observed.addresses.iter().any(|address| address.value == *value);
    let wanted = ours.object.spec.addresses.iter().filter_map(|address| address.value.as_ref());
    let refused = wanted.filter(|value| !value.is_empty()).find(|value| !given(value));
    if let Some(address) = refused {
        let message = format!("the address `{address}` was not assigned: use one that the network can give");
        return Some(Reason::AddressNotUsable.because(message));
    }
    if observed.addresses.is_empty() {
        return Some(Reason::AddressNotAssigned.because("no address has been assigned to the Gateway yet"));
    }
    (observed.acknowledged_generation != ours.object.metadata.generation)
        .then(|| Reason::Pending.because("not all data planes have this generation of the Gateway yet"))
}

/// Why a listener does not serve.
fn not_programmed(
    gateway: &OurGateway<'_>,
    listener: &OurListener<'_>,
    not_yet: Option<&Refusal>,
    observed: &ObservedGateway,
) -> Option<Refusal> {
    let invalid = |message: &str| Some(Reason::Invalid.because(message));
    match &listener.refusal {
        Some(refusal) if listener.conflicted => return Some(refusal.clone()),
        Some(_) => return invalid("the listener is not accepted: see the condition Accepted"),
        None => {}
    }
    if gateway.refusal.is_some() {
        return invalid("the Gateway is not accepted: see its condition Accepted");
    }
    if listener.kinds.is_empty() {
        return invalid(
            "the listener can carry no kind of route that it allows: see the condition ResolvedRefs",
        );
    }
    if listener.spec.protocol == ProtocolType::Https && listener.certificates.is_empty() {
        return invalid(
            "the listener has no certificate, so it refuses every connection: see the condition ResolvedRefs",
        );
    }
    if let Some(problem) = observed.failed_listeners.get(&listener.spec.name) {
        return Some(Reason::PortUnavailable.because(problem.as_str()));
    }
    if let Some(problem) = observed.refused_listeners.get(&listener.spec.name) {
        return Some(Reason::Invalid.because(format!(
            "data planes refused a part of the listener, and serve what they had before: {problem}"
        )));
    }
    not_yet.map(|refusal| Reason::Pending.because(refusal.message.as_str()))
}

fn entry(
    metadata: &ObjectMeta,
    listener: &OurListener<'_>,
    not_programmed: Option<&Refusal>,
    attached_routes: i32,
) -> ListenerStatus {
    let conditions = Conditions::of(metadata)
        .unless(listener.refusal.as_ref(), ConditionType::Accepted, Reason::Accepted, "the listener is valid")
        .unless(
            not_programmed,
            ConditionType::Programmed,
            Reason::Programmed,
            "data planes serve the listener",
        )
        .unless(
            listener.unresolved.as_ref(),
            ConditionType::ResolvedRefs,
            Reason::ResolvedRefs,
            resolved(listener),
        );
    let conditions = match &listener.refusal {
        Some(conflict) if listener.conflicted => {
            conditions.yes(ConditionType::Conflicted, conflict.reason, conflict.message.as_str())
        }
        _ => {
            let none = Reason::NoConflicts.because("the listener can be told apart from all others");
            conditions.no(ConditionType::Conflicted, &none)
        }
    };
    let conditions = match listener.overlaps.as_slice() {
        [] => conditions,
        overlaps => conditions.yes(
            ConditionType::OverlappingTLSConfig,
            Reason::OverlappingHostnames,
            format!(
                "the hostname overlaps with that of listener {}: requests that a client sends on a connection of the other are answered 421",
                quoted(overlaps)
            ),
        ),
    };
    let supported_kinds = listener
        .kinds
        .iter()
        .map(|kind| RouteGroupKind { group: Some(GROUP.into()), kind: kind.to_string() });
    ListenerStatus {
        name: listener.spec.name.clone(),
        supported_kinds: supported_kinds.collect(),
        attached_routes,
        conditions: conditions.sorted(),
    }
}

/// What there is to say of references that can be followed.
fn resolved(listener: &OurListener<'_>) -> String {
    match listener.validity.as_slice() {
        [] => "all references can be followed".into(),
        validity => format!("all references can be followed; {}", validity.join(", ")),
    }
}
