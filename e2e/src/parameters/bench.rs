//! Gateways with parameters, what was made for them, and hands to change all of it with.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, LogParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::core::discovery::ApiResource;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::backend::echo;
use crate::cluster::{Cluster, Error, wait};
use crate::load::{Target, ask_once};

/// All of it is here.
pub const NAMESPACE: &str = "postern-parameters";
/// A Gateway with the class that the chart makes.
pub const GATEWAY: &str = "web";
/// A Gateway with a class of its own, which has parameters.
pub const CLASSIC: &str = "classic";
/// That class.
const CLASS: &str = "postern-parameters";
const HOST: &str = "parameters.example.com";
/// Where a client says to be.
const CLIENT: &str = "192.0.2.77";
/// For whatever a slow machine may take its time for.
pub const SLOW: Duration = Duration::from_secs(120);

/// The hands.
pub struct Bench {
    pub cluster: Cluster,
}

impl Bench {
    /// Makes the backend and its route anew.
    pub async fn make(cluster: &Cluster) -> Result<Self, Error> {
        cluster.namespace(NAMESPACE).await?;
        let route = include_str!("bench.yaml");
        cluster.apply(NAMESPACE, &(route.to_owned() + &echo("echo", 8080, 1))).await?;
        Ok(Self { cluster: cluster.clone() })
    }

