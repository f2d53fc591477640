//! What data planes refuse, as Events on the object that it comes from: a route, or else the Gateway.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use postern_config::delta::ResourceKey;
use postern_config::{ObjectKey, RouteKind};
use tokio::sync::watch;

use crate::cluster::events::{Events, News};
use crate::cluster::observe::Acknowledgements;
use crate::cluster::translation::Current;

/// The reason of these Events.
const REASON: &str = "RefusedByDataPlane";

/// Tells of each refusal once, for as long as it stands, until an input ends. The leader alone publishes.
pub async fn run(
    mut acknowledged: watch::Receiver<Acknowledgements>,
    current: watch::Receiver<Option<Arc<Current>>>,
    leads: watch::Receiver<bool>,
    events: Events,
) {
    let mut told = BTreeSet::new();
    while acknowledged.changed().await.is_ok() {
        let said = acknowledged.borrow_and_update().clone();
        let refused = said.into_iter().flat_map(|(gateway, said)| {
            said.refused.into_iter().map(move |(resource, why)| (gateway.clone(), resource, why))
        });
        let refused: BTreeSet<_> = refused.collect();
        let (leads, current) = (*leads.borrow(), current.borrow().clone());
        for (gateway, resource, why) in refused.difference(&told) {
            let about = current.as_ref().and_then(|current| about(current, gateway, resource));
            if let Some(about) = about.filter(|_| leads) {
                let message = format!(
                    "data planes of Gateway `{gateway}` refused {resource}, and serve what they had before: {why}"
                );
                events.publish(&about, vec![News::warning(REASON, message)]);
            }
        }
        told = refused;
    }
}

/// The object whose author can do something about a resource.
fn about(current: &Current, gateway: &ObjectKey, resource: &ResourceKey) -> Option<ObjectReference> {
    let objects = &current.seen.objects;
    let (kind, metadata) = match resource {
        ResourceKey::Route(route) => match route.kind {
            RouteKind::Http => ("HTTPRoute", &objects.http_routes.get(&route.key)?.metadata),
            RouteKind::Grpc => ("GRPCRoute", &objects.grpc_routes.get(&route.key)?.metadata),
        },
        ResourceKey::Listener(_) | ResourceKey::Backend(_) | ResourceKey::Certificate(_) => {
            ("Gateway", &objects.gateways.get(gateway)?.metadata)
        }
    };
    let ObjectMeta { name, namespace, uid, .. } = metadata.clone();
    let api_version = Some(current.seen.resources.get(kind)?.api_version.clone());
    Some(ObjectReference { api_version, kind: Some(kind.into()), name, namespace, uid, ..Default::default() })
}
