//! What the world answered: addresses of Services, ready pods, and what data planes acknowledged.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use postern_config::ObjectKey;
use postern_config::delta::ResourceKey;
use postern_translate::api::{ConditionStatus, Gateway};
use postern_translate::snapshot::{Observed, ObservedGateway};
use postern_translate::workload;

use crate::cluster::watch::Seen;

/// What the data planes of one Gateway acknowledged.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Acknowledged {
    /// The generation of the Gateway that all of them have.
    pub generation: Option<i64>,
    /// Listeners that could not be opened, with the reason.
    pub failed_listeners: BTreeMap<String, String>,
    /// Listeners that are not served as they should be, for something of theirs is among what is refused.
    pub refused_listeners: BTreeMap<String, String>,
    /// What they did not take, each with the reason: they keep what they had.
    pub refused: BTreeMap<ResourceKey, String>,
}

/// What data planes acknowledged, by Gateway.
pub type Acknowledgements = BTreeMap<ObjectKey, Acknowledged>;

/// Why workloads cannot be made, by Gateway.
pub type Obstacles = BTreeMap<ObjectKey, String>;

/// Puts together what is known of every Gateway.
pub fn observed(seen: &Seen, acknowledged: &Acknowledgements, obstacles: &Obstacles) -> Observed {
    let one = |(key, gateway): (&ObjectKey, &std::sync::Arc<Gateway>)| {
        let before = || Acknowledged { generation: programmed(gateway), ..Acknowledged::default() };
        let said = acknowledged.get(key).cloned().unwrap_or_else(before);
        let observed = ObservedGateway {
            addresses: workload::addresses(&seen.objects, key, gateway),
            acknowledged_generation: said.generation.filter(|_| is_ready(seen, key, gateway)),
            failed_listeners: said.failed_listeners,
            refused_listeners: said.refused_listeners,
            obstacle: obstacles.get(key).cloned(),
        };
        (key.clone(), observed)
    };
    Observed::Known(seen.objects.gateways.iter().map(one).collect())
}

/// The generation that the data planes had when the status was written. While none of them is connected, nothing says
/// otherwise: they serve on, and an operator that starts anew takes no Gateway down.
fn programmed(gateway: &Gateway) -> Option<i64> {
    let conditions = &gateway.status.as_ref()?.conditions;
    let programmed = conditions.iter().find(|condition| condition.kind == "Programmed")?;
    programmed.observed_generation.filter(|_| programmed.status == ConditionStatus::True)
}

/// Whether a pod of the Gateway's workload is ready.
fn is_ready(seen: &Seen, key: &ObjectKey, gateway: &Gateway) -> bool {
    let name = workload::name(&key.name, &gateway.spec.gateway_class_name);
    let deployment = seen.made.get(&("Deployment", ObjectKey::new(key.namespace.as_str(), name)));
    deployment.is_some_and(|it| workload::is_of(&it.metadata, gateway) && ready_replicas(it) > 0)
}

fn ready_replicas(deployment: &DynamicObject) -> u64 {
    deployment.data["status"]["readyReplicas"].as_u64().unwrap_or_default()
}
