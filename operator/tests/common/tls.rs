//! One request over TLS, with or without trust in a certificate that was seen before.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};

use crate::client::{Response, exchange};

/// What is known of the peer.
pub struct Peer {
    /// Its certificate.
    pub certificate: CertificateDer<'static>,
}

/// GET over TLS with `host` as the server name. With `trusted`, the certificate has to be that one and has to be for `host`.
pub fn get(
    address: SocketAddr,
    host: &str,
    path: &str,
    trusted: Option<&CertificateDer<'static>>,
) -> io::Result<(Peer, Response)> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.expect("ring has the default versions");
    let config = match trusted {
        Some(certificate) => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate.clone()).expect("a certificate");
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        None => {
            let anyone = Arc::new(Anyone(provider));
            builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
        }
    };
    let name = ServerName::try_from(host.to_owned()).expect("a host name");
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut stream = StreamOwned::new(connection, tcp);
    let response = exchange(&mut stream, host, path, &[])?;
    let certificate =
        stream.conn.peer_certificates().and_then(|all| all.first()).expect("TLS has one").clone();
    Ok((Peer { certificate: certificate.into_owned() }, response))
}

/// Trusts anyone: to see which certificate is shown.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
