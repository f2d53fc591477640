//! The schema of Gateway.

use std::net::IpAddr;

use serde_json::json;

use super::pattern::{ADDRESS_TYPE, DNS_SUBDOMAIN, HOSTNAME, LABEL_KEY, LABEL_VALUE, PREFIXED, PROTOCOL};
use super::references::{
    any_object, group, hostname, kind, local_object, namespaces, object_name, port, secret, section_name,
};
use super::rules::{Within, items, keys, place, repeated};
use super::{Node, Place, Schema, filters, list, map, object, one_of, optional, required, text};
use crate::api;

pub(super) fn spec() -> Schema {
    let allowed_listeners = object([namespaces(&["All", "Selector", "Same", "None"], "None")]);
    object([
        required("gatewayClassName", object_name()),
        required("listeners", listeners()),
        optional("addresses", addresses()),
        optional("allowedListeners", allowed_listeners),
        optional("defaultScope", one_of(&["All", "None"])),
        optional("infrastructure", infrastructure()),
        optional("tls", tls()),
    ])
}

fn listeners() -> Schema {
    let route_kind = object([optional("group", group()).or(api::GROUP), required("kind", kind())]);
    let allowed_routes = object([
        namespaces(&["All", "Selector", "Same"], "Same"),
        optional("kinds", list(route_kind).most(8)),
    ]);
    let listener = object([
        required("name", section_name()),
        required("port", port()),
        required("protocol", text().least(1).most(255).like(&PROTOCOL)),
        optional("hostname", hostname()),
        optional("tls", listener_tls()),
        optional("allowedRoutes", allowed_routes).or(json!({ "namespaces": { "from": "Same" } })),
        optional("filters", filters::listener()),
    ])
    .rule("filters may only be set when protocol is HTTP or HTTPS", |listener| {
        place(listener.has("filters") && !speaks(listener, &["HTTP", "HTTPS"])).within("filters")
    });
    list(listener)
        .least(1)
        .most(64)
        .keyed("name")
        .rule("tls must not be specified for protocols ['HTTP', 'TCP', 'UDP']", |listeners| {
            items(listeners, |_, it| speaks(it, &["HTTP", "TCP", "UDP"]) && it.has("tls")).within("tls")
        })
        .hint("remove tls, or make the protocol HTTPS or TLS")
        .rule("tls mode must be Terminate for protocol HTTPS", |listeners| {
            items(listeners, |_, it| {
                speaks(it, &["HTTPS"]) && mode(it).is_some_and(|mode| mode != "Terminate")
            })
            .within("tls")
            .within("mode")
        })
        .hint("to pass TLS through, make the protocol TLS")
        .rule("tls mode must be set for protocol TLS", |listeners| {
            items(listeners, |_, it| speaks(it, &["TLS"]) && mode(it).is_none())
        })
        .hint("add tls with mode Terminate or Passthrough")
        .rule("hostname must not be specified for protocols ['TCP', 'UDP']", |listeners| {
            items(listeners, |_, it| speaks(it, &["TCP", "UDP"]) && it.has("hostname")).within("hostname")
        })
        .hint("remove hostname: TCP and UDP carry none")
        .rule("Listener name must be unique within the Gateway", |listeners| {
            repeated(listeners, |one, other| one.text("name") == other.text("name"))
        })
        .rule("Combination of port, protocol and hostname must be unique for each listener", |listeners| {
            repeated(listeners, |one, other| {
                one.integer("port") == other.integer("port")
                    && one.text("protocol") == other.text("protocol")
                    && one.text("hostname") == other.text("hostname")
            })
        })
}

fn speaks(listener: &Node, protocols: &[&str]) -> bool {
    listener.text("protocol").is_some_and(|protocol| protocols.contains(&protocol))
}

fn mode(listener: &Node) -> Option<&str> {
    listener.field("tls")?.text("mode")
}

fn listener_tls() -> Schema {
    object([
        optional("mode", one_of(&["Terminate", "Passthrough"])).or("Terminate"),
        optional("certificateRefs", list(secret()).most(64)),
        optional("options", map(text().most(4096)).most(16)),
    ])
    .rule("certificateRefs or options must be specified when mode is Terminate", |tls| {
        let options = tls.field("options").map_or(0, |options| options.entries().len());
        let nothing = tls.items("certificateRefs").is_empty() && options == 0;
        place(tls.text("mode") == Some("Terminate") && nothing)
    })
    .hint("add certificateRefs with the name of a Secret of type kubernetes.io/tls")
}

