//! The operator that runs: what it has counted, and whether it has started again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use tokio::time::{Instant, sleep};

use super::ask;
use crate::cluster::{Cluster, Error};

/// Where the chart puts it.
const NAMESPACE: &str = "postern-system";
const LABELS: &str = "app.kubernetes.io/name=postern";
const METRICS: u16 = 15_021;

/// The containers of pods and how often each has started again.
pub async fn restarts(
    cluster: &Cluster,
    namespace: &str,
    labels: &str,
) -> Result<BTreeMap<String, i32>, Error> {
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), namespace);
    let mut restarts = BTreeMap::new();
    for pod in pods.list(&ListParams::default().labels(labels)).await? {
        let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        let count = statuses.iter().map(|status| status.restart_count).sum();
        restarts.insert(pod.metadata.name.unwrap_or_default(), count);
    }
    Ok(restarts)
}

/// The same of the operator.
pub async fn own_restarts(cluster: &Cluster) -> Result<BTreeMap<String, i32>, Error> {
    restarts(cluster, NAMESPACE, LABELS).await
}

/// The sums of the operator's metrics over its replicas, by name and labels.
pub async fn counted(cluster: &Cluster) -> Result<BTreeMap<String, f64>, Error> {
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), NAMESPACE);
    let mut sums = BTreeMap::new();
    for pod in pods.list(&ListParams::default().labels(LABELS)).await? {
        let Some(ip) = pod.status.and_then(|status| status.pod_ip) else { continue };
        let text = ask::get(SocketAddr::new(ip.parse()?, METRICS), "operator", "/metrics").await?.body;
        for (name, value) in metrics(&text) {
            *sums.entry(name).or_default() += value;
        }
    }
    if sums.is_empty() { Err("the operator has no metrics".into()) } else { Ok(sums) }
}

/// How many writes it has tried, whatever became of them. The Lease is none of them.
pub async fn writes(cluster: &Cluster) -> Result<f64, Error> {
    let counted = counted(cluster).await?;
    Ok(counted.iter().filter(|(name, _)| name.contains("_writes_total")).map(|(_, value)| value).sum())
}

/// Waits until it has written nothing for some time; gives whether that came.
pub async fn settles(cluster: &Cluster, quiet: Duration, within: Duration) -> Result<bool, Error> {
    let end = Instant::now() + within;
    let mut last = (writes(cluster).await?, Instant::now());
    loop {
        if last.1.elapsed() >= quiet {
            return Ok(true);
        }
        if Instant::now() > end {
            return Ok(false);
        }
        sleep(Duration::from_millis(500)).await;
        let now = writes(cluster).await?;
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
}

/// The lines of a metrics page.
pub fn metrics(text: &str) -> impl Iterator<Item = (String, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    })
}
