//! What one Gateway serves: the contract between translation and the data plane, and the routing table over it.
//!
//! A [`Config`] is plain data. Its resources mirror the objects that users write, each under its own key, and children
//! point at parents (a route names its listeners), so that one edited object is one changed resource.

mod backend;
mod certificate;
pub mod delta;
mod filter;
mod hostname;
mod listener;
mod name;
mod route;
pub mod routing;
#[cfg(feature = "wire")]
pub mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use backend::{AppProtocol, Backend, BackendKey, Endpoint};
pub use certificate::{Certificate, CertificateKey, PrivateKey};
pub use filter::{Filter, HeaderModifier, HeaderValue, PathModifier, RequestRedirect, Scheme, UrlRewrite};
pub use hostname::{Hostname, InvalidHostname};
pub use listener::{Listener, ListenerName, Protocol};
pub use name::{ObjectKey, RouteKind, RouteName};
pub use route::{
    Attachment, BackendRef, Fault, HeaderMatch, PathMatch, Route, RouteMatch, RouteRule, RuleAction, Target,
    Timeouts, ValueMatch,
};
use serde::{Deserialize, Serialize};

/// Everything that one Gateway serves, as keyed resources.
///
/// Resources are shared (`Arc`), so that a new `Config` in which one route changed costs one route.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// The listeners, by the name that is unique in this Gateway.
    pub listeners: BTreeMap<ListenerName, Arc<Listener>>,
    /// The routes that are attached to at least one of the listeners.
    pub routes: BTreeMap<RouteName, Arc<Route>>,
    /// Where requests go: one entry for each Service port that a rule names.
    pub backends: BTreeMap<BackendKey, Arc<Backend>>,
    /// The certificates that the listeners name, keys included.
    pub certificates: BTreeMap<CertificateKey, Arc<Certificate>>,
}
