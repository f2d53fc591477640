//! What the cluster holds: every kind that it has is watched, and what changes in a storm is passed on together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::DynamicObject;
use kube::core::discovery::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use postern_config::ObjectKey;
use postern_translate::kinds::{AnyObject, KINDS, ObjectSet, key};
use postern_translate::workload::MANAGED_BY;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::cluster::debounce::Pace;
use crate::cluster::discover::{self, Discovered};
use crate::cluster::telemetry::Telemetry;

/// Everything that was seen, at one instant.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Grows with every change of `objects` that is more than a status.
    pub revision: u64,
    /// When the first was seen of the changes since the last one.
    pub since: Option<Instant>,
    /// What users wrote.
    pub objects: ObjectSet,
    /// What we made, by kind and key.
    pub made: BTreeMap<(&'static str, ObjectKey), Arc<DynamicObject>>,
    /// How the kinds of the cluster are asked for, by kind.
    pub resources: BTreeMap<&'static str, ApiResource>,
}

impl Seen {
    /// The kinds that the cluster does not have.
    pub fn missing_kinds(&self) -> BTreeSet<&'static str> {
        KINDS.iter().map(|info| info.kind).filter(|kind| !self.resources.contains_key(kind)).collect()
    }
}

/// The kinds that workloads are made of; only those objects are watched that are made by us.
pub const MADE: [(&str, &str); 4] =
    [("apps", "Deployment"), ("", "ConfigMap"), ("", "Service"), ("", "ServiceAccount")];

/// The pause before a watch is tried again, at most: after the first failure, and after many. However long the API server was
/// away, nobody should wait much longer for what they change then.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// What is watched: a kind, and whether it is only what we made.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Topic {
    /// As in `kind:`
    pub kind: &'static str,
    /// Whether only what we made is watched.
    pub made: bool,
}

/// Watches until the runtime ends. The first [`Seen`] is sent when every kind has been listed.
pub async fn run(client: Client, sender: watch::Sender<Option<Arc<Seen>>>, telemetry: Telemetry) {
    let (changes, mut received) = mpsc::channel(1024);
    let mut discovered = discover::start(client.clone(), telemetry);
    let mut collector =
        Collector { client, changes, watches: BTreeMap::new(), seen: Seen::default(), epoch: 0 };
    let mut pace = Pace::default();
    loop {
        let due = pace.due();
        let has_changed = tokio::select! {
            Some(found) = discovered.recv() => {
                collector.follow(found);
                true
            }
            Some(change) = received.recv() => collector.take(change),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                // What is here already belongs to it.
                for _ in 0..received.len() {
                    received.try_recv().into_iter().for_each(|change| _ = collector.take(change));
                }
                collector.seen.since = pace.pass(Instant::now());
                if collector.is_synced() {
                    sender.send_replace(Some(Arc::new(collector.seen.clone())));
                }
                false
            }
        };
        if has_changed {
            pace.changed(Instant::now());
        }
    }
}

/// Puts together what the watches send.
struct Collector {
    client: Client,
    changes: mpsc::Sender<Change>,
    watches: BTreeMap<Topic, Watch>,
    seen: Seen,
    epoch: u64,
}

struct Watch {
    resource: ApiResource,
    epoch: u64,
    /// What a list has brought so far; it replaces what there was when it is complete.
    listed: Vec<Parsed>,
    is_synced: bool,
    task: JoinHandle<()>,
}

struct Change {
    topic: Topic,
    epoch: u64,
    event: Event,
}

enum Event {
    Began,
    Listed(Parsed),
    Complete,
    Set(Parsed),
    Removed(ObjectKey),
}

enum Parsed {
    Object(AnyObject),
    Made(ObjectKey, Arc<DynamicObject>),
    /// It is not of its kind's shape.
    Malformed(ObjectKey),
}

impl Collector {
    /// Starts watches of kinds that are new, and ends those of kinds that are gone.
    fn follow(&mut self, found: Discovered) {
        let gone: Vec<Topic> = self
            .watches
            .iter()
            .filter(|(topic, watch)| found.get(topic) != Some(&watch.resource))
            .map(|(topic, _)| *topic)
            .collect();
        for topic in gone {
            if let Some(watch) = self.watches.remove(&topic) {
                watch.task.abort();
            }
            self.clear(topic);
        }
        for (topic, resource) in &found {
            if !self.watches.contains_key(topic) {
                self.start(*topic, resource.clone());
            }
        }
        self.seen.resources = found.into_iter().map(|(topic, resource)| (topic.kind, resource)).collect();
    }

    fn start(&mut self, topic: Topic, resource: ApiResource) {
        self.epoch += 1;
        let epoch = self.epoch;
        let sender = self.changes.clone();
        let task = tokio::spawn(follow(self.client.clone(), topic, resource.clone(), epoch, sender));
        self.watches.insert(topic, Watch { resource, epoch, listed: Vec::new(), is_synced: false, task });
    }

