//! The schema of `PosternParameters`. A test holds it against the CRD, which is made of the Rust types.

use super::super::tree::Node;
use super::pattern::{AMOUNT, DNS_SUBDOMAIN, LABEL_KEY, LABEL_VALUE, NETWORK};
use super::rules::{Within, items, keys, place};
use super::{Schema, amount, int32, list, map, object, one_of, open_object, optional, required, text};
use crate::parameters::is_network;
use crate::workload::is_safe_for_pods;

pub(super) fn spec() -> Schema {
    object([
        optional("replicas", int32().least(1).most(1000)),
        optional("pod", pod()),
        optional("service", service()),
        optional("dataPlane", data_plane()),
    ])
}

fn pod() -> Schema {
    let annotations = annotations().rule(
        "AppArmor cannot be set here: pods run under the Pod Security Standard restricted",
        |annotations| keys(annotations, |key| !is_safe_for_pods(key)),
    );
    let spread = object([
        required("topologyKey", text().least(1).most(317)),
        optional("maxSkew", int32().least(1)),
        optional("whenUnsatisfiable", one_of(&["DoNotSchedule", "ScheduleAnyway"])),
    ]);
    let amounts = || map(amount(&AMOUNT)).most(8);
    object([
        optional("labels", labels()),
        optional("annotations", annotations),
        optional("resources", object([optional("requests", amounts()), optional("limits", amounts())])),
        optional("nodeSelector", labels()),
        optional("tolerations", list(toleration()).most(32)),
        optional("affinity", open_object()),
        optional("topologySpreadConstraints", list(spread).most(8)),
        optional("priorityClassName", text().least(1).most(253).like(&DNS_SUBDOMAIN)),
    ])
}

fn toleration() -> Schema {
    object([
        optional("key", text().least(1).most(317)),
        optional("operator", one_of(&["Exists", "Equal"])),
        optional("value", text().most(63)),
        optional("effect", one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
        optional("tolerationSeconds", int32().least(0)),
    ])
    .rule("a toleration without a key must have the operator Exists", |toleration| {
        place(!toleration.has("key") && toleration.text("operator") != Some("Exists"))
    })
    .rule("a toleration with the operator Exists must have no value", |toleration| {
        place(toleration.has("value") && toleration.text("operator") == Some("Exists")).within("value")
    })
    .rule("tolerationSeconds needs the effect NoExecute", |toleration| {
        place(toleration.has("tolerationSeconds") && toleration.text("effect") != Some("NoExecute"))
            .within("tolerationSeconds")
    })
}

fn service() -> Schema {
    object([
        optional("type", one_of(&["LoadBalancer", "ClusterIP", "NodePort", "Headless"])),
        optional("annotations", annotations()),
        optional("externalTrafficPolicy", one_of(&["Cluster", "Local"])),
        optional("loadBalancerClass", text().least(1).most(317).like(&LABEL_KEY)),
        optional("loadBalancerSourceRanges", networks()),
    ])
    .rule("externalTrafficPolicy needs the type LoadBalancer or NodePort", |service| {
        needs(service, "externalTrafficPolicy", &["LoadBalancer", "NodePort"])
    })
    .rule("loadBalancerClass needs the type LoadBalancer", |service| {
        needs(service, "loadBalancerClass", &["LoadBalancer"])
    })
    .rule("loadBalancerSourceRanges needs the type LoadBalancer", |service| {
        needs(service, "loadBalancerSourceRanges", &["LoadBalancer"])
    })
}

/// The field, where the type is there and none of these.
fn needs(service: &Node, field: &'static str, types: &[&str]) -> Vec<super::Place> {
    let is_other = service.text("type").is_some_and(|kind| !types.contains(&kind));
    place(service.has(field) && is_other).within(field)
}

fn data_plane() -> Schema {
    object([
        optional("workers", int32().least(1).most(256)),
        optional("accessLog", one_of(&["JSON", "None"])),
        optional("logLevel", one_of(&["Error", "Warn", "Info", "Debug"])),
        optional("drainSeconds", int32().least(1).most(3600)),
        optional("connections", int32().least(1)),
        optional("connectionsPerClient", int32().least(1)),
        optional("trustedProxies", networks()),
    ])
}

fn networks() -> Schema {
    list(text().most(64).like(&NETWORK)).most(64).rule("must be a network such as 10.0.0.0/8", |networks| {
        items(networks, |_, network| network.as_text().is_some_and(|text| !is_network(text)))
    })
}

fn labels() -> Schema {
    with_keys(map(text().most(63).like(&LABEL_VALUE)).most(64))
}

fn annotations() -> Schema {
    with_keys(map(text().most(4096)).most(64))
}

fn with_keys(map: Schema) -> Schema {
    map.rule(
        "a key must be at most 63 letters, digits, '-', '_' and '.', with an optional domain and '/' in front",
        |map| keys(map, |key| !LABEL_KEY.is_match(key)),
    )
}
