//! A configuration as keyed resources: what is new, what is gone, and a name for the whole that follows from its content.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::name::InvalidName;
use crate::{
    Backend, BackendKey, Certificate, CertificateKey, Config, Listener, ListenerName, Route, RouteName,
};

/// The name of a resource in its Gateway, printed as `listener/NAME`, `route/KIND/NAMESPACE/NAME`,
/// `backend/NAMESPACE/NAME:PORT` or `certificate/NAMESPACE/NAME`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ResourceKey {
    /// A listener.
    Listener(ListenerName),
    /// A route.
    Route(RouteName),
    /// A backend.
    Backend(BackendKey),
    /// A certificate.
    Certificate(CertificateKey),
}

/// What is sent, taken or refused as one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Resource {
    /// A listener.
    Listener(ListenerName, Arc<Listener>),
    /// A route.
    Route(RouteName, Arc<Route>),
    /// A backend. Its endpoints change more often than all else, which is why routes only name it.
    Backend(BackendKey, Arc<Backend>),
    /// A certificate. Private keys are nowhere else.
    Certificate(CertificateKey, Arc<Certificate>),
}

/// What to change in a configuration. No key is in it twice, so the order does not matter.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Delta {
    /// What is new or different.
    pub set: Vec<Resource>,
    /// What is gone.
    pub removed: Vec<ResourceKey>,
}

/// Stands for the content of a resource: half of the SHA-256 of its JSON.
#[derive(Clone, Copy, Eq, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 16]);

/// The digests of all resources of a configuration.
pub type Inventory = BTreeMap<ResourceKey, Digest>;

/// Stands for the content of a whole configuration: whoever makes the same configuration gives it the same version.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(String);

/// A configuration with the digests of its resources, and its version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Contents {
    /// The configuration.
    pub config: Arc<Config>,
    /// The digests of its resources.
    pub inventory: Arc<Inventory>,
    /// Its version.
    pub version: Version,
}

impl Contents {
    /// The contents of a configuration.
    pub fn of(config: &Config) -> Self {
        Self::default().renewed(config)
    }

    /// The contents of a newer configuration. What did not change is neither hashed nor kept again.
    pub fn renewed(&self, newer: &Config) -> Self {
        let delta = self.config.diff(newer);
        if delta.is_empty() {
            return self.clone();
        }
        let mut inventory = Inventory::clone(&self.inventory);
        for key in &delta.removed {
            inventory.remove(key);
        }
        for resource in &delta.set {
            inventory.insert(resource.key(), Digest::of(resource.body().as_bytes()));
        }
        let mut config = Config::clone(&self.config);
        config.apply(delta);
        Self { config: Arc::new(config), version: Version::of(&inventory), inventory: Arc::new(inventory) }
    }

    /// What someone who holds `held` has to change to come here.
    pub fn since(&self, held: &Inventory) -> Delta {
        let is_new = |key: &ResourceKey| held.get(key) != self.inventory.get(key);
        let set = self.inventory.keys().filter(|key| is_new(key)).filter_map(|key| self.config.resource(key));
        let removed = held.keys().filter(|key| !self.inventory.contains_key(key));
        Delta { set: set.collect(), removed: removed.cloned().collect() }
    }
}

impl Default for Contents {
    fn default() -> Self {
        let inventory = Inventory::new();
        Self { config: Arc::default(), version: Version::of(&inventory), inventory: Arc::new(inventory) }
    }
}

impl Config {
    /// What makes `newer` of this one.
    pub fn diff(&self, newer: &Self) -> Delta {
        let mut delta = Delta::default();
        differ(&mut delta, &self.listeners, &newer.listeners, ResourceKey::Listener, Resource::Listener);
        differ(&mut delta, &self.routes, &newer.routes, ResourceKey::Route, Resource::Route);
        differ(&mut delta, &self.backends, &newer.backends, ResourceKey::Backend, Resource::Backend);
        let (old, new) = (&self.certificates, &newer.certificates);
        differ(&mut delta, old, new, ResourceKey::Certificate, Resource::Certificate);
        delta
    }

    /// Makes the changes.
    pub fn apply(&mut self, delta: Delta) {
        for key in &delta.removed {
            match key {
                ResourceKey::Listener(key) => drop(self.listeners.remove(key)),
                ResourceKey::Route(key) => drop(self.routes.remove(key)),
                ResourceKey::Backend(key) => drop(self.backends.remove(key)),
                ResourceKey::Certificate(key) => drop(self.certificates.remove(key)),
            }
        }
        for resource in delta.set {
            match resource {
                Resource::Listener(key, listener) => drop(self.listeners.insert(key, listener)),
                Resource::Route(key, route) => drop(self.routes.insert(key, route)),
                Resource::Backend(key, backend) => drop(self.backends.insert(key, backend)),
                Resource::Certificate(key, certificate) => drop(self.certificates.insert(key, certificate)),
            }
        }
    }

