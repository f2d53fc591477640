//! From a listener's port to a connection that speaks HTTP: bind, accept, TLS, protocol.

mod accept;
mod bind;
mod sni;
mod stream;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) use accept::{Accepted, Acceptor, serve};
pub use bind::Binds;
pub(crate) use bind::Ports;
pub(crate) use stream::Conn;
pub use tls::check_certificate;
pub(crate) use tls::{Certificates, TlsPort};

use crate::Shared;
use crate::drain::Drain;

/// Where a connection came in, and who is at its other end. All requests of a connection share it.
pub(crate) struct Inbound {
    /// The plane it came to.
    pub(crate) shared: Arc<Shared>,
    /// The listener port, as the user wrote it.
    pub(crate) port: u16,
    /// The address of the client.
    pub(crate) client: SocketAddr,
    /// The TLS session, if the port has TLS.
    pub(crate) tls: Option<Tls>,
    /// When to end.
    pub(crate) drain: Drain,
}

/// What is known of the TLS session of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// The server name the client asked for, in lower case.
    pub(crate) server_name: Option<Box<str>>,
    /// `1.2` or `1.3`.
    pub(crate) version: &'static str,
    /// Whether HTTP/2 was agreed on.
    pub(crate) http2: bool,
}

impl Inbound {
    /// `https` or `http`.
    pub(crate) fn scheme(&self) -> postern_config::Scheme {
        match self.tls {
            Some(_) => postern_config::Scheme::Https,
            None => postern_config::Scheme::Http,
        }
    }

    /// Whether no request should follow the present one on this connection.
    pub(crate) fn is_at_its_last(&self) -> bool {
        self.shared.is_leaving.load(Ordering::Relaxed) || self.drain.has_begun()
    }

    /// Whether the peer is a proxy whose forwarding headers are believed.
    pub(crate) fn is_trusted(&self) -> bool {
        let client = self.client.ip().to_canonical();
        self.shared.settings.trusted_proxies.iter().any(|network| network.contains(&client))
    }
}
