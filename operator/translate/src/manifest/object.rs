//! One object: which kind it is, whether it is valid, and what it is with its defaults.

use super::complete::complete;
use super::schema::{self, Finding, check, metadata::metadata_of};
use super::tree::{Content, Flaw, Node};
use crate::api;
use crate::kinds::{AnyObject, KINDS, KindInfo};

/// What an object turned out to be.
pub(super) enum Outcome {
    Valid(&'static KindInfo, AnyObject),
    /// What is wrong with it, and what it is called.
    Invalid(Option<String>, Vec<Finding>),
    /// An object of a kind that is not read.
    Ignored {
        api_version: String,
        kind: String,
    },
}

const DEFAULT_NAMESPACE: &str = "default";
const CLUSTER_SCOPED: [&str; 2] = ["GatewayClass", "Namespace"];

/// Kinds of Gateway API that are not read, but checked: a mistake shows here, and not on the day that they are applied.
const CHECKED: [KindInfo; 1] = [KindInfo { group: api::GROUP, kind: "TLSRoute", versions: &["v1"] }];

/// Reads an object.
pub(super) fn read(mut node: Node) -> Outcome {
    let (info, api_version) = match identify(&node) {
        Ok(Kind::Known(info)) => (info, node.text("apiVersion").unwrap_or_default().to_owned()),
        Ok(Kind::Ignored { api_version, kind }) => return ignore(node, api_version, kind),
        Err(finding) => return Outcome::Invalid(label(&node), vec![finding]),
    };
    let found = findings(&mut node, info);
    if !found.is_empty() {
        return Outcome::Invalid(label(&node), found);
    }
    match typed(info, &node, &api_version) {
        Ok(mut object) => {
            complete(&mut object);
            Outcome::Valid(info, object)
        }
        Err(finding) => Outcome::Invalid(label(&node), vec![finding]),
    }
}

fn ignore(mut node: Node, api_version: String, kind: String) -> Outcome {
    let same = |info: &&KindInfo| info.kind == kind && api_version == newest(info);
    let found = CHECKED.iter().find(same).map_or_else(Vec::new, |info| findings(&mut node, info));
    if found.is_empty() {
        Outcome::Ignored { api_version, kind }
    } else {
        Outcome::Invalid(label(&node), found)
    }
}

/// What is wrong with an object, in the order of the text. It gets its namespace and its defaults on the way.
fn findings(node: &mut Node, info: &KindInfo) -> Vec<Finding> {
    let mut found: Vec<Finding> = node.flaws().into_iter().map(Finding::from).collect();
    place_in_namespace(node, info);
    if found.is_empty() {
        found = if [api::GROUP, api::OWN_GROUP].contains(&info.group) {
            check_ours(node, info)
        } else {
            check_core(node, info)
        };
    }
    found.sort_by_key(|finding| (finding.at.line, finding.at.column));
    found
}

enum Kind {
    Known(&'static KindInfo),
    Ignored { api_version: String, kind: String },
}

fn identify(node: &Node) -> Result<Kind, Finding> {
    let missing = |field: &str, hint: &str| wrong(node, field, "is required", hint);
    if !matches!(node.content, Content::Map(_)) {
        return Err(wrong(
            node,
            "",
            "is not a Kubernetes object",
            "an object has apiVersion, kind and metadata",
        ));
    }
    let api_version = node.text("apiVersion").filter(|text| !text.is_empty());
    let kind = node.text("kind").filter(|text| !text.is_empty());
    let kind = kind.ok_or_else(|| missing("kind", "for example kind: HTTPRoute"))?;
    let known = |info: &KindInfo| info.kind.eq_ignore_ascii_case(kind);
    let api_version = api_version.ok_or_else(|| {
        let like = KINDS.iter().find(|info| known(info)).map_or_else(|| "v1".into(), newest);
        missing("apiVersion", &format!("for example apiVersion: {like}"))
    })?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if (api_version, kind) == ("v1", "List") {
        return Err(wrong(node, "items", "must be a list of objects", ""));
    }
    let ignored = || Ok(Kind::Ignored { api_version: api_version.into(), kind: kind.into() });
    let Some(info) = KINDS.iter().find(|info| known(info) && (info.group == group || group.is_empty()))
    else {
        return ignored();
    };
    if info.group != group {
        let message = format!("there is no {kind} in {api_version}");
        return Err(wrong(node, "apiVersion", message, &format!("write apiVersion: {}", newest(info))));
    }
    if info.kind != kind {
        let message = format!("there is no {kind} in {api_version}");
        return Err(wrong(node, "kind", message, &format!("write kind: {}", info.kind)));
    }
    if !info.versions.contains(&version) {
        let read =
            info.versions.iter().map(|version| qualified(info, version)).collect::<Vec<_>>().join(" and ");
        let message = format!("{kind} is not read in the version {api_version}");
        return Err(wrong(node, "apiVersion", message, &format!("read are {read}")));
    }
    Ok(Kind::Known(info))
}

fn newest(info: &KindInfo) -> String {
    qualified(info, info.versions[0])
}

fn qualified(info: &KindInfo, version: &str) -> String {
    if info.group.is_empty() { version.into() } else { format!("{}/{version}", info.group) }
}

/// As `kubectl apply` does without a namespace of its own, and the API server for objects that have none.
fn place_in_namespace(node: &mut Node, info: &KindInfo) {
    let Some(metadata) = node.field_mut("metadata") else { return };
    if CLUSTER_SCOPED.contains(&info.kind) {
        metadata.remove("namespace");
    } else if !metadata.has("namespace") || metadata.text("namespace") == Some("") {
        metadata.set("namespace", Content::Text(DEFAULT_NAMESPACE.into()));
    }
}

/// `HTTPRoute shop/app`, as far as it is known.
fn label(node: &Node) -> Option<String> {
    let kind = node.text("kind")?;
    let metadata = node.field("metadata");
    let text = |field| metadata.and_then(|metadata| metadata.text(field));
    Some(match (text("namespace"), text("name").or_else(|| text("generateName"))) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        (_, None) => kind.into(),
    })
}

fn check_ours(node: &mut Node, info: &KindInfo) -> Vec<Finding> {
    let mut found = check(schema::top_of(info.kind), node, "");
    found.extend(check_metadata(node, info));
    if let (Some(schema), Some(spec)) = (schema::spec_of(info.kind), node.field_mut("spec")) {
        found.extend(check(schema, spec, "spec"));
    }
    found
}

/// Unknown fields are left out here: core kinds grow with every release of Kubernetes.
fn check_core(node: &mut Node, info: &KindInfo) -> Vec<Finding> {
    let schema = metadata_of(info.kind);
    let Some(Node { content: Content::Map(entries), .. }) = node.field_mut("metadata") else {
        return vec![wrong(node, "metadata", "is required", "give the object a name")];
    };
    if let schema::Shape::Object(fields) = &schema.shape {
        entries.retain(|entry| fields.iter().any(|field| field.name == entry.key));
    }
    check_metadata(node, info)
}

fn check_metadata(node: &mut Node, info: &KindInfo) -> Vec<Finding> {
    let Some(metadata_node) = node.field_mut("metadata") else { return Vec::new() };
    // A label without a value is one with an empty value.
    for field in ["labels", "annotations"] {
        if let Some(Node { content: Content::Map(entries), .. }) = metadata_node.field_mut(field) {
            let empty = entries.iter_mut().filter(|entry| entry.value.is_null());
            empty.for_each(|entry| entry.value.content = Content::Text(String::new()));
        }
    }
    check(metadata_of(info.kind), metadata_node, "metadata")
}

fn typed(info: &KindInfo, node: &Node, api_version: &str) -> Result<AnyObject, Finding> {
    let mut value = node.to_value();
    let parsed = match AnyObject::parse(info.group, info.kind, &value) {
        // A status is what controllers wrote. One that cannot be read is no reason to refuse what the user wants.
        Some(Err(error)) if error.path.starts_with("status") => {
            value.as_object_mut().and_then(|object| object.remove("status"));
            AnyObject::parse(info.group, info.kind, &value)
        }
        other => other,
    };
    match parsed {
        Some(Ok(object)) => Ok(object),
        Some(Err(error)) => {
            let at = node.nearest(&error.path).at;
            Err(Finding { at, path: error.path, message: error.message, hint: None })
        }
        None => Err(wrong(node, "kind", format!("{} is not read in {api_version}", info.kind), "")),
    }
}

fn wrong(node: &Node, path: &str, message: impl Into<String>, hint: &str) -> Finding {
    let at = node.nearest(path).at;
    let hint = (!hint.is_empty()).then(|| hint.to_owned());
    Finding { at, path: path.into(), message: message.into(), hint }
}

impl From<Flaw> for Finding {
    fn from(flaw: Flaw) -> Self {
        Self { at: flaw.at, path: flaw.path, message: flaw.message, hint: None }
    }
}
