//! What each Gateway's data planes should have, and which of them have it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postern_config::delta::{Contents, ResourceKey, Version};
use postern_config::wire::Standing;
use postern_config::{CertificateKey, Listener, ObjectKey, Protocol};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::observe::{Acknowledged, Acknowledgements};
use crate::cluster::telemetry::Telemetry;
use crate::cluster::translation::Current;

/// What the data planes of one Gateway should have.
#[derive(Clone, Debug, Default)]
pub struct Edition {
    /// The configuration.
    pub contents: Contents,
    /// The generation of the Gateway that it was made from.
    pub generation: Option<i64>,
    /// When the change was seen that it follows from.
    pub since: Option<Instant>,
}

/// What all of them should have; nothing before the cluster is known.
pub type Editions = Option<BTreeMap<ObjectKey, Arc<Edition>>>;

/// The data planes that are connected, and what they have.
#[derive(Debug)]
pub struct Tracker {
    gateways: Mutex<BTreeMap<ObjectKey, Tracked>>,
    acknowledged: watch::Sender<Acknowledgements>,
    telemetry: Telemetry,
}

#[derive(Debug, Default)]
struct Tracked {
    /// Each with its pod, which has one stream here: another is what is left of a connection that broke.
    peers: BTreeMap<u64, (String, Standing)>,
    /// The latest versions, newest last.
    versions: VecDeque<Known>,
    /// The port and the certificates of each listener.
    listeners: BTreeMap<String, (u16, Vec<CertificateKey>)>,
    next: u64,
}

/// A version that there should be, or should have been.
#[derive(Debug)]
struct Known {
    version: Version,
    /// The newest generation that it stands for.
    generation: Option<i64>,
    /// When the change was seen that it follows from, until all have it.
    since: Option<Instant>,
}

/// One connected data plane. It is no longer counted when this is dropped.
#[derive(Debug)]
pub struct Peer {
    tracker: Arc<Tracker>,
    gateway: ObjectKey,
    number: u64,
}

/// Versions that are remembered: a data plane that is further behind is behind, whatever it has.
const REMEMBERED: usize = 64;
/// Streams that one Gateway may have.
const MOST: usize = 256;

/// Makes an edition of every plan until the operator ends. What did not change is taken over.
pub async fn publish(
    mut current: watch::Receiver<Option<Arc<Current>>>,
    editions: watch::Sender<Editions>,
    tracker: Arc<Tracker>,
) {
    loop {
        let newest = current.borrow_and_update().clone();
        if let Some(newest) = newest {
            let before = editions.borrow().clone();
            let made = tokio::task::spawn_blocking(move || renewed(before.as_ref(), &newest)).await;
            if let Ok((made, true)) = made {
                tracker.expect(&made);
                editions.send_replace(Some(made));
            }
        }
        if current.changed().await.is_err() {
            return;
        }
    }
}

/// The editions of now, and whether they differ from those before.
fn renewed(
    before: Option<&BTreeMap<ObjectKey, Arc<Edition>>>,
    current: &Current,
) -> (BTreeMap<ObjectKey, Arc<Edition>>, bool) {
    let mut changed = before.is_none_or(|before| before.len() != current.translation.plans.len());
    let mut editions = BTreeMap::new();
    for (key, plan) in &current.translation.plans {
        let gateway = current.seen.objects.gateways.get(key);
        let generation = gateway.and_then(|gateway| gateway.metadata.generation);
        let old = before.and_then(|before| before.get(key)).cloned().unwrap_or_default();
        let contents = old.contents.renewed(&plan.config);
        let is_same = contents.version == old.contents.version && generation == old.generation;
        let is_known = before.is_some_and(|before| before.contains_key(key));
        changed |= !is_same || !is_known;
        let since = current.seen.since;
        let edition = if is_same { old } else { Arc::new(Edition { contents, generation, since }) };
        editions.insert(key.clone(), edition);
    }
    (editions, changed)
}

impl Tracker {
    /// Nobody is connected yet. What data planes say goes to `acknowledged`.
    pub fn new(acknowledged: watch::Sender<Acknowledgements>, telemetry: Telemetry) -> Arc<Self> {
        Arc::new(Self { gateways: Mutex::default(), acknowledged, telemetry })
    }

    /// Counts a data plane of a Gateway, in place of what its pod had before; `None` when there are too many.
    pub fn join(self: &Arc<Self>, gateway: &ObjectKey, pod: &str) -> Option<Peer> {
        let mut gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        let tracked = gateways.entry(gateway.clone()).or_default();
        tracked.peers.retain(|_, (other, _)| pod.is_empty() || other != pod);
        if tracked.peers.len() >= MOST {
            return None;
        }
        let number = tracked.next;
        tracked.next += 1;
        tracked.peers.insert(number, (pod.into(), Standing::default()));
        self.count(&gateways);
        drop(gateways);
        Some(Peer { tracker: Arc::clone(self), gateway: gateway.clone(), number })
    }

