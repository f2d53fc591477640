//! What happens in each case, and whether it really did.

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::bench::{BACKEND, Bench, DATA_PLANE, NAMESPACE, OPERATOR, SLOW, SYSTEM, node, restarts};
use super::{Case, Killed};
use crate::cluster::{Error, wait};
use crate::facts::Facts;
use crate::load::{Load, Target, ask_once};

/// How long the API server is away.
const AWAY: Duration = Duration::from_secs(60);
/// Within this a killed data plane is back.
const SECONDS: Duration = Duration::from_secs(10);

impl Case {
    /// What must be so before the load begins.
    pub(super) async fn prepare(self, bench: &Bench) -> Result<(), Error> {
        bench.settled(SYSTEM, OPERATOR).await?;
        if matches!(self, Self::DataPlaneKilled | Self::DataPlaneOfTwoKilled) {
            // A container that is killed for the second time is started again later.
            bench.deployments(NAMESPACE).restart(DATA_PLANE).await?;
        }
        let data_planes = if self == Self::DataPlaneKilled { 1 } else { 2 };
        bench.scale(NAMESPACE, DATA_PLANE, data_planes).await
    }

    /// Lets it happen, and waits until everything is well again.
    pub(super) async fn happen(
        self,
        bench: &Bench,
        load: &Load,
        facts: &mut Facts,
    ) -> Result<Option<Killed>, Error> {
        match self {
            Self::OperatorKilled => operator_killed(bench, facts).await?,
            Self::LeaderLost => leader_lost(bench, facts).await?,
            Self::ApiServerStopped => api_server_stopped(bench, facts).await?,
            Self::DataPlaneKilled => return data_plane_killed(bench, load, facts).await.map(Some),
            Self::DataPlaneOfTwoKilled => return one_of_two_killed(bench, load, facts).await.map(Some),
            Self::DataPlaneRollout => data_plane_rollout(bench, facts).await?,
            Self::BackendRollout => backend_rollout(bench, facts).await?,
            Self::RouteChanges => route_changes(bench, facts).await?,
            Self::ListenerChanges => listener_changes(bench, facts).await?,
        }
        Ok(None)
    }

    /// Puts back what even a case that failed must not leave behind.
    pub(super) async fn restore(self, bench: &Bench) -> Result<(), Error> {
        match self {
            Self::DataPlaneKilled | Self::DataPlaneOfTwoKilled => bench.scale(SYSTEM, OPERATOR, 2).await,
            _ => Ok(()),
        }
    }
}

async fn operator_killed(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    let pods = bench.pods_of(SYSTEM, OPERATOR).await?;
    for pod in &pods {
        node(&["kill", SYSTEM, &pod.name_any()]).await?;
    }
    let began = Instant::now();
    let mut again = 0;
    for pod in &pods {
        let started = |now: &Pod| restarts(now) > restarts(pod);
        again += usize::from(
            bench.cluster.until(SLOW, &bench.pods(SYSTEM), &pod.name_any(), started).await.is_ok(),
        );
    }
    let what = format!("{again} of {} replicas were started again", pods.len());
    facts.check(what, again == pods.len() && again >= 2);
    bench.settled(SYSTEM, OPERATOR).await?;
    bench.converges("after-operator").await?;
    facts.check(format_args!("a new route converges, {:.1} s after the kill", secs(began)), true);
    Ok(())
}

