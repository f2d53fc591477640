//! Text of manifests in; valid objects with the API's defaults out, and errors that name file, line and field.
//!
//! What the API server would refuse is refused here, by rules written over our own types: an invalid object is left out
//! and reported, and every other object is loaded.

mod complete;
mod object;
mod report;
mod scalar;
mod schema;
mod tree;
mod yaml;

use std::collections::BTreeMap;

use object::Outcome;
use postern_config::ObjectKey;
pub use report::{Duplicate, FieldError, Ignored, ManifestError, Origin};
use schema::Finding;
pub use schema::openapi;
use tree::{Content, Node, Position};

use crate::kinds::{AnyObject, KINDS, KindInfo, ObjectSet};

/// One text, for example a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Source {
    /// Shown in errors: `routes.yaml`, or `-` for standard input.
    pub name: String,
    /// YAML or JSON, with any number of objects.
    pub text: String,
}

/// What the texts hold.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The valid objects, with defaults.
    pub objects: ObjectSet,
    /// Where each of them stands, by kind (`HTTPRoute`) and name.
    pub origins: BTreeMap<(&'static str, ObjectKey), Origin>,
    /// What is wrong, in the order of the texts. An object with an error is not in `objects`.
    pub errors: Vec<ManifestError>,
    /// Kinds that are not read, by apiVersion and kind.
    pub ignored: Vec<Ignored>,
    /// Objects that came more than once; the last one counts, as with `kubectl apply`.
    pub duplicates: Vec<Duplicate>,
}

/// Reads manifests: YAML with any number of documents, JSON, `List`s and arrays, also as `kubectl get -o yaml` prints them.
///
/// Never fails and never panics: what is wrong is in [`Loaded::errors`].
pub fn load(sources: &[Source]) -> Loaded {
    let mut loading = Loading::default();
    for source in sources {
        for document in yaml::documents(&source.text) {
            match document {
                Ok(document) => loading.document(&source.name, document),
                Err(error) => loading.loaded.errors.push(ManifestError {
                    source: source.name.clone(),
                    line: error.at.line,
                    column: error.at.column,
                    object: None,
                    path: String::new(),
                    message: error.message,
                    hint: None,
                }),
            }
        }
    }
    Loaded { ignored: loading.ignored.into_values().collect(), ..loading.loaded }
}

/// What is wrong with one object, `apiVersion` and `kind` included; empty for a valid object and for kinds that are not read.
pub fn validate(object: &serde_json::Value) -> Vec<FieldError> {
    match object::read(Node::from_value(object.clone(), Position::default())) {
        Outcome::Valid(..) | Outcome::Ignored { .. } => Vec::new(),
        Outcome::Invalid(_, findings) => {
            let field_error = |Finding { path, message, hint, .. }| FieldError { path, message, hint };
            findings.into_iter().map(field_error).collect()
        }
    }
}

/// What is loaded so far; what is ignored, by apiVersion and kind.
#[derive(Default)]
struct Loading {
    loaded: Loaded,
    ignored: BTreeMap<(String, String), Ignored>,
}

impl Loading {
    /// An object, a list of them, or nothing.
    fn document(&mut self, source: &str, node: Node) {
        let Node { at, content } = node;
        match content {
            Content::Null => {}
            Content::List(items) => items.into_iter().for_each(|item| self.document(source, item)),
            content => {
                let mut node = Node::new(at, content);
                match list_items(&mut node) {
                    Some(items) => items.into_iter().for_each(|item| self.document(source, item)),
                    None => self.object(source, node),
                }
            }
        }
    }

    fn object(&mut self, source: &str, node: Node) {
        let origin = Origin { source: source.into(), line: node.at.line };
        match object::read(node) {
            Outcome::Valid(info, object) => self.insert(origin, info, object),
            Outcome::Ignored { api_version, kind } => self.ignore(origin, api_version, kind),
            Outcome::Invalid(label, findings) => {
                self.loaded.errors.extend(findings.into_iter().map(|finding| ManifestError {
                    source: source.into(),
                    line: finding.at.line,
                    column: finding.at.column,
                    object: label.clone(),
                    path: finding.path,
                    message: finding.message,
                    hint: finding.hint,
                }));
            }
        }
    }

    fn insert(&mut self, origin: Origin, info: &KindInfo, object: AnyObject) {
        let key = object.key();
        self.loaded.objects.insert(object);
        if let Some(replaced) = self.loaded.origins.insert((info.kind, key.clone()), origin.clone()) {
            self.loaded.duplicates.push(Duplicate { kind: info.kind, key, kept: origin, replaced });
        }
    }

    fn ignore(&mut self, first: Origin, api_version: String, kind: String) {
        let name = (api_version.clone(), kind.clone());
        let ignored = self.ignored.entry(name).or_insert(Ignored { api_version, kind, count: 0, first });
        ignored.count += 1;
    }
}

/// The items of a `List`, or of a list of one kind that is read, as the API itself answers (`HTTPRouteList`), whose items may
/// leave out what they are.
fn list_items(node: &mut Node) -> Option<Vec<Node>> {
    let kind = node.text("kind")?.strip_suffix("List")?.to_owned();
    let api_version = node.text("apiVersion")?.to_owned();
    if !kind.is_empty() && !KINDS.iter().any(|info| info.kind == kind) {
        return None;
    }
    let items = match node.field_mut("items") {
        Some(Node { content: Content::List(items), .. }) => std::mem::take(items),
        Some(_) => return None,
        None => Vec::new(),
    };
    let complete = |mut item: Node| {
        for (field, value) in [("apiVersion", &api_version), ("kind", &kind)] {
            if !kind.is_empty() && matches!(item.content, Content::Map(_)) && !item.has(field) {
                item.set(field, Content::Text(value.clone()));
            }
        }
        item
    };
    Some(items.into_iter().map(complete).collect())
}
