//! Forms of input: documents, lists, JSON, anchors, and what kubectl prints.

use crate::{errors, loaded, routes};

const HEAD: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n";

#[test]
fn documents_are_read_one_by_one_and_empty_ones_are_nothing() {
    let text = format!(
        "# only a comment\n---\n---\n{HEAD}metadata: {{name: a}}\nspec: {{}}\n...\n---\n{HEAD}metadata:\n  name: b\n  namespace: shop\nspec: {{}}\n---\n"
    );
    assert_eq!(routes(&text), ["default/a", "shop/b"]);
    assert_eq!(routes(""), [""; 0]);
    assert_eq!(routes("null\n"), [""; 0]);
}

#[test]
fn lists_of_any_kind_and_arrays_hold_objects() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: gateway.networking.k8s.io/v1\n  kind: HTTPRoute\n  metadata: {name: a}\n  spec: {}\n";
    assert_eq!(routes(list), ["default/a"]);
    let own = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRouteList\nmetadata: {resourceVersion: '1'}\nitems:\n- metadata: {name: a}\n  spec: {}\n";
    assert_eq!(routes(own), ["default/a"]);
    let array = "- apiVersion: gateway.networking.k8s.io/v1\n  kind: HTTPRoute\n  metadata: {name: a}\n  spec: {}\n- null\n";
    assert_eq!(routes(array), ["default/a"]);
    assert_eq!(routes("apiVersion: v1\nkind: List\nitems: []\n"), [""; 0]);
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
    let text =
        format!("\u{feff}{HEAD}metadata:\n  name: a\nspec:\n  hostnames:\n  - A\n").replace('\n', "\r\n");
    let loaded = loaded(&text);
    assert_eq!((loaded.errors[0].line, loaded.errors[0].path.as_str()), (7, "spec.hostnames[0]"));
}

#[test]
fn only_lists_of_objects_are_lists() {
    let own = "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\nitems: [10.0.0.0/8]\n";
    let loaded = loaded(own);
    assert_eq!(loaded.errors, []);
    assert_eq!(loaded.ignored[0].kind, "AllowList");
    assert_eq!(
        errors("apiVersion: v1\nkind: List\nitems: {}\n"),
        ["f:3: List: items: must be a list of objects"]
    );
}

#[test]
fn json_is_read_with_lines_also_when_values_stand_side_by_side() {
    let object = |name: &str| {
        format!(
            "{{\n\t\"apiVersion\": \"gateway.networking.k8s.io/v1\",\n\t\"kind\": \"HTTPRoute\",\n\t\"metadata\": {{ \"name\": \"{name}\" }},\n\t\"spec\": {{}}\n}}"
        )
    };
    assert_eq!(routes(&object("a")), ["default/a"]);
    assert_eq!(routes(&format!("[{}, {}]", object("a"), object("b"))), ["default/a", "default/b"]);
    assert_eq!(routes(&format!("{}{}\n{}", object("a"), object("b"), object("c"))).len(), 3);
    let second_is_wrong = format!("{}\n{}", object("a"), object("B"));
    assert_eq!(
        errors(&second_is_wrong),
        [
            "f:10: HTTPRoute default/B: metadata.name: \"B\" does not match ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ (must be lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part)"
        ]
    );
}

#[test]
fn what_kubectl_prints_loads_as_it_is() {
    let printed = r#"
apiVersion: v1
items:
- apiVersion: gateway.networking.k8s.io/v1
  kind: HTTPRoute
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute"}
    creationTimestamp: "2026-11-29T10:00:00Z"
    generation: 2
    managedFields:
    - apiVersion: gateway.networking.k8s.io/v1
      fieldsType: FieldsV1
      fieldsV1: {"f:spec": {".": {}}}
      manager: kubectl
      operation: Update
      time: "2026-11-29T10:00:00Z"
    name: app
    namespace: shop
    resourceVersion: "812"
    uid: 7b0c2f0e-9c5b-4b2f-9a57-0f8f5ad6f3b1
  spec:
    parentRefs:
    - {group: gateway.networking.k8s.io, kind: Gateway, name: web}
  status:
    parents:
    - conditions:
      - {lastTransitionTime: "2026-11-29T10:00:00Z", message: "", observedGeneration: 2, reason: Accepted, status: "True", type: Accepted}
      controllerName: example.com/other
      parentRef: {group: gateway.networking.k8s.io, kind: Gateway, name: web}
kind: List
metadata:
  resourceVersion: ""
"#;
    assert_eq!(routes(printed), ["shop/app"]);
    let loaded = loaded(printed);
    let route = loaded.objects.http_routes.values().next().expect("there is one");
    let status = route.status.as_ref().expect("the status of others is kept");
    assert_eq!(status.parents[0].controller_name, "example.com/other");
    assert_eq!(route.metadata.generation, Some(2));
}

#[test]
fn a_status_that_cannot_be_read_is_left_out_and_the_object_is_not() {
    assert_eq!(
        routes(&format!("{HEAD}metadata: {{name: a}}\nspec: {{}}\nstatus: {{parents: 1}}\n")),
        ["default/a"]
    );
}