    /// The resource of this key, if it is here.
    pub fn resource(&self, key: &ResourceKey) -> Option<Resource> {
        Some(match key {
            ResourceKey::Listener(key) => Resource::Listener(key.clone(), self.listeners.get(key)?.clone()),
            ResourceKey::Route(key) => Resource::Route(key.clone(), self.routes.get(key)?.clone()),
            ResourceKey::Backend(key) => Resource::Backend(key.clone(), self.backends.get(key)?.clone()),
            ResourceKey::Certificate(key) => {
                Resource::Certificate(key.clone(), self.certificates.get(key)?.clone())
            }
        })
    }
}

fn differ<K: Clone + Ord, V: PartialEq>(
    delta: &mut Delta,
    old: &BTreeMap<K, Arc<V>>,
    new: &BTreeMap<K, Arc<V>>,
    key: fn(K) -> ResourceKey,
    resource: fn(K, Arc<V>) -> Resource,
) {
    let is_old =
        |name: &K, value: &Arc<V>| old.get(name).is_some_and(|old| Arc::ptr_eq(old, value) || old == value);
    let set = new.iter().filter(|(name, value)| !is_old(name, value));
    delta.set.extend(set.map(|(name, value)| resource(name.clone(), value.clone())));
    delta.removed.extend(old.keys().filter(|name| !new.contains_key(name)).cloned().map(key));
}

impl Delta {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }
}

impl Resource {
    /// Its key.
    pub fn key(&self) -> ResourceKey {
        match self {
            Self::Listener(key, _) => ResourceKey::Listener(key.clone()),
            Self::Route(key, _) => ResourceKey::Route(key.clone()),
            Self::Backend(key, _) => ResourceKey::Backend(key.clone()),
            Self::Certificate(key, _) => ResourceKey::Certificate(key.clone()),
        }
    }

    /// Its content as JSON, the same text for the same content.
    pub fn body(&self) -> String {
        let text = match self {
            Self::Listener(_, listener) => serde_json::to_string(listener),
            Self::Route(_, route) => serde_json::to_string(route),
            Self::Backend(_, backend) => serde_json::to_string(backend),
            Self::Certificate(_, certificate) => serde_json::to_string(certificate),
        };
        text.expect("our types serialize")
    }

    /// The resource of a key and a body.
    ///
    /// Fails, with a message that quotes nothing of the body, when the body is not what the kind of the key wants.
    pub fn parse(key: ResourceKey, body: &[u8]) -> Result<Self, String> {
        Ok(match key {
            ResourceKey::Listener(key) => Self::Listener(key, content(body)?),
            ResourceKey::Route(key) => Self::Route(key, content(body)?),
            ResourceKey::Backend(key) => Self::Backend(key, content(body)?),
            // What serde says of a value may quote it, and this one is a private key.
            ResourceKey::Certificate(key) => Self::Certificate(
                key,
                content(body).map_err(|_| String::from("not a certificate of this version"))?,
            ),
        })
    }
}

fn content<T: DeserializeOwned>(body: &[u8]) -> Result<Arc<T>, String> {
    serde_json::from_slice(body).map(Arc::new).map_err(|error| error.to_string())
}

impl Digest {
    /// The digest of a body.
    pub fn of(body: &[u8]) -> Self {
        Self(half(Sha256::digest(body)))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The digest of these bytes, if they are 16.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl Version {
    /// The version of the configuration with these resources.
    pub fn of(inventory: &Inventory) -> Self {
        let mut hash = Sha256::new();
        for (key, digest) in inventory {
            hash.update(key.to_string());
            // No key has this byte, so that no two lists read the same.
            hash.update([0]);
            hash.update(digest.0);
        }
        Self(hex(&half(hash.finalize())))
    }

    /// The version of this text, as it was received.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn half(hash: impl AsRef<[u8]>) -> [u8; 16] {
    hash.as_ref().first_chunk().copied().expect("SHA-256 has 32 bytes")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listener(key) => write!(f, "listener/{key}"),
            Self::Route(key) => write!(f, "route/{key}"),
            Self::Backend(key) => write!(f, "backend/{key}"),
            Self::Certificate(key) => write!(f, "certificate/{key}"),
        }
    }
}

impl FromStr for ResourceKey {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text.split_once('/') {
            Some(("listener", name)) if !name.is_empty() => Ok(Self::Listener(name.into())),
            Some(("route", name)) => name.parse().map(Self::Route),
            Some(("backend", name)) => name.parse().map(Self::Backend),
            Some(("certificate", name)) => name.parse().map(Self::Certificate),
            _ => Err(InvalidName::new(text, "KIND/NAME, KIND being listener, route, backend or certificate")),
        }
    }
}

impl TryFrom<String> for ResourceKey {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<ResourceKey> for String {
    fn from(key: ResourceKey) -> Self {
        key.to_string()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        hex(&digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = u128::from_str_radix(&text, 16).ok().filter(|_| text.len() == 32);
        number.map(|number| Self(number.to_be_bytes())).ok_or_else(|| format!("`{text}` is not a digest"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
