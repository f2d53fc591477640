//! What we made and nobody needs any more: of Gateways that have another class or another name for it now, and of those that
//! are gone. The latter would go by their owner references as well, but only when Kubernetes has looked, which takes it up to
//! half a minute while the Gateway API is new to the cluster.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::discovery::ApiResource;
use postern_config::ObjectKey;
use postern_translate::workload::{self, CONTROLLER_ANNOTATION};
use tokio::time::timeout;

use super::{AT_ONCE, Applier, PATIENCE, deletion};
use crate::cluster::translation::Current;

/// An object that may have to go.
struct Candidate<'a> {
    resource: &'a ApiResource,
    key: &'a ObjectKey,
    metadata: &'a ObjectMeta,
}

/// Whether an object is needed.
enum Need<'a> {
    Yes,
    No,
    /// We do not see the Gateway that it was made for. That is not enough: the kind may be missing for a moment, or what we see
    /// be old.
    Unknown(&'a OwnerReference),
}

impl Applier {
    /// Removes what is left over. Gives whether to try again.
    pub(super) async fn remove(&self, current: &Current) -> bool {
        let (mut left, mut unknown) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for ((kind, key), object) in &current.seen.made {
            let Some(resource) = current.seen.resources.get(kind) else { continue };
            let candidate = Candidate { resource, key, metadata: &object.metadata };
            match self.need(current, key, &object.metadata) {
                Need::Yes => {}
                Need::No => left.push(candidate),
                Need::Unknown(owner) => {
                    let owner = (key.namespace.as_str(), owner.name.as_str(), owner.uid.as_str());
                    unknown.entry(owner).or_default().push(candidate);
                }
            }
        }
        let mut looks = Vec::new();
        for (owner, objects) in unknown {
            looks.push(async move {
                let is_gone = timeout(PATIENCE, self.is_gone(current, owner)).await;
                (is_gone.unwrap_or(None), objects)
            });
        }
        let mut again = false;
        for (is_gone, objects) in stream::iter(looks).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
            again |= is_gone.is_none();
            left.extend(objects.into_iter().filter(|_| is_gone == Some(true)));
        }
        let mut deletions = Vec::new();
        for candidate in &left {
            deletions.push(timeout(PATIENCE, self.delete(candidate)));
        }
        let deleted: Vec<_> = stream::iter(deletions).buffer_unordered(AT_ONCE).collect().await;
        again || deleted.into_iter().any(|is_gone| !is_gone.unwrap_or(false))
    }

    fn need<'a>(&self, current: &Current, key: &ObjectKey, metadata: &'a ObjectMeta) -> Need<'a> {
        let annotations = metadata.annotations.as_ref();
        let is_of_ours = annotations.and_then(|all| all.get(CONTROLLER_ANNOTATION)) == Some(&self.controller);
        let mut owners = metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.kind == "Gateway");
        let Some(owner) = owner.filter(|_| is_of_ours && metadata.deletion_timestamp.is_none()) else {
            return Need::Yes;
        };
        let gateway = ObjectKey::new(key.namespace.as_str(), owner.name.as_str());
        let is_seen = |object| workload::is_of(metadata, object);
        if !current.seen.objects.gateways.get(&gateway).is_some_and(|object| is_seen(object)) {
            return Need::Unknown(owner);
        }
        let is_needed = match current.translation.plans.get(&gateway) {
            Some(plan) => plan.workload.as_ref().is_none_or(|workload| {
                workload.deployment.metadata.name.as_deref() == Some(key.name.as_str())
            }),
            // One that cannot be translated may have been, and then its data planes serve on.
            None => current.guilty.iter().any(|(kind, guilty)| *kind == "Gateway" && *guilty == gateway),
        };
        if is_needed { Need::Yes } else { Need::No }
    }

    /// Whether the API server says that a Gateway is gone; `None` where it does not say.
    async fn is_gone(&self, current: &Current, (namespace, name, uid): (&str, &str, &str)) -> Option<bool> {
        let Some(resource) = current.seen.resources.get("Gateway") else { return Some(false) };
        match self.api(resource, namespace).get_metadata(name).await {
            Ok(there) => Some(there.metadata.uid.as_deref() != Some(uid)),
            // Where there is no such kind, no name is given.
            Err(kube::Error::Api(status))
                if status.code == 404
                    && status.details.as_ref().is_some_and(|details| details.name == name) =>
            {
                Some(true)
            }
            Err(error) => {
                tracing::warn!(gateway = %format_args!("{namespace}/{name}"), %error, "cannot see whether it is gone, will try again");
                None
            }
        }
    }

    /// Whether it is gone then, or somebody else's.
    async fn delete(&self, Candidate { resource, key, metadata }: &Candidate<'_>) -> bool {
        let kind = resource.kind.as_str();
        match self.api(resource, &key.namespace).delete(&key.name, &deletion(metadata.uid.clone())).await {
            Ok(_) => tracing::info!(kind, object = %key, "removed: no Gateway needs it any more"),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => {
                tracing::warn!(kind, object = %key, %error, "cannot remove, will try again");
                return false;
            }
        }
        true
    }
}
