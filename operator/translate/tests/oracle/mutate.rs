//! One change to an object: what people get wrong, at any place of it.

use serde_json::{Map, Value, json};

use crate::sample::{STRINGS, Sampler};
use crate::server::{array, field, text};

/// A changed object, and what was done to it.
pub struct Mutation {
    /// The place: `/spec/rules/0`
    pub place: String,
    /// The change, for messages.
    pub change: &'static str,
    /// The object.
    pub object: Value,
}

/// Changes one thing at a place that chance picks. None where the change makes no sense at that place.
pub fn mutate(object: &Value, schema: &Value, sampler: &mut Sampler) -> Option<Mutation> {
    let mut places = Vec::new();
    collect(object, schema, String::new(), &mut places);
    let (place, schema) = sampler.one_of(&places);
    let mut changed = object.clone();
    let change = match changed.pointer_mut(&place).expect("the place was found in the object") {
        Value::Object(fields) => object_change(fields, schema, sampler),
        Value::Array(items) => list_change(items, schema, sampler),
        value @ Value::String(_) => string_change(value, schema, sampler),
        value => other_change(value, sampler),
    }?;
    Some(Mutation { place, change, object: changed })
}

/// Every value but apiVersion, kind and status, with its schema.
fn collect<'a>(value: &Value, schema: &'a Value, place: String, places: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(fields) => {
            let at_root = place.is_empty();
            for (name, value) in fields {
                if at_root && ["apiVersion", "kind", "status", "metadata"].contains(&name.as_str()) {
                    continue;
                }
                let schema = field(schema, name).unwrap_or(&Value::Null);
                collect(
                    value,
                    schema,
                    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")),
                    places,
                );
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &schema["items"], format!("{place}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push((place, schema));
}

fn object_change(
    fields: &mut Map<String, Value>,
    schema: &Value,
    sampler: &mut Sampler,
) -> Option<&'static str> {
    const OF_THE_ROOT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
    let at_root = fields.contains_key("apiVersion");
    let names: Vec<String> = fields.keys().filter(|name| !at_root || *name == "spec").cloned().collect();
    let mut declared: Vec<(String, &Value)> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, schema)| (name.clone(), schema))
        .collect();
    declared.retain(|(name, _)| !at_root || !OF_THE_ROOT.contains(&name.as_str()));
    match sampler.rng.u8(0..10) {
        0 | 1 if !names.is_empty() => {
            fields.remove(&sampler.one_of(&names));
            Some("delete a field")
        }
        2 if !names.is_empty() => {
            fields.insert(sampler.one_of(&names), Value::Null);
            Some("null a field")
        }
        3 => {
            fields.insert(sampler.one_of(&["extra", "weigth", "Name", "typ"]).into(), json!("a"));
            Some("add an unknown field")
        }
        4 => {
            let of_map = &schema["additionalProperties"];
            let (many, value) = (0..sampler.one_of(&[1, 8, 9, 16, 17]), sampler.value(of_map));
            fields.extend(
                many.filter(|_| of_map.is_object()).map(|index| (format!("key-{index}"), value.clone())),
            );
            of_map.is_object().then_some("add map entries")
        }
        _ if !declared.is_empty() => {
            let (name, schema) = sampler.one_of(&declared);
            fields.insert(name, sampler.value(schema));
            Some("set a declared field")
        }
        _ => None,
    }
}

fn list_change(items: &mut Vec<Value>, schema: &Value, sampler: &mut Sampler) -> Option<&'static str> {
    let limit = schema["maxItems"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
    match sampler.rng.u8(0..8) {
        0 => {
            items.clear();
            Some("empty a list")
        }
        1 | 2 if !items.is_empty() => {
            let index = sampler.rng.usize(0..items.len());
            items.push(items[index].clone());
            Some("duplicate an entry")
        }
        3 if !items.is_empty() => {
            let mut copy = items[sampler.rng.usize(0..items.len())].clone();
            let fields = copy.as_object_mut()?;
            let names: Vec<String> = fields.keys().cloned().collect();
            let name = (!names.is_empty()).then(|| sampler.one_of(&names))?;
            let schema = field(&schema["items"], &name)?;
            match sampler.rng.bool() {
                true => fields.remove(&name),
                false => fields.insert(name, sampler.value(schema)),
            };
            items.push(copy);
            Some("add an entry that is almost another one")
        }
        4 if !items.is_empty() && (1..=128).contains(&limit) => {
            let many = limit + sampler.rng.usize(0..2);
            let keys: Vec<&str> = array(&schema["x-kubernetes-list-map-keys"]).iter().map(text).collect();
            // Entries with keys stay distinct, so that the length alone is at fault.
            let named = |index: usize, mut item: Value| {
                keys.iter().for_each(|key| item[*key] = json!(format!("n{index}")));
                item
            };
            let first = items[0].clone();
            items.extend((items.len()..many).map(|index| named(index, first.clone())));
            Some("fill a list to its limit, or one over")
        }
        5 => {
            items.push(sampler.one_of(&[Value::Null, json!(1), json!("a"), json!({}), json!([])]));
            Some("add an entry of any type")
        }
        _ => {
            items.push(sampler.value(&schema["items"]));
            Some("add an entry")
        }
    }
}

fn string_change(value: &mut Value, schema: &Value, sampler: &mut Sampler) -> Option<&'static str> {
    let (new, change) = match sampler.rng.u8(0..8) {
        0 => return other_change(value, sampler),
        1 | 2 if !array(&schema["enum"]).is_empty() => {
            (sampler.one_of(array(&schema["enum"])), "another value of the enum")
        }
        3 if schema["maxLength"].is_u64() => {
            let limit = usize::try_from(schema["maxLength"].as_u64()?).ok()?;
            let start = if text(value).starts_with('/') { "/" } else { "" };
            let many = (limit + sampler.rng.usize(0..2)).saturating_sub(start.len());
            (json!(format!("{start}{}", "a".repeat(many))), "a string as long as may be, or one longer")
        }
        4 => (json!(text(value).to_uppercase()), "upper case"),
        5 => (
            json!(format!(
                "{}{}",
                text(value),
                sampler.one_of(&["/", " ", "\n", ".", "ä", "*", "-", "%", "%2f"])
            )),
            "one more character",
        ),
        _ => (json!(sampler.one_of(&STRINGS)), "another string"),
    };
    *value = new;
    Some(change)
}

fn other_change(value: &mut Value, sampler: &mut Sampler) -> Option<&'static str> {
    const NUMBERS: [i64; 22] = [
        -1,
        0,
        1,
        2,
        99,
        100,
        101,
        301,
        302,
        399,
        400,
        500,
        599,
        600,
        999,
        65_535,
        65_536,
        1_000_000,
        1_000_001,
        2_147_483_647,
        2_147_483_648,
        i64::MAX,
    ];
    if value.is_i64() && sampler.rng.u8(0..4) != 0 {
        *value = json!(sampler.one_of(&NUMBERS));
        return Some("another number");
    }
    *value =
        sampler.one_of(&[json!(80), json!("80"), json!(true), json!({}), json!([]), json!("a"), json!(1.5)]);
    Some("another type")
}
