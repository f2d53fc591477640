//! The schema of GRPCRoute.

use super::pattern::{GRPC_METHOD, GRPC_SERVICE};
use super::references::{backend_fields, header_name, hostname, parents, section_name, with_port_rules};
use super::rules::{Within, at_most_128_matches, names_differ, place};
use super::session::persistence;
use super::{Field, Node, Pattern, Schema, filters, int32, list, object, one_of, optional, required, text};

pub(super) fn spec() -> Schema {
    object([
        optional("hostnames", list(hostname()).most(16)),
        optional("parentRefs", parents()),
        optional("rules", route_rules()),
        optional("useDefaultGateways", one_of(&["All", "None"])),
    ])
}

fn route_rules() -> Schema {
    let rule = object([
        optional("name", section_name()),
        optional("matches", list(route_match()).most(64)),
        optional("filters", filters::grpc()),
        optional("backendRefs", list(backend_ref(filters::grpc())).most(16)),
        optional("sessionPersistence", persistence()),
    ]);
    list(rule)
        .most(16)
        .rule(
            "While 16 rules and 64 matches per rule are allowed, the total number of matches across all rules in a route must be less than 128",
            at_most_128_matches,
        )
        .hint("spread the rules over several routes")
        .rule("Rule name must be unique within the route", names_differ)
}

/// A backendRef with its weight and filters; that of HTTPRoute is the same but for the filters.
pub(super) fn backend_ref(filters: Schema) -> Schema {
    let [group, kind, name, namespace, port] = backend_fields();
    let weight: Field = optional("weight", int32().least(0).most(1_000_000)).or(1);
    with_port_rules(object([group, kind, name, namespace, port, weight, optional("filters", filters)]))
}

fn route_match() -> Schema {
    let header = object([
        optional("type", one_of(&["Exact", "RegularExpression"])).or("Exact"),
        required("name", header_name()),
        required("value", text().least(1).most(4096)),
    ]);
    object([optional("method", method_match()), optional("headers", list(header).most(16).keyed("name"))])
}

fn method_match() -> Schema {
    object([
        optional("type", one_of(&["Exact", "RegularExpression"])).or("Exact"),
        optional("service", text().most(1024)),
        optional("method", text().most(1024)),
    ])
    .rule("One or both of 'service' or 'method' must be specified", |method| {
        place(!method.has("service") && !method.has("method"))
    })
    .rule(
        r"service must only contain valid characters (matching ^(?i)\.?[a-z_][a-z_0-9]*(\.[a-z_][a-z_0-9]*)*$)",
        |method| place(exact_is_not(method, "service", &GRPC_SERVICE)).within("service"),
    )
    .hint("must be a gRPC service such as package.Service")
    .rule("method must only contain valid characters (matching ^[A-Za-z_][A-Za-z_0-9]*$)", |method| {
        place(exact_is_not(method, "method", &GRPC_METHOD)).within("method")
    })
}

/// Whether a field that is compared as it is does not look as it must.
fn exact_is_not(method: &Node, field: &str, pattern: &Pattern) -> bool {
    method.text("type") == Some("Exact") && method.text(field).is_some_and(|text| !pattern.is_match(text))
}
