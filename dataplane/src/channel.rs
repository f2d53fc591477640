//! A connection to the operator: TLS by our own CA, and a token that says who we are.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use postern_config::wire::{ConfigClient, MAX_MESSAGE};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;

/// How the operator is reached.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Where it is, as `https://HOST:PORT`. Its certificate is for this host.
    pub address: Uri,
    /// The file with the certificates that its own is signed by. Read for every connection, for they are replaced.
    pub ca: PathBuf,
    /// The file with the token. Read for every connection, for it expires.
    pub token: PathBuf,
}

/// Why there is no stream of updates (any more).
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// A file cannot be used.
    #[error("cannot use {}: {error}: the operator and the kubelet write it", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// There is no connection.
    #[error("cannot connect: {0}: is the operator running, and may this pod reach it?")]
    Connection(#[from] io::Error),
    /// The operator answered with an error, or the connection broke.
    #[error("{}: {}", .0.code(), .0.message())]
    Refused(#[from] tonic::Status),
    /// An update that cannot be understood.
    #[error("{0}: the operator is of a version that this one does not understand")]
    Malformed(#[from] postern_config::wire::Malformed),
}

/// Time for a connection to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// A silent peer is asked for a sign of life this often, and has this long for it.
const KEEPALIVE: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

impl Channel {
    /// The addresses that the host stands for now.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let host = self.address.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.address.port_u16().unwrap_or(443);
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }

    /// The token, as a request carries it.
    ///
    /// Fails when the file cannot be read, or holds something else.
    pub fn credential(&self) -> Result<MetadataValue<Ascii>, Broken> {
        let wrong = |error| Broken::File { path: self.token.clone(), error };
        let token = std::fs::read_to_string(&self.token).map_err(wrong)?;
        let value = MetadataValue::try_from(format!("Bearer {}", token.trim()));
        let mut value = value.map_err(|_| wrong(io::Error::other("it is not a token")))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Connects to one of the operator's addresses.
    ///
    /// Fails when nobody is there, or its certificate is not signed by a CA of the file.
    pub async fn connect(
        &self,
        address: SocketAddr,
    ) -> Result<ConfigClient<tonic::transport::Channel>, Broken> {
        let tls = TlsConnector::from(Arc::new(self.trust()?));
        let name = self.address.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let open = tower::service_fn(move |_: Uri| {
            let (tls, name) = (tls.clone(), name.clone());
            async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok::<_, io::Error>(TokioIo::new(tls.connect(name, stream).await?))
            }
        });
        // TLS is our connector's part, so that the trusted certificates are those of this very moment.
        let authority = self.address.authority().map_or("operator", |authority| authority.as_str());
        let endpoint = Endpoint::from_shared(format!("http://{authority}")).map_err(io::Error::other)?;
        let endpoint = endpoint
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        let connected = tokio::time::timeout(CONNECT, endpoint.connect_with_connector(open)).await;
        let connected = connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        let connection = connected.map_err(|error| io::Error::other(innermost(&error)))?;
        Ok(ConfigClient::new(connection).max_decoding_message_size(MAX_MESSAGE))
    }

    fn trust(&self) -> Result<ClientConfig, Broken> {
        let wrong = |error| Broken::File { path: self.ca.clone(), error };
        let bundle = std::fs::read(&self.ca).map_err(wrong)?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bundle) {
            let certificate = certificate.map_err(|error| wrong(io::Error::other(error)))?;
            roots.add(certificate).map_err(|error| wrong(io::Error::other(error)))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(io::Error::other)?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// What lies under the words "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
