//! `PosternParameters`: what a GatewayClass or a Gateway can say of the data planes that run its Gateways. Its CRD is made of these types.

mod quantity;
mod schema;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use quantity::{Quantity, billionths};
pub use schema::crd;

/// The API group of our own kinds.
pub const OWN_GROUP: &str = "postern.dev";

/// A `PosternParameters` with its spec as it came: what is wrong with it is a matter of those who refer to it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Parameters {
    /// Name, namespace and generation.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// A [`PosternParametersSpec`], if it is well-formed.
    #[serde(default)]
    pub spec: Value,
}

/// How the data planes of Gateways run. Every field is optional; one that is not set has the value that the GatewayClass's
/// parameters have, or else the default. Lists are replaced as a whole, everything else is taken field by field.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "postern.dev",
    version = "v1alpha1",
    kind = "PosternParameters",
    plural = "posternparameters",
    singular = "posternparameters",
    shortname = "pparams",
    category = "gateway-api",
    category = "postern",
    namespaced,
    doc = "How the data planes of Gateways run: for all Gateways of a GatewayClass that refers to it in `parametersRef`, or for one Gateway that refers to it in `infrastructure.parametersRef`. Where both do, what the Gateway's says wins.",
    crates(kube_core = "kube_core"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service.type"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PosternParametersSpec {
    /// How many pods serve a Gateway. Leave it out where a HorizontalPodAutoscaler owns the number: then it is never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub replicas: Option<i32>,
    /// The pods, and where they run. A change replaces them one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodParameters>,
    /// The Service that gives a Gateway its addresses. A change of it restarts no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceParameters>,
    /// What the data plane does within its pods. A change replaces them one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<DataPlaneParameters>,
}

/// The pods of a Gateway. They run under the Pod Security Standard *restricted*, and nothing here can change that.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodParameters {
    /// Labels of the pods. Those of the Gateway's `infrastructure` win, and Postern's own over all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pods. Those of the Gateway's `infrastructure` win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::pod_annotations")]
    pub annotations: BTreeMap<String, String>,
    /// CPU and memory of the data plane's container. Unless given, requests of cpu 10m and memory 32Mi, and no limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Labels that a node must have to run the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the pods stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tolerations: Option<Vec<Toleration>>,
    /// Where the pods run by the labels of nodes and of other pods: `affinity` of a pod, as Kubernetes has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub affinity: Option<Map<String, Value>>,
    /// How the pods of a Gateway are spread. Unless given, over nodes, as far as that can be done; an empty list leaves it to
    /// the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub topology_spread_constraints: Option<Vec<TopologySpread>>,
    /// The PriorityClass of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub priority_class_name: Option<String>,
}

/// CPU and memory of a container.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// What a node must have left for a pod. What is limited and not requested is requested up to its limit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub requests: BTreeMap<String, Quantity>,
    /// What a pod may use. One that uses more memory is ended by its node, with all of its connections.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub limits: BTreeMap<String, Quantity>,
}

/// A taint that pods stand.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.key) || (has(self.operator) && self.operator == 'Exists')", "message": "a toleration without a key must have the operator Exists" },
    { "rule": "!has(self.value) || !has(self.operator) || self.operator != 'Exists'", "message": "a toleration with the operator Exists must have no value" },
    { "rule": "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')", "message": "tolerationSeconds needs the effect NoExecute" },
]))]
pub struct Toleration {
    /// The key of the taint; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub key: Option<String>,
    /// How it compares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// What the taint does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How long a pod stays on a node that gets the taint; for ever unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub toleration_seconds: Option<i32>,
}

/// `Equal` (unless given) asks for the value, `Exists` for none.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum TolerationOperator {
    /// The key alone
    Exists,
    /// The key and the value
    Equal,
}

/// The effect of the taint; all of them unless given.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum TaintEffect {
    /// New pods stay away
    NoSchedule,
    /// New pods stay away if they can
    PreferNoSchedule,
    /// All pods leave
    NoExecute,
}

