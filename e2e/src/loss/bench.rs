//! A Gateway with two data planes and a route to two backends, and hands to shake all of it with.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::process::Command;

use crate::cluster::{Cluster, Error, wait};
use crate::load::{Target, ask_once};

/// All of it is here.
pub const NAMESPACE: &str = "postern-loss";
/// The operator is there, as its chart installs it.
pub const SYSTEM: &str = "postern-system";
pub const OPERATOR: &str = "postern";
/// The Deployment of data planes, and that of backends.
pub const DATA_PLANE: &str = "web-postern";
pub const BACKEND: &str = "echo";
/// Routed from the beginning.
const HOST: &str = "loss.example.com";
/// For whatever a slow machine may take its time for.
pub const SLOW: Duration = Duration::from_secs(180);

/// The Gateway under load.
pub struct Bench {
    pub cluster: Cluster,
    pub address: SocketAddr,
}

impl Bench {
    /// Makes all of it anew, and waits until it answers.
    pub async fn make(cluster: &Cluster) -> Result<Self, Error> {
        cluster.namespace(NAMESPACE).await?;
        cluster.apply(NAMESPACE, include_str!("bench.yaml")).await?;
        let address = cluster.address(NAMESPACE, "web").await?.parse()?;
        let bench = Self { cluster: cluster.clone(), address: SocketAddr::new(address, 80) };
        bench.settled(NAMESPACE, BACKEND).await?;
        bench.scale(NAMESPACE, DATA_PLANE, 2).await?;
        bench.answers(HOST).await?;
        Ok(bench)
    }

    /// Deletes all of it, and waits for nothing.
    pub async fn clear(&self) -> Result<(), Error> {
        self.cluster.end(NAMESPACE).await
    }

    /// What the load asks for.
    pub fn target(&self) -> Target {
        Target { address: self.address, host: HOST.into(), mark: format!("\"namespace\": \"{NAMESPACE}\"") }
    }

    /// Applies a route of another host, and waits until it is accepted and answers.
    pub async fn converges(&self, name: &str) -> Result<(), Error> {
        let host = format!("{name}.example.com");
        let route = format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: {name}}}, \
             spec: {{parentRefs: [{{name: web}}], hostnames: [{host}], \
             rules: [{{backendRefs: [{{name: echo, port: 8080}}]}}]}}}}"
        );
        self.cluster.apply(NAMESPACE, &route).await?;
        let routes = self.cluster.gateway_api("HTTPRoute", NAMESPACE);
        let is_accepted = |route: &kube::api::DynamicObject| {
            let conditions = route.data["status"]["parents"][0]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == "Accepted"
                    && condition["status"] == "True"
                    && condition["observedGeneration"].as_i64() == route.metadata.generation
            })
        };
        self.cluster.until(SLOW, &routes, name, is_accepted).await?;
        self.answers(&host).await
    }

    /// Waits until there is a right answer for a host.
    pub async fn answers(&self, host: &str) -> Result<(), Error> {
        let target = Target { host: host.into(), ..self.target() };
        let answers = wait(SLOW, async || Ok(ask_once(&target).await.is_ok())).await?;
        if answers { Ok(()) } else { Err(format!("no answer for {host} within {SLOW:?}").into()) }
    }

    pub fn deployments(&self, namespace: &str) -> Api<Deployment> {
        Api::namespaced(self.client(), namespace)
    }

    pub fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client(), namespace)
    }

    pub fn client(&self) -> Client {
        self.cluster.client.clone()
    }

    /// The pods of a Deployment, those that are about to end among them, by name.
    pub async fn pods_of(&self, namespace: &str, deployment: &str) -> Result<Vec<Pod>, Error> {
        let owner = self.deployments(namespace).get(deployment).await?;
        let selector = owner.spec.and_then(|spec| spec.selector.match_labels).unwrap_or_default();
        let selector: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let chosen = ListParams::default().labels(&selector.join(","));
        let mut pods = self.pods(namespace).list(&chosen).await?.items;
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods)
    }

    /// Waits until a Deployment is as it should be, and nothing of what it was before is left.
    pub async fn settled(&self, namespace: &str, deployment: &str) -> Result<(), Error> {
        let deployments = self.deployments(namespace);
        let settled = wait(SLOW, async || {
            let wanted = deployments.get(deployment).await?;
            Ok(is_rolled_out(&wanted)
                && self.pods_of(namespace, deployment).await?.len() == replicas(&wanted))
        });
        if settled.await? {
            Ok(())
        } else {
            Err(format!("{deployment} does not settle within {SLOW:?}").into())
        }
    }

    /// Scales a Deployment, and waits until it is of that size.
    pub async fn scale(&self, namespace: &str, deployment: &str, replicas: usize) -> Result<(), Error> {
        let scale = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        self.deployments(namespace).patch_scale(deployment, &PatchParams::default(), &scale).await?;
        self.settled(namespace, deployment).await
    }
}

fn replicas(deployment: &Deployment) -> usize {
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    usize::try_from(replicas.unwrap_or(1)).unwrap_or_default()
}

fn is_rolled_out(deployment: &Deployment) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let counts = [status.replicas, status.updated_replicas, status.available_replicas];
    status.observed_generation >= deployment.metadata.generation
        && counts.iter().all(|count| usize::try_from(count.unwrap_or_default()) == Ok(replicas(deployment)))
}

/// How often the containers of a pod were started again.
pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).sum()
}

/// A verb of `e2e/cluster` that needs the node's processes. It is looked for in the folder that this runs in: what was
/// compiled may come from another checkout.
///
/// Fails, and says why, where the cluster is not that node.
pub async fn node(arguments: &[&str]) -> Result<(), Error> {
    let output = Command::new("e2e/cluster").args(arguments).stdin(Stdio::null()).output().await;
    let output = output
        .map_err(|error| format!("cannot run e2e/cluster: {error}: run this from the project's root"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", ").into())
}
