//! A configuration, compiled: what a request reads while it is served.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use postern_config::routing::{ListenerTable, RouteTable};
use postern_config::{AppProtocol, Config, Fault, Timeouts};

use crate::backend::{Backend, Shares};
use crate::http::filters::Filters;
use crate::listen::{Inbound, TlsPort};

/// What is served at one time. A request loads it once and keeps it to its end, so that nothing changes under it.
pub(crate) struct State {
    pub(crate) table: Arc<RouteTable<Arc<Action>>>,
    pub(crate) tls: HashMap<u16, TlsPort>,
    pub(crate) backends: Box<[Arc<Backend>]>,
    /// The addresses of all endpoints.
    pub(crate) addresses: Arc<Addresses>,
}

/// Addresses of endpoints.
pub(crate) type Addresses = HashSet<SocketAddr, foldhash::fast::RandomState>;

/// What a rule does.
#[derive(Debug)]
pub(crate) struct Action {
    /// Whose it is.
    pub(crate) rule: Arc<RuleName>,
    pub(crate) does: Does,
}

/// The name of a rule, in the forms that are needed for every request.
#[derive(Debug)]
pub(crate) struct RuleName {
    /// The route as text, for logs and metrics: `HTTPRoute/shop/web`.
    pub(crate) route_text: Box<str>,
    /// The index of the rule in the object.
    pub(crate) index: usize,
    /// For `x-postern-route`: `shop/web rule 0`.
    pub(crate) label: HeaderValue,
    /// Tells rules apart in this process; the same rule keeps it when the configuration changes.
    pub(crate) id: u32,
}

/// What happens to a request.
#[derive(Debug)]
pub(crate) enum Does {
    /// Filters, then one of the backends.
    Forward(Forward),
    /// 500: the rule cannot be honoured.
    Fail(Fault),
}

/// Filters of a rule, and the backends it forwards to.
#[derive(Debug)]
pub(crate) struct Forward {
    pub(crate) filters: Filters,
    pub(crate) timeouts: Timeouts,
    /// Where to; nothing to choose is 500.
    pub(crate) shares: Shares<Share>,
}

/// A backendRef with a share.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) to: Destination,
    pub(crate) protocol: AppProtocol,
    pub(crate) filters: Filters,
}

/// Where a share goes.
#[derive(Debug)]
pub(crate) enum Destination {
    /// A backend, to be looked up with [`State::backend`].
    Backend(BackendIndex),
    /// 500: the reference cannot be followed.
    Invalid(Fault),
}

/// Names a backend of a [`State`] whose table it was compiled with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackendIndex(pub(crate) usize);

/// Why no listener takes a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unlisted {
    /// 404: no listener of the port claims the host.
    NotFound,
    /// 421: another listener than the one the connection was made for claims it.
    Misdirected,
}

impl State {
    /// Nothing.
    pub(crate) fn empty() -> Self {
        Self {
            table: Arc::new(RouteTable::build(&Config::default(), |_, _, _| {
                unreachable!("there is no rule")
            })),
            tls: HashMap::new(),
            backends: Box::default(),
            addresses: Arc::default(),
        }
    }

    /// The listener that takes a request for `host` on a connection.
    ///
    /// Both the host and the TLS server name are looked up as of now, so that a connection from before a change goes on as
    /// long as the two agree.
    pub(crate) fn listener(
        &self,
        inbound: &Inbound,
        host: &str,
    ) -> Result<&ListenerTable<Arc<Action>>, Unlisted> {
        let port = self.table.port(inbound.port).ok_or(Unlisted::NotFound)?;
        let listener = port.listener(host).ok_or(Unlisted::NotFound)?;
        // A port that has got TLS answers nothing in cleartext any more, nor the other way round.
        if inbound.tls.is_some() != self.is_tls(inbound.port) {
            return Err(Unlisted::Misdirected);
        }
        if let Some(tls) = &inbound.tls {
            let named = port.listener(tls.server_name.as_deref().unwrap_or_default());
            if named.is_none_or(|named| named.name() != listener.name()) {
                return Err(Unlisted::Misdirected);
            }
        }
        Ok(listener)
    }

    /// The backend of a share.
    pub(crate) fn backend(&self, index: BackendIndex) -> &Arc<Backend> {
        &self.backends[index.0]
    }

    /// Whether the port ends TLS.
    pub(crate) fn is_tls(&self, port: u16) -> bool {
        self.tls.contains_key(&port)
    }

    /// What to present to a TLS client that asks for `host`; `None` is nothing.
    pub(crate) fn tls_config(&self, port: u16, host: &str) -> Option<Arc<rustls::ServerConfig>> {
        let listener = self.table.port(port)?.listener(host)?;
        self.tls.get(&port)?.get(&**listener.name()).cloned()
    }

    /// The listener ports.
    pub(crate) fn ports(&self) -> BTreeSet<u16> {
        self.table.ports().map(|(port, _)| port).collect()
    }

    /// Whether an endpoint of some backend has this address.
    pub(crate) fn has_endpoint(&self, address: SocketAddr) -> bool {
        self.addresses.contains(&address)
    }
}
