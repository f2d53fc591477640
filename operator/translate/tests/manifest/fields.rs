//! One field at a time: types, limits, unknown fields, defaults, metadata and core kinds.

use k8s_openapi::ByteString;

use crate::{errors, gateway, loaded, rule};

#[test]
fn an_unknown_field_is_named_with_the_one_that_was_probably_meant() {
    assert_eq!(
        errors(&rule("matches:\n- pathh: {value: /a}")),
        [
            "f:8: HTTPRoute default/app: spec.rules[0].matches[0].pathh: unknown field `pathh` (did you mean `path`?)"
        ]
    );
    assert_eq!(
        errors(&rule("timeouts: {total: 1s}")),
        [
            "f:7: HTTPRoute default/app: spec.rules[0].timeouts.total: unknown field `total` (known here: request, backendRequest)"
        ]
    );
    assert_eq!(
        errors(&rule("name: a").replace("spec:", "specs: {}\nspec:")),
        ["f:5: HTTPRoute default/app: specs: unknown field `specs` (did you mean `spec`?)"]
    );
    assert_eq!(
        errors(&rule("name: a").replace("  name: app", "  name: app\n  lables: {}")),
        ["f:5: HTTPRoute default/app: metadata.lables: unknown field `lables` (did you mean `labels`?)"]
    );
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_what_to_write() {
    let cases = [
        (
            "timeouts: {request: 5}",
            "timeouts.request: must be a string, and is a number (write it in quotes: \"5\")",
        ),
        (
            "backendRefs:\n- {name: a, port: \"80\"}",
            "backendRefs[0].port: must be a whole number, and is a string (write it without quotes: 80)",
        ),
        (
            "backendRefs: {name: a}",
            "backendRefs: must be a list, and is a mapping (put '- ' in front of its first line)",
        ),
        ("name: yes", "name: must be a string, and is a boolean (write it in quotes: \"true\")"),
        ("backendRefs: [{name: a, port: 80.5}]", "backendRefs[0].port: must be a whole number, and is 80.5"),
        ("matches: [null]", "matches[0]: must be a mapping, and is null"),
        ("timeouts: x", "timeouts: must be a mapping, and is a string"),
    ];
    for (lines, expected) in cases {
        let shown = errors(&rule(lines));
        assert_eq!(shown.len(), 1, "{shown:?}");
        assert!(shown[0].ends_with(&format!("spec.rules[0].{expected}")), "{}", shown[0]);
    }
}

#[test]
fn a_long_value_is_shown_in_short() {
    let shown = errors(&rule(&format!("name: {}", "A".repeat(250))));
    assert!(shown[0].contains(&format!("\"{}\"... does not match", "A".repeat(120))), "{}", shown[0]);
}

#[test]
fn lines_are_right_in_block_and_in_flow_style() {
    let block = rule("matches:\n- path:\n    type: Prefix\n    value: /a\n  headers:\n  - name: x\n");
    assert_eq!(
        errors(&block),
        [
            "f:9: HTTPRoute default/app: spec.rules[0].matches[0].path.type: unsupported value \"Prefix\": supported are \"Exact\", \"PathPrefix\", \"RegularExpression\"",
            "f:12: HTTPRoute default/app: spec.rules[0].matches[0].headers[0].value: is required",
        ]
    );
    let flow = rule("matches: [{path: {type: Exact},\n  method: got}]");
    assert_eq!(
        errors(&flow),
        [
            "f:8: HTTPRoute default/app: spec.rules[0].matches[0].method: unsupported value \"got\": supported are \"GET\", \"HEAD\", \"POST\", \"PUT\", \"DELETE\", \"CONNECT\", \"OPTIONS\", \"TRACE\", \"PATCH\" (did you mean \"GET\"?)"
        ]
    );
    let column = loaded(&flow).errors[0].column;
    assert_eq!(column, 15);
}

#[test]
fn numbers_that_are_whole_are_whole_however_they_are_written() {
    let loaded = loaded(&rule("backendRefs:\n- {name: a, port: 80.0, weight: 0x10}"));
    assert_eq!(loaded.errors, []);
    let backend =
        &loaded.objects.http_routes.values().next().expect("there is one").spec.rules[0].backend_refs[0];
    assert_eq!((backend.reference.port, backend.weight), (Some(80), Some(16)));
}

#[test]
fn defaults_are_those_of_the_api() {
    let route = loaded(&rule(
        "matches: [{headers: [{name: a, value: b}]}]\nfilters: [{type: RequestRedirect, requestRedirect: {hostname: null}}]",
    ));
    assert_eq!(route.errors, []);
    let route = route.objects.http_routes.values().next().expect("there is one").clone();
    let shown = serde_json::to_value(&route.spec.rules).expect("rules are JSON");
    assert_eq!(
        shown,
        serde_json::json!([{
            "matches": [{
                "path": { "type": "PathPrefix", "value": "/" },
                "headers": [{ "type": "Exact", "name": "a", "value": "b" }],
            }],
            "filters": [{ "type": "RequestRedirect", "requestRedirect": { "statusCode": 302 } }],
        }])
    );
    let gateway = loaded(&gateway(
        "listeners:\n- {name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: a}]}}",
    ));
    let gateway = gateway.objects.gateways.values().next().expect("there is one").clone();
    let shown = serde_json::to_value(&gateway.spec.listeners).expect("listeners are JSON");
    assert_eq!(
        shown,
        serde_json::json!([{
            "name": "a",
            "port": 443,
            "protocol": "HTTPS",
            "tls": { "mode": "Terminate", "certificateRefs": [{ "group": "", "kind": "Secret", "name": "a" }] },
            "allowedRoutes": { "namespaces": { "from": "Same" } },
        }])
    );
}

#[test]
fn a_route_without_rules_has_one_that_takes_every_request() {
    let text = "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: HTTPRoute\nmetadata: {name: a}\nspec: {rules: null, parentRefs: [{name: web}]}\n";
    let loaded = loaded(text);
    let route = loaded.objects.http_routes.values().next().expect("there is one");
    assert_eq!(route.spec.rules.len(), 1);
    assert_eq!((route.spec.parent_refs[0].kind.as_str(), route.spec.rules[0].matches.len()), ("Gateway", 1));
}

#[test]
fn metadata_is_checked_and_a_name_must_be_there() {
    let route = |metadata: &str| {
        errors(&format!("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n{metadata}spec: {{}}\n"))
    };
    assert_eq!(route(""), ["f:1: HTTPRoute: metadata: is required"]);
    assert_eq!(route("metadata: {}\n"), ["f:3: HTTPRoute: metadata.name: is required"]);
    assert_eq!(
        route("metadata: {generateName: a-}\n"),
        [
            "f:3: HTTPRoute default/a-: metadata.generateName: an object with generateName gets its name from the API server, and there is none (give it a name)"
        ]
    );
    assert_eq!(
        route("metadata:\n  name: a\n  labels:\n    'a b': x\n"),
        [
            "f:6: HTTPRoute default/a: metadata.labels[\"a b\"]: is not the name of a label (must be at most 63 letters, digits, '-', '_' and '.', with an optional domain and '/' in front)"
        ]
    );
    assert_eq!(
        route("metadata: {name: a, labels: {empty: , creationTimestamp: ''}, creationTimestamp: null}\n"),
        [""; 0]
    );
    assert_eq!(route("metadata: {name: a, namespace: A}\n").len(), 1);
}

#[test]
fn versions_and_spellings_that_are_not_read_are_errors_that_name_those_that_are() {
    let object = |api_version: &str, kind: &str| {
        errors(&format!("kind: {kind}\napiVersion: {api_version}\nmetadata: {{name: a}}\nspec: {{}}\n"))
    };
    assert_eq!(
        object("gateway.networking.k8s.io/v1alpha2", "HTTPRoute"),
        [
            "f:2: HTTPRoute a: apiVersion: HTTPRoute is not read in the version gateway.networking.k8s.io/v1alpha2 (read are gateway.networking.k8s.io/v1 and gateway.networking.k8s.io/v1beta1)"
        ]
    );
    assert_eq!(
        object("v1", "HTTPRoute"),
        [
            "f:2: HTTPRoute a: apiVersion: there is no HTTPRoute in v1 (write apiVersion: gateway.networking.k8s.io/v1)"
        ]
    );
    assert_eq!(
        object("gateway.networking.k8s.io/v1", "HttpRoute"),
        [
            "f:1: HttpRoute a: kind: there is no HttpRoute in gateway.networking.k8s.io/v1 (write kind: HTTPRoute)"
        ]
    );
    assert_eq!(
        errors("kind: HTTPRoute\nmetadata: {name: a}\n"),
        ["f:1: HTTPRoute a: apiVersion: is required (for example apiVersion: gateway.networking.k8s.io/v1)"]
    );
    assert_eq!(
        errors("just text\n"),
        ["f:1: is not a Kubernetes object (an object has apiVersion, kind and metadata)"]
    );
    assert_eq!(errors("a: b\n"), ["f:1: kind: is required (for example kind: HTTPRoute)"]);
}

#[test]
fn core_kinds_may_have_fields_that_we_do_not_know_but_no_wrong_types() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a, brandNew: 1}\nspec:\n  brandNew: true\n  ports:\n  - port: 80\n";
    let loaded = loaded(service);
    assert_eq!(loaded.errors, []);
    let service_object = loaded.objects.services.values().next().expect("there is one");
    let spec = service_object.spec.as_ref().expect("it has a spec");
    let port = &spec.ports.as_ref().expect("it has ports")[0];
    assert_eq!((spec.type_.as_deref(), port.protocol.as_deref()), (Some("ClusterIP"), Some("TCP")));
    let shown = errors(&service.replace("port: 80", "port: http"));
    assert_eq!(shown.len(), 1);
    assert!(
        shown[0].starts_with("f:7: Service default/a: spec.ports[0].port: invalid type: string"),
        "{}",
        shown[0]
    );
}

#[test]
fn a_secret_holds_its_string_data_and_a_namespace_its_name_as_a_label() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {b: aGk=}\nstringData: {c: hello}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, namespace: odd}\n";
    let loaded = loaded(text);
    assert_eq!(loaded.errors, []);
    let secret = loaded.objects.secrets.values().next().expect("there is one");
    let data = secret.data.as_ref().expect("it has data");
    assert_eq!((&data["b"], &data["c"]), (&ByteString(b"hi".to_vec()), &ByteString(b"hello".to_vec())));
    let (key, namespace) = loaded.objects.namespaces.iter().next().expect("there is one");
    assert_eq!(key.namespace, "");
    let labels = namespace.metadata.labels.as_ref().expect("it has labels");
    assert_eq!(labels["kubernetes.io/metadata.name"], "shop");
    let wrong =
        errors("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  tls.key: ''\n  tls.crt: '%%'\n");
    assert!(wrong[0].starts_with("f:6: Secret default/a: data.tls.crt: "), "{wrong:?}");
}
