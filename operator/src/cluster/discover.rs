//! Which of the kinds that we read the cluster has, and in which version.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;
use kube::core::discovery::ApiResource;
use postern_translate::api::OWN_GROUP;
use postern_translate::kinds::KINDS;
use tokio::sync::mpsc;

use crate::cluster::telemetry::Telemetry;
use crate::cluster::watch::{MADE, Topic};

/// How to ask for what is to be watched.
pub type Discovered = BTreeMap<Topic, ApiResource>;

/// How often the cluster is asked. Kinds that are installed are picked up, and those removed dropped, after this at most.
const PERIOD: Duration = Duration::from_secs(20);
/// How long until a question that failed is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Kinds that no translation reads yet.
const UNREAD: &[&str] = &["ConfigMap"];

/// Asks the cluster again and again, and sends each answer that differs from the one before.
pub fn start(client: Client, telemetry: Telemetry) -> mpsc::Receiver<Discovered> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut last = None;
        let mut warned = BTreeSet::new();
        loop {
            let pause = match ask(&client).await {
                Ok(found) => {
                    telemetry.api_available.set(1);
                    if last.as_ref() != Some(&found) {
                        warn(&found, &mut warned);
                        last = Some(found.clone());
                        if sender.send(found).await.is_err() {
                            return;
                        }
                    }
                    PERIOD
                }
                // What is watched stays watched: an API server that is away has not lost its kinds.
                Err(error) => {
                    // One line for one absence.
                    if telemetry.api_available.set(0) == 1 || last.is_none() {
                        tracing::warn!(%error, "cannot ask the API server which kinds it has, will try again");
                    } else {
                        tracing::debug!(%error, "cannot ask the API server which kinds it has, will try again");
                    }
                    AGAIN
                }
            };
            tokio::time::sleep(pause).await;
        }
    });
    receiver
}

/// Says once of each kind that it is missing, and again when it was there in between.
fn warn(found: &Discovered, warned: &mut BTreeSet<&'static str>) {
    for info in KINDS.iter().filter(|info| !UNREAD.contains(&info.kind)) {
        if found.contains_key(&Topic { kind: info.kind, made: false }) {
            if warned.remove(info.kind) {
                tracing::info!(kind = info.kind, group = info.group, "kind is there now and is watched");
            }
        } else if warned.insert(info.kind) {
            // A `parametersRef` that needs it says so in the status of its object.
            if info.group == OWN_GROUP {
                tracing::info!(kind = info.kind, "kind is not installed: the chart postern-crds brings it");
                continue;
            }
            tracing::warn!(
                kind = info.kind,
                group = info.group,
                "kind is not installed and is not watched: install the Gateway API CRDs to use it"
            );
        }
    }
}

/// Asks for every group and version of the lists.
async fn ask(client: &Client) -> kube::Result<Discovered> {
    let mut found = Discovered::new();
    let mut known = BTreeMap::new();
    for info in KINDS.iter().filter(|info| !UNREAD.contains(&info.kind)) {
        for version in info.versions {
            if let Some(resource) = find(client, &mut known, info.group, version, info.kind).await? {
                found.insert(Topic { kind: info.kind, made: false }, resource);
                break;
            }
        }
    }
    for (group, kind) in MADE {
        if let Some(resource) = find(client, &mut known, group, "v1", kind).await? {
            found.insert(Topic { kind, made: true }, resource);
        }
    }
    Ok(found)
}

/// The resource of a kind, in a group and version that may not be there.
async fn find(
    client: &Client,
    known: &mut BTreeMap<String, BTreeMap<String, String>>,
    group: &str,
    version: &str,
    kind: &str,
) -> kube::Result<Option<ApiResource>> {
    let api_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
    if !known.contains_key(&api_version) {
        known.insert(api_version.clone(), plurals(client, group, &api_version).await?);
    }
    Ok(known[&api_version].get(kind).map(|plural| ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.clone(),
    }))
}

/// The plural of each kind of a group and version; none where there is no such version.
async fn plurals(client: &Client, group: &str, api_version: &str) -> kube::Result<BTreeMap<String, String>> {
    let listed = match group {
        "" => client.list_core_api_resources(api_version).await,
        _ => client.list_api_group_resources(api_version).await,
    };
    match listed {
        Ok(list) => {
            let resources = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
            Ok(resources.map(|resource| (resource.kind, resource.name)).collect())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}
