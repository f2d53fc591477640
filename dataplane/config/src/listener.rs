//! A listener: a port that is open, the hostname it claims there, and how it speaks.

use serde::{Deserialize, Serialize};

use crate::{CertificateKey, Hostname};

/// A listener's name, unique in its Gateway (the SectionName of the specification).
pub type ListenerName = String;

/// One listener of the Gateway.
///
/// Several listeners may share a port; the hostname tells them apart (by SNI over TLS, then by Host).
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// The port clients connect to, as the user wrote it. Redirects without a port use it.
    pub port: u16,
    /// What is spoken on the port, and with which certificates.
    pub protocol: Protocol,
    /// The hosts this listener serves; `None` is all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
}

/// The protocol of a listener. All listeners of a port have the same one.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Protocol {
    /// HTTP/1.1, and HTTP/2 with prior knowledge, in cleartext.
    Http,
    /// HTTP/1.1 and HTTP/2 over TLS that ends here.
    ///
    /// With no certificate, the listener still claims its hostname and refuses every handshake for it: a listener whose
    /// security settings cannot be honoured is not served by a less specific one.
    Https {
        /// Certificates to choose from, the first that covers the server name, else the first.
        certificates: Vec<CertificateKey>,
    },
}