async fn leader_lost(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    let leases = Api::<Lease>::namespaced(bench.client(), SYSTEM);
    let holder = async || -> Result<String, Error> {
        let lease = leases.get(OPERATOR).await?;
        Ok(lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
    };
    let before = holder().await?;
    // Killed first: one that is told to end would hand its Lease over.
    node(&["kill", SYSTEM, &before]).await?;
    bench.pods(SYSTEM).delete(&before, &DeleteParams::default().grace_period(0)).await?;
    let began = Instant::now();
    bench.converges("after-leader").await?;
    let after = holder().await?;
    let changed = !after.is_empty() && after != before;
    let what = format!("a new route is accepted by another holder and answers, after {:.1} s", secs(began));
    facts.check(what, changed);
    bench.settled(SYSTEM, OPERATOR).await
}

async fn api_server_stopped(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    node(&["stop", "kube-apiserver"]).await?;
    let began = Instant::now();
    let mut answers = 0;
    while began.elapsed() < AWAY {
        sleep(Duration::from_secs(5)).await;
        answers += u32::from(bench.client().apiserver_version().await.is_ok());
    }
    node(&["start", "kube-apiserver"]).await?;
    facts.check(format_args!("it is away for {:.0} s", secs(began)), answers == 0);
    let began = Instant::now();
    let is_back = wait(SLOW, async || Ok(bench.client().apiserver_version().await.is_ok())).await?;
    facts.check(format_args!("it answers again after {:.1} s", secs(began)), is_back);
    // Its own roles are not there at once.
    let mut applied = Err("never tried".into());
    while applied.is_err() && began.elapsed() < SLOW {
        applied = bench.converges("after-api-server").await;
    }
    facts.check(format_args!("a new route converges after {:.1} s", secs(began)), applied.is_ok());
    applied
}

/// Connections are taken again when the Service has the pod again, which is later than the pod itself is back.
async fn data_plane_killed(bench: &Bench, load: &Load, facts: &mut Facts) -> Result<Killed, Error> {
    bench.scale(SYSTEM, OPERATOR, 0).await?;
    let pods = bench.pods_of(NAMESPACE, DATA_PLANE).await?;
    let pod = pods.first().ok_or("there is no data plane")?;
    let killed = kill_data_plane(bench, load, pod).await?;
    let no_operator = bench.pods_of(SYSTEM, OPERATOR).await?.is_empty();
    let down = killed.back - killed.from;
    let what =
        format!("the killed data plane serves again after {:.2} s, without an operator", down.as_secs_f64());
    facts.check(what, no_operator && down < SECONDS);
    let is_alone = pods.len() == 1;
    let is_back = !is_alone || wait(SLOW, async || Ok(ask_once(&bench.target()).await.is_ok())).await?;
    let back = if is_alone { load.at() } else { killed.back };
    if is_alone {
        let down = back - killed.from;
        facts.check(
            format_args!("and the Service has it again after {:.2} s", down.as_secs_f64()),
            is_back && down < SECONDS,
        );
    }
    bench
        .cluster
        .until(SLOW, &bench.pods(NAMESPACE), &pod.name_any(), |now| restarts(now) > restarts(pod))
        .await?;
    bench.settled(NAMESPACE, DATA_PLANE).await?;
    Ok(Killed { back, ..killed })
}

/// Beside the load through the Service, there is one to the pod that lives: it loses nothing at all.
async fn one_of_two_killed(bench: &Bench, load: &Load, facts: &mut Facts) -> Result<Killed, Error> {
    let pods = bench.pods_of(NAMESPACE, DATA_PLANE).await?;
    let other = pods.get(1).ok_or("there are no two data planes")?;
    let target = Target { address: address_of(other)?, ..bench.target() };
    let to_other = Load::start(target, 100.0);
    let killed = data_plane_killed(bench, load, facts).await;
    sleep(Duration::from_secs(2)).await;
    let outcome = to_other.stop(1).await?;
    let lost = outcome.lost.len();
    facts.check(format_args!("at the address of the other, {lost} lost of {outcome}"), lost == 0);
    killed
}

/// Kills a data plane, and waits until it answers at its own address.
async fn kill_data_plane(bench: &Bench, load: &Load, pod: &Pod) -> Result<Killed, Error> {
    let target = Target { address: address_of(pod)?, ..bench.target() };
    let from = load.at();
    node(&["kill", NAMESPACE, &pod.name_any()]).await?;
    let to = load.at();
    let answers = async || ask_once(&target).await.is_ok();
    if !wait(SECONDS, async || Ok(!answers().await)).await? {
        return Err("the data plane answers on".into());
    }
    if !wait(SLOW, async || Ok(answers().await)).await? {
        return Err("the data plane does not come back".into());
    }
    Ok(Killed { from, to, back: load.at() })
}

fn address_of(pod: &Pod) -> Result<SocketAddr, Error> {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()).ok_or("a pod has no address")?;
    Ok(SocketAddr::new(ip.parse()?, 80))
}

