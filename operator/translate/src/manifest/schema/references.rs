//! References and names that several kinds share.

use serde_json::json;

use super::pattern::{DNS_LABEL, DNS_SUBDOMAIN, GROUP, HEADER_NAME, HOSTNAME, KIND};
use super::rules::{Within, parents_differ, parents_have_sections, place};
use super::{Field, Schema, int32, list, map, object, optional, required, text};
use crate::api;

pub(super) fn group() -> Schema {
    text().most(253).like(&GROUP)
}

pub(super) fn kind() -> Schema {
    text().least(1).most(63).like(&KIND)
}

/// The name of an object; what it may be is for its kind to say.
pub(super) fn object_name() -> Schema {
    text().least(1).most(253)
}

pub(super) fn namespace() -> Schema {
    text().least(1).most(63).like(&DNS_LABEL)
}

pub(super) fn section_name() -> Schema {
    text().least(1).most(253).like(&DNS_SUBDOMAIN)
}

pub(super) fn port() -> Schema {
    int32().least(1).most(65535)
}

pub(super) fn hostname() -> Schema {
    text().least(1).most(253).like(&HOSTNAME)
}

/// A host name without a wildcard.
pub(super) fn precise_hostname() -> Schema {
    text().least(1).most(253).like(&DNS_SUBDOMAIN)
}

/// The name of a header, a query parameter or a cookie.
pub(super) fn header_name() -> Schema {
    text().least(1).most(256).like(&HEADER_NAME)
}

/// An object of the same namespace.
pub(super) fn local_object() -> Schema {
    object([required("group", group()), required("kind", kind()), required("name", object_name())])
}

/// An object of any namespace and kind.
pub(super) fn any_object() -> Schema {
    object([
        required("group", group()),
        required("kind", kind()),
        required("name", object_name()),
        optional("namespace", namespace()),
    ])
}

pub(super) fn secret() -> Schema {
    object([
        optional("group", group()).or(""),
        optional("kind", kind()).or("Secret"),
        required("name", object_name()),
        optional("namespace", namespace()),
    ])
}

/// The fields of a reference to a backend.
pub(super) fn backend_fields() -> [Field; 5] {
    [
        optional("group", group()).or(""),
        optional("kind", kind()).or("Service"),
        required("name", object_name()),
        optional("namespace", namespace()),
        optional("port", port()),
    ]
}

/// What a reference to a backend must say of the port.
pub(super) fn with_port_rules(schema: Schema) -> Schema {
    schema
        .rule("Must have port for Service reference", |backend| {
            let service = backend.text("group") == Some("") && backend.text("kind") == Some("Service");
            place(service && !backend.has("port"))
        })
        .hint("add the port of the Service")
        .rule("Must not have port for Backend reference", |backend| {
            let own = backend.text("group") == Some("gateway.networking.x-k8s.io")
                && backend.text("kind") == Some("XBackend");
            place(own && backend.has("port")).within("port")
        })
}

/// A reference to a backend, without weight and filters.
pub(super) fn backend() -> Schema {
    with_port_rules(object(backend_fields()))
}

/// `parentRefs` of all routes.
pub(super) fn parents() -> Schema {
    let parent = object([
        optional("group", group()).or(api::GROUP),
        optional("kind", kind()).or("Gateway"),
        required("name", object_name()),
        optional("namespace", namespace()),
        optional("port", port()),
        optional("sectionName", section_name()),
    ]);
    list(parent)
        .most(32)
        .rule(
            "sectionName or port must be specified when parentRefs includes 2 or more references to the same parent",
            parents_have_sections,
        )
        .rule(
            "sectionName or port must be unique when parentRefs includes 2 or more references to the same parent",
            parents_differ,
        )
        .hint("remove the second one, or give it another sectionName or port")
}

/// `namespaces` of a listener's routes or of a Gateway's ListenerSets.
pub(super) fn namespaces(from: &'static [&'static str], default: &str) -> Field {
    let requirement =
        object([required("key", text()), required("operator", text()), optional("values", list(text()))]);
    let selector =
        object([optional("matchExpressions", list(requirement)), optional("matchLabels", map(text()))]);
    let namespaces =
        object([optional("from", super::one_of(from)).or(default), optional("selector", selector)]);
    optional("namespaces", namespaces).or(json!({ "from": default }))
}
