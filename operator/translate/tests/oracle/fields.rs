//! Which properties of the CRDs our types have, which they only keep, and which they drop.

use std::collections::BTreeMap;

use postern_translate::api::GROUP;
use postern_translate::kinds::{AnyObject, WrongShape};
use serde_json::{Value, json};

use crate::sample::Sampler;
use crate::server::array;

/// What becomes of a property.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fate {
    /// Read into a type of ours, and written again; nothing listed.
    Typed,
    /// Kept as it is, and written again, but nothing reads it.
    Kept,
    /// Gone after reading.
    Lost,
}

/// The properties that are not [`Fate::Typed`], and why that is right.
pub fn expected() -> BTreeMap<String, Fate> {
    let kept = |reason, paths: &[&str]| {
        (Fate::Kept, reason, paths.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let filters = |kind, names: &[&str]| -> Vec<String> {
        let at = ["spec.rules[].filters[]", "spec.rules[].backendRefs[].filters[]"];
        at.iter().flat_map(|at| names.iter().map(move |name| format!("{kind} {at}.{name}"))).collect()
    };
    let filter =
        "a filter that we do not have: its rule answers 500, and the route says so in PartiallyInvalid";
    let list: [(Fate, &str, Vec<String>); 6] = [
        (
            Fate::Kept,
            filter,
            filters("HTTPRoute", &["cors", "extensionRef", "externalAuth", "requestMirror"]),
        ),
        (Fate::Kept, filter, filters("GRPCRoute", &["extensionRef", "requestMirror"])),
        kept(
            "experimental: the rule is not served without it",
            &[
                "HTTPRoute spec.rules[].retry",
                "HTTPRoute spec.rules[].sessionPersistence",
                "GRPCRoute spec.rules[].sessionPersistence",
            ],
        ),
        kept(
            "experimental: the listener is not served without its filters",
            &["Gateway spec.listeners[].filters"],
        ),
        kept("client certificates: listeners that need them are not served", &["Gateway spec.tls"]),
        (
            Fate::Lost,
            "we do not write it, and read nobody else's addresses",
            vec!["Gateway status.addresses[].routability".into()],
        ),
    ];
    list.into_iter().flat_map(|(fate, _, paths)| paths.into_iter().map(move |path| (path, fate))).collect()
}

/// The topmost properties of a kind that are not [`Fate::Typed`], as `spec.rules[].retry`.
pub fn not_typed(kind: &str, schema: &Value) -> BTreeMap<String, Fate> {
    let mut object = json!({ "metadata": { "name": "everything" } });
    let parts: Vec<&str> =
        ["spec", "status"].into_iter().filter(|part| schema["properties"][part].is_object()).collect();
    parts.iter().for_each(|part| object[*part] = everything(&schema["properties"][part]));
    let again = parse(kind, &object).unwrap_or_else(|e| panic!("{kind}: {e:?}\n{object:#}"));
    let mut found = BTreeMap::new();
    for part in parts {
        walk(kind, &object, &again, &schema["properties"][part], (part, format!("/{part}")), &mut found);
    }
    found
}

fn walk(
    kind: &str,
    object: &Value,
    again: &Value,
    schema: &Value,
    (path, place): (&str, String),
    found: &mut BTreeMap<String, Fate>,
) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let (path, place) = (format!("{path}.{name}"), format!("{place}/{name}"));
        match fate(kind, object, again, &place) {
            Fate::Typed => walk(kind, object, again, schema, (&path, place), found),
            other => drop(found.insert(path, other)),
        }
    }
    if schema["items"].is_object() {
        walk(kind, object, again, &schema["items"], (&format!("{path}[]"), format!("{place}/0")), found);
    }
}

/// A field that has a type of ours does not take a value of a wrong type.
fn fate(kind: &str, object: &Value, again: &Value, place: &str) -> Fate {
    let mut wrong = object.clone();
    let value = wrong.pointer_mut(place).expect("the object has every property");
    *value = if value.is_string() { json!({ "no": "string" }) } else { json!("wrong") };
    match (parse(kind, &wrong), again.pointer(place)) {
        (_, None) => Fate::Lost,
        (Err(_), Some(_)) => Fate::Typed,
        (Ok(_), Some(_)) => Fate::Kept,
    }
}

/// Through our types and back.
fn parse(kind: &str, object: &Value) -> Result<Value, WrongShape> {
    let object = AnyObject::parse(GROUP, kind, object).expect("a kind that we read")?;
    let again = match object {
        AnyObject::GatewayClass(object) => serde_json::to_value(object),
        AnyObject::Gateway(object) => serde_json::to_value(object),
        AnyObject::HttpRoute(object) => serde_json::to_value(object),
        AnyObject::GrpcRoute(object) => serde_json::to_value(object),
        AnyObject::ReferenceGrant(object) => serde_json::to_value(object),
        other => panic!("not a kind of Gateway API: {other:?}"),
    };
    Ok(again.expect("our types serialize"))
}

/// A value that has every property of a schema, and one entry in every list.
fn everything(schema: &Value) -> Value {
    if let Some(properties) = schema["properties"].as_object() {
        return properties.iter().map(|(name, schema)| (name.clone(), everything(schema))).collect();
    }
    match schema["type"].as_str() {
        Some("object") => json!({ "key": everything(&schema["additionalProperties"]) }),
        Some("array") => json!([everything(&schema["items"])]),
        Some("string") if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        _ if array(&schema["enum"]).is_empty() => Sampler::new(0).value(schema),
        _ => schema["enum"][0].clone(),
    }
}
