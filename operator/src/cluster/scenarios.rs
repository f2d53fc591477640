//! The operator against an API server in memory: what it writes, and what it leaves alone.

mod parameters;
mod refused;
mod storms;
mod workloads;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{advance, sleep, timeout};

use crate::cluster::apply::Applier;
use crate::cluster::events::Events;
use crate::cluster::fake::Cluster;
use crate::cluster::leader::Election;
use crate::cluster::observe::{Acknowledged, Acknowledgements, Obstacles};
use crate::cluster::refusals;
use crate::cluster::telemetry::Telemetry;
use crate::cluster::translation::{self, Inputs, Outputs};
use crate::cluster::watch as cluster;
use crate::cluster::write::Writer;

const US: &str = "postern.dev/gateway-controller";

const SHOP: &str = r#"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: postern}
spec: {controllerName: postern.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: shop}
spec:
  gatewayClassName: postern
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app, namespace: shop}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: web}]
  rules: [{backendRefs: [{name: app, port: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: app, namespace: shop}
spec: {ports: [{port: 80}]}
"#;

/// An operator that runs, and what a test can do to its world.
pub struct Running {
    /// What it counts.
    pub telemetry: Telemetry,
    cluster: Cluster,
    leads: watch::Sender<bool>,
    acknowledged: watch::Sender<Acknowledgements>,
    _ca: watch::Sender<Option<String>>,
}

/// Starts one.
pub fn start(cluster: &Cluster) -> Running {
    let client = cluster.client();
    let telemetry = Telemetry::default();
    let (seen_to, seen) = watch::channel(None);
    let (current_to, current) = watch::channel(None);
    let (translations_to, _) = watch::channel(None);
    let (obstacles_to, obstacles) = watch::channel(Obstacles::new());
    let (acknowledged_to, acknowledged) = watch::channel(Acknowledgements::new());
    let (leads_to, leads) = watch::channel(true);
    let (ca_to, ca) = watch::channel(Some("bundle".to_owned()));
    let settings = postern_translate::snapshot::Settings {
        infrastructure: Some(postern_translate::snapshot::Infrastructure {
            image: "example.com/postern:1".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    tokio::spawn(cluster::run(client.clone(), seen_to, telemetry.clone()));
    let said = acknowledged.clone();
    let inputs = Inputs { settings, seen, acknowledged, obstacles };
    let outputs = Outputs { current: current_to, translations: translations_to };
    tokio::spawn(translation::run(inputs, outputs, telemetry.clone()));
    let applier = Applier::new(client.clone(), US, telemetry.clone());
    tokio::spawn(applier.run(current.clone(), leads.clone(), ca, obstacles_to));
    let events = Events::new(client.clone(), US, "test");
    tokio::spawn(refusals::run(said, current.clone(), leads.clone(), events.clone()));
    let writer = Writer::new(client, US, events, telemetry.clone());
    tokio::spawn(writer.run(current, leads));
    Running {
        telemetry,
        cluster: cluster.clone(),
        leads: leads_to,
        acknowledged: acknowledged_to,
        _ca: ca_to,
    }
}

/// A cluster with a shop, and an operator that has accepted its route.
async fn shop() -> (Cluster, Running) {
    let cluster = Cluster::default();
    cluster.put(SHOP);
    let running = start(&cluster);
    running.until("the route is accepted", |it| parents(it).len() == 1).await;
    (cluster, running)
}

impl Running {
    /// Waits until this holds; the test fails when it does not come true.
    pub async fn until(&self, what: &str, holds: impl Fn(&Cluster) -> bool) {
        let wait = async {
            while !holds(&self.cluster) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(timeout(Duration::from_secs(20), wait).await.is_ok(), "it never came true that {what}");
    }

    /// Waits until nothing has been written for a while, and gives what was until then.
    pub async fn at_rest(&self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            sleep(Duration::from_millis(400)).await;
            let new = self.cluster.written();
            if new.is_empty() {
                return all;
            }
            all.extend(new);
        }
    }
}

/// A condition as `STATUS/REASON`; empty when there is none.
pub fn condition(conditions: &Value, kind: &str) -> String {
    let all = conditions.as_array().into_iter().flatten();
    let found = all.into_iter().find(|condition| condition["type"] == kind);
    found.map_or(String::new(), |it| {
        format!("{}/{}", it["status"].as_str().unwrap_or("?"), it["reason"].as_str().unwrap_or("?"))
    })
}

/// Whether a condition of `shop/web` is so.
pub fn gateway_is(cluster: &Cluster, kind: &str, wanted: &str) -> bool {
    condition(&cluster.get("gateways", "shop", "web")["status"]["conditions"], kind) == wanted
}

fn parents(cluster: &Cluster) -> Vec<Value> {
    cluster.get("httproutes", "shop", "app")["status"]["parents"].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn first_sync_makes_the_workload_and_programmed_waits_for_address_and_data_planes() {
    let cluster = Cluster::default();
    cluster.put(SHOP);
    let running = start(&cluster);
    running.until("there is no address", |it| gateway_is(it, "Programmed", "False/AddressNotAssigned")).await;
    running
        .until("there is a Deployment", |it| !it.get("deployments", "shop", "web-postern").is_null())
        .await;
    running
        .until("the bundle is there", |it| {
            it.get("configmaps", "shop", "web-postern")["data"]["ca.crt"] == "bundle"
        })
        .await;
    assert_eq!(cluster.get("services", "shop", "web-postern")["spec"]["ports"][0]["targetPort"], 80);
    assert!(!cluster.get("serviceaccounts", "shop", "web-postern").is_null());

    cluster.change("services", "shop", "web-postern", |service| {
        service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
    });
    running.until("data planes are waited for", |it| gateway_is(it, "Programmed", "False/Pending")).await;
    cluster.change("deployments", "shop", "web-postern", |it| it["status"] = json!({ "readyReplicas": 1 }));
    let said = Acknowledged { generation: Some(1), ..Acknowledged::default() };
    running.acknowledged.send_replace([("shop/web".parse().expect("a key"), said)].into());
    running.until("it is programmed", |it| gateway_is(it, "Programmed", "True/Programmed")).await;
    assert_eq!(cluster.get("gateways", "shop", "web")["status"]["addresses"][0]["value"], "192.0.2.1");
    assert_eq!(condition(&parents(&cluster)[0]["conditions"], "Accepted"), "True/Accepted");
    let features = &cluster.get("gatewayclasses", "", "postern")["status"]["supportedFeatures"];
    assert!(features.as_array().is_some_and(|features| features.len() > 10));
}

#[tokio::test]
async fn at_rest_nothing_is_written_and_each_object_was_written_few_times() {
    let (cluster, running) = shop().await;
    let written = running.at_rest().await;
    let of_route = written.iter().filter(|it| it.contains("httproutes")).count();
    assert!(of_route == 1 && written.len() <= 10, "{written:#?}");

    // Storms of others: objects that change with nothing new for us.
    for number in 0..50 {
        cluster.change("httproutes", "shop", "app", |it| {
            it["metadata"]["annotations"] = json!({ "n": number.to_string() })
        });
        cluster.change("gateways", "shop", "web", |it| {
            it["metadata"]["annotations"] = json!({ "n": number.to_string() })
        });
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(running.at_rest().await, Vec::<String>::new());
}

#[tokio::test]
async fn entries_and_conditions_of_others_are_kept() {
    let cluster = Cluster::default();
    cluster.put(SHOP);
    let theirs = json!({ "parentRef": { "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "other", "namespace": "shop" },
        "controllerName": "example.com/other", "conditions": [{ "type": "Accepted", "status": "True", "reason": "Accepted",
            "message": "", "observedGeneration": 1, "lastTransitionTime": "2024-01-01T00:00:00Z" }] });
    let foreign = json!({ "type": "example.com/Audited", "status": "True", "reason": "Done", "message": "",
        "observedGeneration": 1, "lastTransitionTime": "2024-01-01T00:00:00Z" });
    cluster.change("httproutes", "shop", "app", |it| it["status"] = json!({ "parents": [theirs.clone()] }));
    cluster.change("gateways", "shop", "web", |it| it["status"] = json!({ "conditions": [foreign.clone()] }));
    let running = start(&cluster);
    running.until("ours is there, too", |it| parents(it).len() == 2).await;
    assert!(parents(&cluster).contains(&theirs));
    running.until("the Gateway is judged", |it| gateway_is(it, "Accepted", "True/Accepted")).await;
    let conditions = cluster.get("gateways", "shop", "web")["status"]["conditions"].clone();
    assert!(conditions.as_array().is_some_and(|all| all.contains(&foreign)), "{conditions}");

    // Whoever likes another order of conditions has it.
    running.at_rest().await;
    cluster.change("gateways", "shop", "web", |it| {
        it["status"]["conditions"].as_array_mut().expect("conditions").reverse()
    });
    assert_eq!(running.at_rest().await, Vec::<String>::new());

    // A route that leaves us keeps theirs and loses ours.
    cluster.change("httproutes", "shop", "app", |it| it["spec"]["parentRefs"][0]["name"] = "other".into());
    running.until("ours is gone", |it| parents(it) == [theirs.clone()]).await;
}

#[tokio::test]
async fn who_writes_in_between_wins_and_is_kept() {
    let cluster = Cluster::default();
    cluster.put(SHOP);
    let theirs = json!({ "parentRef": { "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web", "namespace": "shop" },
        "controllerName": "example.com/other", "conditions": [] });
    let entry = theirs.clone();
    cluster.meddle("httproutes/status", move |object| {
        object["status"] = json!({ "parents": [entry.clone()] });
    });
    let running = start(&cluster);
    running
        .until("both are there", |it| parents(it).len() == 2 && gateway_is(it, "Accepted", "True/Accepted"))
        .await;
    assert!(parents(&cluster).contains(&theirs));
    let written = running.at_rest().await;
    assert!(written.iter().filter(|it| it.ends_with("/status")).count() <= 6, "{written:#?}");
    cluster.change("httproutes", "shop", "app", |it| {
        let mut all = parents_of(it);
        all.push(theirs.clone());
        it["status"]["parents"] = all.into();
    });
    running.at_rest().await;
    assert!(parents(&cluster).contains(&theirs));
}

fn parents_of(route: &Value) -> Vec<Value> {
    let parents = route["status"]["parents"].as_array().cloned().unwrap_or_default();
    parents.into_iter().filter(|it| it["controllerName"] != "example.com/other").collect()
}

#[tokio::test]
async fn a_replica_that_does_not_lead_writes_nothing() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    running.leads.send_replace(false);
    cluster.change("gateways", "shop", "web", |it| it["spec"]["listeners"][0]["port"] = 8080.into());
    assert_eq!(running.at_rest().await, Vec::<String>::new());
    running.leads.send_replace(true);
    running
        .until("the Service follows", |it| {
            it.get("services", "shop", "web-postern")["spec"]["ports"][0]["port"] == 8080
        })
        .await;
}

#[tokio::test]
async fn a_kind_that_is_missing_keeps_no_other_from_working() {
    let cluster = Cluster::default();
    cluster.uninstall("grpcroutes", true);
    cluster.put(SHOP);
    let running = start(&cluster);
    running.until("the route is accepted", |it| parents(it).len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_picked_up_when_it_is_installed_and_dropped_when_it_is_removed() {
    let cluster = Cluster::default();
    cluster.uninstall("grpcroutes", true);
    cluster.put(SHOP);
    let running = start(&cluster);
    running.until("the route is accepted", |it| parents(it).len() == 1).await;
    cluster.uninstall("grpcroutes", false);
    cluster.put(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {name: api, namespace: shop}\n\
         spec: {parentRefs: [{name: web}], rules: [{}]}",
    );
    let attached = |wanted: i64| {
        move |it: &Cluster| {
            it.get("gateways", "shop", "web")["status"]["listeners"][0]["attachedRoutes"] == wanted
        }
    };
    sleep(Duration::from_secs(25)).await;
    running.until("it is attached", attached(2)).await;
    cluster.uninstall("grpcroutes", true);
    sleep(Duration::from_secs(25)).await;
    running.until("it is not attached any more", attached(1)).await;
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_the_api_server_is_away_is_seen_when_it_is_back() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    cluster.down(true);
    cluster.change("gateways", "shop", "web", |it| it["spec"]["listeners"][0]["port"] = 8080.into());
    cluster.remove("httproutes", "shop", "app");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.written(), Vec::<String>::new());
    cluster.down(false);
    sleep(Duration::from_secs(60)).await;
    running
        .until("the Service follows", |it| {
            it.get("services", "shop", "web-postern")["spec"]["ports"][0]["port"] == 8080
        })
        .await;
    running
        .until("the route is not counted any more", |it| {
            it.get("gateways", "shop", "web")["status"]["listeners"][0]["attachedRoutes"] == 0
        })
        .await;
}

#[tokio::test]
async fn a_route_whose_gateway_is_gone_has_no_entry_of_ours() {
    let (cluster, running) = shop().await;
    cluster.remove("gateways", "shop", "web");
    running.until("its entry is gone", |it| parents(it).is_empty()).await;
}

#[tokio::test]
async fn an_object_that_cannot_be_read_keeps_no_other_from_working() {
    let cluster = Cluster::default();
    cluster.put(SHOP);
    cluster.put("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: odd, namespace: shop}\nspec: {rules: 7}");
    let running = start(&cluster);
    running.until("the route is accepted", |it| parents(it).len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn one_replica_leads_and_the_next_waits_until_the_lease_has_run_out_by_its_own_clock() {
    let cluster = Cluster::default();
    let elections =
        ["one", "two"].map(|name| Election::new(cluster.client(), "postern-system", "postern", name));
    let [(one_to, one), (two_to, two)] = [watch::channel(false), watch::channel(false)];
    let [mut first, mut second] = elections;
    first.round(&one_to).await;
    second.round(&two_to).await;
    assert!(*one.borrow() && !*two.borrow());

    // The API server is away: the first stops in time, and the second cannot know.
    cluster.down(true);
    advance(Duration::from_secs(11)).await;
    first.round(&one_to).await;
    assert!(!*one.borrow(), "who cannot renew stops before others may begin");
    cluster.down(false);
    second.round(&two_to).await;
    assert!(!*two.borrow());
    advance(Duration::from_secs(5)).await;
    second.round(&two_to).await;
    assert!(*two.borrow());
    first.round(&one_to).await;
    assert!(!*one.borrow());
}
