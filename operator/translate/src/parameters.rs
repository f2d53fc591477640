//! What GatewayClasses and Gateways say in `PosternParameters`: found, read, and put together, the Gateway's over the class's.

use k8s_openapi::api::core::v1::Affinity;
use postern_config::ObjectKey;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde_json::{Map, Value};

use crate::Note;
use crate::api::{OWN_GROUP, Parameters, ParametersReference, PosternParametersSpec};
use crate::nearest::nearest;
use crate::snapshot::Snapshot;
use crate::status::{Reason, Refusal};

/// The kind, as in `kind:`.
pub(crate) const KIND: &str = "PosternParameters";
/// How the kind gets into a cluster.
const INSTALL: &str = "helm install postern-crds charts/postern-crds";

/// The spec that a GatewayClass refers to.
pub(crate) fn of_class<'a>(
    snapshot: &'a Snapshot,
    reference: &ParametersReference,
) -> Result<&'a Value, Refusal> {
    ours(reference)?;
    let namespace = reference.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let namespace = namespace.ok_or_else(|| {
        refuse(format!("`parametersRef` names the {KIND} `{}` without its namespace: add it", reference.name))
    })?;
    find(snapshot, namespace, &reference.name)
}

/// The spec that a Gateway of a namespace refers to.
pub(crate) fn of_gateway<'a>(
    snapshot: &'a Snapshot,
    namespace: &str,
    reference: &ParametersReference,
) -> Result<&'a Value, Refusal> {
    ours(reference)?;
    find(snapshot, namespace, &reference.name)
}

/// Both together: what the Gateway's does not say is the class's. Each has been found well-formed.
pub(crate) fn merged(class: Option<&Value>, gateway: Option<&Value>) -> PosternParametersSpec {
    let mut merged = Map::new();
    let specs = [class, gateway].into_iter().flatten().filter_map(Value::as_object);
    specs.for_each(|spec| merge(&mut merged, spec));
    PosternParametersSpec::deserialize(Value::Object(merged))
        .expect("what is well-formed stays so when it is merged")
}

/// Mappings are taken key by key; all else is replaced, lists too.
fn merge(below: &mut Map<String, Value>, above: &Map<String, Value>) {
    for (field, value) in above.iter().filter(|(_, value)| !value.is_null()) {
        match (below.get_mut(field), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above),
            _ => {
                below.insert(field.clone(), value.clone());
            }
        }
    }
}

/// Where nothing is run for a Gateway, parameters have nothing to act on.
pub(crate) fn without_effect(snapshot: &Snapshot, namespace: &str, name: &str) -> Option<Note> {
    snapshot.settings.infrastructure.is_none().then(|| Note {
        kind: KIND,
        object: ObjectKey::new(namespace, name),
        message:
            "it has no effect here: it is about the pods and the Service that run a Gateway on a cluster"
                .into(),
    })
}

fn refuse(message: impl Into<String>) -> Refusal {
    Reason::InvalidParameters.because(message)
}

/// Parameters may say how safe something has to be, so none of a kind that is not known are ignored.
fn ours(reference: &ParametersReference) -> Result<(), Refusal> {
    let ParametersReference { group, kind, name, .. } = reference;
    if (group.as_str(), kind.as_str()) == (OWN_GROUP, KIND) {
        return Ok(());
    }
    Err(refuse(format!(
        "`parametersRef` names {kind} `{name}` of group `{group}`, which is not supported: use {KIND} of group `{OWN_GROUP}`"
    )))
}

fn find<'a>(snapshot: &'a Snapshot, namespace: &str, name: &str) -> Result<&'a Value, Refusal> {
    let all = &snapshot.objects.parameters;
    let key = ObjectKey::new(namespace, name);
    if let Some(found) = all.get(&key) {
        return read(found).map_err(|why| refuse(format!("{KIND} `{key}` is malformed: {why}")));
    }
    if snapshot.missing_kinds.contains(KIND) {
        return Err(refuse(format!(
            "the kind {KIND}, which `parametersRef` names, is not installed in this cluster: install it with `{INSTALL}`"
        )));
    }
    let others = all.keys().filter(|other| other.namespace == namespace);
    let hint = nearest(name, others.map(|other| other.name.as_str()));
    Err(refuse(format!("{KIND} `{key}` does not exist: create it, or correct `parametersRef`{hint}")))
}

