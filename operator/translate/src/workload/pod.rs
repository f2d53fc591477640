//! The Deployment of a Gateway: its pods under the Pod Security Standard *restricted*, as its parameters want them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{AUDIENCE, CA_KEY, is_safe_for_pods, laid_under, selector, typed};
use crate::api::{
    AccessLog, DataPlaneParameters, LogLevel, PodParameters, PosternParametersSpec, Quantity, Resources,
    TopologySpread,
};
use crate::snapshot::Infrastructure;

/// The port for readiness and metrics of a data plane.
const ADMIN_PORT: u16 = 15_021;
/// How long a pod serves on after it is told to end, so that nobody sends new connections to it, in seconds.
const LEAVE: i32 = 3;
/// How long connections may take to end after that, unless parameters say otherwise, in seconds.
const DRAIN: i32 = 10;
/// How much longer a pod may take, in seconds. A namespace that is deleted waits for all of it.
const SPARE: i32 = 2;

pub(super) fn deployment(
    infrastructure: &Infrastructure,
    parameters: &PosternParametersSpec,
    metadata: ObjectMeta,
) -> Deployment {
    let name = metadata.name.clone().unwrap_or_default();
    let own = PodParameters::default();
    let of_pod = parameters.pod.as_ref().unwrap_or(&own);
    let mut annotations = laid_under(&of_pod.annotations, metadata.annotations.as_ref());
    annotations.retain(|key, _| is_safe_for_pods(key));
    let mut spec = json!({
        "selector": { "matchLabels": selector(&name) },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
        "template": {
            "metadata": {
                "labels": laid_under(&of_pod.labels, metadata.labels.as_ref()),
                "annotations": annotations,
            },
            "spec": pod(infrastructure, parameters, of_pod, &name),
        },
    });
    // Otherwise it is left to who scales them; the API's default is one.
    if let Some(replicas) = parameters.replicas {
        spec["replicas"] = replicas.into();
    }
    Deployment { metadata, spec: Some(typed(spec)), status: None }
}

fn pod(
    infrastructure: &Infrastructure,
    parameters: &PosternParametersSpec,
    of_pod: &PodParameters,
    name: &str,
) -> Value {
    let own = DataPlaneParameters::default();
    let data_plane = parameters.data_plane.as_ref().unwrap_or(&own);
    let drain = data_plane.drain_seconds.unwrap_or(DRAIN);
    let mut pod = json!({
        "serviceAccountName": name,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": drain.saturating_add(LEAVE + SPARE),
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65_532,
            "runAsGroup": 65_532,
            "fsGroup": 65_532,
            "seccompProfile": { "type": "RuntimeDefault" },
            // Listeners open their own ports, 80 and 443 among them.
            "sysctls": [{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }],
        },
        "containers": [container(infrastructure, data_plane, of_pod.resources.as_ref())],
        "volumes": [
            { "name": "ca", "configMap": { "name": name, "items": [{ "key": CA_KEY, "path": CA_KEY }] } },
            { "name": "token", "projected": { "sources": [{ "serviceAccountToken": {
                "audience": AUDIENCE, "expirationSeconds": 3600, "path": "token",
            } }] } },
            // In memory: private keys are never on a disk.
            { "name": "state", "emptyDir": { "medium": "Memory", "sizeLimit": "256Mi" } },
        ],
    });
    let constraints = spread(of_pod.topology_spread_constraints.as_deref(), name);
    if !constraints.is_empty() {
        pod["topologySpreadConstraints"] = constraints.into();
    }
    if !infrastructure.image_pull_secrets.is_empty() {
        pod["imagePullSecrets"] =
            infrastructure.image_pull_secrets.iter().map(|name| json!({ "name": name })).collect();
    }
    if !of_pod.node_selector.is_empty() {
        pod["nodeSelector"] = json!(of_pod.node_selector);
    }
    if let Some(tolerations) = of_pod.tolerations.as_ref().filter(|all| !all.is_empty()) {
        pod["tolerations"] = json!(tolerations);
    }
    if let Some(affinity) = &of_pod.affinity {
        pod["affinity"] = json!(affinity);
    }
    if let Some(class) = &of_pod.priority_class_name {
        pod["priorityClassName"] = class.as_str().into();
    }
    pod
}

