//! Loading is total: no text makes it panic, and what a text does to one object it does to no other.

use postern_translate::manifest::{Source, load, validate};
use proptest::prelude::*;

use crate::{gateway, loaded, rule};

fn seed() -> String {
    let route = rule(
        "matches:\n- path: {type: Exact, value: /a}\n  headers: [{name: a, value: b}]\nfilters:\n- type: RequestRedirect\n  requestRedirect: &r {scheme: https}\n- {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}\ntimeouts: {request: 1h2m3s4ms}",
    );
    let gateway =
        gateway("listeners:\n- {name: a, port: 80, protocol: HTTP}\naddresses:\n- {value: 1.2.3.4}");
    format!(
        "{route}---\n{gateway}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\ndata: {{a: aGk=}}\n"
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_loads_or_is_an_error(text in "(?s).{0,200}") {
        load(&[Source { name: "f".into(), text }]);
    }

    #[test]
    fn text_of_yaml_characters_loads_or_is_an_error(text in r"([-:?,\[\]{}#&*!|>'%@`\n \ta0.<~\x22]|kind: |items: |<<: ){0,80}") {
        load(&[Source { name: "f".into(), text }]);
    }

    #[test]
    fn a_manifest_with_any_edit_loads_or_is_an_error(at in 0_usize..600, cut in 0_usize..8, put in "[-:\\[\\]{}'\"&*a0 \n]{0,4}") {
        let seed = seed();
        let (at, end) = (at.min(seed.len()), (at + cut).min(seed.len()));
        let text = format!("{}{put}{}", &seed[..at], &seed[end..]);
        load(&[Source { name: "f".into(), text }]);
    }

    #[test]
    fn a_broken_document_leaves_those_before_it_as_they_were(text in r"[-:?\[\]{}#&*!|>'%a0 \n]{0,40}") {
        let before = loaded(&seed());
        let after = loaded(&format!("{}\n---\n{text}", seed()));
        prop_assert_eq!(before.origins.len(), after.origins.len());
        prop_assert_eq!(&before.errors[..], &after.errors[..before.errors.len()]);
    }
}

#[test]
fn a_value_is_judged_as_its_text_is() {
    let value = serde_json::json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": { "name": "web" },
        "spec": { "gatewayClassName": "postern", "listeners": [] },
    });
    let mut whole = value.clone();
    whole["spec"]["listeners"] = serde_json::json!([{ "name": "a", "port": 80.0, "protocol": "HTTP" }]);
    assert_eq!(validate(&whole), []);
    let found = validate(&value);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].path.as_str(), found[0].message.as_str()),
        ("spec.listeners", "must have at least 1 item, and has 0")
    );
    assert_eq!(validate(&serde_json::json!({ "apiVersion": "apps/v1", "kind": "Deployment" })), []);
}
