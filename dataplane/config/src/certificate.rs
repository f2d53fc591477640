//! A certificate with its key. The key never appears in logs, dumps or debug output.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ObjectKey;

/// The Secret that a certificate came from.
pub type CertificateKey = ObjectKey;

/// A certificate chain and its private key, both PEM, found to belong together before they got here.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The chain in PEM, leaf first.
    pub chain: String,
    /// The key in PEM.
    pub key: PrivateKey,
}

/// A private key in PEM, redacted wherever it is printed.
#[derive(Clone, Eq, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PrivateKey(String);

impl PrivateKey {
    /// Takes the PEM text.
    pub fn new(pem: impl Into<String>) -> Self {
        Self(pem.into())
    }

    /// The PEM text, for the one place that loads it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
