//! Statuses as a cluster would hold them: with times, and with what other controllers wrote.

use std::time::{SystemTime, UNIX_EPOCH};

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use postern_config::ObjectKey;
use postern_translate::Statuses;
use postern_translate::api::{Condition, GatewayStatus, Kind, Object, ParentStatus, RouteStatus};
use postern_translate::kinds::{ObjectSet, Objects};
use postern_translate::snapshot::CONTROLLER_NAME;
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

/// The statuses that the objects come with.
pub fn present(objects: &ObjectSet) -> Statuses {
    let classes = objects
        .gateway_classes
        .iter()
        .filter_map(|(key, class)| Some((key.name.clone(), class.status.clone()?)));
    Statuses {
        gateway_classes: classes.collect(),
        gateways: statuses(&objects.gateways).collect(),
        http_routes: statuses(&objects.http_routes).map(|(key, status)| (key, Arc::new(status))).collect(),
        grpc_routes: statuses(&objects.grpc_routes).map(|(key, status)| (key, Arc::new(status))).collect(),
    }
}

fn statuses<S: Kind>(objects: &Objects<Object<S>>) -> impl Iterator<Item = (ObjectKey, S::Status)> {
    objects.iter().filter_map(|(key, object)| Some((key.clone(), object.status.clone()?)))
}

/// The statuses with times: a condition whose status is as it was keeps the time that it had.
pub fn stamped(mut new: Statuses, old: &Statuses, now: Timestamp) -> Statuses {
    for (name, status) in &mut new.gateway_classes {
        let old = old.gateway_classes.get(name).map_or(&[][..], |old| &old.conditions);
        stamp(&mut status.conditions, old, now);
    }
    for (key, status) in &mut new.gateways {
        stamp_gateway(status, old.gateways.get(key), now);
    }
    let routes = [(&mut new.http_routes, &old.http_routes), (&mut new.grpc_routes, &old.grpc_routes)];
    for (new, old) in routes {
        for (key, status) in new {
            stamp_route(Arc::make_mut(status), old.get(key).map(Arc::as_ref), now);
        }
    }
    new
}

fn stamp_gateway(new: &mut GatewayStatus, old: Option<&GatewayStatus>, now: Timestamp) {
    stamp(&mut new.conditions, old.map_or(&[], |old| &old.conditions), now);
    for listener in &mut new.listeners {
        let old = old.and_then(|old| old.listeners.iter().find(|old| old.name == listener.name));
        stamp(&mut listener.conditions, old.map_or(&[], |old| &old.conditions), now);
    }
}

fn stamp_route(new: &mut RouteStatus, old: Option<&RouteStatus>, now: Timestamp) {
    for parent in &mut new.parents {
        let same = |old: &&ParentStatus| is_ours(old) && old.parent_ref == parent.parent_ref;
        let old = old.and_then(|old| old.parents.iter().find(same));
        stamp(&mut parent.conditions, old.map_or(&[], |old| &old.conditions), now);
    }
}

fn stamp(conditions: &mut [Condition], old: &[Condition], now: Timestamp) {
    for condition in conditions {
        let same = |old: &&Condition| old.kind == condition.kind && old.status == condition.status;
        let kept = old.iter().find(same).and_then(|old| old.last_transition_time.clone());
        condition.last_transition_time = Some(kept.unwrap_or(Time(now)));
    }
}

fn is_ours(parent: &ParentStatus) -> bool {
    parent.controller_name == CONTROLLER_NAME
}

/// A `List` of the GatewayClasses, Gateways and routes, each with its status.
///
/// `wanted` chooses by namespace, which is empty for a GatewayClass.
pub fn list(objects: &ObjectSet, statuses: &Statuses, wanted: impl Fn(&str) -> bool) -> Value {
    let mut items = Vec::new();
    for (key, object) in chosen(&objects.gateway_classes, &wanted) {
        items.push(item(object, statuses.gateway_classes.get(&key.name)));
    }
    for (key, object) in chosen(&objects.gateways, &wanted) {
        items.push(item(object, statuses.gateways.get(key)));
    }
    for (key, object) in chosen(&objects.grpc_routes, &wanted) {
        items.push(item(
            object,
            joined(statuses.grpc_routes.get(key).map(Arc::as_ref), object.status.as_ref()).as_ref(),
        ));
    }
    for (key, object) in chosen(&objects.http_routes, &wanted) {
        items.push(item(
            object,
            joined(statuses.http_routes.get(key).map(Arc::as_ref), object.status.as_ref()).as_ref(),
        ));
    }
    json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items })
}

fn chosen<T>(objects: &Objects<T>, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (&ObjectKey, &T)> {
    objects.iter().filter(move |(key, _)| wanted(&key.namespace)).map(|(key, object)| (key, &**object))
}

/// The object with `status` in place of its own, which stays where there is none.
fn item<T: Serialize, S: Serialize>(object: &T, status: Option<&S>) -> Value {
    let mut value = serde_json::to_value(object).expect("our types serialize");
    if let Some(status) = status {
        value["status"] = serde_json::to_value(status).expect("our types serialize");
    }
    value
}

/// Ours, after the entries of other controllers, which are not ours to change.
fn joined(ours: Option<&RouteStatus>, present: Option<&RouteStatus>) -> Option<RouteStatus> {
    let others =
        present.into_iter().flat_map(|present| present.parents.iter().filter(|parent| !is_ours(parent)));
    let ours = ours.into_iter().flat_map(|ours| &ours.parents);
    let parents = Vec::from_iter(others.chain(ours).cloned());
    (present.is_some() || !parents.is_empty()).then_some(RouteStatus { parents })
}
