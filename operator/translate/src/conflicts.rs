//! Listeners of one Gateway that cannot be told apart, and those whose TLS settings overlap.

use std::collections::BTreeMap;
use std::fmt::Display;

use postern_config::Hostname;

use crate::api::{Listener, ProtocolType, SectionName};
use crate::listeners::hostname;
use crate::status::{Reason, Refusal};

/// What shares a port only with its like.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Layer {
    /// HTTP in cleartext: told apart by Host.
    Http,
    /// TLS: told apart by SNI, whoever ends it.
    Tls,
    /// Bare TCP: nothing tells two apart.
    Tcp,
    /// UDP, whose ports are not those of TCP.
    Udp,
}

/// For each listener the conflict that it is in.
///
/// Within one Gateway none of the indistinct listeners wins: "the implementation MUST set the Conflicted condition" on all
/// of them, since the order of a list should not decide who is served.
pub(crate) fn between(listeners: &[&Listener]) -> Vec<Option<Refusal>> {
    let mut ports: BTreeMap<(bool, u16), BTreeMap<Layer, Vec<&Listener>>> = BTreeMap::new();
    for listener in listeners {
        if let Some(layer) = layer(&listener.protocol) {
            ports.entry(port(layer, listener)).or_default().entry(layer).or_default().push(listener);
        }
    }
    let conflict = |listener: &Listener| {
        let layer = layer(&listener.protocol)?;
        let layers = &ports[&port(layer, listener)];
        let others = layers.iter().filter(|(other, _)| **other != layer).flat_map(|(_, listeners)| listeners);
        let others: Vec<&str> = others.map(|other| other.name.as_str()).collect();
        if !others.is_empty() {
            return Some(Reason::ProtocolConflict.because(format!(
                "port {} cannot speak {} here and another protocol on listener {}: use another port",
                listener.port,
                listener.protocol,
                quoted(&others)
            )));
        }
        let host = hostname(listener).ok()?;
        let same = layers[&layer]
            .iter()
            .filter(|other| other.name != listener.name && hostname(other).ok() == Some(host.clone()));
        let same: Vec<&str> = same.map(|other| other.name.as_str()).collect();
        (!same.is_empty()).then(|| {
            Reason::HostnameConflict.because(format!(
                "port {} has {} on listener {} too: give each its own hostname or port",
                listener.port,
                host.map_or_else(|| "all hostnames".into(), |host| format!("hostname `{host}`")),
                quoted(&same)
            ))
        })
    };
    listeners.iter().map(|listener| conflict(listener)).collect()
}

/// For each listener the others of its port whose hostname has a host in common with its own, where TLS ends at both.
pub(crate) fn overlaps<'a>(
    listeners: &[&'a Listener],
    conflicts: &[Option<Refusal>],
) -> Vec<Vec<&'a SectionName>> {
    let tls: Vec<(&'a Listener, Option<Hostname>)> = listeners
        .iter()
        .zip(conflicts)
        .filter(|(listener, conflict)| listener.protocol == ProtocolType::Https && conflict.is_none())
        .filter_map(|(listener, _)| Some((*listener, hostname(listener).ok()?)))
        .collect();
    let of = |listener: &Listener| {
        let Some((_, own)) = tls.iter().find(|(l, _)| l.name == listener.name) else { return Vec::new() };
        let others = tls
            .iter()
            .filter(|(l, host)| l.name != listener.name && l.port == listener.port && meet(own, host));
        others.map(|(l, _)| &l.name).collect()
    };
    listeners.iter().map(|listener| of(listener)).collect()
}

fn meet(one: &Option<Hostname>, other: &Option<Hostname>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.intersect(other).is_some(),
        (None, _) | (_, None) => true,
    }
}

fn layer(protocol: &ProtocolType) -> Option<Layer> {
    match protocol {
        ProtocolType::Http => Some(Layer::Http),
        ProtocolType::Https | ProtocolType::Tls => Some(Layer::Tls),
        ProtocolType::Tcp => Some(Layer::Tcp),
        ProtocolType::Udp => Some(Layer::Udp),
        ProtocolType::Unknown(_) => None,
    }
}

fn port(layer: Layer, listener: &Listener) -> (bool, u16) {
    (layer == Layer::Udp, listener.port)
}

/// Names for a message, in backticks.
pub(crate) fn quoted<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
