//! What runs a Gateway on a cluster: its ServiceAccount, CA bundle, Deployment and Service, and the addresses that follow.

mod pod;
mod service;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use postern_config::Config;
use serde::de::DeserializeOwned;
use serde_json::Value;
pub use service::addresses;

use crate::api::{GROUP, Gateway, PosternParametersSpec};
use crate::snapshot::{Infrastructure, Settings};

/// The label that names the Gateway of an object (GEP-1762).
pub const GATEWAY_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
/// The label that names the class of that Gateway (GEP-1762).
pub const CLASS_LABEL: &str = "gateway.networking.k8s.io/gateway-class-name";
/// The label of everything that we make.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "postern");
/// The annotation that tells several installations apart: the controller name.
pub const CONTROLLER_ANNOTATION: &str = "postern.dev/controller";
/// The key of the CA bundle in its ConfigMap.
pub const CA_KEY: &str = "ca.crt";
/// The audience of the tokens that data planes show to the operator.
pub const AUDIENCE: &str = "postern";

/// The objects that run one Gateway. All are in its namespace and have the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Who the data planes are.
    pub service_account: ServiceAccount,
    /// The certificates to trust the operator by, without the data, which only the operator knows.
    pub ca: ConfigMap,
    /// The data planes.
    pub deployment: Deployment,
    /// The way to them. `None` while no listener has a port: one that is there keeps its address.
    pub service: Option<Service>,
}

/// The objects that run a Gateway which serves `config`, as `parameters` want them.
pub(crate) fn of(
    settings: &Settings,
    infrastructure: &Infrastructure,
    gateway: &Gateway,
    parameters: &PosternParametersSpec,
    config: &Config,
) -> Workload {
    let metadata = metadata(settings, gateway);
    let own = |component: &str| {
        let mut metadata = metadata.clone();
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("app.kubernetes.io/component".into(), component.into());
        metadata
    };
    Workload {
        service_account: ServiceAccount {
            metadata: own("identity"),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        },
        ca: ConfigMap { metadata: own("trust"), ..ConfigMap::default() },
        deployment: pod::deployment(infrastructure, parameters, own("data-plane")),
        service: service::service(
            infrastructure,
            parameters.service.as_ref(),
            gateway,
            config,
            own("address"),
        ),
    }
}

/// The name of all objects that run a Gateway: `<gateway>-<class>`, as far as it is a name that a Service can have.
pub fn name(gateway: &str, class: &str) -> String {
    let wanted = format!("{gateway}-{class}");
    let mut name = wanted.replace('.', "-");
    if name.starts_with(|first: char| !first.is_ascii_lowercase()) {
        name.insert_str(0, "gw-");
    }
    if name == wanted && name.len() <= LONGEST { name } else { hashed(&name, &wanted) }
}

/// The longest name of a Service and value of a label.
const LONGEST: usize = 63;

/// As much of `text` as there is room for, and a hash of `all`, so that what differs in the rest stays apart.
fn hashed(text: &str, all: &str) -> String {
    // FNV-1a: the same on every machine and in every version.
    let hash = all.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = format!("{:08x}", hash >> 32);
    let end = text.floor_char_boundary(LONGEST - 1 - hash.len());
    format!("{}-{hash}", text[..end].trim_end_matches(['-', '.']))
}

/// A name as the value of a label.
pub fn label(name: &str) -> String {
    if name.len() <= LONGEST { name.into() } else { hashed(name, name) }
}

/// Labels that choose the pods of a workload. They can never change.
fn selector(name: &str) -> BTreeMap<String, String> {
    [("app.kubernetes.io/instance", name), ("app.kubernetes.io/name", "postern-dataplane")]
        .map(|(key, value)| (key.into(), value.into()))
        .into()
}

fn metadata(settings: &Settings, gateway: &Gateway) -> ObjectMeta {
    let of = &gateway.metadata;
    let (gateway_name, class) = (of.name.clone().unwrap_or_default(), &gateway.spec.gateway_class_name);
    let name = name(&gateway_name, class);
    let infrastructure = gateway.spec.infrastructure.clone().unwrap_or_default();
    // Ours win: they are how the objects are found.
    let mut labels = infrastructure.labels;
    labels.extend(selector(&name));
    labels.extend([
        (GATEWAY_LABEL.into(), label(&gateway_name)),
        (CLASS_LABEL.into(), label(class)),
        (MANAGED_BY.0.into(), MANAGED_BY.1.into()),
        ("app.kubernetes.io/part-of".into(), "postern".into()),
    ]);
    let mut annotations = infrastructure.annotations;
    annotations.insert(CONTROLLER_ANNOTATION.into(), settings.controller_name.clone());
    ObjectMeta {
        name: Some(name),
        namespace: of.namespace.clone(),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: Some(vec![OwnerReference {
            api_version: format!("{GROUP}/v1"),
            kind: "Gateway".into(),
            name: gateway_name,
            uid: of.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    }
}

/// The entries of `below`, and over them those of `above`.
fn laid_under(
    below: &BTreeMap<String, String>,
    above: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let mut all = below.clone();
    all.extend(above.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    all
}

/// Whether pods may have an annotation: one can take AppArmor away, which no user of the Gateway API is to decide.
pub(crate) fn is_safe_for_pods(annotation: &str) -> bool {
    !annotation.starts_with("container.apparmor.security.beta.kubernetes.io/")
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("what is written here is of the API's shape")
}

/// Whether an object was made for this very Gateway, and not for one that had the same name before.
pub fn is_of(metadata: &ObjectMeta, gateway: &Gateway) -> bool {
    let label = |(key, value): (&str, &str)| {
        metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|it| it == value)
    };
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    label(MANAGED_BY)
        && owners
            .iter()
            .any(|owner| Some(&owner.uid) == gateway.metadata.uid.as_ref() && owner.kind == "Gateway")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_service_can_have() {
        assert_eq!(name("web", "postern"), "web-postern");
        for (gateway, start) in
            [("a.b", "a-b-postern-"), ("1st", "gw-1st-postern-"), (&"x".repeat(70), "xxxxxxxxxx")]
        {
            let name = name(gateway, "postern");
            assert!(name.starts_with(start) && name.len() <= 63, "{name}");
        }
        assert_ne!(name("a.b", "postern"), name("a-b", "postern"));
        assert_ne!(name(&"x".repeat(70), "postern"), name(&"x".repeat(71), "postern"));
    }
}
