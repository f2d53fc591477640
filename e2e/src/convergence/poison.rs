//! The worst that the API server takes, beside 99 routes that go on answering and changing.

mod healthy;
mod manifest;

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::healthy::Healthy;
use self::manifest::{MANIFESTS, Says, expanded};
use super::operator;
use crate::cluster::{Cluster, Error, wait};
use crate::facts::Facts;

/// What this makes, and what has to end.
pub const NAMESPACES: &[&str] = &["convergence-poison", "convergence-elsewhere"];

const NAMESPACE: &str = NAMESPACES[0];
/// By when a poison has its status: longer than healthy routes have, which are what this is about.
const STATUS: Duration = Duration::from_secs(20);

/// Runs this part.
pub async fn run(cluster: &Cluster, facts: &mut Facts) -> Result<(), Error> {
    for namespace in NAMESPACES {
        cluster.namespace(namespace).await?;
    }
    let mut healthy = Healthy::start(cluster, NAMESPACE).await?;
    let restarts = operator::own_restarts(cluster).await?;
    let panics = panics(cluster).await?;
    for (name, text) in MANIFESTS {
        let taken = cluster.apply(NAMESPACE, &expanded(text)).await;
        if let Err(error) = &taken {
            facts.check(format_args!("the API server takes {name}: {}", cut(error)), false);
        }
        healthy.check(facts, name).await?;
        for says in Says::all(text) {
            let told = told(cluster, &says).await?;
            facts
                .check(format_args!("{name}: {says}{}", told.as_deref().unwrap_or_default()), told.is_none());
        }
    }
    crowded(cluster, facts, &mut healthy).await?;
    churn(cluster, facts, &mut healthy).await?;
    healthy.check_all(facts).await?;

    let now = operator::own_restarts(cluster).await?;
    facts.check(format_args!("the operator has not started again: {now:?}"), now == restarts);
    let now = self::panics(cluster).await?;
    facts.check(
        format_args!("and says that it has panicked {} times", now - panics),
        now == panics && panics == 0.0,
    );
    healthy.check_pods(facts).await
}

async fn panics(cluster: &Cluster) -> Result<f64, Error> {
    let counted = operator::counted(cluster).await?;
    Ok(counted.get("postern_translation_panics_total").copied().unwrap_or(f64::NAN))
}

/// As much of it as a line takes.
fn cut(text: impl ToString) -> String {
    text.to_string().chars().take(500).collect()
}

/// Waits until a poison has the status that is true of it; gives what it has, if that is something else.
async fn told(cluster: &Cluster, says: &Says<'_>) -> Result<Option<String>, Error> {
    let api = cluster.gateway_api(says.kind, NAMESPACE);
    let mut last = Value::Null;
    let is_told = wait(STATUS, async || {
        let object = api.get(says.name).await?;
        last = object.data["status"].clone();
        Ok(says.is_told(&object))
    });
    Ok((!is_told.await?).then(|| format!(", but there is {}", cut(&last))))
}

/// A route whose status has no room left: others have written 32 entries. Its own entry comes once there is room.
async fn crowded(cluster: &Cluster, facts: &mut Facts, healthy: &mut Healthy) -> Result<(), Error> {
    let entry = |number: u32| {
        json!({
            "controllerName": format!("example.com/number-{number}"), "parentRef": { "name": "none" },
            "conditions": [{ "type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z" }],
        })
    };
    let routes = cluster.gateway_api("HTTPRoute", NAMESPACE);
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": { "name": "crowded" },
        // Nothing of ours yet, so that there is no entry of ours before the others are there.
        "spec": { "parentRefs": [{ "name": "none" }] },
    });
    routes.create(&PostParams::default(), &serde_json::from_value(route)?).await?;
    let write = async |entries: Vec<Value>| {
        let status = json!({ "status": { "parents": entries } });
        routes.patch_status("crowded", &PatchParams::default(), &Patch::Merge(&status)).await
    };
    write((0..32).map(entry).collect()).await?;
    let spec = json!({ "spec": { "parentRefs": [{ "name": "web" }] } });
    routes.patch("crowded", &PatchParams::default(), &Patch::Merge(&spec)).await?;
    healthy.check(facts, "a status without room").await?;
    write((0..31).map(entry).collect()).await?;
    let says = Says {
        kind: "HTTPRoute",
        name: "crowded",
        listener: None,
        wanted: Some(("Accepted", "True", "Accepted")),
    };
    let is_told = |object: &DynamicObject| {
        let entries = object.data["status"]["parents"].as_array();
        let ours = entries.into_iter().flatten().filter(|it| it["controllerName"] == healthy::CONTROLLER);
        ours.into_iter().any(|entry| says.is_in(&entry["conditions"], object.metadata.generation))
    };
    let is_told = cluster.until(STATUS * 2, &routes, "crowded", is_told).await.is_ok();
    facts.check("a status without room: our entry comes once there is room", is_told);
    Ok(())
}

/// Routes that come and go as fast as the API server lets them.
async fn churn(cluster: &Cluster, facts: &mut Facts, healthy: &mut Healthy) -> Result<(), Error> {
    let routes = cluster.gateway_api("HTTPRoute", NAMESPACE);
    let churning = async {
        for round in 0..10 {
            for number in 0..20 {
                let route = json!({
                    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                    "metadata": { "name": format!("brief-{number}") },
                    "spec": { "parentRefs": [{ "name": "web" }], "hostnames": [format!("round-{round}.test")] },
                });
                routes.create(&PostParams::default(), &serde_json::from_value(route)?).await?;
            }
            for number in 0..20 {
                routes.delete(&format!("brief-{number}"), &DeleteParams::default()).await?;
            }
        }
        Ok::<_, Error>(())
    };
    let (churned, checked) = tokio::join!(churning, healthy.check(facts, "routes that come and go"));
    churned?;
    checked
}
