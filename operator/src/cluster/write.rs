//! Statuses into the cluster: where what is wanted differs from what is there, by the leader, and never over what is newer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::discovery::ApiResource;
use kube::{Api, Client};
use postern_config::ObjectKey;
use postern_translate::Statuses;
use postern_translate::api::{Kind, Object};
use postern_translate::kinds::{ObjectSet, Objects};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cluster::MANAGER;
use crate::cluster::apply::longer;
use crate::cluster::events::{Events, News};
use crate::cluster::merge::Merge;
use crate::cluster::telemetry::{Telemetry, Write};
use crate::cluster::translation::Current;
use crate::status::stamp;

/// How many writes are under way at once.
const AT_ONCE: usize = 8;
/// How long one write may take, before it is left for the next round.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the numbers of routes are written at most: thousands of routes may come at once.
const COUNTS: Duration = Duration::from_millis(300);
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
    /// What was looked through last, and the objects for which there was something to do.
    last: Option<Arc<Current>>,
    open: BTreeSet<(&'static str, ObjectKey)>,
    /// When the statuses were written that may have to wait for the next time.
    paced: BTreeMap<ObjectKey, Instant>,
}

/// Whether and when there is something left to write.
#[derive(Debug, Default)]
struct Left {
    failed: bool,
    waits: Option<Instant>,
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
    /// Whether nobody waits for it.
    can_wait: bool,
}

/// What is to be written.
#[derive(Default)]
struct Jobs {
    now: Vec<Job>,
    /// When there will be more.
    waits: Option<Instant>,
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
        let (written, open, paced) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { client, controller: controller.into(), events, telemetry, written, last: None, open, paced }
    }

    /// Writes after every change while this replica leads.
    pub async fn run(
        mut self,
        mut current: watch::Receiver<Option<Arc<Current>>>,
        mut leads: watch::Receiver<bool>,
    ) {
        let mut pause = None;
        let mut due = None;
        loop {
            let mut waited = false;
            tokio::select! {
                changed = current.changed() => if changed.is_err() { return },
                changed = leads.changed() => if changed.is_err() { return },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => waited = true,
            }
            let newest = current.borrow_and_update().clone();
            let Some(newest) = newest.filter(|_| *leads.borrow_and_update()) else {
                // Another replica writes now; what we wrote is old by the time that we do again.
                self.written.clear();
                self.last = None;
                (pause, due) = (None, None);
                continue;
            };
            let left = self.write(&newest, &leads).await;
            pause = left.failed.then(|| longer(pause, waited));
            due = pause.map(|pause| Instant::now() + pause).into_iter().chain(left.waits).min();
        }
    }

    /// Writes what differs; gives what is left.
    async fn write(&mut self, current: &Arc<Current>, leads: &watch::Receiver<bool>) -> Left {
        let (jobs, waits) = self.jobs(current);
        self.open = jobs.iter().map(|job| (job.kind, job.key.clone())).collect();
        self.last = Some(current.clone());
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
        Left { failed: !failed.is_empty(), waits }
    }

    /// What is to be written now, and when to look again for what has to wait.
    fn jobs(&mut self, current: &Current) -> (Vec<Job>, Option<Instant>) {
        let mut jobs = Jobs::default();
        let class = |statuses: &Statuses, key: &ObjectKey| {
            statuses.gateway_classes.get(&key.name).cloned().map(Arc::new)
        };
        self.of_kind(&mut jobs, current, |it| &it.gateway_classes, class, None);
        let gateway =
            |statuses: &Statuses, key: &ObjectKey| statuses.gateways.get(key).cloned().map(Arc::new);
        self.of_kind(&mut jobs, current, |it| &it.gateways, gateway, None);
        // A route that has left us keeps no entry of ours.
        let http = |statuses: &Statuses, key: &ObjectKey| statuses.http_routes.get(key).cloned();
        self.of_kind(&mut jobs, current, |it| &it.http_routes, http, Some(Arc::default()));
        let grpc = |statuses: &Statuses, key: &ObjectKey| statuses.grpc_routes.get(key).cloned();
        self.of_kind(&mut jobs, current, |it| &it.grpc_routes, grpc, Some(Arc::default()));
        self.paced.retain(|_, at| at.elapsed() < COUNTS);
        (jobs.now, jobs.waits)
    }

    /// Adds the jobs of a kind. `absent` is what is wanted of an object of which nothing follows; `None` leaves it alone.
    fn of_kind<S: Kind>(
        &mut self,
        jobs: &mut Jobs,
        current: &Current,
        objects: impl Fn(&ObjectSet) -> &Objects<Object<S>>,
        wanted: impl Fn(&Statuses, &ObjectKey) -> Option<Arc<S::Status>>,
        absent: Option<Arc<S::Status>>,
    ) where
        S::Status: Merge + Send + Sync + 'static,
    {
        let Some(resource) = current.seen.resources.get(S::KIND) else { return };
        let last = self.last.clone();
        for (key, object) in objects(&current.seen.objects) {
            let wanted_now = wanted(&current.translation.statuses, key);
            let name = (S::KIND, key.clone());
            // Most objects are as they were, and so is what is wanted of them.
            let is_settled = |last: &Arc<Current>| {
                let before = objects(&last.seen.objects).get(key);
                before.is_some_and(|before| Arc::ptr_eq(before, object))
                    && is_identical(wanted(&last.translation.statuses, key).as_ref(), wanted_now.as_ref())
                    && !self.open.contains(&name)
            };
            if last.as_ref().is_some_and(is_settled) {
                continue;
            }
            let Some(wanted) = wanted_now.or_else(|| absent.clone()) else { continue };
            let metadata = &object.metadata;
            let ours = self.written.get(&name);
            let ours = ours.filter(|written| written.older.contains(&metadata.resource_version)).cloned();
            if ours.is_none() {
                // All of ours has come back, or something newer has.
                self.written.remove(&name);
            }
            let change = match &ours {
                Some(written) => self.change(&*wanted, &read::<S::Status>(written.status.clone())),
                None => self.change(&*wanted, &object.status.clone().unwrap_or_default()),
            };
            let Some(change) = change else { continue };
            if change.can_wait {
                let now = Instant::now();
                let due = self.paced.get(key).map(|last| *last + COUNTS).filter(|due| *due > now);
                if let Some(due) = due {
                    jobs.waits = Some(jobs.waits.map_or(due, |other| other.min(due)));
                    continue;
                }
                self.paced.insert(key.clone(), now);
            }
            let controller = self.controller.clone();
            jobs.now.push(Job {
                kind: S::KIND,
                key: key.clone(),
                resource: resource.clone(),
                seen: metadata.resource_version.clone(),
                version: ours.map_or_else(|| metadata.resource_version.clone(), |it| it.version),
                generation: metadata.generation,
                change,
                merge: Box::new(move |present| change_of(&*wanted, &read(present), &controller)),
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
    Some(Change { news: merged.news(present), can_wait: merged.can_wait(present), patch })
}

fn is_identical<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn read<S: DeserializeOwned + Default>(status: Value) -> S {
    serde_json::from_value(status).unwrap_or_default()
}
