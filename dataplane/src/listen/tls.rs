//! TLS that ends here: the listener is chosen by server name first, and its certificates decide the rest.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use postern_config::{Certificate, CertificateKey, ListenerName};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{
    Acceptor, ClientHello, NoServerSessionStorage, ParsedCertificate, ProducesTickets, ResolvesServerCert,
    ServerConfig,
};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Tls, sni};
use crate::state::State;

/// The TLS side of a port: what each of its listeners presents. A listener that is not in here refuses its handshakes.
pub(crate) type TlsPort = HashMap<ListenerName, Arc<ServerConfig>>;

/// The certificates that were loaded, kept from one configuration to the next.
pub(crate) struct Certificates {
    provider: Arc<CryptoProvider>,
    /// One for all listeners and all times, so that a client that comes back resumes its session across changes. rustls
    /// resumes only for the same server name.
    tickets: Arc<dyn ProducesTickets>,
    loaded: BTreeMap<CertificateKey, Loaded>,
    configs: HashMap<Vec<CertificateKey>, Arc<ServerConfig>>,
}

struct Loaded {
    from: Arc<Certificate>,
    key: Result<Arc<CertifiedKey>, String>,
}

/// Why there is no TLS session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// No listener claims the server name, or the one that does has no certificate.
    #[error("no listener serves the server name")]
    UnknownName,
    /// The client broke off, or speaks no TLS that we speak.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

/// fatal(2) unrecognized_name(112) in a record of its own (RFC 8446 section 6, RFC 6066 section 3).
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x70];

impl Certificates {
    /// Fails when the random number generator of the operating system does.
    pub(crate) fn new() -> io::Result<Self> {
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| {
            // Embedders that have not chosen get ring.
            Arc::new(rustls::crypto::ring::default_provider())
        });
        let tickets = rustls::crypto::ring::Ticketer::new().map_err(io::Error::other)?;
        Ok(Self { provider, tickets, loaded: BTreeMap::new(), configs: HashMap::new() })
    }

    /// Loads what is new or changed, and forgets what is gone. Returns what does not load.
    pub(crate) fn update(
        &mut self,
        wanted: &BTreeMap<CertificateKey, Arc<Certificate>>,
    ) -> BTreeMap<CertificateKey, String> {
        let mut before = std::mem::take(&mut self.loaded);
        let mut changed = before.len() != wanted.len();
        for (name, certificate) in wanted {
            let kept = before.remove(name).filter(|loaded| same(&loaded.from, certificate));
            changed |= kept.is_none();
            let loaded = kept.unwrap_or_else(|| Loaded {
                from: Arc::clone(certificate),
                key: load(certificate, &self.provider).map(Arc::new),
            });
            self.loaded.insert(name.clone(), loaded);
        }
        if changed {
            self.configs.clear();
        }
        let refused =
            self.loaded.iter().filter_map(|(name, loaded)| Some((name.clone(), loaded.key.clone().err()?)));
        refused.collect()
    }

    /// What a listener with these certificates presents; `None` when none of them loads.
    pub(crate) fn config(&mut self, names: &[CertificateKey]) -> Option<Arc<ServerConfig>> {
        if let Some(config) = self.configs.get(names) {
            return Some(Arc::clone(config));
        }
        let keys = names.iter().filter_map(|name| self.loaded.get(name)?.key.as_ref().ok().cloned());
        let choice = Choice(keys.collect());
        if choice.0.is_empty() {
            return None;
        }
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions();
        let mut config = config.ok()?.with_no_client_auth().with_cert_resolver(Arc::new(choice));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = Arc::clone(&self.tickets);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let config = Arc::new(config);
        self.configs.insert(names.to_vec(), Arc::clone(&config));
        Some(config)
    }
}

fn same(a: &Arc<Certificate>, b: &Arc<Certificate>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

/// Whether a certificate can be served with its key.
///
/// Fails with what is wrong with it.
pub fn check_certificate(certificate: &Certificate) -> Result<(), String> {
    load(certificate, &rustls::crypto::ring::default_provider()).map(drop)
}

fn load(certificate: &Certificate, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let chain = CertificateDer::pem_slice_iter(certificate.chain.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("the certificate chain is not PEM: {error}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in the chain".into());
    }
    let key = PrivateKeyDer::from_pem_slice(certificate.key.expose().as_bytes())
        .map_err(|error| format!("the private key is not PEM: {error}"))?;
    CertifiedKey::from_der(chain, key, provider)
        .map_err(|error| format!("the certificate does not load: {error}"))
}

/// The certificates of one listener.
struct Choice(Vec<Arc<CertifiedKey>>);

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} certificates", self.0.len())
    }
}

impl ResolvesServerCert for Choice {
    /// The first that covers the name and that the client can verify, else the first that covers it, else the first.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let [only] = self.0.as_slice() {
            return Some(Arc::clone(only));
        }
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let covers = |key: &&Arc<CertifiedKey>| name.as_ref().is_some_and(|name| covers(key, name));
        let signs = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let all = || self.0.iter();
        all()
            .filter(covers)
            .find(signs)
            .or_else(|| all().find(covers))
            .or_else(|| all().find(signs))
            .or_else(|| all().next())
            .cloned()
    }
}

fn covers(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let parsed = key.cert.first().and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
    parsed.is_some_and(|leaf| verify_server_name(&leaf, name).is_ok())
}

/// Reads the client's first message, chooses the listener by its server name, and shakes hands with that listener's
/// certificate. A name that nobody serves is told so, and gets no certificate to look at.
pub(crate) async fn handshake(
    tcp: TcpStream,
    port: u16,
    state: &ArcSwap<State>,
) -> Result<(TlsStream<TcpStream>, Tls), HandshakeError> {
    let mut start = LazyConfigAcceptor::new(Acceptor::default(), tcp).await?;
    let host = sni::host(start.client_hello().server_name()).into_owned();
    let Some(config) = state.load().tls_config(port, &host) else {
        // Best effort: the client may be gone, and gets nothing else in any case.
        let _ = start.io.write_all(&UNRECOGNIZED_NAME).await;
        return Err(HandshakeError::UnknownName);
    };
    let stream = start.into_stream(config).await?;
    let session = stream.get_ref().1;
    let version = match session.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "1.3",
        _ => "1.2",
    };
    let http2 = session.alpn_protocol() == Some(b"h2");
    let server_name = Some(host).filter(|host| !host.is_empty()).map(String::into_boxed_str);
    Ok((stream, Tls { server_name, version, http2 }))
}
