//! The cluster under test: objects from YAML, waits, and namespaces that end with their test.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::discovery::{ApiResource, Scope};
use kube::discovery::Discovery;
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// What ends a suite before its end.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A cluster with Postern in it.
#[derive(Clone)]
pub struct Cluster {
    /// For everything that is not below.
    pub client: Client,
}

/// Under this name a suite writes.
const USER: &str = "postern-e2e";
/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(20);

impl Cluster {
    /// The cluster of KUBECONFIG.
    pub async fn connect() -> Result<Self, Error> {
        Ok(Self { client: Client::try_default().await? })
    }

    /// Makes a namespace that enforces Pod Security *restricted*, anew if there is one.
    pub async fn namespace(&self, name: &str) -> Result<(), Error> {
        self.end(name).await?;
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let within = Duration::from_secs(60);
        let is_gone = wait(within, async || Ok(namespaces.get_opt(name).await?.is_none())).await?;
        if !is_gone {
            return Err(format!("the namespace {name} does not end").into());
        }
        let labels = serde_json::json!({ "pod-security.kubernetes.io/enforce": "restricted" });
        let namespace = serde_json::json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels },
        });
        namespaces.create(&Default::default(), &serde_json::from_value(namespace)?).await?;
        Ok(())
    }

    /// Deletes a namespace, and waits for nothing.
    pub async fn end(&self, namespace: &str) -> Result<(), Error> {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        match namespaces.delete(namespace, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Applies the documents of a YAML stream, in their order. Their namespace is theirs, or else this one.
    pub async fn apply(&self, namespace: &str, yaml: &str) -> Result<(), Error> {
        let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(yaml)?;
        let kinds = Discovery::new(self.client.clone()).run().await?;
        for object in objects {
            let types = object.types.clone().ok_or("an object has no kind")?;
            let version = types.api_version.split('/').next_back().unwrap_or_default();
            let group = types.api_version.strip_suffix(version).unwrap_or_default().trim_end_matches('/');
            let kind = kube::core::GroupVersionKind::gvk(group, version, &types.kind);
            let (resource, capabilities) =
                kinds.resolve_gvk(&kind).ok_or_else(|| format!("the cluster has no {kind:?}"))?;
            let own = object.namespace().unwrap_or_else(|| namespace.to_owned());
            let api = self.api(&resource, (capabilities.scope == Scope::Namespaced).then_some(&*own));
            let how = PatchParams::apply(USER).force();
            api.patch(&object.name_any(), &how, &Patch::Apply(&object)).await?;
        }
        Ok(())
    }

    /// Objects of a kind that is known by name alone.
    pub fn api(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    /// Objects of a kind of `gateway.networking.k8s.io/v1`.
    pub fn gateway_api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let kind = kube::core::GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind);
        self.api(&ApiResource::from_gvk(&kind), Some(namespace))
    }

    /// Waits until an object is as wanted, and gives it.
    ///
    /// Fails when that takes too long.
    pub async fn until<K>(
        &self,
        within: Duration,
        api: &Api<K>,
        name: &str,
        is_wanted: impl Fn(&K) -> bool,
    ) -> Result<K, Error>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let end = Instant::now() + within;
        loop {
            let object = api.get_opt(name).await?;
            match object {
                Some(object) if is_wanted(&object) => return Ok(object),
                _ if Instant::now() < end => tokio::time::sleep(LOOK).await,
                other => return Err(format!("{name} is not as wanted after {within:?}: {other:?}").into()),
            }
        }
    }

    /// The first address of a Gateway, once it is programmed.
    pub async fn address(&self, namespace: &str, gateway: &str) -> Result<String, Error> {
        let gateways = self.gateway_api("Gateway", namespace);
        let found = self.until(Duration::from_secs(30), &gateways, gateway, is_programmed).await?;
        let address = found.data["status"]["addresses"][0]["value"].as_str();
        Ok(address.ok_or("a programmed Gateway has no address")?.to_owned())
    }
}

/// Whether a Gateway is programmed, as it is now.
pub fn is_programmed(gateway: &DynamicObject) -> bool {
    let conditions = gateway.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Programmed"
            && condition["status"] == "True"
            && condition["observedGeneration"].as_i64() == gateway.metadata.generation
    })
}

/// Whether something comes to hold within a time.
pub async fn wait(
    within: Duration,
    mut holds: impl AsyncFnMut() -> Result<bool, Error>,
) -> Result<bool, Error> {
    let end = Instant::now() + within;
    loop {
        if holds().await? {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        tokio::time::sleep(LOOK).await;
    }
}
