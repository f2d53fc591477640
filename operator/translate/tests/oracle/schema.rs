//! Our schemas against upstream's CRDs, keyword by keyword: what upstream says, we say.

use std::collections::BTreeMap;

use postern_translate::manifest::openapi;
use serde_json::Value;

use crate::{seeds, upstream};

#[test]
fn our_schemas_say_what_upstreams_say() {
    let mut differences = Vec::new();
    for crd in upstream::crds("experimental") {
        let kind = crd["spec"]["names"]["kind"].as_str().expect("a CRD has a kind");
        if !seeds::KINDS.contains(&kind) {
            continue;
        }
        let ours = keywords(&openapi(kind).expect("it is one of our kinds"));
        for version in crd["spec"]["versions"].as_array().expect("a CRD has versions") {
            let theirs = keywords(&version["schema"]["openAPIV3Schema"]["properties"]["spec"]);
            let name = version["name"].as_str().expect("a version has a name");
            differences.extend(theirs.iter().filter(|(place, theirs)| ours.get(*place) != Some(theirs)).map(
                |(place, theirs)| format!("{kind} {name} {place}: {theirs}; ours {:?}", ours.get(place)),
            ));
            differences.extend(
                ours.iter()
                    .filter(|(place, _)| !theirs.contains_key(*place))
                    .map(|(place, ours)| format!("{kind} {name} {place}: ours alone, {ours}")),
            );
        }
    }
    differences.retain(|difference| !KNOWN.iter().any(|(known, _)| difference.contains(known)));
    assert_eq!(differences, Vec::<String>::new());
}

/// What differs, and why.
const KNOWN: [(&str, &str); 4] = [
    ("field is immutable", "a manifest has no object before it"),
    ("addresses[].oneOf", "a rule of ours says it, with a message"),
    ("value must be an IPv4 or IPv6 address when type is IPAddress", "that rule"),
    ("type must be one of ['Exact', 'PathPrefix', 'RegularExpression']", "the enum beside it says the same"),
];

/// Every keyword of a schema by its place; of rules the messages.
pub fn keywords(schema: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    collect(schema, "spec", &mut found);
    found
}

fn collect(schema: &Value, place: &str, found: &mut BTreeMap<String, Value>) {
    for (keyword, value) in schema.as_object().expect("a schema is an object") {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                fields.iter().for_each(|(name, field)| collect(field, &format!("{place}.{name}"), found));
            }
            ("items", _) => collect(value, &format!("{place}[]"), found),
            ("additionalProperties", _) => collect(value, &format!("{place}[key]"), found),
            ("x-kubernetes-validations", Value::Array(rules)) => {
                for rule in rules {
                    let message = rule["message"].as_str().expect("a rule has a message");
                    found.insert(format!("{place} rule {message}"), Value::Bool(true));
                }
            }
            ("enum" | "required", Value::Array(values)) => {
                let values = values.iter().map(|value| (format!("{place}.{keyword} {value}"), true.into()));
                found.extend(values);
            }
            // Words for people, how to merge, and limits that say nothing.
            ("description" | "x-kubernetes-map-type", _) => {}
            ("x-kubernetes-list-type", value) if value == "atomic" => {}
            ("minLength", value) if value == 0 => {}
            _ => {
                found.insert(format!("{place}.{keyword}"), value.clone());
            }
        }
    }
}
