//! What the API server would say of an object, by upstream's CRDs: the oracle.
//!
//! The order is the API server's: nulls are pruned, defaults are set, unknown fields are refused (`fieldValidation: Strict`,
//! what kubectl asks for), then the schema, the lists' keys, and last the CEL rules. `status` is dropped first: it is a
//! subresource, and a write to the object does not touch it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Map, Value};

use crate::{seeds, upstream};

/// The served versions of the CRDs of one channel.
pub struct Server {
    versions: BTreeMap<(String, String), Version>,
}

/// One served version of a kind.
pub struct Version {
    /// `spec.versions[].schema.openAPIV3Schema`
    pub whole: Value,
    /// The same without `status`.
    pub schema: Value,
    json: jsonschema::Validator,
    cel: CompiledSchema,
}

impl Server {
    /// Compiles the experimental channel's schemas of the kinds that we validate: it has all that the standard channel has.
    ///
    /// Every rule of theirs must compile, or the oracle would be blind in places.
    pub fn upstream() -> Self {
        let mut versions = BTreeMap::new();
        for crd in upstream::crds("experimental") {
            let kind = text(&crd["spec"]["names"]["kind"]);
            for version in array(&crd["spec"]["versions"]).iter().filter(|version| version["served"] == true)
            {
                let api_version = format!("{}/{}", text(&crd["spec"]["group"]), text(&version["name"]));
                if !seeds::KINDS.contains(&kind) && (api_version.as_str(), kind) != seeds::CHECKED {
                    continue;
                }
                versions.insert(
                    (api_version, kind.to_owned()),
                    Version::new(&version["schema"]["openAPIV3Schema"]),
                );
            }
        }
        Self { versions }
    }

    /// Compiles the schema of our own kind, as its CRD has it.
    pub fn own() -> Self {
        let crd = postern_translate::api::crd();
        let version = &crd["spec"]["versions"][0];
        let api_version = format!("{}/{}", text(&crd["spec"]["group"]), text(&version["name"]));
        let kind = text(&crd["spec"]["names"]["kind"]).to_owned();
        // The API server knows these of every kind, and the generator leaves them out.
        let mut schema = version["schema"]["openAPIV3Schema"].clone();
        for (field, of_type) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
            schema["properties"][field]["type"] = of_type.into();
        }
        Self { versions: [((api_version, kind), Version::new(&schema))].into() }
    }

    /// All versions, by apiVersion and kind.
    pub fn versions(&self) -> impl Iterator<Item = (&(String, String), &Version)> {
        self.versions.iter()
    }

    /// The version that an object names. None for kinds that were not asked for.
    pub fn version(&self, object: &Value) -> Option<&Version> {
        self.versions.get(&(object["apiVersion"].as_str()?.to_owned(), object["kind"].as_str()?.to_owned()))
    }

    /// Whether it is an object of the kinds that we validate.
    pub fn serves(&self, object: &Value) -> bool {
        self.version(object).is_some()
    }

    /// What is wrong with an object, as `path: message`. Empty when it would be taken.
    pub fn refusals(&self, object: &Value) -> Vec<String> {
        match self.version(object) {
            Some(version) => version.refusals(object),
            None => vec![format!("kind: no served version of {} {}", object["apiVersion"], object["kind"])],
        }
    }
}

impl Version {
    fn new(schema: &Value) -> Self {
        let whole = schema.clone();
        let mut schema = schema.clone();
        schema["properties"].as_object_mut().expect("a CRD has properties").remove("status");
        let json = jsonschema::draft4::options()
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .should_validate_formats(true)
            .with_format("ipv4", |text: &str| text.contains('.') && text.parse::<std::net::IpAddr>().is_ok())
            .with_format("ipv6", |text: &str| text.contains(':') && text.parse::<std::net::IpAddr>().is_ok())
            .build(&schema)
            .expect("upstream's schemas are JSON schemas");
        let cel = compile_schema(&schema);
        assert!(!cel.has_errors(), "CEL rules that do not compile: {:?}", cel.compilation_errors());
        Self { whole, schema, json, cel }
    }

