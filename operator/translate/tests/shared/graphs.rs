//! Small graphs of objects, generated: few names, so that they refer to each other, by right and by mistake.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

const GROUP: &str = "gateway.networking.k8s.io/v1";
const NAMESPACES: &[&str] = &["a", "b"];
const HOSTS: &[&str] = &["", "x.test", "*.test", "*.x.test", "y.x.test", "other.example"];

/// Objects of different kinds or names.
pub fn graph() -> impl Strategy<Value = Vec<Value>> {
    let gateways = prop::collection::vec((select(NAMESPACES), prop::collection::vec(listener(), 1..4)), 1..4);
    let routes = prop::collection::vec(route(), 1..6);
    let services =
        prop::collection::vec((select(NAMESPACES), select(&["", "kubernetes.io/h2c", "x.test/y"][..])), 0..4);
    let grants = prop::collection::vec((select(NAMESPACES), select(NAMESPACES), any::<bool>()), 0..3);
    (gateways, routes, services, grants, any::<bool>()).prop_map(|(gateways, routes, services, grants, secret)| {
        let mut objects = Vec::new();
        for (index, (namespace, listeners)) in gateways.into_iter().enumerate() {
            objects.push(gateway(index, namespace, listeners));
        }
        for (index, (namespace, mut object)) in routes.into_iter().enumerate() {
            object["metadata"] = metadata(&format!("r{index}"), namespace);
            objects.push(object);
        }
        for (index, (namespace, protocol)) in services.into_iter().enumerate() {
            objects.extend(service(&format!("s{index}"), namespace, protocol));
        }
        for (index, (namespace, from, all)) in grants.into_iter().enumerate() {
            objects.push(grant(&format!("g{index}"), namespace, from, all));
        }
        if secret {
            let mut secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata("cert", "a"),
                "stringData": { "tls.crt": "@certificate x.test", "tls.key": "@key x.test" } });
            crate::shared::pairs::fill(&mut secret);
            objects.push(secret);
        }
        objects
    })
}

fn metadata(name: &str, namespace: &str) -> Value {
    json!({ "name": name, "namespace": namespace, "generation": 1 })
}

fn gateway(index: usize, namespace: &str, mut listeners: Vec<Value>) -> Value {
    for (index, listener) in listeners.iter_mut().enumerate() {
        listener["name"] = format!("l{index}").into();
    }
    json!({ "apiVersion": GROUP, "kind": "Gateway", "metadata": metadata(&format!("w{index}"), namespace),
        "spec": { "gatewayClassName": "postern", "listeners": listeners } })
}

fn listener() -> impl Strategy<Value = Value> {
    let protocol = select(&["HTTP", "HTTP", "HTTP", "HTTPS", "TCP", "ODD"][..]);
    let from = select(&["All", "Same", "None", "Selector"][..]);
    (select(&[80, 81, 443][..]), protocol, select(HOSTS), from).prop_map(
        |(port, protocol, hostname, from)| {
            let mut listener = json!({ "port": port, "protocol": protocol, "hostname": hostname });
            listener["allowedRoutes"] = json!({ "namespaces": { "from": from } });
            if from == "Selector" {
                listener["allowedRoutes"]["namespaces"]["selector"] =
                    json!({ "matchLabels": { "kubernetes.io/metadata.name": "b" } });
            }
            if protocol == "HTTPS" {
                listener["tls"] = json!({ "certificateRefs": [{ "name": "cert", "namespace": "a" }] });
            }
            listener
        },
    )
}

