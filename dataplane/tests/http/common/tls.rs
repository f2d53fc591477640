//! TLS towards the gateway: a certificate, and a client that believes anything.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A self-signed certificate for `names`, as it stands in a configuration.
pub fn certificate(names: &[&str]) -> Value {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    json!({ "chain": made.cert.pem(), "key": made.signing_key.serialize_pem() })
}

/// A TLS connection that asks for `name` and offers the protocols.
pub async fn handshake(
    address: std::net::SocketAddr,
    name: &str,
    protocols: &[&str],
) -> TlsStream<TcpStream> {
    let mut config = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anything))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let tcp = TcpStream::connect(address).await.expect("the gateway listens");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.expect("a handshake")
}

#[derive(Debug)]
struct Anything;

impl ServerCertVerifier for Anything {
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
