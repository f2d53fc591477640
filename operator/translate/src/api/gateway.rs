//! `Gateway`: listeners, and who may attach to them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::open::open_enum;
use super::{GatewayStatus, Kind, ParametersReference, SecretObjectReference, SectionName, UnknownFields};

/// `Gateway.spec`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// The class, which names the controller.
    pub gateway_class_name: String,
    /// The listeners. Empty only when ListenerSets are to bring them.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Requested addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<GatewayAddress>,
    /// Labels, annotations and parameters for what is made for this Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<GatewayInfrastructure>,
    /// Which ListenerSets may attach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_listeners: Option<AllowedListeners>,
    /// Client certificates: towards backends, and asked of clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Value>,
    /// Whether routes that name no Gateway use this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_scope: Option<String>,
}

/// A requested address.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayAddress {
    /// `IPAddress` (the default), `Hostname`, or a name with a domain prefix.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The address; empty asks for any of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// From where it is to be reachable (experimental).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routability: Option<String>,
}

/// What is put on objects made for the Gateway.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayInfrastructure {
    /// Labels for all of them.
    pub labels: BTreeMap<String, String>,
    /// Annotations for all of them.
    pub annotations: BTreeMap<String, String>,
    /// Parameters for this Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ParametersReference>,
}

/// Which ListenerSets may attach; none unless written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedListeners {
    /// By namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<RouteNamespaces>,
}

/// A listener as the user wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Unique in the Gateway.
    pub name: SectionName,
    /// The hosts it serves; absent or empty is all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The port that clients connect to.
    pub port: u16,
    /// What is spoken on it.
    pub protocol: ProtocolType,
    /// How TLS ends, for protocols that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Which routes may attach; those of the same namespace and of the protocol's kinds unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_routes: Option<AllowedRoutes>,
    /// Fields of a newer API, experimental `filters` among them.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

open_enum! {
    /// The protocol of a listener.
    ProtocolType {
        /// Cleartext HTTP
        Http = "HTTP",
        /// HTTP over TLS that ends at the Gateway
        Https = "HTTPS",
        /// TLS, passed through or ended
        Tls = "TLS",
        /// TCP
        Tcp = "TCP",
        /// UDP
        Udp = "UDP",
    }
}

/// `tls` of a listener.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    /// Terminate unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<CertificateMode>,
    /// Where the certificates are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_refs: Vec<SecretObjectReference>,
    /// Options with a domain prefix.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Fields of a newer API.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

open_enum! {
    /// Where TLS ends.
    CertificateMode {
        /// At the Gateway
        Terminate = "Terminate",
        /// At the backend
        Passthrough = "Passthrough",
    }
}

/// Which routes may attach to a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedRoutes {
    /// By namespace of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<RouteNamespaces>,
    /// By kind of the route; those of the protocol unless written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<RouteGroupKind>,
}

/// A choice of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteNamespaces {
    /// `Same` for routes and `None` for ListenerSets unless written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<FromNamespaces>,
    /// For `Selector`: labels of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

open_enum! {
    /// Which namespaces are meant.
    FromNamespaces {
        /// All of them
        All = "All",
        /// Those that the selector takes
        Selector = "Selector",
        /// The one of the object
        Same = "Same",
        /// None
        None = "None",
    }
}

/// Group and kind of a route.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteGroupKind {
    /// `gateway.networking.k8s.io` unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The kind.
    pub kind: String,
}

impl Kind for GatewaySpec {
    const KIND: &'static str = "Gateway";
    const VERSION: &'static str = "v1";
    type Status = GatewayStatus;
}
