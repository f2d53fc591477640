//! Statuses into the cluster: where what is wanted differs from what is there, by the leader, and never over what is newer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::discovery::ApiResource;
use kube::{Api, Client};
use postern_config::ObjectKey;
use postern_translate::api::{Kind, Object};
use postern_translate::kinds::Objects;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::MANAGER;
use crate::events::{Events, News};
use crate::merge::Merge;
use crate::stamp;
use crate::telemetry::{Telemetry, Write};
use crate::translation::Current;

/// How many writes are under way at once.
const AT_ONCE: usize = 8;
/// How long one write may take, before it is left for the next round.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often one write is tried while others get in between.
const TRIES: u32 = 5;

/// Writes statuses.
pub struct Writer {
    client: Client,
    controller: String,
    events: Events,
    telemetry: Telemetry,
    /// What we wrote and have not seen come back.
    written: BTreeMap<(&'static str, ObjectKey), Written>,
}

#[derive(Clone)]
struct Written {
    /// The versions that our writes were based on: whoever sees one of them has not seen the last write.
    older: Vec<Option<String>>,
    version: Option<String>,
    status: Value,
}

/// A status to write.
struct Job {
    kind: &'static str,
    key: ObjectKey,
    resource: ApiResource,
    /// As the watch has it: what a write that was based on it is known by.
    seen: Option<String>,
    version: Option<String>,
    generation: Option<i64>,
    change: Change,
    /// What to write into another status than the one that was seen.
    merge: Box<dyn Fn(Value) -> Option<Change> + Send + Sync>,
    reference: ObjectReference,
}

/// What to write, and what is new in it.
struct Change {
    patch: Value,
    news: Vec<News>,
}

enum Outcome {
    Written(Written),
    /// It is as wanted, gone, or has changed so that a new translation is on its way.
    Nothing,
    Failed(String),
}

impl Writer {
    /// Writes with this client in the name of this controller.
    pub fn new(client: Client, controller: &str, events: Events, telemetry: Telemetry) -> Self {
        Self { client, controller: controller.into(), events, telemetry, written: BTreeMap::new() }
    }

