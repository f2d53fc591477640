//! Which replica writes: the holder of a Lease, judged by our own clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// How long a holder that is not heard of keeps the Lease.
const DURATION: Duration = Duration::from_secs(15);
/// How long we go on after the last renewal that worked. Less than [`DURATION`], so that two never write.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often the Lease is renewed or tried for.
const PERIOD: Duration = Duration::from_secs(2);

/// A Lease, and how long we know it as it is.
pub struct Election {
    leases: Api<Lease>,
    name: String,
    identity: String,
    /// What the holder last wrote, and when we saw that first: clocks of other machines are not asked.
    observed: Option<(LeaseSpec, Instant)>,
    renewed: Option<Instant>,
}

impl Election {
    /// Stands for the Lease `name` under `identity`.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        let leases = Api::namespaced(client, namespace);
        Self { leases, name: name.into(), identity: identity.into(), observed: None, renewed: None }
    }

    /// Holds the Lease whenever it can, until `stop`; then lets go of it.
    pub async fn run(mut self, leads: watch::Sender<bool>, mut stop: watch::Receiver<bool>) {
        loop {
            self.round(&leads).await;
            tokio::select! {
                () = sleep(PERIOD) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        if leads.send_replace(false) {
            self.release().await;
        }
    }

    /// Tries once to take or renew the Lease, and says what became of it.
    pub async fn round(&mut self, leads: &watch::Sender<bool>) {
        let held = match timeout(PERIOD, self.attempt()).await {
            Ok(Ok(held)) => held,
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot renew the Lease");
                self.still(Instant::now())
            }
            Err(_) => self.still(Instant::now()),
        };
        if held && leads.send_if_modified(|leads| !std::mem::replace(leads, true)) {
            tracing::info!(identity = self.identity, "leading: this replica writes");
        }
        if !held && leads.send_if_modified(|leads| std::mem::replace(leads, false)) {
            tracing::warn!(
                identity = self.identity,
                "not leading any more: this replica serves, and does not write"
            );
        }
    }

    /// Whether what we had lasts without a renewal.
    fn still(&self, now: Instant) -> bool {
        self.renewed.is_some_and(|renewed| now < renewed + DEADLINE)
    }

    async fn attempt(&mut self) -> kube::Result<bool> {
        let began = Instant::now();
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let spec = self.claim(None);
            let lease = Lease { metadata, spec: Some(spec) };
            let made = self.leases.create(&PostParams::default(), &lease).await?;
            self.took(made, began);
            return Ok(true);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if self.observed.as_ref().is_none_or(|(known, _)| *known != spec) {
            self.observed = Some((spec.clone(), began));
        }
        if !self.is_free(&spec, began) {
            self.renewed = None;
            return Ok(false);
        }
        lease.spec = Some(self.claim(Some(&spec)));
        match self.leases.replace(&self.name, &PostParams::default(), &lease).await {
            Ok(lease) => {
                self.took(lease, began);
                Ok(true)
            }
            // Somebody was faster; who holds it is seen the next time.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(self.still(began)),
            Err(error) => Err(error),
        }
    }

    fn is_free(&self, spec: &LeaseSpec, now: Instant) -> bool {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            return true;
        }
        let lasts = spec
            .lease_duration_seconds
            .map_or(DURATION, |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
        self.observed.as_ref().is_some_and(|(_, since)| now >= *since + lasts)
    }

    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let ours = before.filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(DURATION.as_secs()).expect("a few seconds")),
            acquire_time: ours.and_then(|spec| spec.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if ours.is_some() || before.is_none() {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            ..LeaseSpec::default()
        }
    }

    fn took(&mut self, lease: Lease, at: Instant) {
        self.observed = Some((lease.spec.unwrap_or_default(), at));
        self.renewed = Some(at);
    }

    /// Lets the next one begin at once.
    async fn release(&self) {
        if let Ok(Err(error)) = timeout(PERIOD, self.free()).await {
            tracing::debug!(%error, "cannot release the Lease: it runs out by itself");
        }
    }

    async fn free(&self) -> kube::Result<()> {
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else { return Ok(()) };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() == Some(&self.identity) {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }
}
