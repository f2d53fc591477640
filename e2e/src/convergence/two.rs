//! Two controllers on one object: each keeps what it wrote, and neither answers the other for ever.

use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::operator;
use crate::cluster::{Cluster, Error, is_programmed, wait};
use crate::facts::Facts;

/// What this makes, and what has to end.
pub const NAMESPACES: &[&str] = &["convergence-two"];

/// The other controller, and its field manager.
const OTHER: &str = "example.com/other-controller";
/// Its condition.
const AUDITED: &str = "example.com/Audited";
const ROUNDS: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(20);

const WORLD: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: postern
  listeners: [{ name: http, port: 80, protocol: HTTP }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: other }
spec:
  gatewayClassName: of-another-controller
  listeners: [{ name: http, port: 80, protocol: HTTP }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: route }
spec:
  parentRefs: [{ name: other }, { name: web }]
  hostnames: [first.test]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: { name: route }
spec:
  parentRefs: [{ name: web }, { name: other }]
  hostnames: [first.test]
";

/// Runs this part.
pub async fn run(cluster: &Cluster, facts: &mut Facts) -> Result<(), Error> {
    let namespace = NAMESPACES[0];
    cluster.namespace(namespace).await?;
    cluster.apply(namespace, WORLD).await?;
    cluster.address(namespace, "web").await?;
    for kind in ["HTTPRoute", "GRPCRoute"] {
        let route = Route { kind, api: cluster.gateway_api(kind, namespace) };
        route.shared(cluster, facts).await?;
    }
    gateway(cluster, facts, &cluster.gateway_api("Gateway", namespace)).await
}

/// A route of two Gateways, each of its own controller.
struct Route {
    kind: &'static str,
    api: Api<DynamicObject>,
}

impl Route {
    async fn shared(&self, cluster: &Cluster, facts: &mut Facts) -> Result<(), Error> {
        let kind = self.kind;
        self.until("ours is there", |route| ours(route).len() == 1).await?;
        let mut last = self.write(0).await?;
        for round in 1..=ROUNDS {
            let spec = json!({ "spec": { "hostnames": [format!("round-{round}.test")] } });
            let (how, what) = (PatchParams::default(), Patch::Merge(&spec));
            let (changed, written) = tokio::join!(self.api.patch("route", &how, &what), self.write(round));
            changed?;
            last = written?;
        }
        let is_right = |route: &DynamicObject| is_current(route) && theirs(route) == [&last];
        let route = self.until("both are there", is_right).await;
        let what = format!("{kind}: after {ROUNDS} changes by both, each has its own entry and no other");
        facts.check(what, route.is_ok_and(|route| entries(&route).len() == 2));
        self.settles(cluster, facts, "then").await?;

        let careless = json!({ "status": { "parents": [last.clone()] } });
        self.api.patch_status("route", &PatchParams::default(), &Patch::Merge(&careless)).await?;
        let route = self.until("both are there", is_right).await;
        facts.check(
            format_args!("{kind}: who writes over our entry finds it again beside its own"),
            route.is_ok(),
        );
        self.settles(cluster, facts, "then").await?;

        self.change_status(|parents| parents.retain(|entry| entry["controllerName"] != OTHER)).await?;
        self.settles(cluster, facts, "with the other's entry removed").await?;
        let route = self.api.get("route").await?;
        facts.check(
            format_args!("{kind}: ours stays and theirs does not come back"),
            is_current(&route) && entries(&route).len() == 1,
        );
        Ok(())
    }

    /// The entry of the other controller, written as a careful controller does: read, change, and write what was read.
    async fn write(&self, round: u32) -> Result<Value, Error> {
        let status = if round.is_multiple_of(2) { "True" } else { "False" };
        let entry = json!({
            "controllerName": OTHER,
            "parentRef": { "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "other" },
            "conditions": [condition("Accepted", status, round)],
        });
        self.change_status(|parents| {
            match parents.iter_mut().find(|entry| entry["controllerName"] == OTHER) {
                Some(there) => *there = entry.clone(),
                None => parents.insert(0, entry.clone()),
            }
        })
        .await?;
        Ok(entry)
    }

    async fn change_status(&self, change: impl Fn(&mut Vec<Value>)) -> Result<(), Error> {
        loop {
            let route = self.api.get("route").await?;
            let mut parents = entries(&route).into_iter().cloned().collect();
            change(&mut parents);
            let patch = json!({
                "metadata": { "resourceVersion": route.metadata.resource_version }, "status": { "parents": parents },
            });
            match self.api.patch_status("route", &PatchParams::default(), &Patch::Merge(&patch)).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                other => return Ok(other.map(drop)?),
            }
        }
    }

