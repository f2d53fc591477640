//! Statuses as a cluster would hold them: with times, and with what other controllers wrote.

use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use postern_config::ObjectKey;
use postern_translate::Translation;
use postern_translate::api;
use postern_translate::api::{Condition, GatewayClassStatus, GatewayStatus, RouteStatus};
use postern_translate::kinds::{ObjectSet, Objects};
use serde::Serialize;
use serde_json::{Value, json};

/// The time that conditions are stamped with: now, or `SOURCE_DATE_EPOCH` for output that can be reproduced. Conditions
/// tell time in seconds.
pub fn now() -> Timestamp {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let clock =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
    Timestamp::from_second(fixed.unwrap_or_else(clock)).unwrap_or_default()
}

/// A `List` of the GatewayClasses, Gateways and routes, each with the status that a cluster would hold.
///
/// `wanted` chooses by namespace, which is empty for a GatewayClass.
pub fn list(
    objects: &ObjectSet,
    translation: &Translation,
    now: Timestamp,
    wanted: impl Fn(&str) -> bool,
) -> Value {
    let statuses = &translation.statuses;
    let mut items = Vec::new();
    for (key, object) in objects.gateway_classes.iter().filter(|_| wanted("")) {
        let status = statuses.gateway_classes.get(&key.name).cloned();
        let old = object.status.as_ref();
        items.push(item(&**object, status.map(|new| class(new, old, now))));
    }
    for (key, object) in chosen(&objects.gateways, &wanted) {
        let status = statuses.gateways.get(key).cloned();
        let old = object.status.as_ref();
        items.push(item(object, status.map(|new| gateway(new, old, now))));
    }
    let controller = postern_translate::snapshot::CONTROLLER_NAME;
    for (key, object) in chosen(&objects.grpc_routes, &wanted) {
        items.push(item(
            object,
            route(statuses.grpc_routes.get(key), object.status.as_ref(), controller, now),
        ));
    }
    for (key, object) in chosen(&objects.http_routes, &wanted) {
        items.push(item(
            object,
            route(statuses.http_routes.get(key), object.status.as_ref(), controller, now),
        ));
    }
    json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items })
}

fn chosen<T>(objects: &Objects<T>, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (&ObjectKey, &T)> {
    objects.iter().filter(move |(key, _)| wanted(&key.namespace)).map(|(key, object)| (key, &**object))
}

/// The object with `status` in place of its own, which stays where there is none.
fn item<T: Serialize, S: Serialize>(object: &T, status: Option<S>) -> Value {
    let mut value = serde_json::to_value(object).expect("our types serialize");
    if let Some(status) = status {
        value["status"] = serde_json::to_value(status).expect("our types serialize");
    }
    value
}

fn class(
    mut new: GatewayClassStatus,
    old: Option<&GatewayClassStatus>,
    now: Timestamp,
) -> GatewayClassStatus {
    stamp(&mut new.conditions, old.map_or(&[], |old| &old.conditions), now);
    new
}

fn gateway(mut new: GatewayStatus, old: Option<&GatewayStatus>, now: Timestamp) -> GatewayStatus {
    stamp(&mut new.conditions, old.map_or(&[], |old| &old.conditions), now);
    for listener in &mut new.listeners {
        let old = old.and_then(|old| old.listeners.iter().find(|old| old.name == listener.name));
        stamp(&mut listener.conditions, old.map_or(&[], |old| &old.conditions), now);
    }
    new
}

/// Ours, after the entries of other controllers, which are not ours to change.
fn route(
    new: Option<&RouteStatus>,
    old: Option<&RouteStatus>,
    controller: &str,
    now: Timestamp,
) -> Option<RouteStatus> {
    let old = old.map_or(&[][..], |old| &old.parents);
    let mut parents =
        Vec::from_iter(old.iter().filter(|parent| parent.controller_name != controller).cloned());
    for mut parent in new.into_iter().flat_map(|new| new.parents.iter().cloned()) {
        let same = |old: &&api::ParentStatus| {
            old.controller_name == controller && old.parent_ref == parent.parent_ref
        };
        let old = old.iter().find(same);
        stamp(&mut parent.conditions, old.map_or(&[], |old| &old.conditions), now);
        parents.push(parent);
    }
    (new.is_some() || !parents.is_empty()).then_some(RouteStatus { parents })
}

/// Sets the times: a condition whose status has not changed keeps its time.
fn stamp(conditions: &mut [Condition], old: &[Condition], now: Timestamp) {
    for condition in conditions {
        let same = |old: &&Condition| old.kind == condition.kind && old.status == condition.status;
        let kept = old.iter().find(same).and_then(|old| old.last_transition_time.clone());
        condition.last_transition_time = Some(kept.unwrap_or(Time(now)));
    }
}
