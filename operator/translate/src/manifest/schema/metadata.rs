//! The schema of `metadata`, and what names and labels may be.

use std::sync::LazyLock;

use super::super::tree::Entry;
use super::pattern::{DNS_1035_LABEL, DNS_LABEL, DNS_SUBDOMAIN, LABEL_KEY, LABEL_VALUE};
use super::rules::{keys, place};
use super::{Node, Place, Schema, Step, any, integer, list, map, object, optional, text};

/// `metadata` of a kind.
pub(crate) fn metadata_of(kind: &str) -> &'static Schema {
    static SERVICE: LazyLock<Schema> =
        LazyLock::new(|| metadata(text().least(1).most(63).like(&DNS_1035_LABEL)));
    static NAMESPACE: LazyLock<Schema> =
        LazyLock::new(|| metadata(text().least(1).most(63).like(&DNS_LABEL)));
    static OTHER: LazyLock<Schema> =
        LazyLock::new(|| metadata(text().least(1).most(253).like(&DNS_SUBDOMAIN)));
    match kind {
        "Service" => &SERVICE,
        "Namespace" => &NAMESPACE,
        _ => &OTHER,
    }
}

fn metadata(name: Schema) -> Schema {
    object([
        optional("name", name),
        optional("generateName", text()),
        optional("namespace", text().least(1).most(63).like(&DNS_LABEL)),
        optional("labels", labels()),
        optional("annotations", annotations()),
        optional("creationTimestamp", text()),
        optional("deletionTimestamp", text()),
        optional("deletionGracePeriodSeconds", integer()),
        optional("finalizers", list(text())),
        optional("generation", integer()),
        optional("managedFields", list(any())),
        optional("ownerReferences", list(any())),
        optional("resourceVersion", text()),
        optional("selfLink", text()),
        optional("uid", text()),
    ])
    .rule("is required", |metadata| name_is_missing(metadata, false))
    .rule("an object with generateName gets its name from the API server, and there is none", |metadata| {
        name_is_missing(metadata, true)
    })
    .hint("give it a name")
}

fn name_is_missing(metadata: &Node, generated: bool) -> Vec<Place> {
    let missing = !metadata.has("name") && metadata.has("generateName") == generated;
    let field = if generated { "generateName" } else { "name" };
    place(missing).into_iter().map(|_| vec![Step::Field(field)]).collect()
}

fn labels() -> Schema {
    map(text().most(63).like(&LABEL_VALUE))
        .rule("is not the name of a label", |labels| keys(labels, |key| !is_qualified_name(key)))
        .hint(QUALIFIED_NAME)
}

fn annotations() -> Schema {
    const MOST: usize = 256 << 10;
    map(text())
        .rule("is not the name of an annotation", |annotations| {
            keys(annotations, |key| !is_qualified_name(&key.to_lowercase()))
        })
        .hint(QUALIFIED_NAME)
        .rule("must have at most 262144 bytes in all", |annotations| {
            let size = |entry: &Entry| entry.key.len() + entry.value.as_text().map_or(0, str::len);
            place(annotations.entries().iter().map(size).sum::<usize>() > MOST)
        })
}

const QUALIFIED_NAME: &str =
    "must be at most 63 letters, digits, '-', '_' and '.', with an optional domain and '/' in front";

fn is_qualified_name(key: &str) -> bool {
    LABEL_KEY.is_match(key) && key.rsplit_once('/').is_none_or(|(domain, _)| domain.len() <= 253)
}
