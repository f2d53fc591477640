//! One request over TLS, with or without trust in a certificate that was seen before.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::anyone::Anyone;
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
