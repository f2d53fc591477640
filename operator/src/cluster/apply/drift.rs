//! Whether an object of the cluster has all that is wanted of it: what was applied comes back with defaults, in other spellings,
//! and with what others added.

use kube::api::DynamicObject;
use postern_translate::api::billionths;
use serde_json::{Map, Value};

/// Whether an object has all that is wanted, the hash among it. What others added is theirs.
pub fn is_in_sync(present: &DynamicObject, wanted: &Value) -> bool {
    let fields = wanted.as_object().into_iter().flatten();
    let metadata = serde_json::to_value(&present.metadata).unwrap_or_default();
    fields.into_iter().all(|(field, value)| match field.as_str() {
        "apiVersion" | "kind" => true,
        "metadata" => contains(&metadata, value),
        field => present.data.get(field).is_some_and(|there| contains(there, value)),
    })
}

fn contains(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().all(|(field, value)| match (field.as_str(), there.get(field)) {
                // The API server keeps nothing of what is empty, and spells amounts in its own way.
                (_, None) => {
                    value.as_object().is_some_and(Map::is_empty)
                        || value.as_array().is_some_and(Vec::is_empty)
                }
                ("requests" | "limits", Some(there)) => has_amounts(there, value),
                (_, Some(there)) => contains(there, value),
            })
        }
        (Value::Array(there), Value::Array(wanted)) => {
            wanted.iter().all(|value| there.iter().any(|there| contains(there, value)))
        }
        (there, wanted) => there == wanted,
    }
}

fn has_amounts(there: &Value, wanted: &Value) -> bool {
    let amount = |value: &Value| value.as_str().and_then(billionths);
    let mut wanted = wanted.as_object().into_iter().flatten();
    wanted.all(|(name, value)| {
        there
            .get(name)
            .is_some_and(|there| there == value || amount(there).is_some_and(|it| Some(it) == amount(value)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_added_is_no_difference_and_what_they_changed_is() {
        let wanted = json!({ "a": [{ "name": "x", "port": 80 }], "b": { "c": "d" } });
        assert!(contains(
            &json!({ "a": [{ "name": "y" }, { "name": "x", "port": 80, "nodePort": 3 }], "b": { "c": "d" }, "e": 1 }),
            &wanted
        ));
        assert!(!contains(&json!({ "a": [{ "name": "x", "port": 81 }], "b": { "c": "d" } }), &wanted));
    }

    #[test]
    fn what_the_api_server_writes_in_its_own_way_is_no_difference() {
        let wanted = json!({ "resources": { "limits": { "cpu": "1.5", "memory": "1024Mi" } }, "affinity": { "a": [] } });
        let stored =
            json!({ "resources": { "limits": { "cpu": "1500m", "memory": "1Gi" } }, "affinity": {} });
        assert!(contains(&stored, &wanted));
        let other = json!({ "resources": { "limits": { "cpu": "1501m", "memory": "1Gi" } } });
        assert!(!contains(&other, &wanted));
    }
}
