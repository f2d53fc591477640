//! Objects that make translation panic, as these tests have it, beside others that do not.

use std::fmt::Write;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use postern_config::RouteName;
use postern_translate::kinds::AnyObject;
use serde_json::Value;

use super::*;
use crate::cluster::fake::Cluster;
use crate::cluster::scenarios::{condition, gateway_is, start};

/// What has this annotation makes translation panic.
const PANICS: &str = "test/panics";

pub fn trip(snapshot: &Snapshot) {
    let objects = &snapshot.objects;
    let panics = |metadata: &ObjectMeta| {
        let annotations = metadata.annotations.as_ref();
        assert!(annotations.is_none_or(|all| !all.contains_key(PANICS)), "for the test");
    };
    objects.http_routes.values().for_each(|it| panics(&it.metadata));
    objects.gateways.values().for_each(|it| panics(&it.metadata));
    objects.services.values().for_each(|it| panics(&it.metadata));
}

/// Two Gateways, one with a hundred routes and one with one.
fn shop() -> String {
    let mut yaml = String::from(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: postern}\n\
         spec: {controllerName: postern.dev/gateway-controller}\n",
    );
    for (name, routes) in [("web", 100), ("other", 1)] {
        let _ = write!(
            yaml,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec: {{gatewayClassName: postern, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}\n\
             ---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{ports: [{{port: 80}}]}}\n"
        );
        (0..routes).for_each(|number| yaml.push_str(&route(name, number, "")));
    }
    yaml
}

fn route(gateway: &str, number: u32, annotation: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: {gateway}-{number}, namespace: shop, generation: 7, annotations: {{{annotation}}}}}\n\
         spec: {{parentRefs: [{{name: {gateway}}}], hostnames: [h{number}.test], rules: [{{}}]}}\n"
    )
}

fn snapshot(yaml: &str) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for document in serde_saphyr::from_multiple::<Value>(yaml).expect("the test's YAML is right") {
        let api_version = document["apiVersion"].as_str().expect("a version");
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = document["kind"].as_str().expect("a kind").to_owned();
        let object = AnyObject::parse(group, &kind, &document).expect("a kind that we read");
        snapshot.objects.insert(object.expect("an object"));
    }
    snapshot
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

/// Names of the routes that a Gateway serves.
fn served(guarded: &Guarded, gateway: &str) -> Vec<RouteName> {
    let translation = guarded.translation.as_ref().expect("a translation");
    translation
        .plans
        .get(&key(gateway))
        .map(|plan| plan.config.routes.keys().cloned().collect())
        .unwrap_or_default()
}

fn poisoned(mut snapshot: Snapshot, kind: &str, name: &str) -> Snapshot {
    let objects = &mut snapshot.objects;
    let metadata = match kind {
        "Gateway" => &mut Arc::make_mut(objects.gateways.get_mut(&key(name)).expect("it")).metadata,
        "Service" => &mut Arc::make_mut(objects.services.get_mut(&key(name)).expect("it")).metadata,
        _ => &mut Arc::make_mut(objects.http_routes.get_mut(&key(name)).expect("it")).metadata,
    };
    metadata.generation = Some(8);
    metadata.annotations.get_or_insert_default().insert(PANICS.into(), "yes".into());
    snapshot
}

#[test]
fn a_route_that_was_never_translated_is_left_out_and_told_so() {
    let snapshot = poisoned(snapshot(&shop()), "HTTPRoute", "web-42");
    let guarded = guarded(&mut Translator::default(), snapshot, &ObjectSet::default(), &[]);
    assert_eq!(guarded.guilty, [("HTTPRoute", key("web-42"))]);
    assert_eq!((served(&guarded, "web").len(), served(&guarded, "other").len()), (99, 1));
    let statuses = guarded.translation.expect("a translation").statuses.http_routes;
    let told = &statuses[&key("web-42")].parents[0].conditions[0];
    assert_eq!(
        (told.kind.as_str(), told.status, told.observed_generation),
        ("Accepted", ConditionStatus::False, Some(8))
    );
    let fine = statuses.values().filter(|it| it.parents[0].conditions[0].status == ConditionStatus::True);
    assert_eq!(fine.count(), 100);
}

#[test]
fn what_was_translated_before_is_served_as_it_was() {
    let former = snapshot(&shop());
    for (kind, name) in [("HTTPRoute", "web-42"), ("Gateway", "other"), ("Service", "web")] {
        let guarded =
            guarded(&mut Translator::default(), poisoned(former.clone(), kind, name), &former.objects, &[]);
        assert_eq!(guarded.guilty, [(kind, key(name))]);
        assert_eq!((served(&guarded, "web").len(), served(&guarded, "other").len()), (100, 1), "{kind}");
    }
}

