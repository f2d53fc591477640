//! What breaks the rules of Gateway.

use super::Broken;

/// A domain of 253 characters, one more than rules of Gateway's `infrastructure` take.
macro_rules! long_domain {
    () => {
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.a"
    };
}

const LONG_LABEL: &str = concat!("infrastructure: {labels: {", long_domain!(), "/a: b}}");
const LONG_LABEL_PATH: &str = concat!("infrastructure.labels[\"", long_domain!(), "/a\"]");
const LONG_ANNOTATION: &str = concat!("infrastructure: {annotations: {", long_domain!(), "/a: b}}");
const LONG_ANNOTATION_PATH: &str = concat!("infrastructure.annotations[\"", long_domain!(), "/a\"]");

pub const GATEWAYS: &[Broken] = &[
    (
        "addresses:\n- value: a.example",
        8,
        "addresses[0].value",
        "value must be an IPv4 or IPv6 address when type is IPAddress",
    ),
    (
        "addresses:\n- type: Hostname\n  value: A",
        9,
        "addresses[0].value",
        r"Hostname value must be empty or contain only valid characters (matching ^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$)",
    ),
    (
        "addresses: [{value: ::1},\n  {value: ::1}]",
        8,
        "addresses[1].value",
        "IPAddress values must be unique",
    ),
    (
        "addresses:\n- {type: Hostname, value: a}\n- {type: Hostname, value: a}",
        9,
        "addresses[1].value",
        "Hostname values must be unique",
    ),
    (
        "addresses: [{routability: k8s.io/a}]",
        7,
        "addresses[0].routability",
        "Routability must be empty, Cluster, or an implementation-specific prefixed path; k8s.io and its subdomains are reserved",
    ),
    (
        "infrastructure:\n  labels:\n    a/b/c: d",
        9,
        "infrastructure.labels[\"a/b/c\"]",
        "Label keys must be in the form of an optional DNS subdomain prefix followed by a required name segment of up to 63 characters.",
    ),
    (
        LONG_LABEL,
        7,
        LONG_LABEL_PATH,
        "If specified, the label key's prefix must be a DNS subdomain not longer than 253 characters in total.",
    ),
    (
        "infrastructure:\n  annotations: {'a b': c}",
        8,
        "infrastructure.annotations[\"a b\"]",
        "Annotation keys must be in the form of an optional DNS subdomain prefix followed by a required name segment of up to 63 characters.",
    ),
    (
        LONG_ANNOTATION,
        7,
        LONG_ANNOTATION_PATH,
        "If specified, the annotation key's prefix must be a DNS subdomain not longer than 253 characters in total.",
    ),
    (
        "tls:\n  frontend:\n    default:\n      validation:\n        caCertificateRefs:\n        - {group: certificates.k8s.io, kind: ClusterTrustBundle, name: a, namespace: b}",
        12,
        "tls.frontend.default.validation.caCertificateRefs[0].namespace",
        "ClusterTrustBundle references must not specify namespace",
    ),
];

pub const LISTENER_LISTS: &[Broken] = &[
    (
        "listeners:\n- name: a\n  port: 80\n  protocol: HTTP\n  tls: {mode: Passthrough}",
        11,
        "listeners[0].tls",
        "tls must not be specified for protocols ['HTTP', 'TCP', 'UDP']",
    ),
    (
        "listeners:\n- name: a\n  port: 443\n  protocol: HTTPS\n  tls:\n    mode: Passthrough",
        12,
        "listeners[0].tls.mode",
        "tls mode must be Terminate for protocol HTTPS",
    ),
    (
        "listeners:\n- {name: b, port: 80, protocol: HTTP}\n- {name: a, port: 443, protocol: TLS}",
        9,
        "listeners[1]",
        "tls mode must be set for protocol TLS",
    ),
    (
        "listeners:\n- {name: a, port: 1, protocol: UDP, hostname: a}",
        8,
        "listeners[0].hostname",
        "hostname must not be specified for protocols ['TCP', 'UDP']",
    ),
    (
        "listeners:\n- {name: a, port: 1, protocol: HTTP, hostname: a}\n- {name: b, port: 1, protocol: HTTP, hostname: a}",
        9,
        "listeners[1]",
        "Combination of port, protocol and hostname must be unique for each listener",
    ),
    (
        "listeners:\n- name: a\n  port: 1\n  protocol: HTTPS\n  tls: {}",
        11,
        "listeners[0].tls",
        "certificateRefs or options must be specified when mode is Terminate",
    ),
    (
        "listeners:\n- name: a\n  port: 1\n  protocol: TCP\n  filters: {requests: []}",
        11,
        "listeners[0].filters",
        "filters may only be set when protocol is HTTP or HTTPS",
    ),
    (
        "listeners:\n- {name: a, port: 1, protocol: HTTP}\n- {name: a, port: 2, protocol: HTTP}",
        9,
        "listeners[1]",
        "duplicate value: name \"a\" is at [0] already",
    ),
];