fn addresses() -> Schema {
    let routability = text().most(253).rule(
        "Routability must be empty, Cluster, or an implementation-specific prefixed path; k8s.io and its subdomains are reserved",
        |routability| place(!routability.as_text().is_none_or(is_routability)),
    );
    let address = object([
        optional("type", text().least(1).most(253).like(&ADDRESS_TYPE)).or("IPAddress"),
        optional("value", text().most(253)),
        optional("routability", routability),
    ])
    // Upstream states this as a `oneOf`, which has no message of its own.
    .rule("value must be an IPv4 or IPv6 address when type is IPAddress", |address| {
        let value = address.text("value").filter(|_| is_of(address, "IPAddress"));
        place(value.is_some_and(|value| value.parse::<IpAddr>().is_err())).within("value")
    })
    .hint("for a name, make the type Hostname")
    .rule(
        r"Hostname value must be empty or contain only valid characters (matching ^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$)",
        |address| {
            let value = address.text("value").filter(|_| is_of(address, "Hostname"));
            place(value.is_some_and(|value| !HOSTNAME.is_match(value))).within("value")
        },
    )
    .hint("leave value out to ask for any name");
    list(address)
        .most(16)
        .rule("IPAddress values must be unique", |addresses| same_value(addresses, "IPAddress"))
        .rule("Hostname values must be unique", |addresses| same_value(addresses, "Hostname"))
}

fn is_of(address: &Node, kind: &str) -> bool {
    address.text("type") == Some(kind)
}

fn same_value(addresses: &Node, kind: &str) -> Vec<Place> {
    repeated(addresses, |one, other| {
        is_of(one, kind) && is_of(other, kind) && one.has("value") && one.text("value") == other.text("value")
    })
    .within("value")
}

fn is_routability(text: &str) -> bool {
    let domain = text.split('/').next().unwrap_or_default();
    let reserved = domain == "k8s.io" || domain.ends_with(".k8s.io");
    let prefixed = PREFIXED.is_match(text) && DNS_SUBDOMAIN.is_match(domain) && domain.len() <= 253;
    text.is_empty() || text == "Cluster" || (prefixed && !reserved)
}

fn infrastructure() -> Schema {
    let labels = map(text().most(63).like(&LABEL_VALUE))
        .most(8)
        .rule(
            "Label keys must be in the form of an optional DNS subdomain prefix followed by a required name segment of up to 63 characters.",
            keys_have_the_form,
        )
        .rule(
            "If specified, the label key's prefix must be a DNS subdomain not longer than 253 characters in total.",
            prefixes_are_short,
        );
    let annotations = map(text().most(4096))
        .most(16)
        .rule(
            "Annotation keys must be in the form of an optional DNS subdomain prefix followed by a required name segment of up to 63 characters.",
            keys_have_the_form,
        )
        .rule(
            "If specified, the annotation key's prefix must be a DNS subdomain not longer than 253 characters in total.",
            prefixes_are_short,
        );
    object([
        optional("labels", labels),
        optional("annotations", annotations),
        optional("parametersRef", local_object()),
    ])
}

fn keys_have_the_form(labels: &Node) -> Vec<Place> {
    keys(labels, |key| !LABEL_KEY.is_match(key))
}

fn prefixes_are_short(labels: &Node) -> Vec<Place> {
    keys(labels, |key| key.split('/').next().is_some_and(|prefix| prefix.chars().count() >= 253))
}

/// `spec.tls`: certificates towards backends, and those that are asked of clients.
fn tls() -> Schema {
    let backend = object([optional("clientCertificateRef", secret())]);
    let per_port = object([required("port", port()), required("tls", frontend_tls())]);
    let per_port = list(per_port)
        .most(64)
        .keyed("port")
        .rule("Port for TLS configuration must be unique within the Gateway", |ports| {
            repeated(ports, |one, other| one.integer("port") == other.integer("port"))
        });
    let frontend = object([required("default", frontend_tls()), optional("perPort", per_port)]);
    object([optional("backend", backend), optional("frontend", frontend)])
}

fn frontend_tls() -> Schema {
    let certificates = list(any_object()).least(1).most(16).rule(
        "ClusterTrustBundle references must not specify namespace",
        |references| {
            items(references, |_, reference| {
                reference.text("group") == Some("certificates.k8s.io")
                    && reference.text("kind") == Some("ClusterTrustBundle")
                    && reference.has("namespace")
            })
            .within("namespace")
        },
    );
    let validation = object([
        required("caCertificateRefs", certificates),
        optional("mode", one_of(&["AllowValidOnly", "AllowInsecureFallback"])).or("AllowValidOnly"),
    ]);
    object([optional("validation", validation)])
}
