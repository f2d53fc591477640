//! How long a whole translation takes: one Gateway, a Service and an EndpointSlice for every ten routes.

use divan::Bencher;
use postern_translate::kinds::AnyObject;
use postern_translate::snapshot::{Claim, Snapshot};
use postern_translate::translate;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// Routes with a hostname and two rules each.
#[divan::bench(args = [100, 5_000, 40_000], sample_count = 20)]
fn routes(bencher: Bencher<'_, '_>, count: usize) {
    let snapshot = snapshot(count, 4);
    bencher.bench_local(|| translate(&snapshot));
}

/// 5,000 routes that attach to each of so many listeners.
#[divan::bench(args = [1, 16, 64], sample_count = 10)]
fn listeners(bencher: Bencher<'_, '_>, count: usize) {
    let snapshot = snapshot(5_000, count);
    bencher.bench_local(|| translate(&snapshot));
}

fn snapshot(routes: usize, listeners: usize) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.settings.claim = Claim::Every;
    let mut add = |value: Value| {
        let group =
            value["apiVersion"].as_str().and_then(|text| text.split_once('/')).map_or("", |(group, _)| group);
        let object = AnyObject::parse(group, value["kind"].as_str().unwrap_or_default(), &value);
        snapshot.objects.insert(object.expect("a known kind").expect("a valid object"));
    };
    let listeners: Vec<Value> = (0..listeners)
        .map(|index| json!({ "name": format!("l{index}"), "port": 8000 + index, "protocol": "HTTP" }))
        .collect();
    add(json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "gatewayClassName": "postern", "listeners": listeners } }));
    for index in 0..routes {
        let service = format!("s{}", index / 10);
        if index % 10 == 0 {
            add(
                json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": service, "namespace": "shop" },
                "spec": { "ports": [{ "port": 80 }] } }),
            );
            add(json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": { "name": service, "namespace": "shop", "labels": { "kubernetes.io/service-name": service } },
                "addressType": "IPv4", "ports": [{ "port": 8080 }],
                "endpoints": [{ "addresses": ["10.0.0.1"] }, { "addresses": ["10.0.0.2"] }] }));
        }
        add(json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": { "name": format!("r{index}"), "namespace": "shop" },
            "spec": { "parentRefs": [{ "name": "web" }], "hostnames": [format!("h{index}.example.com")], "rules": [
                { "matches": [{ "path": { "type": "PathPrefix", "value": "/api" } }],
                  "filters": [{ "type": "RequestHeaderModifier",
                      "requestHeaderModifier": { "set": [{ "name": "x-route", "value": "api" }] } }],
                  "backendRefs": [{ "name": service, "port": 80 }] },
                { "matches": [{ "path": { "type": "Exact", "value": "/health" } }],
                  "backendRefs": [{ "name": service, "port": 80, "weight": 9 }, { "name": "s0", "port": 80, "weight": 1 }] },
            ] } }));
    }
    snapshot
}
