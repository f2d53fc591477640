//! Our Gateway API types: what users write, read leniently.
//!
//! Values that a newer API may add parse into `Unknown`, and fields that it may add inside rules are kept in `unknown`, so
//! that one surprising object never fails a whole list, and a condition that we do not know is never taken for absent.

mod gateway;
mod gateway_class;
mod grpc_route;
mod http_route;
mod open;
mod parameters;
mod reference_grant;
mod shared;
mod status;

use std::collections::BTreeMap;

pub use gateway::{
    AllowedListeners, AllowedRoutes, CertificateMode, FromNamespaces, GatewayAddress, GatewayInfrastructure,
    GatewaySpec, Listener, ListenerTls, ProtocolType, RouteGroupKind, RouteNamespaces,
};
pub use gateway_class::{GatewayClassSpec, ParametersReference};
pub use grpc_route::{GrpcMethodMatch, GrpcMethodMatchType, GrpcRouteMatch, GrpcRouteRule, GrpcRouteSpec};
pub use http_route::{
    FilterType, HeaderModifierFilter, HttpBackendRef, HttpFilter, HttpHeader, HttpHeaderMatch, HttpPathMatch,
    HttpPathModifier, HttpRouteMatch, HttpRouteRule, HttpRouteSpec, HttpRouteTimeouts, MatchType,
    PathMatchType, PathModifierType, RequestRedirectFilter, UrlRewriteFilter,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
pub use parameters::{
    AccessLog, DataPlaneParameters, ExternalTrafficPolicy, LogLevel, OWN_GROUP, Parameters, PodParameters,
    PosternParameters, PosternParametersSpec, Quantity, Resources, ServiceKind, ServiceParameters,
    TaintEffect, Toleration, TolerationOperator, TopologySpread, WhenUnsatisfiable, billionths, crd,
};
pub use reference_grant::{ReferenceGrantFrom, ReferenceGrantSpec, ReferenceGrantTo};
use serde::de::DeserializeOwned;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
pub use shared::{ObjectReference, ParentReference, SecretObjectReference, SectionName};
pub use status::{
    Condition, ConditionStatus, GatewayClassStatus, GatewayStatus, GatewayStatusAddress, ListenerStatus,
    ParentStatus, RouteStatus, SupportedFeature,
};

/// The API group of Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";

/// Fields of a newer API that we do not know.
pub type UnknownFields = BTreeMap<String, serde_json::Value>;

/// A `GatewayClass`
pub type GatewayClass = Object<GatewayClassSpec>;
/// A `Gateway`
pub type Gateway = Object<GatewaySpec>;
/// An `HTTPRoute`
pub type HttpRoute = Object<HttpRouteSpec>;
/// A `GRPCRoute`
pub type GrpcRoute = Object<GrpcRouteSpec>;
/// A `ReferenceGrant`
pub type ReferenceGrant = Object<ReferenceGrantSpec>;

/// A spec that makes an object of a kind.
pub trait Kind: Serialize + DeserializeOwned {
    /// As in `kind:`
    const KIND: &'static str;
    /// The newest version that we speak.
    const VERSION: &'static str;
    /// The type of `status`; `()` where the kind has none.
    type Status: Clone + std::fmt::Debug + PartialEq + Serialize + DeserializeOwned;
}

/// An object of Gateway API: metadata, spec and status.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(bound = "S: Kind")]
pub struct Object<S: Kind> {
    /// Name, namespace, labels, generation and age.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the user wants.
    pub spec: S,
    /// What controllers wrote.
    #[serde(default = "none")]
    pub status: Option<S::Status>,
}

fn none<T>() -> Option<T> {
    None
}

impl<S: Kind> Serialize for Object<S> {
    fn serialize<T: Serializer>(&self, to: T) -> Result<T::Ok, T::Error> {
        let mut object = to.serialize_struct("Object", 5)?;
        object.serialize_field("apiVersion", &format!("{GROUP}/{}", S::VERSION))?;
        object.serialize_field("kind", S::KIND)?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("spec", &self.spec)?;
        match &self.status {
            Some(status) => object.serialize_field("status", status)?,
            None => object.skip_field("status")?,
        }
        object.end()
    }
}
