//! Workloads into the cluster: server-side apply of what differs, by the leader; what others made is never touched.

mod drift;
mod prune;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use drift::is_in_sync;
use futures::{StreamExt, stream};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::discovery::ApiResource;
use kube::{Api, Client};
use postern_config::ObjectKey;
use postern_translate::api::Gateway;
use postern_translate::workload::{self, CA_KEY, Workload};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::cluster::MANAGER;
use crate::cluster::observe::Obstacles;
use crate::cluster::telemetry::{Telemetry, Write};
use crate::cluster::translation::Current;
use crate::cluster::watch::Seen;

/// The annotation that holds what was applied, as a hash: fields that we no longer want are found by it.
const APPLIED: &str = "postern.dev/applied";
/// How long what we wrote is waited for, before it is taken for lost.
const COMES_BACK: Duration = Duration::from_secs(5);
/// How long one object may take, before it is left for the next round.
const PATIENCE: Duration = Duration::from_secs(15);
/// How many Gateways are worked on at once.
const AT_ONCE: usize = 8;

/// Makes, changes and removes the objects of workloads.
pub struct Applier {
    client: Client,
    controller: String,
    telemetry: Telemetry,
    /// What was applied and has not come back.
    applied: BTreeMap<Name, Applied>,
}

type Name = (&'static str, ObjectKey);

/// An object as it should be.
struct Wanted {
    kind: &'static str,
    key: ObjectKey,
    hash: String,
    value: Value,
}

/// What was applied.
struct Applied {
    /// The version that it was applied to; none when there was no object.
    base: Option<String>,
    hash: String,
    at: Instant,
}

/// What became of an object.
enum Outcome {
    /// It is as it should be, or of a kind that the cluster does not have now.
    AsWanted,
    /// It was applied before, and is waited for.
    Awaited,
    Applied(Applied),
}

/// Why an object is not as it should be.
enum Trouble {
    /// It is there and is not ours to change.
    Foreign,
    /// The API server does not take it.
    Refused(String),
    /// It may work the next time.
    Failed,
}

impl Applier {
    /// Applies with this client in the name of this controller.
    pub fn new(client: Client, controller: &str, telemetry: Telemetry) -> Self {
        Self { client, controller: controller.into(), telemetry, applied: BTreeMap::new() }
    }

    /// Applies after every change while this replica leads. `ca` is the bundle that data planes trust.
    pub async fn run(
        mut self,
        mut current: watch::Receiver<Option<Arc<Current>>>,
        mut leads: watch::Receiver<bool>,
        mut ca: watch::Receiver<Option<String>>,
        obstacles: watch::Sender<Obstacles>,
    ) {
        let mut pause = None;
        loop {
            let mut waited = false;
            tokio::select! {
                changed = current.changed() => if changed.is_err() { return },
                changed = leads.changed() => if changed.is_err() { return },
                Ok(()) = ca.changed() => {}
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => waited = true
            }
            let newest = current.borrow_and_update().clone();
            let Some(newest) = newest.filter(|_| *leads.borrow_and_update()) else {
                self.applied.clear();
                pause = None;
                continue;
            };
            let bundle = ca.borrow_and_update().clone();
            let (found, again) = self.apply(&newest, bundle.as_deref()).await;
            obstacles.send_if_modified(|known| {
                let differs = *known != found;
                *known = found;
                differs
            });
            pause = again.then(|| longer(pause, waited));
        }
    }

    /// Makes everything as it should be. Gives what stands in the way, and whether to try again without a change.
    pub async fn apply(&mut self, current: &Current, ca: Option<&str>) -> (Obstacles, bool) {
        let mut obstacles = Obstacles::new();
        let mut again = self.remove(current).await;
        let this = &*self;
        let mut work = Vec::new();
        for (key, plan) in &current.translation.plans {
            let gateway = current.seen.objects.gateways.get(key);
            if let (Some(gateway), Some(workload)) = (gateway, &plan.workload) {
                work.push(async move { (key, this.workload(&current.seen, gateway, workload, ca).await) });
            }
        }
        let results: Vec<_> = stream::iter(work).buffer_unordered(AT_ONCE).collect().await;
        for (gateway, results) in results {
            for (name, result) in results {
                let (kind, object) = &name;
                match result {
                    Ok(Outcome::AsWanted) => _ = self.applied.remove(&name),
                    // What does not come back, because it was removed at once, is no change that would have us look again.
                    Ok(Outcome::Awaited) => again = true,
                    Ok(Outcome::Applied(applied)) => {
                        self.applied.insert(name, applied);
                        again = true;
                    }
                    Err(Trouble::Foreign) => {
                        let message = format!(
                            "{kind} `{object}` is there and was not made for this Gateway: delete or rename it"
                        );
                        obstacles.insert(gateway.clone(), message);
                        again = true;
                    }
                    Err(Trouble::Refused(why)) => {
                        obstacles.insert(gateway.clone(), format!("{kind} `{object}` cannot be made: {why}"));
                        again = true;
                    }
                    Err(Trouble::Failed) => {
                        tracing::warn!(kind, %object, "cannot apply, will try again");
                        again = true;
                    }
                }
            }
        }
        (obstacles, again)
    }

    async fn workload(
        &self,
        seen: &Seen,
        gateway: &Gateway,
        workload: &Workload,
        ca: Option<&str>,
    ) -> Vec<(Name, Result<Outcome, Trouble>)> {
        let mut results = Vec::new();
        for wanted in objects(workload, ca) {
            let done = timeout(PATIENCE, self.object(seen, gateway, &wanted)).await;
            let result = done.unwrap_or(Err(Trouble::Failed));
            results.push(((wanted.kind, wanted.key), result));
        }
        results
    }

    /// Applies one object where it differs.
    async fn object(&self, seen: &Seen, gateway: &Gateway, wanted: &Wanted) -> Result<Outcome, Trouble> {
        let name = (wanted.kind, wanted.key.clone());
        let Some(resource) = seen.resources.get(wanted.kind) else { return Ok(Outcome::AsWanted) };
        let present = seen.made.get(&name);
        let base = present.and_then(|present| present.metadata.resource_version.clone());
        if let Some(present) = present {
            if !workload::is_of(&present.metadata, gateway) {
                return Err(Trouble::Foreign);
            }
            if is_in_sync(present, &wanted.value) {
                return Ok(Outcome::AsWanted);
            }
        }
        let is_awaited = self.applied.get(&name).is_some_and(|applied| {
            applied.base == base && applied.hash == wanted.hash && applied.at.elapsed() < COMES_BACK
        });
        if is_awaited {
            return Ok(Outcome::Awaited);
        }
        let api = self.api(resource, &wanted.key.namespace);
        let mut uid = present.and_then(|present| present.metadata.uid.clone());
        if present.is_none() {
            // What is not labelled as ours is not watched.
            let there =
                api.get_metadata_opt(&wanted.key.name).await.map_err(|error| failed(wanted, &error))?;
            if there.as_ref().is_some_and(|there| !workload::is_of(&there.metadata, gateway)) {
                return Err(Trouble::Foreign);
            }
            uid = there.and_then(|there| there.metadata.uid);
        }
        if present.is_some_and(|present| is_another_service(&present.data, &wanted.value)) {
            api.delete(&wanted.key.name, &deletion(uid.take()))
                .await
                .map_err(|error| failed(wanted, &error))?;
            tracing::info!(object = %wanted.key, "Service is made anew, for it cannot change to the wanted type");
        }
        let mut value = wanted.value.clone();
        // One that somebody made in its place meanwhile is not taken over: the API server answers 409.
        if let Some(uid) = uid {
            value["metadata"]["uid"] = uid.into();
        }
        let params = PatchParams::apply(MANAGER).force();
        match api.patch(&wanted.key.name, &params, &Patch::Apply(&value)).await {
            Ok(_) => {
                self.count(wanted.kind, "written");
                tracing::info!(kind = wanted.kind, object = %wanted.key, "applied");
                Ok(Outcome::Applied(Applied { base, hash: wanted.hash.clone(), at: Instant::now() }))
            }
            Err(error) => {
                self.count(wanted.kind, "failed");
                Err(match error {
                    kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422) => {
                        Trouble::Refused(status.message)
                    }
                    error => failed(wanted, &error),
                })
            }
        }
    }

    fn api(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, resource)
    }

    fn count(&self, kind: &'static str, result: &'static str) {
        self.telemetry.workload_writes.get_or_create(&Write { kind, result }).inc();
    }
}

