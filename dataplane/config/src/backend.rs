//! Where requests go: a Service port and its ready endpoints.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ObjectKey;
use crate::name::InvalidName;

/// A Service port, printed as `namespace/name:port`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BackendKey {
    /// The Service.
    pub service: ObjectKey,
    /// The Service port (not the target port).
    pub port: u16,
}

/// What is known of a Service port. With no endpoint, requests for it answer 503.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Addresses that are ready, in ascending order without duplicates.
    pub endpoints: Vec<Endpoint>,
}

/// An address that serves the backend.
pub type Endpoint = SocketAddr;

/// What is spoken to a backend: the Service port's `appProtocol`, unless the kind of the route decides it.
///
/// It belongs to the reference and not to the backend, since an HTTPRoute and a GRPCRoute may share a Service port.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppProtocol {
    /// HTTP/1.1, WebSocket included (`http`, `kubernetes.io/ws` or nothing).
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge in cleartext (`kubernetes.io/h2c`, and every backend of a GRPCRoute).
    H2c,
}

impl fmt::Display for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.service, self.port)
    }
}

impl FromStr for BackendKey {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let wrong = || InvalidName::new(text, "NAMESPACE/NAME:PORT");
        let (service, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        Ok(Self { service: service.parse()?, port: port.parse().map_err(|_| wrong())? })
    }
}

impl TryFrom<String> for BackendKey {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<BackendKey> for String {
    fn from(key: BackendKey) -> Self {
        key.to_string()
    }
}