    async fn until(
        &self,
        what: &str,
        holds: impl Fn(&DynamicObject) -> bool,
    ) -> Result<DynamicObject, Error> {
        let mut last = None;
        let within = wait(PATIENCE, async || {
            let route = self.api.get("route").await?;
            let holds = holds(&route);
            last = Some(route);
            Ok(holds)
        });
        let holds = within.await?;
        last.filter(|_| holds)
            .ok_or_else(|| format!("{}: it does not come true that {what}", self.kind).into())
    }

    async fn settles(&self, cluster: &Cluster, facts: &mut Facts, when: &str) -> Result<(), Error> {
        let settles = settles(cluster, &self.api, "route").await?;
        facts.check(format_args!("{}: {when} nobody writes any more", self.kind), settles);
        Ok(())
    }
}

/// A Gateway on which another controller has a condition, and one on its listener, by server-side apply.
async fn gateway(cluster: &Cluster, facts: &mut Facts, api: &Api<DynamicObject>) -> Result<(), Error> {
    for round in 1..=ROUNDS {
        let allowed = if round.is_multiple_of(2) { "All" } else { "Same" };
        let listener = json!({ "name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": { "namespaces": { "from": allowed } } });
        let spec = json!({ "spec": { "listeners": [listener] } });
        let (how, what) = (PatchParams::default(), Patch::Merge(&spec));
        let (changed, applied) = tokio::join!(api.patch("web", &how, &what), audit(api, Some(round)));
        changed?;
        applied?;
    }
    let wanted = condition(AUDITED, "True", ROUNDS);
    let is_right = |gateway: &DynamicObject| is_programmed(gateway) && audits(gateway) == [&wanted, &wanted];
    let is_kept = cluster.until(PATIENCE, api, "web", is_right).await.is_ok();
    facts.check(
        format_args!(
            "Gateway: after {ROUNDS} changes by both, conditions of the other's type are as it wrote them"
        ),
        is_kept,
    );
    facts.check("Gateway: then nobody writes any more", settles(cluster, api, "web").await?);
    audit(api, None).await?;
    facts.check(
        "Gateway: with the other's conditions removed nobody writes, either",
        settles(cluster, api, "web").await?,
    );
    let gateway = api.get("web").await?;
    facts.check(
        "Gateway: ours stay and theirs do not come back",
        is_programmed(&gateway) && audits(&gateway).is_empty(),
    );
    Ok(())
}

/// Applies the conditions of the other controller, or that there are none.
async fn audit(api: &Api<DynamicObject>, round: Option<u32>) -> Result<(), Error> {
    let conditions = Vec::from_iter(round.map(|round| condition(AUDITED, "True", round)));
    let listener = json!({ "name": "http", "conditions": conditions });
    let status = match round {
        Some(_) => json!({ "conditions": conditions, "listeners": [listener] }),
        None => json!({}),
    };
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": { "name": "web" }, "status": status,
    });
    let how = PatchParams::apply(OTHER).force();
    api.patch_status("web", &how, &Patch::Apply(&object)).await?;
    Ok(())
}

/// Whether an object keeps its version and the operator writes nothing for some seconds.
async fn settles(cluster: &Cluster, api: &Api<DynamicObject>, name: &str) -> Result<bool, Error> {
    let quiet = Duration::from_secs(4);
    if !operator::settles(cluster, quiet, Duration::from_secs(30)).await? {
        return Ok(false);
    }
    let before = api.get(name).await?.metadata.resource_version;
    sleep(quiet).await;
    Ok(api.get(name).await?.metadata.resource_version == before)
}

fn condition(kind: &str, status: &str, round: u32) -> Value {
    json!({
        "type": kind, "status": status, "reason": "Checked", "message": format!("in round {round}"),
        "observedGeneration": round, "lastTransitionTime": "2024-01-01T00:00:00Z",
    })
}

fn entries(route: &DynamicObject) -> Vec<&Value> {
    route.data["status"]["parents"].as_array().into_iter().flatten().collect()
}

fn theirs(route: &DynamicObject) -> Vec<&Value> {
    entries(route).into_iter().filter(|entry| entry["controllerName"] == OTHER).collect()
}

fn ours(route: &DynamicObject) -> Vec<&Value> {
    entries(route).into_iter().filter(|entry| entry["controllerName"] != OTHER).collect()
}

/// Whether there is one entry of ours, and it speaks of the route as it is now.
fn is_current(route: &DynamicObject) -> bool {
    let ours = ours(route);
    let is_of_now = |condition: &Value| condition["observedGeneration"].as_i64() == route.metadata.generation;
    ours.len() == 1
        && ours[0]["conditions"].as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_of_now))
}

/// The conditions of the other's type, of the Gateway and of its listener.
fn audits(gateway: &DynamicObject) -> Vec<&Value> {
    let status = &gateway.data["status"];
    let all = [&status["conditions"], &status["listeners"][0]["conditions"]];
    let all = all.into_iter().filter_map(Value::as_array).flatten();
    all.filter(|condition| condition["type"] == AUDITED).collect()
}
