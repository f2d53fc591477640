//! A certificate authority for tests, and clients that trust it.

use std::sync::Arc;

use postern_config::{Certificate, PrivateKey};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ClientConfig, RootCertStore};

/// Signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// A certificate for these names.
    pub fn certificate(&self, names: &[&str]) -> Certificate {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("names");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Certificate { chain: certificate.pem(), key: PrivateKey::new(key.serialize_pem()) }
    }

    /// A client that trusts this authority and offers these protocols.
    pub fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        self.client_of(rustls::DEFAULT_VERSIONS, protocols)
    }

    /// The same with TLS versions.
    pub fn client_of(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        protocols: &[&str],
    ) -> Arc<ClientConfig> {
        postern_dataplane::install_crypto();
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        let mut config = ClientConfig::builder_with_protocol_versions(versions)
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}
