//! How a data plane follows the operator: takes updates, says what became of them, and goes on alone when it must.
//!
//! One stream brings the updates. Every other replica of the operator hears on a stream of its own what is served here, so
//! that the one that writes statuses knows of all data planes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use postern_config::Config;
use postern_config::delta::{Contents, Resource, ResourceKey};
use postern_config::wire::{self, Received, Report, Standing, Updates};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tonic::Request;

use crate::channel::{Broken, Channel};
use crate::{Plane, check_certificate, last_good};

/// Keeps a [`Plane`] at what the operator says.
pub struct Subscriber {
    plane: Arc<Plane>,
    holds: Contents,
    standing: watch::Sender<Standing>,
    to_save: watch::Sender<Option<Contents>>,
}

/// The pause before a connection is tried again is up to this after the first failure, and twice as long after each more.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A stream that lived this long was none that failed.
const HEALTHY: Duration = Duration::from_secs(10);
/// How often ports that could not be opened are tried again.
const RETRY_PORTS: Duration = Duration::from_secs(5);
/// How often the file is written at most: endpoints may change many times a second.
const SAVE: Duration = Duration::from_secs(1);
/// How often it is looked which replicas of the operator there are.
const LOOK: Duration = Duration::from_secs(5);

impl Subscriber {
    /// Holds nothing yet.
    pub fn new(plane: Arc<Plane>) -> Self {
        Self {
            plane,
            holds: Contents::default(),
            standing: watch::Sender::default(),
            to_save: watch::Sender::default(),
        }
    }