    /// Deletes all of it, and waits for nothing.
    pub async fn clear(&self) -> Result<(), Error> {
        let class = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "GatewayClass");
        let classes = self.cluster.api(&ApiResource::from_gvk(&class), None);
        match classes.delete(CLASS, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            other => drop(other?),
        }
        self.cluster.end(NAMESPACE).await
    }

    /// Sets parameters. Fails when the API server does not take them.
    pub async fn parameters(&self, name: &str, spec: &Value) -> Result<(), Error> {
        let object = json!({
            "apiVersion": "postern.dev/v1alpha1", "kind": "PosternParameters", "metadata": { "name": name }, "spec": spec,
        });
        let force = PatchParams::apply("postern-e2e").force().validation_strict();
        self.kind("postern.dev", "v1alpha1", "PosternParameters")
            .patch(name, &force, &Patch::Apply(&object))
            .await?;
        Ok(())
    }

    pub async fn delete_parameters(&self, name: &str) -> Result<(), Error> {
        let all = self.kind("postern.dev", "v1alpha1", "PosternParameters");
        all.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Makes the Gateway refer to parameters, or to none.
    pub async fn gateway(&self, parameters: Option<&str>) -> Result<(), Error> {
        let mut gateway = gateway(GATEWAY, "postern");
        if let Some(name) = parameters {
            let reference = json!({ "group": "postern.dev", "kind": "PosternParameters", "name": name });
            gateway["spec"]["infrastructure"]["parametersRef"] = reference;
        }
        self.cluster.apply(NAMESPACE, &gateway.to_string()).await
    }

    /// Makes the class that has the parameters `class`, and its Gateway.
    pub async fn classic(&self) -> Result<(), Error> {
        let reference = json!({
            "group": "postern.dev", "kind": "PosternParameters", "name": "class", "namespace": NAMESPACE,
        });
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": CLASS },
            "spec": { "controllerName": "postern.dev/gateway-controller", "parametersRef": reference },
        });
        self.cluster.apply(NAMESPACE, &class.to_string()).await?;
        self.cluster.apply(NAMESPACE, &gateway(CLASSIC, CLASS).to_string()).await
    }

    /// Routes one more host, and says whether there is a right answer for it before long.
    pub async fn routes(&self, host: &str) -> Result<bool, Error> {
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": { "name": "after" },
            "spec": {
                "parentRefs": [{ "name": GATEWAY }], "hostnames": [host],
                "rules": [{ "backendRefs": [{ "name": "echo", "port": 8080 }] }],
            },
        });
        self.cluster.apply(NAMESPACE, &route.to_string()).await?;
        let target = Target { host: host.into(), ..self.target(GATEWAY).await? };
        wait(SLOW, async || Ok(ask_once(&target).await.is_ok())).await
    }

    /// As an autoscaler does it.
    pub async fn scale(&self, gateway: &str, replicas: u32) -> Result<(), Error> {
        let deployments = Api::<Deployment>::namespaced(self.cluster.client.clone(), NAMESPACE);
        let scale = json!({ "spec": { "replicas": replicas } });
        deployments.patch_scale(&made(gateway), &PatchParams::default(), &Patch::Merge(&scale)).await?;
        Ok(())
    }

    /// Why the Gateway is not accepted, once it is not.
    pub async fn refusal(&self, gateway: &str) -> Result<String, Error> {
        let gateways = self.cluster.gateway_api("Gateway", NAMESPACE);
        let refused = self.cluster.until(SLOW, &gateways, gateway, |it| message(it).is_some()).await?;
        Ok(message(&refused).unwrap_or_default())
    }

    /// Waits until a Gateway has so many pods, all of its newest template, and none other.
    pub async fn settled(&self, gateway: &str, replicas: usize) -> Result<bool, Error> {
        wait(SLOW, async || {
            let Ok(deployment) = self.deployment(gateway).await else { return Ok(false) };
            let status = &deployment["status"];
            let is_new = status["observedGeneration"] == deployment["metadata"]["generation"];
            let counts = ["replicas", "readyReplicas", "updatedReplicas"];
            let has_all = counts.iter().all(|count| status[count] == replicas);
            Ok(is_new && has_all && self.pods(gateway).await?.len() == replicas)
        })
        .await
    }

    pub async fn deployment(&self, gateway: &str) -> Result<Value, Error> {
        self.one("apps", "Deployment", gateway).await
    }

    pub async fn service(&self, gateway: &str) -> Result<Value, Error> {
        self.one("", "Service", gateway).await
    }

    /// The versions of what was made for a Gateway, once for each write.
    pub async fn versions(&self, gateway: &str) -> Result<Vec<Value>, Error> {
        let (deployment, service) = (self.deployment(gateway).await?, self.service(gateway).await?);
        Ok(vec![
            deployment["metadata"]["resourceVersion"].clone(),
            service["metadata"]["resourceVersion"].clone(),
        ])
    }

    /// The names of the pods of a Gateway.
    pub async fn pods(&self, gateway: &str) -> Result<BTreeSet<String>, Error> {
        let its = ListParams::default().labels(&format!("gateway.networking.k8s.io/gateway-name={gateway}"));
        let pods = self.kind("", "v1", "Pod").list(&its).await?;
        Ok(pods.iter().map(ResourceExt::name_any).collect())
    }

    /// What is asked for at a Gateway's address.
    pub async fn target(&self, gateway: &str) -> Result<Target, Error> {
        let address = self.cluster.address(NAMESPACE, gateway).await;
        // One that is not accepted keeps the address in its status.
        let address = match address {
            Ok(address) => address,
            Err(_) => {
                let found = self.cluster.gateway_api("Gateway", NAMESPACE).get(gateway).await?;
                found.data["status"]["addresses"][0]["value"].as_str().unwrap_or_default().to_owned()
            }
        };
        let mark = format!("\"namespace\": \"{NAMESPACE}\"");
        Ok(Target { address: SocketAddr::new(address.parse()?, 80), host: HOST.into(), mark })
    }

    /// Whether there is a right answer, before long.
    pub async fn answers(&self, gateway: &str) -> Result<bool, Error> {
        let target = self.target(gateway).await?;
        wait(SLOW, async || Ok(ask_once(&target).await.is_ok())).await
    }

    /// Whether the backend is told that the client is where the client itself says to be.
    pub async fn believes(&self, gateway: &str) -> Result<bool, Error> {
        let address = self.target(gateway).await?.address;
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "GET /believe HTTP/1.1\r\nHost: {HOST}\r\nX-Forwarded-For: {CLIENT}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        timeout(Duration::from_secs(10), stream.read_to_string(&mut answer)).await??;
        Ok(answer.contains(CLIENT))
    }

    /// Whether a pod has written of requests.
    pub async fn writes_access_log(&self, gateway: &str) -> Result<bool, Error> {
        let pods = Api::<Pod>::namespaced(self.cluster.client.clone(), NAMESPACE);
        // Lines are gathered for a moment before they are written.
        sleep(Duration::from_secs(3)).await;
        for pod in self.pods(gateway).await? {
            if pods.logs(&pod, &LogParams::default()).await?.contains("\"url.path\"") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn one(&self, group: &str, kind: &str, gateway: &str) -> Result<Value, Error> {
        Ok(serde_json::to_value(self.kind(group, "v1", kind).get(&made(gateway)).await?)?)
    }

    fn kind(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, version, kind);
        let mut resource = ApiResource::from_gvk(&kind);
        if group == "postern.dev" {
            resource.plural = "posternparameters".into();
        }
        self.cluster.api(&resource, Some(NAMESPACE))
    }
}

/// The name of what is made for a Gateway.
pub fn made(gateway: &str) -> String {
    let class = if gateway == CLASSIC { CLASS } else { "postern" };
    format!("{gateway}-{class}")
}

fn gateway(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": { "name": name },
        "spec": { "gatewayClassName": class, "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }] },
    })
}

fn message(gateway: &DynamicObject) -> Option<String> {
    let conditions = gateway.data["status"]["conditions"].as_array();
    let refused = conditions.into_iter().flatten().find(|condition| {
        condition["type"] == "Accepted"
            && condition["status"] == "False"
            && condition["reason"] == "InvalidParameters"
    });
    Some(refused?["message"].as_str()?.to_owned())
}
