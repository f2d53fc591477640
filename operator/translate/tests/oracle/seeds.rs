//! Objects to start from, and a few that are wrong in ways that chance does not find.

use serde_json::{Value, json};

use crate::sample::Sampler;
use crate::server::Server;
use crate::upstream;

/// A kind that we validate and do not read, in its newest version.
pub const CHECKED: (&str, &str) = ("gateway.networking.k8s.io/v1", "TLSRoute");

/// The kinds that we read.
pub const KINDS: [&str; 5] = ["GatewayClass", "Gateway", "HTTPRoute", "GRPCRoute", "ReferenceGrant"];

/// Valid objects: the examples, ours for what they leave out, and objects made up from the schemas.
pub fn valid(server: &Server, sampler: &mut Sampler) -> Vec<Value> {
    const OF_EACH: usize = 40;
    let ours = ours();
    for object in &ours {
        assert_eq!(server.refusals(object), Vec::<String>::new(), "seeds.yaml, {}", object["kind"]);
    }
    // Ours say most in the fewest objects: they come as often as all the rest.
    let mut seeds: Vec<Value> = ours.iter().cycle().take(ours.len() * OF_EACH * 2).cloned().collect();
    let examples = upstream::documents("examples").into_iter().map(|document| document.value);
    seeds.extend(examples.filter(|object| server.serves(object)));
    for ((api_version, kind), version) in server.versions() {
        let made_up = std::iter::repeat_with(|| sampler.object(api_version, kind, &version.schema));
        seeds.extend(made_up.take(200_000).filter(|object| server.refusals(object).is_empty()).take(OF_EACH));
    }
    seeds
}

/// Objects that are wrong, or look it, with what was done to them.
pub fn wrong() -> Vec<(&'static str, Value)> {
    let matches = |field: &str, each: Value| json!({ field: vec![each; 43] });
    let path = json!({ "path": { "value": "/a" } });
    let method = json!({ "method": { "service": "a.B" } });
    let edits = [
        ("129 matches", "HTTPRoute", "/spec/rules", json!(vec![matches("matches", path.clone()); 3])),
        ("86 matches", "HTTPRoute", "/spec/rules", json!(vec![matches("matches", path); 2])),
        ("129 matches", "GRPCRoute", "/spec/rules", json!(vec![matches("matches", method.clone()); 3])),
        ("86 matches", "GRPCRoute", "/spec/rules", json!(vec![matches("matches", method); 2])),
        (
            "a long prefix",
            "Gateway",
            "/spec/infrastructure/labels",
            json!({ format!("{}/a", "a".repeat(253)): "a" }),
        ),
        (
            "a long prefix",
            "Gateway",
            "/spec/infrastructure/annotations",
            json!({ format!("{}/a", "a".repeat(252)): "a" }),
        ),
        (
            "a bundle with a namespace",
            "Gateway",
            "/spec/tls/frontend/default/validation/caCertificateRefs",
            json!([{ "group": "certificates.k8s.io", "kind": "ClusterTrustBundle", "name": "a", "namespace": "b" }]),
        ),
        (
            "an XBackend with a port",
            "HTTPRoute",
            "/spec/rules/0/backendRefs",
            json!([{ "group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "a", "port": 80 }]),
        ),
        (
            "a filter of a listener with two fields",
            "Gateway",
            "/spec/listeners/0/filters",
            json!({ "requests": [{ "type": "ExtensionRef", "extensionRef": { "group": "a", "kind": "A", "name": "a" },
                "externalAuth": { "protocol": "GRPC", "backendRef": { "name": "a", "port": 80 }, "grpc": {} } }] }),
        ),
        (
            "a redirect of a prefix beside another path",
            "HTTPRoute",
            "/spec/rules",
            json!([{ "matches": [{ "path": { "type": "Exact", "value": "/a" } }], "backendRefs": [{ "name": "a", "port": 80,
                "filters": [{ "type": "RequestRedirect", "requestRedirect": { "path": { "type": "ReplacePrefixMatch",
                "replacePrefixMatch": "/b" } } }] }] }]),
        ),
        (
            "a rewrite of a prefix beside two matches",
            "HTTPRoute",
            "/spec/rules",
            json!([{ "matches": [{ "path": { "value": "/a" } }, { "path": { "value": "/b" } }], "filters": [{ "type": "URLRewrite",
                "urlRewrite": { "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/c" } } }] }]),
        ),
        ("no metadata", "HTTPRoute", "/metadata", json!({})),
        ("a name in upper case", "HTTPRoute", "/metadata/name", json!("Web")),
        ("a dotted namespace", "HTTPRoute", "/metadata/namespace", json!("a.b")),
        ("a label that is a number", "HTTPRoute", "/metadata/labels", json!({ "a": 1 })),
        ("an unknown field of metadata", "HTTPRoute", "/metadata/labls", json!({ "a": "b" })),
        ("an unknown field beside spec", "HTTPRoute", "/specs", json!({})),
        ("a status of a wrong shape", "HTTPRoute", "/status", json!({ "parents": "none" })),
    ];
    edits.into_iter().map(|(what, kind, place, value)| (what, edited(kind, place, value))).collect()
}

fn edited(kind: &str, place: &str, value: Value) -> Value {
    let mut object =
        ours().into_iter().find(|object| object["kind"] == kind).expect("seeds.yaml has each kind");
    let (parent, name) = place.rsplit_once('/').expect("a JSON pointer");
    object.pointer_mut(parent).expect("seeds.yaml has the parent")[name] = value;
    object
}

fn ours() -> Vec<Value> {
    serde_saphyr::from_multiple(include_str!("seeds.yaml")).expect("seeds.yaml is YAML")
}
