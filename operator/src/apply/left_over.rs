//! What we made and nobody needs any more: of Gateways that have another class or another name for it now, and of those that
//! are gone. The latter would go by their owner references as well, but only when Kubernetes has looked, which takes it up to
//! half a minute while the Gateway API is new to the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, Preconditions};
use kube::core::discovery::ApiResource;
use kube::{Api, api::DynamicObject};
use postern_config::ObjectKey;
use postern_translate::workload::{self, CONTROLLER_ANNOTATION};

use super::Applier;
use crate::translation::Current;

impl Applier {
    /// Removes what is left over. Gives whether to try again.
    pub(super) async fn remove(&self, current: &Current) -> bool {
        let mut again = false;
        for ((kind, key), object) in &current.seen.made {
            let Some(resource) = current.seen.resources.get(kind) else { continue };
            match self.is_left_over(current, key, &object.metadata).await {
                Ok(true) => again |= self.delete(resource, key, &object.metadata).await.is_err(),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(kind, object = %key, %error, "cannot see whether its Gateway is gone, will try again");
                    again = true;
                }
            }
        }
        again
    }

    async fn delete(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        metadata: &ObjectMeta,
    ) -> kube::Result<()> {
        let kind = resource.kind.as_str();
        let preconditions = Preconditions { uid: metadata.uid.clone(), resource_version: None };
        let params = DeleteParams::background().preconditions(preconditions);
        match self.api(resource, &key.namespace).delete(&key.name, &params).await {
            Ok(_) => tracing::info!(kind, object = %key, "removed: no Gateway needs it any more"),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => {
                tracing::warn!(kind, object = %key, %error, "cannot remove, will try again");
                return Err(error);
            }
        }
        Ok(())
    }

    async fn is_left_over(
        &self,
        current: &Current,
        key: &ObjectKey,
        metadata: &ObjectMeta,
    ) -> kube::Result<bool> {
        let annotations = metadata.annotations.as_ref();
        let is_of_ours = annotations.and_then(|all| all.get(CONTROLLER_ANNOTATION)) == Some(&self.controller);
        if !is_of_ours || metadata.deletion_timestamp.is_some() {
            return Ok(false);
        }
        let mut gateways = current.seen.objects.gateways.iter();
        let owner = gateways.find(|(gateway, object)| {
            gateway.namespace == key.namespace && workload::is_of(metadata, object)
        });
        let Some((gateway, _)) = owner else { return self.has_no_owner(current, key, metadata).await };
        Ok(match current.translation.plans.get(gateway) {
            Some(plan) => plan.workload.as_ref().is_some_and(|workload| {
                workload.deployment.metadata.name.as_deref() != Some(key.name.as_str())
            }),
            // One that cannot be translated may have been, and then its data planes serve on.
            None => !current.guilty.iter().any(|(kind, guilty)| *kind == "Gateway" && guilty == gateway),
        })
    }

    /// Whether the Gateway is gone that an object was made for. That we do not see it is not enough: the kind may be missing for
    /// a moment, or what we see be old. The API server has to say so.
    ///
    /// Fails where it says anything else.
    async fn has_no_owner(
        &self,
        current: &Current,
        key: &ObjectKey,
        metadata: &ObjectMeta,
    ) -> kube::Result<bool> {
        let owners = metadata.owner_references.iter().flatten();
        let owner = owners.clone().find(|owner| owner.kind == "Gateway");
        let (Some(owner), Some(resource)) = (owner, current.seen.resources.get("Gateway")) else {
            return Ok(false);
        };
        is_gone(&self.api(resource, &key.namespace), owner).await
    }
}

async fn is_gone(api: &Api<DynamicObject>, owner: &OwnerReference) -> kube::Result<bool> {
    match api.get_metadata(&owner.name).await {
        Ok(there) => Ok(there.metadata.uid.as_ref() != Some(&owner.uid)),
        // Where there is no such kind, no name is given.
        Err(kube::Error::Api(status))
            if status.code == 404
                && status.details.as_ref().is_some_and(|details| details.name == owner.name) =>
        {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}
