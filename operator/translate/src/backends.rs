//! Backends: from a backendRef to a Service port, and from there to the endpoints that are ready.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use postern_config::{AppProtocol, Backend, BackendKey, ObjectKey};

use crate::api::ObjectReference;
use crate::grants::{Grants, Referrer, SERVICE};
use crate::kinds::ObjectSet;
use crate::outcome::Services;
use crate::status::{Reason, Refusal};

/// The label by which an EndpointSlice names its Service.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// Follows a reference to a Service port. The grant is asked for before the Service is looked up.
pub(crate) fn resolve(
    services: &Services<'_>,
    grants: &Grants<'_>,
    from: Referrer<'_>,
    reference: &ObjectReference,
) -> Result<(BackendKey, AppProtocol), Refusal> {
    if (reference.group.as_str(), reference.kind.as_str()) != (SERVICE.group, SERVICE.kind) {
        let (group, kind, name) = (&reference.group, &reference.kind, &reference.name);
        let message =
            format!("the backend `{name}` is a {kind} of group `{group}`: only core Services are supported");
        return Err(Reason::InvalidKind.because(message));
    }
    let service =
        ObjectKey::new(reference.namespace.as_deref().unwrap_or(from.namespace), reference.name.as_str());
    grants.permit(from, SERVICE, &service)?;
    let object = services.get(&service).ok_or_else(|| {
        Reason::BackendNotFound.because(format!("Service `{service}` does not exist: create it"))
    })?;
    // Its name may lead anywhere, also to where the author of the route may not go.
    if object.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName") {
        let message =
            format!("Service `{service}` is of type ExternalName, which is not followed: use endpoints");
        return Err(Reason::InvalidKind.because(message));
    }
    let port = reference.port.ok_or_else(|| {
        Reason::BackendNotFound
            .because(format!("the reference to Service `{service}` names no port: {}", ports(object)))
    })?;
    let found = service_port(object, port).ok_or_else(|| {
        Reason::BackendNotFound
            .because(format!("Service `{service}` has no port {port} for TCP: {}", ports(object)))
    })?;
    let protocol = protocol(found).map_err(|name| {
        Reason::UnsupportedProtocol.because(format!(
            "port {port} of Service `{service}` has appProtocol `{name}`: use http, kubernetes.io/ws or kubernetes.io/h2c"
        ))
    })?;
    Ok((BackendKey { service, port }, protocol))
}

/// What a Service port speaks, or the `appProtocol` that we cannot.
///
/// Names without a domain are those of IANA and say more than we need (`https` is common on ports for which a policy asks
/// for TLS). Names with a domain say something particular: what we do not know of them we cannot serve.
fn protocol(port: &ServicePort) -> Result<AppProtocol, &str> {
    match port.app_protocol.as_deref().unwrap_or_default() {
        "kubernetes.io/h2c" | "h2c" | "grpc" => Ok(AppProtocol::H2c),
        "kubernetes.io/ws" => Ok(AppProtocol::Http1),
        other if other.contains('/') => Err(other),
        _ => Ok(AppProtocol::Http1),
    }
}

fn service_port(service: &Service, port: u16) -> Option<&ServicePort> {
    tcp_ports(service).find(|found| found.port == i32::from(port))
}

fn tcp_ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    ports.iter().filter(|port| is_tcp(port.protocol.as_deref()))
}

fn is_tcp(protocol: Option<&str>) -> bool {
    protocol.is_none_or(|protocol| protocol.is_empty() || protocol == "TCP")
}

/// What ports there are, for a message.
fn ports(service: &Service) -> String {
    let ports: Vec<String> = tcp_ports(service).map(|port| port.port.to_string()).collect();
    if ports.is_empty() { "it has none".into() } else { format!("it has {}", ports.join(", ")) }
}

/// EndpointSlices by the Service that they are of.
pub(crate) struct Slices<'a>(BTreeMap<(&'a str, &'a str), Vec<&'a EndpointSlice>>);

impl<'a> Slices<'a> {
    /// All of them.
    pub(crate) fn of(objects: &'a ObjectSet) -> Self {
        let mut slices: BTreeMap<(&'a str, &'a str), Vec<&'a EndpointSlice>> = BTreeMap::new();
        for (key, slice) in &objects.endpoint_slices {
            let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME_LABEL));
            if let Some(service) = service {
                slices.entry((&key.namespace, service)).or_default().push(slice);
            }
        }
        Self(slices)
    }

    /// What is known of a Service port. It is the same for headless Services and for those without a selector.
    ///
    /// As kube-proxy does, endpoints that are about to end are used when there are no others: they still serve.
    pub(crate) fn backend(&self, objects: &ObjectSet, key: &BackendKey) -> Backend {
        let service = objects.services.get(&key.service);
        let Some(port) = service.and_then(|service| service_port(service, key.port)) else {
            return Backend::default();
        };
        let name = port.name.as_deref().unwrap_or_default();
        let slices = self.0.get(&(key.service.namespace.as_str(), key.service.name.as_str()));
        let (mut ready, mut ending) = (BTreeSet::new(), BTreeSet::new());
        for (slice, number) in
            slices.into_iter().flatten().filter_map(|slice| Some((slice, slice_port(slice, name)?)))
        {
            for endpoint in &slice.endpoints {
                match state(endpoint) {
                    State::Ready => ready.extend(addresses(endpoint, number)),
                    State::Ending => ending.extend(addresses(endpoint, number)),
                    State::Unfit => {}
                }
            }
        }
        let used = if ready.is_empty() { ending } else { ready };
        Backend { endpoints: used.into_iter().collect() }
    }
}

/// Whether an endpoint takes requests.
enum State {
    Ready,
    /// It is terminating and still serves.
    Ending,
    Unfit,
}

/// "A nil value should be interpreted as true" of `ready`.
fn state(endpoint: &Endpoint) -> State {
    let conditions = endpoint.conditions.as_ref();
    let ready = conditions.and_then(|c| c.ready).unwrap_or(true);
    let serving = conditions.and_then(|c| c.serving).unwrap_or(ready);
    let terminating = conditions.and_then(|c| c.terminating).unwrap_or(false);
    match (ready, serving, terminating) {
        (true, ..) => State::Ready,
        (false, true, true) => State::Ending,
        (false, ..) => State::Unfit,
    }
}

/// The number of the port that has the Service port's name; slices for names instead of addresses have none.
fn slice_port(slice: &EndpointSlice, name: &str) -> Option<u16> {
    if !matches!(slice.address_type.as_str(), "IPv4" | "IPv6") {
        return None;
    }
    let mut ports = slice.ports.iter().flatten();
    let port = ports
        .find(|port| port.name.as_deref().unwrap_or_default() == name && is_tcp(port.protocol.as_deref()))?;
    u16::try_from(port.port?).ok()
}

fn addresses(endpoint: &Endpoint, port: u16) -> impl Iterator<Item = SocketAddr> {
    let parsed = endpoint.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
    parsed.map(move |address| SocketAddr::new(address, port))
}