#[test]
fn a_document_that_is_no_yaml_is_reported_and_its_neighbours_are_read() {
    let text = format!(
        "{HEAD}metadata: {{name: a}}\nspec: {{}}\n---\n{HEAD}metadata:\n  name: 'b\n---\n{HEAD}metadata: {{name: c}}\nspec: {{}}\n"
    );
    let loaded = loaded(&text);
    assert_eq!(loaded.objects.http_routes.len(), 2);
    assert_eq!(loaded.errors.len(), 1);
    assert!(loaded.errors[0].message.starts_with("not YAML: "), "{}", loaded.errors[0]);
    assert!((9..=10).contains(&loaded.errors[0].line), "{}", loaded.errors[0]);
}

#[test]
fn a_template_is_named_as_one() {
    let template = "`{{` is not YAML: a template is to be rendered first, as `helm template` does";
    assert_eq!(errors("{{ if .Values.route }}\nkind: HTTPRoute\n{{ end }}\n")[0], format!("f:1: {template}"));
    assert_eq!(
        errors("kind: HTTPRoute\nmetadata:\n  name: {{ .Values.name }}\n"),
        [format!("f:3: {template}")]
    );
    assert_eq!(errors("a: {[b]: c}\n"), ["f:1: a key must be a word or a string"]);
}

#[test]
fn json_escapes_are_those_of_json() {
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"b":"\ud83d\ude00\/\u00e9\t"}}"#;
    let loaded = loaded(text);
    assert_eq!(loaded.errors, []);
    let map = loaded.objects.config_maps.values().next().expect("there is one");
    assert_eq!(map.data.as_ref().expect("it has data")["b"], "\u{1f600}/\u{e9}\t");
}

#[test]
fn anchors_and_merge_keys_are_resolved_and_errors_name_the_line_of_the_text() {
    let text = format!(
        "{HEAD}metadata: {{name: a}}\nspec:\n  parentRefs: &parents\n  - &web\n    name: web\n    namespace: infra\n  - <<: *web\n    name: other\n  rules:\n  - backendRefs: &backends\n    - {{name: app, port: 80}}\n  - backendRefs: *backends\n    matches: [{{path: {{value: /b}}}}]\n"
    );
    let loaded = loaded(&text);
    assert_eq!(loaded.errors, []);
    let route = loaded.objects.http_routes.values().next().expect("there is one");
    let parents: Vec<_> =
        route.spec.parent_refs.iter().map(|it| (it.name.as_str(), it.namespace.as_deref())).collect();
    assert_eq!(parents, [("web", Some("infra")), ("other", Some("infra"))]);
    assert_eq!(route.spec.rules[1].backend_refs[0].reference.name, "app");

    let wrong = text.replace("port: 80", "port: 0");
    assert_eq!(
        errors(&wrong),
        [
            "f:13: HTTPRoute default/a: spec.rules[0].backendRefs[0].port: must be at least 1, and is 0",
            "f:13: HTTPRoute default/a: spec.rules[1].backendRefs[0].port: must be at least 1, and is 0",
        ]
    );
}

#[test]
fn a_small_text_cannot_become_a_large_tree() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(", "));
    }
    assert_eq!(errors(&bomb), ["f:6: anchors and aliases make this text too large"]);
    // Each document with little, all of them with much.
    let small = format!("a: &a [{}]\nb: [{}]\n---\n", ["x"; 500].join(", "), ["*a"; 100].join(", "));
    let many = errors(&small.repeat(20));
    assert!(many[0].ends_with("kind: is required (for example kind: HTTPRoute)"), "{}", many[0]);
    assert!(many[19].ends_with("anchors and aliases make this text too large"), "{}", many[19]);
    assert_eq!(errors("a: &a [*a]\n"), ["f:1: an alias cannot be inside its own anchor"]);
    let deep = "[".repeat(10_000);
    assert_eq!(errors(&deep).len(), 1);
}

#[test]
fn a_key_that_is_there_twice_is_an_error() {
    let text =
        format!("{HEAD}metadata: {{name: a}}\nspec:\n  hostnames: [a.example]\n  hostnames: [b.example]\n");
    assert_eq!(
        errors(&text),
        ["f:6: HTTPRoute default/a: spec.hostnames: the key `hostnames` is here twice"]
    );
}

#[test]
fn kinds_that_are_not_read_are_named_once() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\napiVersion: apps/v1\nkind: Deployment\nspec: 1\n---\napiVersion: networking.istio.io/v1\nkind: Gateway\n";
    let loaded = loaded(text);
    assert_eq!(loaded.errors, []);
    let ignored: Vec<String> = loaded.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(
        ignored,
        [
            "Deployment (apps/v1) is not read: 2 ignored, first at f:1",
            "Gateway (networking.istio.io/v1) is not read: 1 ignored, first at f:9",
        ]
    );
}

#[test]
fn of_two_objects_with_one_name_the_later_one_counts() {
    let text = format!(
        "{HEAD}metadata: {{name: a}}\nspec: {{hostnames: [one.example]}}\n---\n{HEAD}metadata: {{name: a, namespace: default}}\nspec: {{hostnames: [two.example]}}\n"
    );
    let loaded = loaded(&text);
    assert_eq!(loaded.duplicates[0].to_string(), "f:6: HTTPRoute default/a replaces the one at f:1");
    let route = loaded.objects.http_routes.values().next().expect("there is one");
    assert_eq!(route.spec.hostnames, ["two.example"]);
}
