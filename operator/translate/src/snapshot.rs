//! All that translation looks at: the objects, who we are, and what the world answered.

use std::collections::{BTreeMap, BTreeSet};

use postern_config::ObjectKey;

use crate::api::GatewayStatusAddress;
use crate::kinds::ObjectSet;

/// The controller name that we go by.
pub const CONTROLLER_NAME: &str = "postern.dev/gateway-controller";

/// The input of one translation.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The objects.
    pub objects: ObjectSet,
    /// The kinds that the cluster does not have: nobody could make an object of them.
    pub missing_kinds: BTreeSet<&'static str>,
    /// Who we are and what we claim.
    pub settings: Settings,
    /// What the world answered.
    pub observed: Observed,
}

/// What does not come from objects.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The controller name in GatewayClasses and in statuses.
    pub controller_name: String,
    /// Which Gateways are ours.
    pub claim: Claim,
    /// What workloads are made of; `None` makes none.
    pub infrastructure: Option<Infrastructure>,
}

/// What workloads are made of.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Infrastructure {
    /// The image of the data planes.
    pub image: String,
    /// `Always`, `IfNotPresent` or `Never`; the API's default unless given.
    pub image_pull_policy: Option<String>,
    /// Names of Secrets to pull the image with, in the namespaces of the Gateways.
    pub image_pull_secrets: Vec<String>,
    /// Where data planes get their configuration: `https://HOST:PORT`
    pub channel: String,
    /// How Gateways are reached.
    pub service_type: ServiceType,
}

/// How Gateways are reached.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ServiceType {
    /// By addresses that a load balancer gives.
    #[default]
    LoadBalancer,
    /// By an address of the cluster.
    ClusterIp,
    /// By the addresses of the cluster and ports of the nodes.
    NodePort,
    /// By the addresses of the pods.
    Headless,
}

impl ServiceType {
    /// As in `spec.type` of a Service.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LoadBalancer => "LoadBalancer",
            Self::ClusterIp | Self::Headless => "ClusterIP",
            Self::NodePort => "NodePort",
        }
    }
}

/// Which Gateways are ours.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Claim {
    /// Those whose GatewayClass names our controller.
    #[default]
    OurClasses,
    /// All of them, with or without a GatewayClass: files have no other controller.
    Every,
}

impl Default for Settings {
    fn default() -> Self {
        Self { controller_name: CONTROLLER_NAME.into(), claim: Claim::default(), infrastructure: None }
    }
}

/// What data planes and the network answered, by Gateway.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Observed {
    /// Nobody was asked: statuses are those of a data plane that serves everything it is given, at 127.0.0.1.
    #[default]
    Assumed,
    /// What is known of each Gateway.
    Known(BTreeMap<ObjectKey, ObservedGateway>),
}

/// What is known of one Gateway.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ObservedGateway {
    /// The addresses that it is reachable at.
    pub addresses: Vec<GatewayStatusAddress>,
    /// The generation of the Gateway that every ready data plane has acknowledged.
    pub acknowledged_generation: Option<i64>,
    /// Listeners that could not be opened, with the reason ("cannot bind 0.0.0.0:443: address in use").
    pub failed_listeners: BTreeMap<String, String>,
    /// Listeners that are not served as they should be, with the reason ("certificate/a/b: not a certificate").
    pub refused_listeners: BTreeMap<String, String>,
    /// Why what runs it cannot be made ("Service `a/b` is there and was not made for this Gateway: delete or rename it").
    pub obstacle: Option<String>,
}