    /// From now on, these editions are what there should be.
    fn expect(&self, editions: &BTreeMap<ObjectKey, Arc<Edition>>) {
        let mut gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, edition) in editions {
            let tracked = gateways.entry(key.clone()).or_default();
            let version = &edition.contents.version;
            let is_new = tracked.versions.back().is_none_or(|newest| newest.version != *version);
            let before = tracked.versions.back().and_then(|newest| newest.since).filter(|_| !is_new);
            tracked.versions.retain(|old| old.version != *version);
            // Nobody is waited for who is not there.
            let since = edition.since.filter(|_| is_new && tracked.serving().next().is_some()).or(before);
            let (version, generation) = (version.clone(), edition.generation);
            tracked.versions.push_back(Known { version, generation, since });
            if tracked.versions.len() > REMEMBERED {
                tracked.versions.pop_front();
            }
            let listeners = edition.contents.config.listeners.iter();
            tracked.listeners = listeners.map(|(name, listener)| (name.clone(), needs(listener))).collect();
        }
        gateways.retain(|key, tracked| editions.contains_key(key) || !tracked.peers.is_empty());
        drop(gateways);
        self.tell();
    }

    fn count(&self, gateways: &BTreeMap<ObjectKey, Tracked>) {
        let count: usize = gateways.values().map(|tracked| tracked.peers.len()).sum();
        self.telemetry.data_planes.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Says what is acknowledged now, if that is news.
    fn tell(&self) {
        let gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        let now: Acknowledgements = gateways
            .iter()
            .filter_map(|(key, tracked)| Some((key.clone(), tracked.acknowledged()?)))
            .collect();
        // Under the lock, so that what is said last is what is so.
        self.acknowledged.send_if_modified(|said| {
            let is_news = *said != now;
            *said = now;
            is_news
        });
    }
}

impl Tracked {
    /// What all data planes that serve something say.
    fn serving(&self) -> impl Iterator<Item = &Standing> {
        self.peers.values().map(|(_, standing)| standing).filter(|it| it.version.is_some())
    }

    /// What all data planes that serve something have; `None` while none does.
    fn acknowledged(&self) -> Option<Acknowledged> {
        self.serving().next()?;
        let generation = |peer: &Standing| {
            let known = self.versions.iter().find(|known| Some(&known.version) == peer.version.as_ref());
            known.and_then(|known| known.generation)
        };
        let failed = self.serving().flat_map(|peer| &peer.failed);
        let failed: BTreeMap<u16, &String> = failed.map(|(port, why)| (*port, why)).collect();
        let listeners = self.listeners.iter();
        let failed_listeners = listeners
            .clone()
            .filter_map(|(name, (port, _))| Some((name.clone(), failed.get(port)?.to_string())))
            .collect();
        let refused = self.serving().flat_map(|peer| peer.refused.clone());
        let refused: BTreeMap<ResourceKey, String> = refused.collect();
        let refused_listeners = listeners.filter_map(|(name, (_, certificates))| {
            let certificates = certificates.iter().cloned().map(ResourceKey::Certificate);
            let mut parts = certificates.chain([ResourceKey::Listener(name.clone())]);
            parts.find_map(|key| Some((name.clone(), format!("{key}: {}", refused.get(&key)?))))
        });
        // One that has something unknown is behind by an unknown distance: `None` is less than all.
        Some(Acknowledged {
            generation: self.serving().map(generation).min().flatten(),
            failed_listeners,
            refused_listeners: refused_listeners.collect(),
            refused,
        })
    }

    /// How long ago the changes were seen that all data planes have now; each is given once.
    fn arrived(&mut self) -> Vec<Duration> {
        let place = |peer: &Standing| {
            self.versions.iter().position(|known| Some(&known.version) == peer.version.as_ref())
        };
        let Some(newest) = self.serving().map(place).min().flatten() else { return Vec::new() };
        let all_have = self.versions.iter_mut().take(newest + 1);
        all_have.filter_map(|known| Some(known.since.take()?.elapsed())).collect()
    }
}

/// The port and the certificates of a listener.
fn needs(listener: &Listener) -> (u16, Vec<CertificateKey>) {
    let certificates = match &listener.protocol {
        Protocol::Http => Vec::new(),
        Protocol::Https { certificates } => certificates.clone(),
    };
    (listener.port, certificates)
}

impl Peer {
    /// An update is on its way to it.
    pub fn sent(&self) {
        self.tracker.telemetry.pushes.inc();
    }

    /// Takes down what the data plane says of itself.
    pub fn report(&self, standing: Standing) {
        let mut gateways = self.tracker.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = gateways.get_mut(&self.gateway).and_then(|it| it.peers.get_mut(&self.number)) {
            let is_new = |key: &&ResourceKey| !peer.1.refused.contains_key(key);
            let rejects = standing.refused.keys().filter(is_new).count();
            self.tracker.telemetry.rejects.inc_by(rejects as u64);
            peer.1 = standing;
        }
        for took in gateways.get_mut(&self.gateway).map(Tracked::arrived).unwrap_or_default() {
            self.tracker.telemetry.propagation.observe(took.as_secs_f64());
        }
        drop(gateways);
        self.tracker.tell();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut gateways = self.tracker.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tracked) = gateways.get_mut(&self.gateway) {
            tracked.peers.remove(&self.number);
        }
        self.tracker.count(&gateways);
        drop(gateways);
        self.tracker.tell();
    }
}
