//! The Service of a Gateway, as its parameters want it, and the addresses that follow from it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use postern_config::{Config, ObjectKey};
use serde_json::{Value, json};

use super::{is_of, laid_under, name, selector, typed};
use crate::api::{Gateway, GatewayStatusAddress, ServiceKind, ServiceParameters};
use crate::kinds::ObjectSet;
use crate::snapshot::{Infrastructure, ServiceType};

pub(super) fn service(
    infrastructure: &Infrastructure,
    parameters: Option<&ServiceParameters>,
    gateway: &Gateway,
    config: &Config,
    mut metadata: ObjectMeta,
) -> Option<Service> {
    let ports: BTreeSet<u16> = config.listeners.values().map(|listener| listener.port).collect();
    if ports.is_empty() {
        return None;
    }
    let ports: Vec<Value> = ports
        .into_iter()
        .map(|port| json!({ "name": format!("tcp-{port}"), "port": port, "targetPort": port, "protocol": "TCP" }))
        .collect();
    let own = ServiceParameters::default();
    let parameters = parameters.unwrap_or(&own);
    metadata.annotations = Some(laid_under(&parameters.annotations, metadata.annotations.as_ref()));
    let kind = parameters.kind.map_or(infrastructure.service_type, service_type);
    let mut spec = json!({
        "type": kind.as_str(),
        "selector": selector(metadata.name.as_deref().unwrap_or_default()),
        "ports": ports,
    });
    match kind {
        ServiceType::Headless => spec["clusterIP"] = "None".into(),
        ServiceType::ClusterIp => {}
        ServiceType::LoadBalancer => {
            if let Some(address) = wanted_addresses(gateway).next() {
                spec["loadBalancerIP"] = address.into();
            }
            if let Some(class) = &parameters.load_balancer_class {
                spec["loadBalancerClass"] = class.as_str().into();
            }
            if let Some(ranges) = &parameters.load_balancer_source_ranges {
                spec["loadBalancerSourceRanges"] = json!(ranges);
            }
            external(&mut spec, parameters);
        }
        ServiceType::NodePort => external(&mut spec, parameters),
    }
    Some(Service { metadata, spec: Some(typed(spec)), status: None })
}

fn external(spec: &mut Value, parameters: &ServiceParameters) {
    if let Some(policy) = parameters.external_traffic_policy {
        spec["externalTrafficPolicy"] = json!(policy);
    }
}

fn service_type(kind: ServiceKind) -> ServiceType {
    match kind {
        ServiceKind::LoadBalancer => ServiceType::LoadBalancer,
        ServiceKind::ClusterIp => ServiceType::ClusterIp,
        ServiceKind::NodePort => ServiceType::NodePort,
        ServiceKind::Headless => ServiceType::Headless,
    }
}

/// The addresses that a Gateway asks for; one without a value is any.
fn wanted_addresses(gateway: &Gateway) -> impl Iterator<Item = &str> {
    let values = gateway.spec.addresses.iter().filter_map(|address| address.value.as_deref());
    values.filter(|value| !value.is_empty())
}

/// The addresses that a Gateway has by its Service. Empty while there is none, or it is not ours.
pub fn addresses(objects: &ObjectSet, key: &ObjectKey, gateway: &Gateway) -> Vec<GatewayStatusAddress> {
    let name = name(&key.name, &gateway.spec.gateway_class_name);
    let Some(service) = objects.services.get(&ObjectKey::new(key.namespace.as_str(), name.as_str())) else {
        return Vec::new();
    };
    if !is_of(&service.metadata, gateway) {
        return Vec::new();
    }
    let Some(spec) = &service.spec else { return Vec::new() };
    let ip = |value: &str| GatewayStatusAddress { kind: Some("IPAddress".into()), value: value.into() };
    let host = |value: String| GatewayStatusAddress { kind: Some("Hostname".into()), value };
    if spec.type_.as_deref() == Some("LoadBalancer") {
        let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
        let given = ingress.filter_map(|ingress| match (&ingress.ip, &ingress.hostname) {
            (Some(address), _) => Some(ip(address)),
            (None, Some(name)) => Some(host(name.clone())),
            (None, None) => None,
        });
        return given.collect();
    }
    if spec.cluster_ip.as_deref() == Some("None") {
        return vec![host(format!("{name}.{}.svc", key.namespace))];
    }
    let ips = spec.cluster_ips.iter().flatten().chain(spec.external_ips.iter().flatten());
    ips.filter(|address| !address.is_empty()).map(|address| ip(address)).collect()
}