fn failed(wanted: &Wanted, error: &kube::Error) -> Trouble {
    tracing::debug!(kind = wanted.kind, object = %wanted.key, %error, "no answer that says whether it can be");
    Trouble::Failed
}

/// How an object is deleted, and no other that has its name now.
fn deletion(uid: Option<String>) -> DeleteParams {
    DeleteParams::background().preconditions(Preconditions { uid, resource_version: None })
}

/// How long to wait before what failed is tried again: longer each time, but for a try that came of a change.
pub fn longer(last: Option<Duration>, waited: bool) -> Duration {
    match last {
        Some(last) if waited => (last * 2).min(Duration::from_secs(30)),
        Some(last) => last,
        None => Duration::from_millis(250),
    }
}

/// The objects of a workload, in the order in which they need each other.
fn objects(workload: &Workload, ca: Option<&str>) -> Vec<Wanted> {
    let mut objects = vec![wanted("ServiceAccount", "v1", json!(workload.service_account))];
    if let Some(bundle) = ca {
        let mut map = json!(workload.ca);
        map["data"] = json!({ CA_KEY: bundle });
        objects.push(wanted("ConfigMap", "v1", map));
    }
    objects.extend(workload.service.as_ref().map(|service| wanted("Service", "v1", json!(service))));
    // A pod waits long for a volume that is not there when it starts.
    if ca.is_some() {
        objects.push(wanted("Deployment", "apps/v1", json!(workload.deployment)));
    }
    objects
}

fn wanted(kind: &'static str, api_version: &str, mut value: Value) -> Wanted {
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = ObjectKey::new(text(&value["metadata"]["namespace"]), text(&value["metadata"]["name"]));
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    let hash = format!("{:016x}", hasher.finish());
    value["metadata"]["annotations"][APPLIED] = hash.as_str().into();
    Wanted { kind, key, hash, value }
}

/// Whether a Service has an address of the cluster and shall have none, or the other way round: the API server lets none come
/// or go.
fn is_another_service(present: &Value, wanted: &Value) -> bool {
    let is_headless = |object: &Value| object["spec"]["clusterIP"] == "None";
    wanted["kind"] == "Service" && is_headless(present) != is_headless(wanted)
}
