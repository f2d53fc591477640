//! Our own kind: what files may say of it is what its CRD lets through, and the CRD refuses what would not work.

use postern_translate::manifest::{self, openapi};
use serde_json::{Value, json};

use crate::mutate;
use crate::sample::Sampler;
use crate::schema::keywords;
use crate::server::Server;
use crate::tally::Tally;

const KIND: &str = "PosternParameters";

#[test]
fn the_schema_for_files_says_what_the_crd_says() {
    let server = Server::own();
    let (_, version) = server.versions().next().expect("one version");
    let (crd, mut ours) =
        (&version.whole["properties"]["spec"], keywords(&openapi(KIND).expect("a kind of ours")));
    // A pattern is all that the CRD has for networks; that each is one is found when the parameters are read.
    ours.retain(|place, _| !place.ends_with("rule must be a network such as 10.0.0.0/8"));
    assert_eq!(ours, keywords(crd));
}

#[test]
fn our_verdict_on_mutations_is_the_crds() {
    const MUTATIONS: usize = 4_000;
    let server = Server::own();
    let mut sampler = Sampler::new(1);
    let seed = parameters(everything());
    assert_eq!(server.refusals(&seed), Vec::<String>::new(), "everything that can be said");
    assert_eq!(manifest::validate(&seed), [], "everything that can be said");
    let schema = &server.version(&seed).expect("served").schema;
    let mut tally = Tally::default();
    for _ in 0..MUTATIONS {
        if let Some(mutation) = mutate::mutate(&seed, schema, &mut sampler) {
            tally.compare(&server, &mutation.object, &format!("{} at {}", mutation.change, mutation.place));
        }
    }
    tally.finish();
}

#[test]
fn what_cannot_work_is_refused() {
    let server = Server::own();
    let refused = [
        (json!({ "replicas": 0 }), "spec.replicas"),
        (json!({ "replica": 2 }), "spec.replica"),
        (json!({ "pod": { "securityContext": {} } }), "spec.pod.securityContext"),
        (json!({ "pod": { "hostNetwork": true } }), "spec.pod.hostNetwork"),
        (
            json!({ "pod": { "annotations": { "container.apparmor.security.beta.kubernetes.io/postern": "unconfined" } } }),
            "spec.pod.annotations",
        ),
        (json!({ "pod": { "labels": { "no key": "a" } } }), "spec.pod.labels"),
        (json!({ "pod": { "resources": { "limits": { "cpu": "much" } } } }), "spec.pod.resources.limits.cpu"),
        (json!({ "pod": { "resources": { "limits": { "cpu": -1 } } } }), "spec.pod.resources.limits.cpu"),
        (
            json!({ "pod": { "tolerations": [{ "operator": "Exists", "value": "a" }] } }),
            "spec.pod.tolerations[0]",
        ),
        (json!({ "pod": { "tolerations": [{ "value": "a" }] } }), "spec.pod.tolerations[0]"),
        (json!({ "pod": { "topologySpreadConstraints": [{}] } }), "spec.pod.topologySpreadConstraints[0]"),
        (json!({ "pod": { "affinity": [] } }), "spec.pod.affinity"),
        (json!({ "service": { "type": "ExternalName" } }), "spec.service.type"),
        (json!({ "service": { "type": "ClusterIP", "externalTrafficPolicy": "Local" } }), "spec.service"),
        (json!({ "service": { "type": "NodePort", "loadBalancerClass": "a" } }), "spec.service"),
        (
            json!({ "service": { "loadBalancerSourceRanges": ["10.0.0.1"] } }),
            "spec.service.loadBalancerSourceRanges[0]",
        ),
        (json!({ "dataPlane": { "workers": 0 } }), "spec.dataPlane.workers"),
        (json!({ "dataPlane": { "accessLog": false } }), "spec.dataPlane.accessLog"),
        (json!({ "dataPlane": { "drainSeconds": 3601 } }), "spec.dataPlane.drainSeconds"),
        (json!({ "dataPlane": { "trustedProxies": ["everyone"] } }), "spec.dataPlane.trustedProxies[0]"),
    ];
    for (spec, place) in refused {
        let object = parameters(spec);
        let ours = manifest::validate(&object);
        assert!(ours.iter().any(|error| error.path.starts_with(place)), "{place}: {ours:?}");
        assert!(!server.refusals(&object).is_empty(), "{place}: the CRD takes it");
    }
}

fn parameters(spec: Value) -> Value {
    json!({
        "apiVersion": "postern.dev/v1alpha1", "kind": KIND,
        "metadata": { "name": "a", "namespace": "b" }, "spec": spec,
    })
}

/// Every field.
fn everything() -> Value {
    json!({
        "replicas": 2,
        "pod": {
            "labels": { "team": "a", "example.com/team": "" },
            "annotations": { "example.com/note": "A note." },
            "resources": { "requests": { "cpu": 1, "memory": "64Mi" }, "limits": { "cpu": "1.5", "memory": "1e9" } },
            "nodeSelector": { "kubernetes.io/os": "linux" },
            "tolerations": [
                { "key": "edge", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60 },
                { "operator": "Exists" },
            ],
            "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } },
            "topologySpreadConstraints": [
                { "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" },
            ],
            "priorityClassName": "edge",
        },
        "service": {
            "type": "LoadBalancer",
            "annotations": { "example.com/pool": "public" },
            "externalTrafficPolicy": "Local",
            "loadBalancerClass": "example.com/public",
            "loadBalancerSourceRanges": ["203.0.113.0/24", "2001:db8::/32"],
        },
        "dataPlane": {
            "workers": 2,
            "accessLog": "None",
            "logLevel": "Debug",
            "drainSeconds": 30,
            "connections": 1000,
            "connectionsPerClient": 100,
            "trustedProxies": ["10.0.0.0/8"],
        },
    })
}