    fn refusals(&self, object: &Value) -> Vec<String> {
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        prune_nulls(&mut object, &self.schema);
        let object = kube_cel::apply_defaults(&self.schema, &object);

        let mut found = Vec::new();
        metadata(&object["metadata"], &mut found);
        unknown_fields(&object, &self.schema, "", &mut found);
        found.extend(
            self.json.iter_errors(&object).map(|e| format!("{}: {e}", dotted(e.instance_path().as_str()))),
        );
        if found.is_empty() {
            formats_and_lists(&object, &self.schema, "", &mut found);
        }
        // The API server runs the rules on what has the right shape only.
        if found.is_empty()
            && let Err(errors) = Validator::new().validate_compiled(&self.cel, &object, None)
        {
            found.extend(errors.iter().map(|e| format!("{}: {}", e.field_path, e.message)));
        }
        found
    }
}

/// "Null values for fields that [are not nullable] will be pruned before defaulting happens": none of these CRDs has a
/// nullable field. Nulls in lists stay, and are of the wrong type.
fn prune_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| !value.is_null() || field(schema, name).is_none());
            for (name, value) in fields {
                prune_nulls(value, field(schema, name).unwrap_or(&Value::Null));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune_nulls(item, &schema["items"])),
        _ => {}
    }
}

/// The schema of a field, declared or of a map.
pub fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let of_map = || Some(&schema["additionalProperties"]).filter(|values| values.is_object());
    schema["properties"].get(name).or_else(of_map)
}

/// ObjectMeta is typed, and not in the CRD.
fn metadata(metadata: &Value, found: &mut Vec<String>) {
    const FIELDS: [&str; 15] = [
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    if let Err(e) = serde_json::from_value::<ObjectMeta>(metadata.clone()) {
        found.push(format!("metadata: {e}"));
        return;
    }
    for name in
        metadata.as_object().into_iter().flat_map(Map::keys).filter(|name| !FIELDS.contains(&name.as_str()))
    {
        found.push(format!("metadata.{name}: unknown field"));
    }
    let name = metadata["name"].as_str().unwrap_or_default();
    if name.is_empty() && metadata["generateName"].as_str().unwrap_or_default().is_empty() {
        found.push("metadata.name: required".into());
    }
    let label = |label: &str| {
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        label.starts_with(letter) && label.ends_with(letter) && label.chars().all(|c| letter(c) || c == '-')
    };
    if !name.is_empty() && (name.len() > 253 || !name.split('.').all(label)) {
        found.push("metadata.name: not a DNS subdomain".into());
    }
    if let Some(namespace) = metadata["namespace"].as_str().filter(|namespace| !namespace.is_empty())
        && (namespace.len() > 63 || !label(namespace))
    {
        found.push("metadata.namespace: not a DNS label".into());
    }
}

fn unknown_fields(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields)
            if schema["properties"].is_object() || schema["additionalProperties"].is_object() =>
        {
            for (name, value) in fields {
                match field(schema, name) {
                    Some(schema) => unknown_fields(value, schema, &join(path, name), found),
                    None => found.push(format!("{}: unknown field", join(path, name))),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                unknown_fields(item, &schema["items"], &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// What JSON schema has no word for: ranges of integer formats, and lists whose entries have keys.
fn formats_and_lists(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(schema) = field(schema, name) {
                    formats_and_lists(value, schema, &join(path, name), found);
                }
            }
        }
        Value::Array(items) => {
            let key = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
                Some("map") => array(&schema["x-kubernetes-list-map-keys"])
                    .iter()
                    .map(|key| item[text(key)].clone())
                    .collect(),
                _ => vec![item.clone()],
            };
            let keyed = matches!(schema["x-kubernetes-list-type"].as_str(), Some("map" | "set"));
            for (index, item) in items.iter().enumerate() {
                if keyed && items[..index].iter().any(|earlier| key(earlier) == key(item)) {
                    found.push(format!("{path}[{index}]: duplicate"));
                }
                formats_and_lists(item, &schema["items"], &format!("{path}[{index}]"), found);
            }
        }
        Value::Number(number)
            if schema["format"] == "int32"
                && number.as_i64().and_then(|n| i32::try_from(n).ok()).is_none() =>
        {
            found.push(format!("{path}: not an int32"));
        }
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// `/spec/rules/0/name` as `spec.rules[0].name`.
fn dotted(pointer: &str) -> String {
    pointer.split('/').skip(1).fold(String::new(), |path, step| match step.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) => join(&path, &step.replace("~1", "/").replace("~0", "~")),
    })
}

/// A string of a CRD, where there must be one.
pub fn text(value: &Value) -> &str {
    value.as_str().expect("a string in a CRD")
}

/// A list of a CRD; empty when it is absent.
pub fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
