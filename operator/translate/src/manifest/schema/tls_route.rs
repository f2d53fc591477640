//! The schema of TLSRoute, which is checked and not read.

use std::net::IpAddr;

use super::references::{backend_fields, hostname, parents, section_name, with_port_rules};
use super::rules::items;
use super::{Schema, int32, list, object, one_of, optional, required};

pub(super) fn spec() -> Schema {
    let [group, kind, name, namespace, port] = backend_fields();
    let weight = optional("weight", int32().least(0).most(1_000_000)).or(1);
    let backend_ref = with_port_rules(object([group, kind, name, namespace, port, weight]));
    let rule = object([
        optional("name", section_name()),
        required("backendRefs", list(backend_ref).least(1).most(16)),
    ]);
    object([
        required("hostnames", hostnames()),
        optional("parentRefs", parents()),
        required("rules", list(rule).least(1).most(1)),
        optional("useDefaultGateways", one_of(&["All", "None"])),
    ])
}

fn hostnames() -> Schema {
    list(hostname())
        .least(1)
        .most(1024)
        .rule("Hostnames cannot contain an IP", |hostnames| {
            items(hostnames, |_, hostname| {
                hostname.as_text().is_some_and(|text| text.parse::<IpAddr>().is_ok())
            })
        })
        .hint("clients send no name in TLS when they connect to an address")
}
