//! Endpoints that do not come from files: `--backend` and the echo backends of `--dev`, as EndpointSlices among the objects.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use postern_config::ObjectKey;
use postern_translate::kinds::ObjectSet;

use crate::input::slices::{self, SERVICE_NAME};

/// `NAMESPACE/NAME[:PORT]=URL`: where requests for a Service go instead of to the endpoints in the files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Backend {
    /// The Service.
    pub service: ObjectKey,
    /// One port of the Service; all when `None`.
    pub port: Option<u16>,
    h2c: bool,
    authority: String,
}

/// A Service and the addresses that stand in for its endpoints.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The Service.
    pub service: ObjectKey,
    /// One port of the Service; all when `None`.
    pub port: Option<u16>,
    /// Whether HTTP/2 with prior knowledge is spoken there, whatever the Service says.
    pub h2c: bool,
    /// The addresses, all ready.
    pub addresses: Vec<SocketAddr>,
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write NAMESPACE/NAME[:PORT]=URL, for example shop/blue=http://127.0.0.1:9001";
        let (service, url) = text.split_once('=').ok_or(form)?;
        let (service, port) = match service.split_once(':') {
            Some((service, port)) => {
                (service, Some(port.parse().map_err(|_| format!("`{port}` is not a port"))?))
            }
            None => (service, None),
        };
        let service = service.parse().map_err(|_| form)?;
        let (scheme, rest) = url.split_once("://").ok_or("the URL begins with http:// or h2c://")?;
        let h2c = match scheme {
            "http" => false,
            "h2c" => true,
            "https" => return Err("TLS to backends is not supported yet: use http:// or h2c://".into()),
            _ => return Err("the URL begins with http:// or h2c://".into()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let is_authority = authority.parse::<http::uri::Authority>().is_ok() && !authority.contains('@');
        if !is_authority {
            return Err(format!(
                "`{authority}` is not HOST or HOST:PORT: a backend's URL has no path and no user"
            ));
        }
        Ok(Self { service, port, h2c, authority: authority.into() })
    }
}

impl Backend {
    /// Looks its host up. Fails when the host has no address.
    pub fn resolve(&self) -> Result<Endpoints, String> {
        let authority = self.authority.parse::<http::uri::Authority>().expect("checked when it was parsed");
        let host = authority.host().trim_matches(['[', ']']);
        let found = (host, authority.port_u16().unwrap_or(80)).to_socket_addrs();
        let addresses: Vec<_> = found.map_err(|error| format!("cannot resolve `{host}`: {error}"))?.collect();
        let Self { service, port, h2c, .. } = self.clone();
        Ok(Endpoints { service, port, h2c, addresses })
    }
}

impl Endpoints {
    /// Puts the addresses in place of what the objects say. `false` when there is no such Service, or not that port: none is
    /// made up, so that routes to it stay what they are in a cluster.
    pub fn replace(&self, objects: &mut ObjectSet) -> bool {
        let Some(service) = objects.services.get_mut(&self.service) else { return false };
        let ports = Vec::from_iter(self.ports(service).cloned());
        if ports.is_empty() {
            return false;
        }
        if self.h2c {
            let spec = Arc::make_mut(service).spec.get_or_insert_default();
            let chosen = spec
                .ports
                .iter_mut()
                .flatten()
                .filter(|port| self.port.is_none_or(|p| i32::from(p) == port.port));
            chosen.for_each(|port| port.app_protocol = Some("kubernetes.io/h2c".into()));
        }
        for slice in
            objects.endpoint_slices.values_mut().filter(|slice| slices::belongs(slice, &self.service))
        {
            let replaced = |port: &EndpointPort| ports.iter().any(|p| same_name(&p.name, &port.name));
            Arc::make_mut(slice).ports.iter_mut().for_each(|ports| ports.retain(|port| !replaced(port)));
        }
        for (index, address) in self.addresses.iter().enumerate() {
            let (key, slice) = self.slice(index, *address, &ports);
            objects.endpoint_slices.insert(key, Arc::new(slice));
        }
        true
    }

    fn ports<'a>(&self, service: &'a Service) -> impl Iterator<Item = &'a ServicePort> {
        let wanted = self.port.map(i32::from);
        service
            .spec
            .iter()
            .flat_map(|spec| spec.ports.iter().flatten())
            .filter(move |port| wanted.is_none_or(|w| w == port.port))
    }

    fn slice(&self, index: usize, address: SocketAddr, ports: &[ServicePort]) -> (ObjectKey, EndpointSlice) {
        // A dot cannot stand in a Service's name, so no slice of the files has this name.
        let suffix = self.port.map(|port| format!(".{port}")).unwrap_or_default();
        let key =
            ObjectKey::new(&self.service.namespace, format!("{}.postern{suffix}.{index}", self.service.name));
        let port = |service: &ServicePort| EndpointPort {
            name: service.name.clone(),
            port: Some(address.port().into()),
            ..EndpointPort::default()
        };
        let slice = EndpointSlice {
            address_type: if address.is_ipv4() { "IPv4" } else { "IPv6" }.into(),
            endpoints: vec![Endpoint {
                addresses: vec![address.ip().to_string()],
                conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
                ..Endpoint::default()
            }],
            metadata: ObjectMeta {
                namespace: Some(key.namespace.clone()),
                name: Some(key.name.clone()),
                labels: Some(BTreeMap::from([(SERVICE_NAME.into(), self.service.name.clone())])),
                ..ObjectMeta::default()
            },
            ports: Some(ports.iter().map(port).collect()),
        };
        (key, slice)
    }
}

/// A port without a name and one with an empty name are the same port.
fn same_name(a: &Option<String>, b: &Option<String>) -> bool {
    a.as_deref().unwrap_or_default() == b.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        text.parse::<Backend>().expect_err(text)
    }

    #[test]
    fn a_backend_names_a_service_and_a_url() {
        let backend: Backend = "shop/blue:8080=h2c://localhost:9001/".parse().expect("valid");
        assert_eq!(backend.service, ObjectKey::new("shop", "blue"));
        assert_eq!((backend.port, backend.h2c), (Some(8080), true));
        assert_eq!(backend.authority, "localhost:9001");
        assert!("shop/blue=http://[::1]:9001".parse::<Backend>().is_ok());
    }

    #[test]
    fn what_is_not_a_backend_says_why() {
        assert!(wrong("blue=http://127.0.0.1:1").contains("NAMESPACE/NAME"));
        assert!(wrong("shop/blue").contains("NAMESPACE/NAME"));
        assert!(wrong("shop/blue=127.0.0.1:1").contains("http://"));
        assert!(wrong("shop/blue=https://127.0.0.1:1").contains("not supported yet"));
        assert!(wrong("shop/blue=http://127.0.0.1:1/path").contains("no path"));
        assert!(wrong("shop/blue:x=http://127.0.0.1:1").contains("not a port"));
    }
}
