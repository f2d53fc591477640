//! The list of kinds: it makes the snapshot's fields, the loader, the watches and the RBAC rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use postern_config::ObjectKey;
use serde::Deserialize;

use crate::api::{Gateway, GatewayClass, GrpcRoute, HttpRoute, Parameters, ReferenceGrant};

/// Objects of one kind by name, in order.
pub type Objects<T> = BTreeMap<ObjectKey, Arc<T>>;

macro_rules! kinds {
    ($($field:ident: $type:ident = $group:literal $kind:literal [$($version:literal),+],)+) => {
        /// All objects at one instant. Cluster-scoped objects have an empty namespace.
        #[derive(Clone, Debug, Default)]
        pub struct ObjectSet {
            $(#[doc = concat!("Every `", $kind, "`")] pub $field: Objects<$type>,)+
        }

        /// An object of a kind that we read.
        #[derive(Clone, Debug)]
        pub enum AnyObject {
            $(#[doc = concat!("A `", $kind, "`")] $type(Arc<$type>),)+
        }

        /// Group, kind and the versions that we read of everything in an [`ObjectSet`].
        pub const KINDS: &[KindInfo] = &[$(KindInfo { group: $group, kind: $kind, versions: &[$($version),+] },)+];

        impl ObjectSet {
            /// Adds an object; one of the same kind and name is replaced and returned as `true`.
            pub fn insert(&mut self, object: AnyObject) -> bool {
                match object {
                    $(AnyObject::$type(object) => self.$field.insert(key(&object.metadata), object).is_some(),)+
                }
            }

            /// Whether an object is as it was, but for its status and what the API server keeps for itself. Translation makes the
            /// same of both.
            pub fn is_as_before(&self, object: &AnyObject) -> bool {
                match object {
                    $(AnyObject::$type(object) => {
                        let before = self.$field.get(&key(&object.metadata));
                        before.is_some_and(|before| is_same(&before.metadata, &object.metadata))
                    })+
                }
            }

            /// The names of all objects, by kind.
            pub fn names(&self) -> Vec<(&'static str, ObjectKey)> {
                let mut names = Vec::new();
                $(names.extend(self.$field.keys().map(|key| ($kind, key.clone())));)+
                names
            }

            /// Takes an object over from another set, or removes it if there is none.
            pub fn copy(&mut self, kind: &str, key: &ObjectKey, from: &Self) {
                match kind {
                    $($kind => match from.$field.get(key) {
                        Some(object) => drop(self.$field.insert(key.clone(), object.clone())),
                        None => drop(self.$field.remove(key)),
                    },)+
                    _ => {}
                }
            }

            /// Removes an object of a kind of the list.
            pub fn remove(&mut self, kind: &str, key: &ObjectKey) {
                match kind {
                    $($kind => { self.$field.remove(key); })+
                    _ => {}
                }
            }

            /// Removes all objects of a kind of the list.
            pub fn clear(&mut self, kind: &str) {
                match kind {
                    $($kind => self.$field.clear(),)+
                    _ => {}
                }
            }
        }

        impl AnyObject {
            /// Reads an object that has been found valid. Fails where `value` is not of the kind's shape; `None` for a kind
            /// that is not in the list.
            pub fn parse(group: &str, kind: &str, value: &serde_json::Value) -> Option<Result<Self, WrongShape>> {
                match (group, kind) {
                    $(($group, $kind) => Some(parse::<$type>(value).map(|it| Self::$type(Arc::new(it)))),)+
                    _ => None,
                }
            }

            /// Its namespace and name.
            pub fn key(&self) -> ObjectKey {
                match self {
                    $(Self::$type(object) => key(&object.metadata),)+
                }
            }
        }
    };
}

kinds! {
    gateway_classes: GatewayClass = "gateway.networking.k8s.io" "GatewayClass" ["v1", "v1beta1"],
    gateways: Gateway = "gateway.networking.k8s.io" "Gateway" ["v1", "v1beta1"],
    http_routes: HttpRoute = "gateway.networking.k8s.io" "HTTPRoute" ["v1", "v1beta1"],
    grpc_routes: GrpcRoute = "gateway.networking.k8s.io" "GRPCRoute" ["v1"],
    reference_grants: ReferenceGrant = "gateway.networking.k8s.io" "ReferenceGrant" ["v1", "v1beta1"],
    parameters: Parameters = "postern.dev" "PosternParameters" ["v1alpha1"],
    services: Service = "" "Service" ["v1"],
    endpoint_slices: EndpointSlice = "discovery.k8s.io" "EndpointSlice" ["v1"],
    secrets: Secret = "" "Secret" ["v1"],
    config_maps: ConfigMap = "" "ConfigMap" ["v1"],
    namespaces: Namespace = "" "Namespace" ["v1"],
}

/// A kind of object.
#[derive(Clone, Copy, Debug)]
pub struct KindInfo {
    /// The API group; empty is core.
    pub group: &'static str,
    /// As in `kind:`
    pub kind: &'static str,
    /// The versions that we read, newest first.
    pub versions: &'static [&'static str],
}

/// Whether all that a user can change is the same: a spec does not change without the generation, where there is one.
fn is_same(before: &ObjectMeta, after: &ObjectMeta) -> bool {
    after.generation.is_some()
        && before.generation == after.generation
        && before.uid == after.uid
        && before.labels == after.labels
        && before.annotations == after.annotations
}

/// The key of an object by its metadata.
pub fn key(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// A value that is not of its kind's shape.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct WrongShape {
    /// The field: `spec.ports[0].port`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

fn parse<'a, T: Deserialize<'a>>(value: &'a serde_json::Value) -> Result<T, WrongShape> {
    // Paths cost; they are followed only where something is wrong.
    T::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            WrongShape {
                path: if path == "." { String::new() } else { path },
                message: error.into_inner().to_string(),
            }
        })
    })
}
