//! The CRD of `PosternParameters`: what its types say, and the parts that no Rust type can say.

use kube_core::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::PosternParameters;

const KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$";

/// The CustomResourceDefinition as it is applied.
pub fn crd() -> Value {
    let mut crd = serde_json::to_value(PosternParameters::crd()).expect("a CRD is plain data");
    tidy(&mut crd);
    crd
}

/// What the generator writes in other words than the API server's own kinds have.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A null is a field that is not there: the API server drops it.
            fields.remove("nullable");
            if fields.contains_key("x-kubernetes-int-or-string") {
                fields.insert("anyOf".into(), json!([{ "type": "integer" }, { "type": "string" }]));
            }
            // A line of a comment ends where the source is full, and not where a terminal is.
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(number) => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0);
            if let Some(whole) = whole {
                *number = (whole as i64).into();
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Labels by key.
pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {
            "type": "string", "maxLength": 63, "pattern": r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        },
        "x-kubernetes-validations": [keys()],
    })
}

/// Annotations by key.
pub(super) fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 4096 },
        "x-kubernetes-validations": [keys()],
    })
}

/// Annotations by key, without those that would take a protection away.
pub(super) fn pod_annotations(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = annotations(generator);
    let protections = json!({
        "rule": "self.all(key, !key.startsWith('container.apparmor.security.beta.kubernetes.io/'))",
        "message": "AppArmor cannot be set here: pods run under the Pod Security Standard restricted",
    });
    schema.insert("x-kubernetes-validations".into(), json!([keys(), protections]));
    schema
}

fn keys() -> Value {
    json!({
        "rule": format!("self.all(key, key.matches('{KEY}'))"),
        "message": "a key must be at most 63 letters, digits, '-', '_' and '.', with an optional domain and '/' in front",
    })
}

/// Amounts by name, such as cpu and memory.
pub(super) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 8,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "pattern": r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$",
        },
    })
}

/// A mapping that others define.
pub(super) fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