    /// Whether what is seen has changed.
    fn take(&mut self, change: Change) -> bool {
        let Change { topic, epoch, event } = change;
        // A watch that was ended may have left something in the queue.
        let Some(watch) = self.watches.get_mut(&topic).filter(|watch| watch.epoch == epoch) else {
            return false;
        };
        match event {
            Event::Began => watch.listed.clear(),
            Event::Listed(object) => watch.listed.push(object),
            Event::Complete => {
                watch.is_synced = true;
                let listed = std::mem::take(&mut watch.listed);
                self.clear(topic);
                listed.into_iter().for_each(|object| self.set(topic, object));
                return true;
            }
            Event::Set(object) => {
                self.set(topic, object);
                return true;
            }
            Event::Removed(key) => {
                self.remove(topic, key);
                return true;
            }
        }
        false
    }

    fn set(&mut self, topic: Topic, object: Parsed) {
        match object {
            Parsed::Object(object) => {
                if !self.seen.objects.is_as_before(&object) {
                    self.seen.revision += 1;
                }
                self.seen.objects.insert(object);
            }
            Parsed::Made(key, object) => {
                self.seen.made.insert((topic.kind, key), object);
            }
            Parsed::Malformed(key) => self.remove(topic, key),
        }
    }

    fn remove(&mut self, topic: Topic, key: ObjectKey) {
        if topic.made {
            self.seen.made.remove(&(topic.kind, key));
        } else {
            self.seen.revision += 1;
            self.seen.objects.remove(topic.kind, &key);
        }
    }

    fn clear(&mut self, topic: Topic) {
        if topic.made {
            self.seen.made.retain(|(kind, _), _| *kind != topic.kind);
        } else {
            self.seen.revision += 1;
            self.seen.objects.clear(topic.kind);
        }
    }

    fn is_synced(&self) -> bool {
        !self.watches.is_empty() && self.watches.values().all(|watch| watch.is_synced)
    }
}

/// Watches one kind for ever. What fails is tried again, later each time.
async fn follow(
    client: Client,
    topic: Topic,
    resource: ApiResource,
    epoch: u64,
    changes: mpsc::Sender<Change>,
) {
    let api = Api::<DynamicObject>::all_with(client, &resource);
    let mut events = std::pin::pin!(watcher(api, scope(topic)).backoff(Pauses::default()));
    let mut failures = 0_u32;
    while let Some(event) = events.next().await {
        failures = if event.is_ok() { 0 } else { failures.saturating_add(1) };
        let event = match event {
            Ok(watcher::Event::Init) => Event::Began,
            Ok(watcher::Event::InitApply(object)) => Event::Listed(parse(topic, object)),
            Ok(watcher::Event::InitDone) => Event::Complete,
            Ok(watcher::Event::Apply(object)) => Event::Set(parse(topic, object)),
            Ok(watcher::Event::Delete(object)) => Event::Removed(key(&object.metadata)),
            Err(error) => {
                // A watch that ends is begun again at once; only what does not pass is worth a line.
                if failures == 2 {
                    tracing::warn!(kind = topic.kind, %error, "cannot watch, will try again");
                } else {
                    tracing::debug!(kind = topic.kind, %error, "cannot watch, will try again");
                }
                continue;
            }
        };
        if changes.send(Change { topic, epoch, event }).await.is_err() {
            return;
        }
    }
}

/// The pauses between the failures of a watch, each of a random length, so that not all come back at once.
#[derive(Default)]
struct Pauses {
    failures: u32,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let most = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        Some(most.mul_f64(0.5 + 0.5 * fastrand::f64()))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// What of a kind is watched.
fn scope(topic: Topic) -> watcher::Config {
    let config = watcher::Config::default();
    if topic.made {
        return config.labels(&format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
    }
    match topic.kind {
        // Large, many, and never what a listener names.
        "Secret" => config.fields("type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token"),
        _ => config,
    }
}

/// Reads an object. One that cannot be read is told of and left out: it never stops the others.
fn parse(topic: Topic, mut object: DynamicObject) -> Parsed {
    object.metadata.managed_fields = None;
    let key = key(&object.metadata);
    if topic.made {
        return Parsed::Made(key, Arc::new(object));
    }
    let info =
        KINDS.iter().find(|info| info.kind == topic.kind).expect("topics are made of the list of kinds");
    object.types = None;
    let read =
        serde_json::to_value(&object).ok().and_then(|value| AnyObject::parse(info.group, info.kind, &value));
    match read {
        Some(Ok(object)) => Parsed::Object(object),
        Some(Err(error)) => {
            tracing::warn!(kind = topic.kind, object = %key, %error, "object cannot be read and is left out");
            Parsed::Malformed(key)
        }
        None => Parsed::Malformed(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_tried_again_within_seconds_however_often_it_failed() {
        let mut pauses = Pauses::default();
        let first = pauses.next().expect("they never end");
        assert!(first <= FIRST_PAUSE && first >= FIRST_PAUSE / 2, "{first:?}");
        for pause in pauses.by_ref().take(5_000) {
            assert!(pause <= LONGEST_PAUSE && pause >= FIRST_PAUSE / 2, "{pause:?}");
        }
        pauses.reset();
        assert!(pauses.next().expect("they never end") <= FIRST_PAUSE);
    }
}