    /// What is served, as it changes. There is no version before the first configuration.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Serves what is in the file, if it is usable, and keeps the file at what is served.
    pub async fn keep(&mut self, path: PathBuf) {
        match last_good::load(&path) {
            Ok(Some(contents)) => {
                tracing::info!(version = %contents.version, path = %path.display(), "Serving the last good configuration");
                let version = contents.version.clone();
                let applied = self.plane.apply(Arc::clone(&contents.config)).await;
                self.holds = contents;
                let refused = applied.refused.into_iter();
                self.standing.send_replace(Standing {
                    version: Some(version),
                    refused: refused.map(|(key, why)| (ResourceKey::Certificate(key), why)).collect(),
                    failed: applied.failed,
                });
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "Ignored the last good configuration: waiting for the operator");
            }
        }
        tokio::spawn(save_all(path, self.to_save.subscribe()));
    }

    /// Follows the operator for ever.
    pub async fn run(mut self, channel: Channel) {
        let followed = watch::Sender::new(None);
        let observing = observe_others(channel.clone(), self.standing(), followed.subscribe());
        // Both end with the caller's future.
        tokio::join!(self.follow_all(&channel, &followed), observing);
    }

    async fn follow_all(&mut self, channel: &Channel, followed: &watch::Sender<Option<SocketAddr>>) {
        let mut failures = 0;
        let mut last = None;
        loop {
            let began = Instant::now();
            let address = choose(channel, last).await;
            let ended = match address {
                Ok(address) => {
                    last = Some(address);
                    self.follow(channel, address, followed).await
                }
                Err(error) => Err(error),
            };
            followed.send_replace(None);
            let healthy = ended.is_ok() || began.elapsed() >= HEALTHY;
            failures = if healthy { 0 } else { failures + 1 };
            match ended {
                Ok(()) => tracing::debug!("The operator ended the stream"),
                Err(error) => tracing::warn!(%error, failures, "No updates from the operator"),
            }
            self.pause(pause(failures)).await;
        }
    }

    /// Waits, and tries ports again meanwhile.
    async fn pause(&mut self, pause: Duration) {
        tokio::time::sleep(pause).await;
        self.retry_ports().await;
    }

    /// One stream, from its beginning to its end; it ends well when the operator says so.
    async fn follow(
        &mut self,
        channel: &Channel,
        address: SocketAddr,
        followed: &watch::Sender<Option<SocketAddr>>,
    ) -> Result<(), Broken> {
        let credential = channel.credential()?;
        let mut client = channel.connect(address).await?;
        let greeting = wire::greeting(&self.standing.borrow(), &self.holds.inventory);
        let (reports, mut sent) = mpsc::channel(8);
        let outgoing = stream::iter(greeting).chain(stream::poll_fn(move |cx| sent.poll_recv(cx)));
        let mut request = Request::new(outgoing);
        request.metadata_mut().insert("authorization", credential);
        let mut updates = client.subscribe(request).await?.into_inner();
        followed.send_replace(Some(address));
        tracing::info!(%address, "Following the operator");
        let mut whole = Updates::default();
        let mut retry = tokio::time::interval(RETRY_PORTS);
        loop {
            tokio::select! {
                part = updates.message() => {
                    let Some(part) = part? else { return Ok(()) };
                    let Some(received) = whole.add(part)? else { continue };
                    self.take(received).await;
                }
                _ = retry.tick() => if !self.retry_ports().await { continue },
            }
            let report = wire::report(&self.standing.borrow());
            if reports.send(report).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Serves what an update leads to, but for what is refused: there, what was before is kept.
    async fn take(&mut self, received: Received) {
        let Received { version, mut delta, digests, refused: unread } = received;
        let mut refused = self.standing.borrow().refused.clone();
        refused.retain(|key, _| !digests.contains_key(key) && !delta.removed.contains(key));
        refused.extend(unread);
        delta.set.retain(|resource| match unfit(resource) {
            Some(why) => {
                refused.insert(resource.key(), why);
                false
            }
            None => true,
        });
        let inventory = Arc::make_mut(&mut self.holds.inventory);
        for key in &delta.removed {
            inventory.remove(key);
        }
        for key in delta.set.iter().map(Resource::key) {
            let digest = digests[&key];
            inventory.insert(key, digest);
        }
        let mut config = Config::clone(&self.holds.config);
        config.apply(delta);
        self.holds.config = Arc::new(config);
        if let Some(version) = version {
            self.holds.version = version;
        }
        let applied = self.plane.apply(Arc::clone(&self.holds.config)).await;
        for (key, why) in &refused {
            tracing::warn!(resource = %key, why, "Refused a resource, and kept what was before");
        }
        tracing::debug!(version = %self.holds.version, "Serving a new version");
        let version = Some(self.holds.version.clone());
        self.standing.send_replace(Standing { version, refused, failed: applied.failed });
        self.to_save.send_replace(Some(self.holds.clone()));
    }

    /// Tries to open the ports that could not be opened; says whether something changed.
    async fn retry_ports(&mut self) -> bool {
        if self.standing.borrow().failed.is_empty() {
            return false;
        }
        let failed: BTreeMap<u16, String> = self.plane.apply(Arc::clone(&self.holds.config)).await.failed;
        self.standing.send_if_modified(|standing| {
            let changed = standing.failed != failed;
            standing.failed = failed;
            changed
        })
    }
}

/// Why a resource that could be read cannot be served.
fn unfit(resource: &Resource) -> Option<String> {
    match resource {
        Resource::Certificate(_, certificate) => check_certificate(certificate).err(),
        Resource::Listener(..) | Resource::Route(..) | Resource::Backend(..) => None,
    }
}

/// A replica of the operator, another than the last where there is one.
async fn choose(channel: &Channel, last: Option<SocketAddr>) -> Result<SocketAddr, Broken> {
    let mut addresses = channel.addresses().await?;
    fastrand::shuffle(&mut addresses);
    let other = addresses.iter().find(|address| Some(**address) != last).or(addresses.first());
    other.copied().ok_or_else(|| std::io::Error::other("the operator's name has no address").into())
}

/// A random time, so that data planes do not come back all at once.
fn pause(failures: u32) -> Duration {
    let most = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
    most.mul_f64(fastrand::f64())
}

/// Writes what is to be saved, the newest only.
async fn save_all(path: PathBuf, mut to_save: watch::Receiver<Option<Contents>>) {
    while to_save.changed().await.is_ok() {
        let Some(contents) = to_save.borrow_and_update().clone() else { continue };
        let to = path.clone();
        let saved = tokio::task::spawn_blocking(move || last_good::save(&to, &contents)).await;
        if let Ok(Err(error)) = saved {
            tracing::warn!(%error, path = %path.display(), "Cannot save the configuration: a restart will wait for the operator");
        }
        tokio::time::sleep(SAVE).await;
    }
}

/// Tells every replica of the operator that is not followed what is served here.
async fn observe_others(
    channel: Channel,
    standing: watch::Receiver<Standing>,
    mut followed: watch::Receiver<Option<SocketAddr>>,
) {
    let mut observers: HashMap<SocketAddr, Aborts> = HashMap::new();
    loop {
        let now = *followed.borrow_and_update();
        let mut others = BTreeSet::new();
        if let Some(now) = now {
            others.extend(channel.addresses().await.unwrap_or_default());
            others.remove(&now);
        }
        observers.retain(|address, task| others.contains(address) && !task.0.is_finished());
        for address in others {
            observers.entry(address).or_insert_with(|| {
                Aborts(tokio::spawn(observe(channel.clone(), address, standing.clone())).abort_handle())
            });
        }
        let changed = tokio::time::timeout(LOOK, followed.changed()).await;
        if matches!(changed, Ok(Err(_))) {
            return;
        }
    }
}

/// A task that ends when this is dropped.
struct Aborts(AbortHandle);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn observe(channel: Channel, address: SocketAddr, standing: watch::Receiver<Standing>) {
    if let Err(error) = tell(&channel, address, standing).await {
        tracing::debug!(%error, %address, "A replica of the operator does not hear what is served");
    }
}

/// Reports to one replica until the stream ends.
async fn tell(
    channel: &Channel,
    address: SocketAddr,
    mut standing: watch::Receiver<Standing>,
) -> Result<(), Broken> {
    let credential = channel.credential()?;
    let mut client = channel.connect(address).await?;
    standing.mark_changed();
    let reports = stream::unfold(standing, async |mut standing| {
        standing.changed().await.ok()?;
        let report = wire::report(&standing.borrow_and_update());
        Some((Report { observes: true, ..report }, standing))
    });
    let mut request = Request::new(reports);
    request.metadata_mut().insert("authorization", credential);
    let mut updates = client.subscribe(request).await?.into_inner();
    while updates.message().await?.is_some() {}
    Ok(())
}
