//! TLS towards the gateway: a certificate, and a client that believes anything.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::anyone::Anyone;

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
        .with_custom_certificate_verifier(Arc::new(Anyone(Arc::new(ring::default_provider()))))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let tcp = TcpStream::connect(address).await.expect("the gateway listens");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.expect("a handshake")
}