/// The pods of one Gateway are spread over nodes unless something else is wanted. Those of an earlier template do not count,
/// since they are about to go.
fn spread(wanted: Option<&[TopologySpread]>, name: &str) -> Vec<Value> {
    let over_nodes = [TopologySpread {
        topology_key: "kubernetes.io/hostname".into(),
        max_skew: None,
        when_unsatisfiable: None,
    }];
    let constraint = |spread: &TopologySpread| {
        json!({
            "topologyKey": spread.topology_key,
            "maxSkew": spread.max_skew.unwrap_or(1),
            "whenUnsatisfiable": spread.when_unsatisfiable.unwrap_or_default(),
            "labelSelector": { "matchLabels": selector(name) },
            "matchLabelKeys": ["pod-template-hash"],
        })
    };
    wanted.unwrap_or(&over_nodes).iter().map(constraint).collect()
}

fn container(
    infrastructure: &Infrastructure,
    parameters: &DataPlaneParameters,
    resources: Option<&Resources>,
) -> Value {
    let mut container = json!({
        "name": "postern",
        "image": infrastructure.image,
        "command": ["/postern-dataplane"],
        "env": environment(infrastructure, parameters),
        // Ports of listeners are not named here: that would restart pods when they change.
        "ports": [{ "name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP" }],
        // No startupProbe: kubelet asks as soon as the container runs, and the data plane answers as soon as it has its
        // configuration. One that waits long for the operator must wait, and not be started anew.
        "readinessProbe": {
            "httpGet": { "path": "/healthz/ready", "port": "admin", "scheme": "HTTP" },
            "periodSeconds": 1, "failureThreshold": 3,
        },
        "resources": resources.map_or_else(|| json!({ "requests": { "cpu": "10m", "memory": "32Mi" } }), amounts),
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

fn environment(infrastructure: &Infrastructure, parameters: &DataPlaneParameters) -> Vec<Value> {
    let number = |number: Option<i32>| number.map(|number| number.to_string());
    let level = |level: LogLevel| match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    };
    let is_silent = parameters.access_log == Some(AccessLog::None);
    let variables = [
        ("POSTERN_CHANNEL", Some(infrastructure.channel.clone())),
        ("POSTERN_CA", Some(format!("/etc/postern/{CA_KEY}"))),
        ("POSTERN_TOKEN", Some("/var/run/secrets/postern/token".into())),
        ("POSTERN_STATE", Some("/var/lib/postern/config.json".into())),
        ("POSTERN_WORKERS", number(parameters.workers)),
        ("POSTERN_LEAVE", number(Some(LEAVE))),
        ("POSTERN_DRAIN", number(parameters.drain_seconds)),
        ("POSTERN_CONNECTIONS", number(parameters.connections)),
        ("POSTERN_CONNECTIONS_PER_CLIENT", number(parameters.connections_per_client)),
        ("POSTERN_TRUSTED_PROXIES", parameters.trusted_proxies.as_ref().map(|networks| networks.join(","))),
        ("POSTERN_NO_ACCESS_LOG", is_silent.then(|| "true".into())),
        ("RUST_LOG", parameters.log_level.map(|it| level(it).into())),
    ];
    let set = variables.into_iter().filter_map(|(name, value)| Some((name, value?)));
    set.filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect()
}

fn amounts(resources: &Resources) -> Value {
    let parts = [("requests", &resources.requests), ("limits", &resources.limits)];
    let given = parts.into_iter().filter(|(_, amounts)| !amounts.is_empty());
    let texts = |amounts: &BTreeMap<String, Quantity>| {
        amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect()
    };
    Value::Object(given.map(|(name, amounts)| (name.to_owned(), Value::Object(texts(amounts)))).collect())
}
