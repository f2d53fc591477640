//! Our schemas in the words of a CRD, for comparison with upstream's.

use serde_json::{Map, Value, json};

use super::{Field, Schema, Shape, Unique, spec_of};

/// What we know of `spec` of a kind of Gateway API or of ours, as OpenAPI with Kubernetes' extensions. Rules have their messages only.
/// `None` for other kinds.
pub fn openapi(kind: &str) -> Option<Value> {
    spec_of(kind).map(of)
}

fn of(schema: &Schema) -> Value {
    let mut object = match &schema.shape {
        Shape::Object(fields) => fields_of(fields),
        Shape::Map { values, most } => pairs([
            ("type", Some("object".into())),
            ("additionalProperties", Some(of(values))),
            ("maxProperties", most.map(Value::from)),
        ]),
        Shape::List { items, least, most, unique } => {
            let (kind, key) = match unique {
                Unique::No => (None, None),
                Unique::Item => (Some("set".into()), None),
                Unique::Key(key) => (Some("map".into()), Some(json!([key]))),
            };
            pairs([
                ("type", Some("array".into())),
                ("items", Some(of(items))),
                ("minItems", (*least > 0).then(|| Value::from(*least))),
                ("maxItems", most.map(Value::from)),
                ("x-kubernetes-list-type", kind),
                ("x-kubernetes-list-map-keys", key),
            ])
        }
        Shape::Text { least, most, pattern, one_of } => pairs([
            ("type", Some("string".into())),
            ("minLength", (*least > 0).then(|| Value::from(*least))),
            ("maxLength", most.map(Value::from)),
            ("pattern", pattern.map(|pattern| pattern.text.into())),
            ("enum", (!one_of.is_empty()).then(|| json!(one_of))),
        ]),
        Shape::Integer { least, most, int32, one_of } => pairs([
            ("type", Some("integer".into())),
            ("format", int32.then(|| "int32".into())),
            ("minimum", least.map(Value::from)),
            ("maximum", most.map(Value::from)),
            ("enum", (!one_of.is_empty()).then(|| json!(one_of))),
        ]),
        Shape::Amount(pattern) => pairs([
            ("x-kubernetes-int-or-string", Some(true.into())),
            ("anyOf", Some(json!([{ "type": "integer" }, { "type": "string" }]))),
            ("pattern", Some(pattern.text.into())),
            ("minimum", Some(0.into())),
        ]),
        Shape::Open => pairs([
            ("type", Some("object".into())),
            ("x-kubernetes-preserve-unknown-fields", Some(true.into())),
        ]),
        Shape::Boolean => pairs([("type", Some("boolean".into()))]),
        Shape::Any => pairs([]),
    };
    if !schema.rules.is_empty() {
        let rules = schema.rules.iter().map(|rule| json!({ "message": rule.message }));
        object.insert("x-kubernetes-validations".into(), rules.collect());
    }
    Value::Object(object)
}

fn fields_of(fields: &[Field]) -> Map<String, Value> {
    let property = |field: &Field| {
        let mut schema = of(&field.schema);
        if let (Some(default), Value::Object(schema)) = (&field.default, &mut schema) {
            schema.insert("default".into(), default.clone());
        }
        (field.name.to_owned(), schema)
    };
    let required = fields.iter().filter(|field| field.required).map(|field| Value::from(field.name));
    let required: Vec<Value> = required.collect();
    pairs([
        ("type", Some("object".into())),
        ("properties", Some(Value::Object(fields.iter().map(property).collect()))),
        ("required", (!required.is_empty()).then_some(Value::Array(required))),
    ])
}

fn pairs<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Map<String, Value> {
    pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}