fn route() -> impl Strategy<Value = (&'static str, Value)> {
    let parents = prop::collection::vec((0..4_usize, select(NAMESPACES), prop::option::of(0..3_usize)), 1..3);
    let hostnames = prop::collection::vec(select(&HOSTS[1..]), 0..3);
    let rules = prop::collection::vec(rule(), 1..4);
    (any::<bool>(), select(NAMESPACES), parents, hostnames, rules).prop_map(
        |(grpc, namespace, parents, hostnames, rules)| {
            let parents: Vec<Value> = parents
                .into_iter()
                .map(|(gateway, namespace, section)| {
                    let mut parent = json!({ "name": format!("w{gateway}"), "namespace": namespace });
                    if let Some(section) = section {
                        parent["sectionName"] = format!("l{section}").into();
                    }
                    parent
                })
                .collect();
            let rules: Vec<Value> = rules
                .into_iter()
                .map(|(path, backends)| {
                    let matches = if grpc {
                        json!([{ "method": { "service": path.trim_start_matches('/') } }])
                    } else {
                        json!([{ "path": { "value": path } }])
                    };
                    json!({ "matches": matches, "backendRefs": backends })
                })
                .collect();
            let kind = if grpc { "GRPCRoute" } else { "HTTPRoute" };
            let spec = json!({ "parentRefs": parents, "hostnames": hostnames, "rules": rules });
            (namespace, json!({ "apiVersion": GROUP, "kind": kind, "spec": spec }))
        },
    )
}

fn rule() -> impl Strategy<Value = (&'static str, Vec<Value>)> {
    let backend = (0..5_usize, select(NAMESPACES), 0..3_u32).prop_map(|(service, namespace, weight)| {
        json!({ "name": format!("s{service}"), "namespace": namespace, "port": 80, "weight": weight })
    });
    (select(&["/one", "/two", "/three"][..]), prop::collection::vec(backend, 0..3))
}

fn service(name: &str, namespace: &str, protocol: &str) -> [Value; 2] {
    let mut slice = metadata(name, namespace);
    slice["labels"] = json!({ "kubernetes.io/service-name": name });
    [
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata(name, namespace),
            "spec": { "ports": [{ "port": 80, "appProtocol": protocol }] } }),
        json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice, "addressType": "IPv4",
            "ports": [{ "port": 8080 }], "endpoints": [{ "addresses": ["10.0.0.1"] }] }),
    ]
}

fn grant(name: &str, namespace: &str, from: &str, all: bool) -> Value {
    let kinds = ["HTTPRoute", "GRPCRoute", "Gateway"];
    let from: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({ "group": "gateway.networking.k8s.io", "kind": kind, "namespace": from }))
        .collect();
    let mut service = json!({ "group": "", "kind": "Service" });
    if !all {
        service["name"] = "s0".into();
    }
    json!({ "apiVersion": GROUP, "kind": "ReferenceGrant", "metadata": metadata(name, namespace),
        "spec": { "from": from, "to": [service, { "group": "", "kind": "Secret" }] } })
}

/// Ways to spoil a rule.
pub fn rule_mistakes() -> impl Strategy<Value = (&'static str, Value)> {
    select(vec![
        ("filters", json!([{ "type": "Sparkle" }])),
        (
            "filters",
            json!([{ "type": "ExtensionRef", "extensionRef": { "group": "x.test", "kind": "X", "name": "x" } }]),
        ),
        (
            "filters",
            json!([{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "remove": ["Host"] } }]),
        ),
        ("sessionPersistence", json!({})),
        ("surprise", json!(1)),
        ("matches", json!([{ "surprise": 1 }])),
        ("matches", json!([{ "headers": [{ "name": "x", "type": "RegularExpression", "value": "(" }] }])),
        ("backendRefs", json!([{ "kind": "Bucket", "group": "x.test", "name": "s0" }])),
        ("backendRefs", json!([{ "name": "nowhere", "port": 80 }])),
    ])
}

/// Ways to spoil a Gateway: a field of its spec.
pub fn gateway_mistakes() -> impl Strategy<Value = (&'static str, Value)> {
    select(vec![
        ("infrastructure", json!({ "parametersRef": { "group": "x.test", "kind": "X", "name": "x" } })),
        ("addresses", json!([{ "type": "x.test/odd", "value": "x" }])),
        ("tls", json!({ "surprise": 1 })),
        ("listeners", json!([])),
        ("listeners", json!([{ "name": "l0", "port": 80, "protocol": "ODD" }])),
        ("listeners", json!([{ "name": "l0", "port": 80, "protocol": "HTTP", "filters": {} }])),
        (
            "listeners",
            json!([{ "name": "l0", "port": 80, "protocol": "HTTP" }, { "name": "l1", "port": 80, "protocol": "HTTPS" }]),
        ),
    ])
}
