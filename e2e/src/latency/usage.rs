//! What the processes of pods cost: resident memory and CPU time out of /proc, where the node is this machine.

use std::fmt;
use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use crate::cluster::{Cluster, Error};

/// What the processes of a pod hold and have used; the pause process of the pod is one of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pods: usize,
    /// Of the largest pod, in KiB.
    resident: u64,
    anonymous: u64,
    /// Of all pods, in hundredths of a second.
    ticks: u64,
}

impl Usage {
    /// Of the data planes of a Gateway.
    pub async fn of_gateway(cluster: &Cluster, namespace: &str, gateway: &str) -> Result<Self, Error> {
        let label = format!("gateway.networking.k8s.io/gateway-name={gateway}");
        Self::of_pods(&Api::namespaced(cluster.client.clone(), namespace), &label).await
    }

    /// Of the replicas of the operator.
    pub async fn of_operator(cluster: &Cluster) -> Result<Self, Error> {
        let label = "app.kubernetes.io/name=postern,app.kubernetes.io/component=operator";
        Self::of_pods(&Api::all(cluster.client.clone()), label).await
    }

    async fn of_pods(pods: &Api<Pod>, labels: &str) -> Result<Self, Error> {
        let mut all = Self::default();
        for pod in pods.list(&ListParams::default().labels(labels)).await? {
            let uid = pod.metadata.uid.unwrap_or_default();
            let one = of_processes(&uid);
            all.pods += usize::from(one.resident > 0);
            all.ticks += one.ticks;
            if one.resident > all.resident {
                (all.resident, all.anonymous) = (one.resident, one.anonymous);
            }
        }
        Ok(all)
    }

    /// Resident MiB of the largest pod; `None` where its processes are not on this machine.
    #[expect(clippy::cast_precision_loss, reason = "no machine has so much")]
    pub fn resident_mib(&self) -> Option<f64> {
        (self.pods > 0).then_some(self.resident as f64 / 1024.0)
    }

    /// The CPU time since an earlier look, in words, all of it and for each of so many changes.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub fn since(&self, earlier: &Self, changes: usize) -> String {
        let seconds = self.ticks.saturating_sub(earlier.ticks) as f64 / 100.0;
        let each = seconds * 1e3 / changes.max(1) as f64;
        format!("{seconds:.2} s CPU for {changes} changes, {each:.1} ms each")
    }
}

impl fmt::Display for Usage {
    #[expect(clippy::cast_precision_loss, reason = "no machine has so much")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(resident) = self.resident_mib() else {
            return write!(f, "its processes are not on this machine");
        };
        let anonymous = self.anonymous as f64 / 1024.0;
        write!(f, "{} pod(s), {resident:.1} MiB resident ({anonymous:.1} anonymous)", self.pods)
    }
}

/// Of all processes in the cgroups of a pod.
fn of_processes(uid: &str) -> Usage {
    let mut sum = Usage::default();
    // The systemd driver writes underscores.
    let names = [uid.to_owned(), uid.replace('-', "_")];
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.map(|entry| entry.path()) {
        let cgroup = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
        if !uid.is_empty() && names.iter().any(|name| cgroup.contains(name.as_str())) {
            sum.resident += kib(&process, "VmRSS:");
            sum.anonymous += kib(&process, "RssAnon:");
            sum.ticks += ticks(&process);
        }
    }
    sum
}

fn kib(process: &Path, field: &str) -> u64 {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

/// User and system time (proc(5), fields 14 and 15 of `stat`).
fn ticks(process: &Path) -> u64 {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The second field is a name in parentheses, which may hold anything.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