/// Its spec, or what is wrong with it. The API server has checked most of it, unless its CRD is of another version.
fn read(parameters: &Parameters) -> Result<&Value, String> {
    if parameters.spec.is_null() {
        return Ok(&parameters.spec);
    }
    let spec: PosternParametersSpec =
        serde_path_to_error::deserialize(parameters.spec.clone().into_deserializer()).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { String::new() } else { format!(".{path}") };
            format!("`spec{path}`: {}", error.into_inner())
        })?;
    let lists = [
        ("service.loadBalancerSourceRanges", spec.service.and_then(|it| it.load_balancer_source_ranges)),
        ("dataPlane.trustedProxies", spec.data_plane.and_then(|it| it.trusted_proxies)),
    ];
    for (field, networks) in lists {
        let wrong = networks.iter().flatten().enumerate().find(|(_, text)| !is_network(text));
        if let Some((index, text)) = wrong {
            return Err(format!("`spec.{field}[{index}]`: `{text}` is not a network such as 10.0.0.0/8"));
        }
    }
    if let Some(affinity) = spec.pod.and_then(|pod| pod.affinity) {
        self::affinity(&affinity)?;
    }
    Ok(&parameters.spec)
}

/// Whether a text is an address and the number of its bits that count.
pub(crate) fn is_network(text: &str) -> bool {
    let parts = text.split_once('/').map(|(address, bits)| (address.parse(), bits.parse::<u8>()));
    matches!(parts, Some((Ok(address), Ok(bits))) if bits <= most_bits(address))
}

fn most_bits(address: std::net::IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The schema leaves affinity open, for it is Kubernetes' own. What Kubernetes does not know of it would be dropped, and pods
/// run where they must not.
fn affinity(given: &Map<String, Value>) -> Result<(), String> {
    let given = Value::Object(given.clone());
    let known: Affinity = serde_path_to_error::deserialize(given.clone().into_deserializer())
        .map_err(|error| format!("`spec.pod.affinity.{}`: {}", error.path(), error.inner()))?;
    let known = serde_json::to_value(known).unwrap_or_default();
    match lost(&given, &known, "spec.pod.affinity".into()) {
        Some(path) => Err(format!("`{path}` is not a field that Kubernetes has")),
        None => Ok(()),
    }
}

/// The first place of `given` that `known` does not have.
fn lost(given: &Value, known: &Value, path: String) -> Option<String> {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            given.iter().filter(|(_, value)| !value.is_null()).find_map(|(field, value)| {
                let path = format!("{path}.{field}");
                known.get(field).map_or(Some(path.clone()), |known| lost(value, known, path.clone()))
            })
        }
        (Value::Array(given), Value::Array(known)) => given
            .iter()
            .zip(known)
            .enumerate()
            .find_map(|(index, (given, known))| lost(given, known, format!("{path}[{index}]"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_gateway_says_wins_field_by_field_and_lists_as_a_whole() {
        let class = json!({ "replicas": 2, "pod": { "labels": { "a": "1", "b": "1" }, "tolerations": [{ "operator": "Exists" }] } });
        let gateway = json!({ "replicas": null, "pod": { "labels": { "b": "2" }, "tolerations": [] }, "service": { "type": "ClusterIP" } });
        let merged = merged(Some(&class), Some(&gateway));
        let expected = json!({
            "replicas": 2,
            "pod": { "labels": { "a": "1", "b": "2" }, "tolerations": [] },
            "service": { "type": "ClusterIP" },
        });
        assert_eq!(serde_json::to_value(merged).ok(), Some(expected));
    }

    #[test]
    fn networks_are_addresses_with_bits() {
        for good in ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::1/128"] {
            assert!(is_network(good), "{good}");
        }
        for wrong in ["10.0.0.0", "10.0.0.0/33", "300.0.0.0/8", "::/129", "/8", "a/8", ""] {
            assert!(!is_network(wrong), "{wrong}");
        }
    }
}