#[test]
fn what_was_guilty_before_is_not_searched_for_again_and_not_once_it_is_well() {
    let former = snapshot(&shop());
    let name = ("HTTPRoute", key("web-42"));
    let suspects = [name.clone()];
    let again = guarded(
        &mut Translator::default(),
        poisoned(former.clone(), "HTTPRoute", "web-42"),
        &former.objects,
        &suspects,
    );
    assert_eq!(again.guilty, suspects);
    let two = poisoned(poisoned(former.clone(), "HTTPRoute", "web-42"), "HTTPRoute", "web-77");
    let two = guarded(&mut Translator::default(), two, &former.objects, &suspects);
    assert_eq!(two.guilty, [name, ("HTTPRoute", key("web-77"))]);
    assert!(
        guarded(&mut Translator::default(), former.clone(), &former.objects, &suspects).guilty.is_empty()
    );
}

#[test]
fn a_gateway_takes_no_other_with_it() {
    let guarded = guarded(
        &mut Translator::default(),
        poisoned(snapshot(&shop()), "Gateway", "other"),
        &ObjectSet::default(),
        &[],
    );
    assert_eq!(guarded.guilty, [("Gateway", key("other"))]);
    assert_eq!(served(&guarded, "web").len(), 100);
    let statuses = guarded.translation.expect("a translation").statuses.gateways;
    assert_eq!(statuses[&key("other")].conditions[0].reason, "InternalError");
}

#[tokio::test]
async fn ninety_nine_others_converge_and_the_poisoned_one_is_named() {
    let cluster = Cluster::default();
    cluster.put(&shop());
    let running = start(&cluster);
    let of = |it: &Cluster, number: u32| {
        let route = it.get("httproutes", "shop", &format!("web-{number}"));
        let parent = &route["status"]["parents"][0]["conditions"];
        let is_current = parent[0]["observedGeneration"] == route["metadata"]["generation"];
        (condition(parent, "Accepted"), is_current)
    };
    let is_fine = |it: &Cluster, number: u32| of(it, number) == ("True/Accepted".into(), true);
    running.until("all are accepted", |it| (0..100).all(|number| is_fine(it, number))).await;
    cluster.put(&route("web", 42, "test/panics: \"yes\"").replace("h42.test", "changed.test"));
    running.until("it is named", |it| of(it, 42) == ("False/InternalError".into(), true)).await;
    assert!(running.telemetry.panics.get() > 0);
    for number in (0..100).filter(|number| *number != 42) {
        cluster.put(&route("web", number, "").replace(".test", ".changed"));
    }
    running
        .until("the others converge", |it| (0..100).filter(|it| *it != 42).all(|number| is_fine(it, number)))
        .await;
    running.at_rest().await;
    // A Gateway that is poisoned keeps its workload.
    cluster.change("gateways", "shop", "web", |it| {
        it["metadata"]["annotations"] = serde_json::json!({ "test/panics": "yes" })
    });
    running.until("it is named, too", |it| gateway_is(it, "Accepted", "False/InternalError")).await;
    running.at_rest().await;
    assert!(!cluster.get("deployments", "shop", "web-postern").is_null());
    cluster.change("gateways", "shop", "web", |it| it["metadata"]["annotations"] = Value::Null);
    cluster.put(&route("web", 42, ""));
    running
        .until("all is well again", |it| is_fine(it, 42) && gateway_is(it, "Accepted", "True/Accepted"))
        .await;
}

#[tokio::test]
async fn a_gateway_that_an_operator_cannot_translate_from_its_start_keeps_its_workload() {
    let cluster = Cluster::default();
    cluster.put(&shop());
    let running = start(&cluster);
    let is_there = |it: &Cluster| !it.get("deployments", "shop", "other-postern").is_null();
    running.until("there is a Deployment", is_there).await;
    running.at_rest().await;
    drop(running);
    cluster.change("gateways", "shop", "other", |it| {
        it["metadata"]["annotations"] = serde_json::json!({ "test/panics": "yes" })
    });
    let running = start(&cluster);
    let told =
        |it: &Cluster| condition(&it.get("gateways", "shop", "other")["status"]["conditions"], "Accepted");
    running.until("it is named", |it| told(it) == "False/InternalError").await;
    running.at_rest().await;
    assert!(is_there(&cluster));
}
