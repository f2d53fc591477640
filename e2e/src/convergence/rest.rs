//! At rest nothing is written: not one object but Leases changes in a minute, and the API server is asked for no change.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::discovery::verbs;
use kube::discovery::Discovery;
use tokio::time::sleep;

use super::operator;
use crate::cluster::{Cluster, Error};
use crate::facts::{Facts, say};

/// What this makes, and what has to end.
pub const NAMESPACES: &[&str] = &["convergence-rest"];

const GATEWAYS: u32 = 4;
const ROUTES: u32 = 20;
/// How long nothing may happen.
const MINUTE: Duration = Duration::from_secs(60);
/// Of others: leaders and nodes renew their Leases, a kubelet says from time to time how its node is.
const OF_OTHERS: [&str; 2] = ["Lease", "Node"];

/// Runs this part.
pub async fn run(cluster: &Cluster, facts: &mut Facts) -> Result<(), Error> {
    let namespace = NAMESPACES[0];
    cluster.namespace(namespace).await?;
    cluster.apply(namespace, &objects()).await?;
    for number in 0..GATEWAYS {
        cluster.address(namespace, &format!("web-{number}")).await?;
    }
    let settles = operator::settles(cluster, Duration::from_secs(10), Duration::from_secs(120)).await?;
    facts.check(
        format_args!("writes for {GATEWAYS} new Gateways and {ROUTES} routes come to an end"),
        settles,
    );

    let before = (versions(cluster).await?, operator::writes(cluster).await?, asked(cluster).await?);
    sleep(MINUTE).await;
    let after = (versions(cluster).await?, operator::writes(cluster).await?, asked(cluster).await?);

    let changed = changed(&before.0, &after.0);
    let ours =
        changed.iter().filter(|object| !OF_OTHERS.iter().any(|kind| object.starts_with(&format!("{kind} "))));
    let ours: Vec<_> = ours.collect();
    ours.iter().for_each(|object| say(format_args!("        changed: {object}")));
    let (all, leases) = (after.0.len(), changed.len() - ours.len());
    facts.check(
        format_args!("of {all} objects none but {leases} Leases and Nodes changes in 60 s"),
        ours.is_empty(),
    );
    let tried = after.1 - before.1;
    facts.check(format_args!("the operator says that it has tried {tried} writes"), tried == 0.0);
    let writes: Vec<_> = after.2.iter().filter(|(what, count)| before.2.get(*what) != Some(count)).collect();
    writes.iter().for_each(|(what, count)| say(format_args!("        asked: {what} ({count})")));
    let what = "the API server was asked to change nothing, not even in vain, but Leases and Nodes";
    facts.check(what, writes.is_empty());
    Ok(())
}

fn objects() -> String {
    let mut yaml =
        String::from("apiVersion: v1\nkind: Service\nmetadata: {name: app}\nspec: {ports: [{port: 80}]}\n");
    for number in 0..GATEWAYS {
        let _ = write!(
            yaml,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: web-{number}}}\n\
             spec: {{gatewayClassName: postern, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}\n"
        );
    }
    for number in 0..ROUTES {
        let (kind, rules) = if number.is_multiple_of(5) {
            ("GRPCRoute", "{backendRefs: [{name: app, port: 80}]}")
        } else {
            ("HTTPRoute", "{backendRefs: [{name: app, port: 80}, {name: nothing, port: 80}]}")
        };
        let _ = write!(
            yaml,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: route-{number}}}\n\
             spec: {{parentRefs: [{{name: web-{}}}], hostnames: [h{number}.test], rules: [{rules}]}}\n",
            number % GATEWAYS
        );
    }
    yaml
}

/// The versions of all objects of all kinds that can be listed.
async fn versions(cluster: &Cluster) -> Result<BTreeMap<String, String>, Error> {
    let kinds = Discovery::new(cluster.client.clone()).run().await?;
    let mut versions = BTreeMap::new();
    for (resource, capabilities) in kinds.groups().flat_map(|group| group.recommended_resources()) {
        if !capabilities.supports_operation(verbs::LIST) || !capabilities.supports_operation(verbs::WATCH) {
            continue;
        }
        for object in cluster.api(&resource, None).list_metadata(&ListParams::default()).await? {
            let metadata = object.metadata;
            let (namespace, name) =
                (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
            let key = format!("{} {namespace}/{name} {}", resource.kind, metadata.uid.unwrap_or_default());
            versions.insert(key, metadata.resource_version.unwrap_or_default());
        }
    }
    Ok(versions)
}

/// What is in one of both, or in another version.
fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let new = after.iter().filter(|(key, version)| before.get(*key) != Some(version)).map(|(key, _)| key);
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    new.chain(gone).cloned().collect()
}

/// How many requests for changes the API server has had, by what they are for: those that store nothing are left out, and
/// those of others.
async fn asked(cluster: &Cluster) -> Result<BTreeMap<String, u64>, Error> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let text = cluster.client.request_text(request).await?;
    let mut asked = BTreeMap::new();
    for (name, value) in operator::metrics(&text) {
        let Some(labels) = name.strip_prefix("apiserver_request_total{") else { continue };
        let of = |label: &str| {
            let value = labels.split_once(&format!("{label}=\"")).and_then(|(_, rest)| rest.split_once('"'));
            value.map_or("", |(value, _)| value)
        };
        let is_change = ["APPLY", "DELETE", "DELETECOLLECTION", "PATCH", "POST", "PUT"].contains(&of("verb"));
        let (resource, subresource) = (of("resource"), of("subresource"));
        let is_of_others = ["leases", "nodes"].contains(&resource);
        let stores_nothing = resource.ends_with("reviews") || subresource == "token";
        if is_change && !is_of_others && !stores_nothing {
            let what = format!("{} {resource}/{subresource} {}", of("verb"), of("code"));
            *asked.entry(what).or_default() += value as u64;
        }
    }
    Ok(asked)
}
