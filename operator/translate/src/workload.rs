//! What runs a Gateway on a cluster: its ServiceAccount, CA bundle, Deployment and Service, and the addresses that follow.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use postern_config::{Config, ObjectKey};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::{GROUP, Gateway, GatewayStatusAddress};
use crate::kinds::ObjectSet;
use crate::snapshot::{Infrastructure, ServiceType, Settings};

/// The label that names the Gateway of an object (GEP-1762).
pub const GATEWAY_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
/// The label that names the class of that Gateway (GEP-1762).
pub const CLASS_LABEL: &str = "gateway.networking.k8s.io/gateway-class-name";
/// The label of everything that we make.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "postern");
/// The annotation that tells several installations apart: the controller name.
pub const CONTROLLER_ANNOTATION: &str = "postern.dev/controller";
/// The key of the CA bundle in its ConfigMap.
pub const CA_KEY: &str = "ca.crt";
/// The audience of the tokens that data planes show to the operator.
pub const AUDIENCE: &str = "postern";

/// The port for readiness and metrics of a data plane.
const ADMIN_PORT: u16 = 15_021;
/// How long a pod serves on after it is told to end, so that nobody sends new connections to it, in seconds.
const LEAVE: u32 = 3;
/// How long a pod may take to end, in seconds: leaving, then draining. A namespace that is deleted waits for it.
const GRACE: u32 = 15;

/// The objects that run one Gateway. All are in its namespace and have the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Who the data planes are.
    pub service_account: ServiceAccount,
    /// The certificates to trust the operator by, without the data, which only the operator knows.
    pub ca: ConfigMap,
    /// The data planes.
    pub deployment: Deployment,
    /// The way to them. `None` while no listener has a port: one that is there keeps its address.
    pub service: Option<Service>,
}

/// The objects that run a Gateway which serves `config`.
pub(crate) fn of(
    settings: &Settings,
    infrastructure: &Infrastructure,
    gateway: &Gateway,
    config: &Config,
) -> Workload {
    let metadata = metadata(settings, gateway);
    let own = |component: &str| {
        let mut metadata = metadata.clone();
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("app.kubernetes.io/component".into(), component.into());
        metadata
    };
    Workload {
        service_account: ServiceAccount {
            metadata: own("identity"),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        },
        ca: ConfigMap { metadata: own("trust"), ..ConfigMap::default() },
        deployment: deployment(infrastructure, own("data-plane")),
        service: service(infrastructure, gateway, config, own("address")),
    }
}

/// The name of all objects that run a Gateway: `<gateway>-<class>`, as far as it is a name that a Service can have.
pub fn name(gateway: &str, class: &str) -> String {
    let wanted = format!("{gateway}-{class}");
    let mut name = wanted.replace('.', "-");
    if name.starts_with(|first: char| !first.is_ascii_lowercase()) {
        name.insert_str(0, "gw-");
    }
    if name == wanted && name.len() <= LONGEST { name } else { hashed(&name, &wanted) }
}

/// The longest name of a Service and value of a label.
const LONGEST: usize = 63;

/// As much of `text` as there is room for, and a hash of `all`, so that what differs in the rest stays apart.
fn hashed(text: &str, all: &str) -> String {
    // FNV-1a: the same on every machine and in every version.
    let hash = all.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = format!("{:08x}", hash >> 32);
    let end = text.floor_char_boundary(LONGEST - 1 - hash.len());
    format!("{}-{hash}", text[..end].trim_end_matches(['-', '.']))
}

/// A name as the value of a label.
pub fn label(name: &str) -> String {
    if name.len() <= LONGEST { name.into() } else { hashed(name, name) }
}

/// Labels that choose the pods of a workload. They can never change.
fn selector(name: &str) -> BTreeMap<String, String> {
    [("app.kubernetes.io/instance", name), ("app.kubernetes.io/name", "postern-dataplane")]
        .map(|(key, value)| (key.into(), value.into()))
        .into()
}