async fn data_plane_rollout(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    let before = names(bench, DATA_PLANE).await?;
    let marked = json!({ "spec": { "infrastructure": { "annotations": { "example.com/rollout": "1" } } } });
    patch_gateway(bench, &marked).await?;
    let is_under_way = wait(SLOW, async || Ok(names(bench, DATA_PLANE).await?.len() > 2)).await?;
    bench.settled(NAMESPACE, DATA_PLANE).await?;
    let between = names(bench, DATA_PLANE).await?;
    let replaced = is_under_way && between.len() == 2 && !between.iter().any(|name| before.contains(name));
    facts.check("an annotation of the Gateway replaces both data planes", replaced);
    bench.deployments(NAMESPACE).restart(DATA_PLANE).await?;
    bench.settled(NAMESPACE, DATA_PLANE).await?;
    let after = names(bench, DATA_PLANE).await?;
    let replaced = after.len() == 2 && !after.iter().any(|name| between.contains(name));
    facts.check("and so does a restart of the Deployment", replaced);
    Ok(())
}

async fn backend_rollout(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    for round in 1..=2 {
        let before = names(bench, BACKEND).await?;
        bench.deployments(NAMESPACE).restart(BACKEND).await?;
        bench.settled(NAMESPACE, BACKEND).await?;
        let after = names(bench, BACKEND).await?;
        let replaced = after.len() == 2 && !after.iter().any(|name| before.contains(name));
        facts.check(format_args!("all pods are replaced, round {round}"), replaced);
    }
    Ok(())
}

/// A header of the answer tells when a change has come through.
async fn route_changes(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    let routes = bench.cluster.gateway_api("HTTPRoute", NAMESPACE);
    let mut accepted = 0;
    for round in 0..30 {
        let header = json!([{ "type": "ResponseHeaderModifier", "responseHeaderModifier": {
            "set": [{ "name": "x-round", "value": round.to_string() }],
        } }]);
        let rule = json!({ "filters": header, "backendRefs": [{ "name": "echo", "port": 8080 }] });
        let patch = Patch::Merge(json!({ "spec": { "rules": [rule] } }));
        routes.patch("loss", &PatchParams::default(), &patch).await?;
        if round % 3 == 0 {
            bench.converges(&format!("beside-{}", round / 3)).await?;
            accepted += 1;
        } else {
            sleep(Duration::from_millis(500)).await;
        }
    }
    facts.check(format_args!("30 of the route itself, {accepted} neighbours came"), accepted == 10);
    Ok(())
}

async fn listener_changes(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    let listener = |port: u16| json!({ "name": format!("http-{port}"), "port": port, "protocol": "HTTP" });
    let target = Target { address: SocketAddr::new(bench.address.ip(), 8080), ..bench.target() };
    let mut rounds = 0;
    for _ in 0..10 {
        patch_gateway(bench, &json!({ "spec": { "listeners": [listener(80), listener(8080)] } })).await?;
        let comes = wait(SLOW, async || Ok(ask_once(&target).await.is_ok())).await?;
        patch_gateway(bench, &json!({ "spec": { "listeners": [listener(80)] } })).await?;
        let goes = wait(SLOW, async || Ok(ask_once(&target).await.is_err())).await?;
        rounds += u32::from(comes && goes);
    }
    facts.check(format_args!("the listener of port 8080 came and went {rounds} times"), rounds == 10);
    Ok(())
}

async fn patch_gateway(bench: &Bench, patch: &Value) -> Result<(), Error> {
    let gateways = bench.cluster.gateway_api("Gateway", NAMESPACE);
    gateways.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn names(bench: &Bench, deployment: &str) -> Result<Vec<String>, Error> {
    Ok(bench.pods_of(NAMESPACE, deployment).await?.iter().map(ResourceExt::name_any).collect())
}

fn secs(began: Instant) -> f64 {
    began.elapsed().as_secs_f64()
}