    /// Writes after every change while this replica leads.
    pub async fn run(
        mut self,
        mut current: watch::Receiver<Option<Arc<Current>>>,
        mut leads: watch::Receiver<bool>,
    ) {
        let mut pause = None;
        loop {
            tokio::select! {
                changed = current.changed() => if changed.is_err() { return },
                changed = leads.changed() => if changed.is_err() { return },
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
            let newest = current.borrow_and_update().clone();
            let Some(newest) = newest.filter(|_| *leads.borrow_and_update()) else {
                // Another replica writes now; what we wrote is old by the time that we do again.
                self.written.clear();
                pause = None;
                continue;
            };
            let failed = self.write(&newest, &leads).await;
            pause = failed.then(|| {
                pause.map_or(Duration::from_millis(250), |last| (last * 2).min(Duration::from_secs(30)))
            });
        }
    }

    /// Writes what differs; whether any of it failed.
    pub async fn write(&mut self, current: &Current, leads: &watch::Receiver<bool>) -> bool {
        let jobs = self.jobs(current);
        let this = &*self;
        let outcomes = stream::iter(jobs).map(|job| async move {
            // What was true when the first was written may not be any more.
            let may_write = *leads.borrow();
            let outcome = if may_write {
                timeout(PATIENCE, this.try_write(&job)).await.unwrap_or_else(|_| {
                    Outcome::Failed(format!("{} `{}`: no answer in time", job.kind, job.key))
                })
            } else {
                Outcome::Nothing
            };
            ((job.kind, job.key), outcome)
        });
        let outcomes: Vec<_> = outcomes.buffer_unordered(AT_ONCE).collect().await;
        let mut failed = Vec::new();
        for (key, outcome) in outcomes {
            match outcome {
                Outcome::Written(mut written) => {
                    if let Some(before) = self.written.remove(&key) {
                        written.older.extend(before.older);
                        written.older.push(before.version);
                    }
                    self.written.insert(key, written);
                }
                Outcome::Nothing => {
                    self.written.remove(&key);
                }
                Outcome::Failed(why) => failed.push(why),
            }
        }
        // One line, and not one for each object while the API server is away.
        if let Some(first) = failed.first() {
            tracing::warn!(count = failed.len(), first, "cannot write statuses, will try again");
        }
        !failed.is_empty()
    }

    fn jobs(&mut self, current: &Current) -> Vec<Job> {
        let (objects, statuses) = (&current.seen.objects, &current.translation.statuses);
        let mut jobs = Vec::new();
        let class = |key: &ObjectKey| statuses.gateway_classes.get(&key.name).cloned();
        self.of_kind(&mut jobs, current, &objects.gateway_classes, class);
        self.of_kind(&mut jobs, current, &objects.gateways, |key| statuses.gateways.get(key).cloned());
        // A route that has left us keeps no entry of ours.
        let http = |key: &ObjectKey| Some(statuses.http_routes.get(key).cloned().unwrap_or_default());
        self.of_kind(&mut jobs, current, &objects.http_routes, http);
        let grpc = |key: &ObjectKey| Some(statuses.grpc_routes.get(key).cloned().unwrap_or_default());
        self.of_kind(&mut jobs, current, &objects.grpc_routes, grpc);
        jobs
    }

    fn of_kind<S: Kind>(
        &mut self,
        jobs: &mut Vec<Job>,
        current: &Current,
        objects: &Objects<Object<S>>,
        wanted: impl Fn(&ObjectKey) -> Option<S::Status>,
    ) where
        S::Status: Merge + Send + Sync + 'static,
    {
        let Some(resource) = current.seen.resources.get(S::KIND) else { return };
        for (key, object) in objects {
            let Some(wanted) = wanted(key) else { continue };
            let metadata = &object.metadata;
            let name = (S::KIND, key.clone());
            let ours = self.written.get(&name);
            let ours = ours.filter(|written| written.older.contains(&metadata.resource_version)).cloned();
            if ours.is_none() {
                // All of ours has come back, or something newer has.
                self.written.remove(&name);
            }
            let change = match &ours {
                Some(written) => self.change(&wanted, &read::<S::Status>(written.status.clone())),
                None => self.change(&wanted, &object.status.clone().unwrap_or_default()),
            };
            let Some(change) = change else { continue };
            let controller = self.controller.clone();
            jobs.push(Job {
                kind: S::KIND,
                key: key.clone(),
                resource: resource.clone(),
                seen: metadata.resource_version.clone(),
                version: ours.map_or_else(|| metadata.resource_version.clone(), |it| it.version),
                generation: metadata.generation,
                change,
                merge: Box::new(move |present| change_of(&wanted, &read(present), &controller)),
                reference: ObjectReference {
                    api_version: Some(resource.api_version.clone()),
                    kind: Some(S::KIND.into()),
                    name: metadata.name.clone(),
                    namespace: metadata.namespace.clone(),
                    uid: metadata.uid.clone(),
                    ..ObjectReference::default()
                },
            });
        }
    }

    fn change<S: Merge + Serialize>(&self, wanted: &S, present: &S) -> Option<Change> {
        change_of(wanted, present, &self.controller)
    }

    /// Reads, changes and writes, with the version that was read: who was faster wins, and we look again.
    async fn try_write(&self, job: &Job) -> Outcome {
        let Job { key, resource, .. } = job;
        let api: Api<DynamicObject> = if key.namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), &key.namespace, resource)
        };
        let mut version = job.version.clone();
        let (mut patch, mut news) = (job.change.patch.clone(), job.change.news.clone());
        for attempt in 1..=TRIES {
            let body = json!({ "metadata": { "resourceVersion": version }, "status": patch });
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            match api.patch_status(&key.name, &params, &Patch::Merge(&body)).await {
                Ok(mut object) => {
                    self.count(job.kind, "written");
                    self.events.publish(&job.reference, news);
                    let status = object.data["status"].take();
                    let (older, version) = (vec![job.seen.clone()], object.metadata.resource_version);
                    return Outcome::Written(Written { older, version, status });
                }
                Err(kube::Error::Api(status)) if status.code == 404 => return Outcome::Nothing,
                Err(kube::Error::Api(status)) if status.code == 409 => self.count(job.kind, "conflict"),
                Err(error) => return self.failed(job, &error),
            }
            // At once the first time, later each time after that.
            sleep(backoff(attempt)).await;
            let mut fresh = match api.get_opt(&key.name).await {
                Ok(Some(fresh)) => fresh,
                Ok(None) => return Outcome::Nothing,
                Err(error) => return self.failed(job, &error),
            };
            if fresh.metadata.generation != job.generation || fresh.metadata.uid != job.reference.uid {
                return Outcome::Nothing;
            }
            let Some(change) = (job.merge)(fresh.data["status"].take()) else { return Outcome::Nothing };
            version = fresh.metadata.resource_version;
            (patch, news) = (change.patch, change.news);
        }
        Outcome::Failed(format!("{} `{key}`: others write it faster", job.kind))
    }

    fn failed(&self, job: &Job, error: &kube::Error) -> Outcome {
        self.count(job.kind, "failed");
        Outcome::Failed(format!("{} `{}`: {error}", job.kind, job.key))
    }

    fn count(&self, kind: &'static str, result: &'static str) {
        self.telemetry.status_writes.get_or_create(&Write { kind, result }).inc();
    }
}

fn backoff(attempt: u32) -> Duration {
    match attempt {
        1 => Duration::ZERO,
        attempt => Duration::from_millis(20 << attempt.min(6)),
    }
}

/// What is to be written, if anything: not where it is there already, and not over what speaks of a newer generation.
fn change_of<S: Merge + Serialize>(wanted: &S, present: &S, controller: &str) -> Option<Change> {
    let (ours, theirs) = (wanted.generation(controller), present.generation(controller));
    if ours.is_some() && theirs > ours {
        return None;
    }
    let merged = wanted.merged(present, controller, stamp::now());
    if merged == *present {
        return None;
    }
    let mut patch = serde_json::to_value(&merged).expect("our types serialize");
    let before = serde_json::to_value(present).expect("our types serialize");
    // A merge patch leaves alone what it does not name.
    for field in before.as_object().into_iter().flat_map(|before| before.keys()) {
        if patch.get(field).is_none() {
            patch[field] = Value::Null;
        }
    }
    Some(Change { news: merged.news(present), patch })
}

fn read<S: DeserializeOwned + Default>(status: Value) -> S {
    serde_json::from_value(status).unwrap_or_default()
}