fn metadata(settings: &Settings, gateway: &Gateway) -> ObjectMeta {
    let of = &gateway.metadata;
    let (gateway_name, class) = (of.name.clone().unwrap_or_default(), &gateway.spec.gateway_class_name);
    let name = name(&gateway_name, class);
    let infrastructure = gateway.spec.infrastructure.clone().unwrap_or_default();
    // Ours win: they are how the objects are found.
    let mut labels = infrastructure.labels;
    labels.extend(selector(&name));
    labels.extend([
        (GATEWAY_LABEL.into(), label(&gateway_name)),
        (CLASS_LABEL.into(), label(class)),
        (MANAGED_BY.0.into(), MANAGED_BY.1.into()),
        ("app.kubernetes.io/part-of".into(), "postern".into()),
    ]);
    let mut annotations = infrastructure.annotations;
    annotations.insert(CONTROLLER_ANNOTATION.into(), settings.controller_name.clone());
    ObjectMeta {
        name: Some(name),
        namespace: of.namespace.clone(),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: Some(vec![OwnerReference {
            api_version: format!("{GROUP}/v1"),
            kind: "Gateway".into(),
            name: gateway_name,
            uid: of.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    }
}

fn deployment(infrastructure: &Infrastructure, metadata: ObjectMeta) -> Deployment {
    let name = metadata.name.clone().unwrap_or_default();
    // How many there are is left to who scales them; the API's default is one.
    let spec = json!({
        "selector": { "matchLabels": selector(&name) },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
        "template": {
            "metadata": { "labels": metadata.labels, "annotations": metadata.annotations },
            "spec": pod(infrastructure, &name),
        },
    });
    Deployment { metadata, spec: Some(typed(spec)), status: None }
}

/// A pod under the Pod Security Standard *restricted*.
fn pod(infrastructure: &Infrastructure, name: &str) -> Value {
    let mut pod = json!({
        "serviceAccountName": name,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": GRACE,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65_532,
            "runAsGroup": 65_532,
            "fsGroup": 65_532,
            "seccompProfile": { "type": "RuntimeDefault" },
            // Listeners open their own ports, 80 and 443 among them.
            "sysctls": [{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }],
        },
        "containers": [container(infrastructure)],
        "volumes": [
            { "name": "ca", "configMap": { "name": name, "items": [{ "key": CA_KEY, "path": CA_KEY }] } },
            { "name": "token", "projected": { "sources": [{ "serviceAccountToken": {
                "audience": AUDIENCE, "expirationSeconds": 3600, "path": "token",
            } }] } },
            // In memory: private keys are never on a disk.
            { "name": "state", "emptyDir": { "medium": "Memory", "sizeLimit": "256Mi" } },
        ],
    });
    if !infrastructure.image_pull_secrets.is_empty() {
        pod["imagePullSecrets"] =
            infrastructure.image_pull_secrets.iter().map(|name| json!({ "name": name })).collect();
    }
    pod
}

fn container(infrastructure: &Infrastructure) -> Value {
    let probe = |period: u32, failures: u32| {
        json!({
            "httpGet": { "path": "/healthz/ready", "port": "admin", "scheme": "HTTP" },
            "periodSeconds": period, "failureThreshold": failures,
        })
    };
    let mut container = json!({
        "name": "postern",
        "image": infrastructure.image,
        "command": ["/postern-dataplane"],
        "env": [
            { "name": "POSTERN_CHANNEL", "value": infrastructure.channel },
            { "name": "POSTERN_CA", "value": format!("/etc/postern/{CA_KEY}") },
            { "name": "POSTERN_TOKEN", "value": "/var/run/secrets/postern/token" },
            { "name": "POSTERN_STATE", "value": "/var/lib/postern/config.json" },
        ],
        // Ports of listeners are not named here: that would restart pods when they change.
        "ports": [{ "name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP" }],
        "startupProbe": probe(1, 120),
        "readinessProbe": probe(2, 2),
        "lifecycle": { "preStop": { "sleep": { "seconds": LEAVE } } },
        "resources": { "requests": { "cpu": "10m", "memory": "32Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
        "volumeMounts": [
            { "name": "ca", "mountPath": "/etc/postern", "readOnly": true },
            { "name": "token", "mountPath": "/var/run/secrets/postern", "readOnly": true },
            { "name": "state", "mountPath": "/var/lib/postern" },
        ],
    });
    if let Some(policy) = &infrastructure.image_pull_policy {
        container["imagePullPolicy"] = policy.as_str().into();
    }
    container
}

fn service(
    infrastructure: &Infrastructure,
    gateway: &Gateway,
    config: &Config,
    metadata: ObjectMeta,
) -> Option<Service> {
    let ports: BTreeSet<u16> = config.listeners.values().map(|listener| listener.port).collect();
    if ports.is_empty() {
        return None;
    }
    let ports: Vec<Value> = ports
        .into_iter()
        .map(|port| json!({ "name": format!("tcp-{port}"), "port": port, "targetPort": port, "protocol": "TCP" }))
        .collect();
    let mut spec = json!({
        "type": infrastructure.service_type.as_str(),
        "selector": selector(metadata.name.as_deref().unwrap_or_default()),
        "ports": ports,
    });
    if infrastructure.service_type == ServiceType::Headless {
        spec["clusterIP"] = "None".into();
    }
    if infrastructure.service_type == ServiceType::LoadBalancer
        && let Some(address) = wanted_addresses(gateway).next()
    {
        spec["loadBalancerIP"] = address.into();
    }
    Some(Service { metadata, spec: Some(typed(spec)), status: None })
}

/// The addresses that a Gateway asks for; one without a value is any.
fn wanted_addresses(gateway: &Gateway) -> impl Iterator<Item = &str> {
    let values = gateway.spec.addresses.iter().filter_map(|address| address.value.as_deref());
    values.filter(|value| !value.is_empty())
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("what is written here is of the API's shape")
}

/// The addresses that a Gateway has by its Service. Empty while there is none, or it is not ours.
pub fn addresses(objects: &ObjectSet, key: &ObjectKey, gateway: &Gateway) -> Vec<GatewayStatusAddress> {
    let name = name(&key.name, &gateway.spec.gateway_class_name);
    let Some(service) = objects.services.get(&ObjectKey::new(key.namespace.as_str(), name.as_str())) else {
        return Vec::new();
    };
    if !is_of(&service.metadata, gateway) {
        return Vec::new();
    }
    let Some(spec) = &service.spec else { return Vec::new() };
    let ip = |value: &str| GatewayStatusAddress { kind: Some("IPAddress".into()), value: value.into() };
    let host = |value: String| GatewayStatusAddress { kind: Some("Hostname".into()), value };
    if spec.type_.as_deref() == Some("LoadBalancer") {
        let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
        let given = ingress.filter_map(|ingress| match (&ingress.ip, &ingress.hostname) {
            (Some(address), _) => Some(ip(address)),
            (None, Some(name)) => Some(host(name.clone())),
            (None, None) => None,
        });
        return given.collect();
    }
    if spec.cluster_ip.as_deref() == Some("None") {
        return vec![host(format!("{name}.{}.svc", key.namespace))];
    }
    let ips = spec.cluster_ips.iter().flatten().chain(spec.external_ips.iter().flatten());
    ips.filter(|address| !address.is_empty()).map(|address| ip(address)).collect()
}

/// Whether an object was made for this very Gateway, and not for one that had the same name before.
pub fn is_of(metadata: &ObjectMeta, gateway: &Gateway) -> bool {
    let label = |(key, value): (&str, &str)| {
        metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|it| it == value)
    };
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    label(MANAGED_BY)
        && owners
            .iter()
            .any(|owner| Some(&owner.uid) == gateway.metadata.uid.as_ref() && owner.kind == "Gateway")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_service_can_have() {
        assert_eq!(name("web", "postern"), "web-postern");
        for (gateway, start) in
            [("a.b", "a-b-postern-"), ("1st", "gw-1st-postern-"), (&"x".repeat(70), "xxxxxxxxxx")]
        {
            let name = name(gateway, "postern");
            assert!(name.starts_with(start) && name.len() <= 63, "{name}");
        }
        assert_ne!(name("a.b", "postern"), name("a-b", "postern"));
        assert_ne!(name(&"x".repeat(70), "postern"), name(&"x".repeat(71), "postern"));
    }
}