/// A spread of the pods of one Gateway. Which pods are counted need not be said: they are.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TopologySpread {
    /// The label of nodes whose values are the places to spread over, such as topology.kubernetes.io/zone.
    #[schemars(length(min = 1, max = 317))]
    pub topology_key: String,
    /// By how many pods the fullest and the emptiest place may differ; 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_skew: Option<i32>,
    /// When there is no such place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<WhenUnsatisfiable>,
}

/// What happens to a pod that cannot be placed so; `ScheduleAnyway` unless given.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum WhenUnsatisfiable {
    /// It waits
    DoNotSchedule,
    /// It is placed as well as can be
    #[default]
    ScheduleAnyway,
}

/// The Service of a Gateway.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "!has(self.externalTrafficPolicy) || !has(self.type) || self.type in ['LoadBalancer', 'NodePort']", "message": "externalTrafficPolicy needs the type LoadBalancer or NodePort" },
    { "rule": "!has(self.loadBalancerClass) || !has(self.type) || self.type == 'LoadBalancer'", "message": "loadBalancerClass needs the type LoadBalancer" },
    { "rule": "!has(self.loadBalancerSourceRanges) || !has(self.type) || self.type == 'LoadBalancer'", "message": "loadBalancerSourceRanges needs the type LoadBalancer" },
]))]
pub struct ServiceParameters {
    /// The type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ServiceKind>,
    /// Annotations of the Service, such as those that a load balancer reads. Those of the Gateway's `infrastructure` win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::annotations")]
    pub annotations: BTreeMap<String, String>,
    /// The way over the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<ExternalTrafficPolicy>,
    /// Which load balancer gives the addresses; the cluster's default one unless given. It cannot be changed while the type
    /// is LoadBalancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 317),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$"
        )
    )]
    pub load_balancer_class: Option<String>,
    /// Networks whose clients the load balancer lets through, such as 203.0.113.0/24; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 64), regex(pattern = r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$")))]
    pub load_balancer_source_ranges: Option<Vec<String>>,
}

/// How the Gateway is reached: by addresses of a load balancer, by an address of the cluster, by that and ports of the
/// nodes, or by the addresses of the pods. Unless given, what the operator was installed with: LoadBalancer by default.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ServiceKind {
    /// By addresses that a load balancer gives
    LoadBalancer,
    /// By an address of the cluster
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// By the addresses of the cluster and ports of the nodes
    NodePort,
    /// By the addresses of the pods
    Headless,
}

/// Whether nodes pass connections on to pods of other nodes (`Cluster`), or only to their own (`Local`), which shows the pods
/// the addresses of clients. For the types LoadBalancer and NodePort.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ExternalTrafficPolicy {
    /// To all of them
    Cluster,
    /// To those on it
    Local,
}

/// What the data plane does within its pods.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DataPlaneParameters {
    /// Threads that serve connections; one for each core that the limits of the pod leave it unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub workers: Option<i32>,
    /// The access log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLog>,
    /// The log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// How long requests may take to end when a pod or a listener's port goes; 10 unless given. The pod may take as much, and
    /// 5 seconds more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub drain_seconds: Option<i32>,
    /// Open client connections of each pod. Unless given, as many as its descriptors allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub connections: Option<i32>,
    /// Open connections of one client to each pod; unless given, one client may have all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub connections_per_client: Option<i32>,
    /// Networks of proxies in front of the Gateway, such as 10.0.0.0/8. Their `X-Forwarded-*` and `Forwarded` headers are
    /// believed; those of all others are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 64), regex(pattern = r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$")))]
    pub trusted_proxies: Option<Vec<String>>,
}

/// A line on standard output for each request; `JSON` unless given.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum AccessLog {
    /// One object a line
    #[serde(rename = "JSON")]
    Json,
    /// Nothing is written
    None,
}

/// What is told on standard error, from what failed to why; `Info` unless given.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum LogLevel {
    /// What failed
    Error,
    /// What needs a look, too
    Warn,
    /// What changed, too
    Info,
    /// Why, too
    Debug,
}
