//! Which Services have EndpointSlices in the input.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use postern_config::ObjectKey;
use postern_translate::kinds::ObjectSet;

/// The label by which EndpointSlices name their Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The Services that have ports and for which there is no EndpointSlice at all. One whose endpoints are merely not ready
/// is not among them: that it answers 503 is what its author wants to see.
pub fn services_without(objects: &ObjectSet) -> Vec<ObjectKey> {
    let has_ports =
        |service: &Service| service.spec.iter().any(|spec| spec.ports.iter().flatten().next().is_some());
    let sliced = BTreeSet::from_iter(objects.endpoint_slices.values().filter_map(|slice| service_of(slice)));
    let lacks = |key: &ObjectKey| !sliced.contains(&(key.namespace.as_str(), key.name.as_str()));
    let lacking = objects.services.iter().filter(|(key, service)| has_ports(service) && lacks(key));
    lacking.map(|(key, _)| key.clone()).collect()
}

/// Namespace and name of the Service that a slice is for.
fn service_of(slice: &EndpointSlice) -> Option<(&str, &str)> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some((slice.metadata.namespace.as_deref().unwrap_or_default(), name))
}

/// Whether the slice holds endpoints of the Service.
pub fn belongs(slice: &EndpointSlice, service: &ObjectKey) -> bool {
    service_of(slice) == Some((&service.namespace, &service.name))
}
