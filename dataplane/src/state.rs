//! A configuration, compiled: what a request reads while it is served.
//!
//! Compiling happens beside the traffic. What did not change is taken over by identity or equality: a change of endpoints
//! keeps the routing table, a change of one route keeps the actions of all others, and certificates are parsed once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use postern_config::routing::{ListenerTable, RouteTable};
use postern_config::{
    AppProtocol, BackendKey, CertificateKey, Config, Fault, ListenerName, Protocol, Route, RouteName,
    RouteRule, RuleAction, Target, Timeouts,
};

use crate::backend::{Backend, Endpoint, Shares};
use crate::http::filters::Filters;
use crate::listen::{Certificates, Inbound, TlsPort};

/// What is served at one time. A request loads it once and keeps it to its end, so that nothing changes under it.
pub(crate) struct State {
    table: Arc<RouteTable<Arc<Action>>>,
    tls: HashMap<u16, TlsPort>,
    backends: Box<[Arc<Backend>]>,
    addresses: Arc<HashSet<SocketAddr, foldhash::fast::RandomState>>,
}

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
    /// The route, as the user named it.
    pub(crate) route: RouteName,
    /// `route` as text, for logs and metrics: `HTTPRoute/shop/web`.
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
pub(crate) struct BackendIndex(usize);

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
        self.tls.get(&port)?.get(listener.name()).cloned()
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

/// Compiles configurations, one after the other.
pub(crate) struct Compiler {
    config: Arc<Config>,
    table: Arc<RouteTable<Arc<Action>>>,
    actions: HashMap<RouteName, (Arc<Route>, Vec<Arc<Action>>)>,
    rules: Rules,
    backends: Backends,
    certificates: Certificates,
}

/// The names of rules that were given so far.
#[derive(Default)]
struct Rules {
    names: HashMap<(RouteName, usize), Arc<RuleName>>,
    next: u32,
}

/// The backends by index. An index stays what it is as long as a compiled action may hold it.
#[derive(Default)]
struct Backends {
    index: HashMap<BackendKey, usize>,
    all: Vec<Arc<Backend>>,
    addresses: Arc<HashSet<SocketAddr, foldhash::fast::RandomState>>,
}

/// Backends that are gone and still have an index, beyond those that are there, before all are numbered anew.
const STALE_BACKENDS: usize = 1024;

impl Compiler {
    /// Fails when the random number generator of the operating system does.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            config: Arc::default(),
            table: State::empty().table,
            actions: HashMap::new(),
            rules: Rules::default(),
            backends: Backends::default(),
            certificates: Certificates::new()?,
        })
    }

    /// The state of a configuration, and the certificates that do not load.
    pub(crate) fn compile(&mut self, config: &Arc<Config>) -> (State, BTreeMap<CertificateKey, String>) {
        let refused = self.certificates.update(&config.certificates);
        let renumber = self.backends.index.len() > 2 * config.backends.len() + STALE_BACKENDS;
        if renumber {
            self.backends = Backends::default();
            self.actions.clear();
        }
        let same_routes = same(&self.config.routes, &config.routes);
        if renumber || !same_routes || !same(&self.config.listeners, &config.listeners) {
            self.table = Arc::new(self.build(config));
        }
        if renumber || !same(&self.config.backends, &config.backends) {
            self.backends.update(config);
        }
        let tls = self.tls(config);
        self.config = Arc::clone(config);
        let state = State {
            table: Arc::clone(&self.table),
            tls,
            backends: self.backends.all.iter().cloned().collect(),
            addresses: Arc::clone(&self.backends.addresses),
        };
        (state, refused)
    }

    /// The ids of all rules of the last configuration.
    pub(crate) fn rule_ids(&self) -> HashSet<u32, foldhash::fast::RandomState> {
        self.rules.names.values().map(|rule| rule.id).collect()
    }

    fn build(&mut self, config: &Config) -> RouteTable<Arc<Action>> {
        let mut before = std::mem::take(&mut self.actions);
        for (name, route) in &config.routes {
            let kept = before.remove(name).filter(|(old, _)| Arc::ptr_eq(old, route) || old == route);
            let actions = kept.map_or_else(
                || route.rules.iter().map(|rule| Arc::new(self.action(name, rule))).collect(),
                |(_, actions)| actions,
            );
            self.actions.insert(name.clone(), (Arc::clone(route), actions));
        }
        let actions = &self.actions;
        self.rules.names.retain(|(route, index), _| {
            actions.get(route).is_some_and(|(route, _)| route.rules.iter().any(|rule| rule.index == *index))
        });
        RouteTable::build(config, |name, route, rule| {
            let place = route.rules.iter().position(|other| std::ptr::eq(other, rule));
            let compiled =
                self.actions.get(name).zip(place).and_then(|((_, actions), place)| actions.get(place));
            Arc::clone(compiled.expect("every rule was compiled above"))
        })
    }

    fn action(&mut self, route: &RouteName, rule: &RouteRule) -> Action {
        let does = match &rule.action {
            RuleAction::Fail(fault) => Does::Fail(fault.clone()),
            RuleAction::Forward { filters, backends, timeouts } => {
                let share = |backend: &postern_config::BackendRef| {
                    let to = match &backend.target {
                        Target::Backend(key) => Destination::Backend(self.backends.index(key)),
                        Target::Invalid(fault) => Destination::Invalid(fault.clone()),
                    };
                    let filters = Filters::compile(&backend.filters);
                    (backend.weight, Share { to, protocol: backend.protocol, filters })
                };
                Does::Forward(Forward {
                    filters: Filters::compile(filters),
                    timeouts: *timeouts,
                    shares: Shares::new(backends.iter().map(share).collect::<Vec<_>>()),
                })
            }
        };
        Action { rule: self.rules.name(route, rule.index), does }
    }

    fn tls(&mut self, config: &Config) -> HashMap<u16, TlsPort> {
        let mut ports: HashMap<u16, TlsPort> = HashMap::new();
        for (name, listener) in &config.listeners {
            match &listener.protocol {
                Protocol::Http => {}
                Protocol::Https { certificates } => {
                    let port = ports.entry(listener.port).or_default();
                    if let Some(config) = self.certificates.config(certificates) {
                        port.insert(ListenerName::clone(name), config);
                    }
                }
            }
        }
        ports
    }
}

/// Whether two maps of shared resources hold the same, looking into those that are not identical.
fn same<K: PartialEq, V: PartialEq>(a: &BTreeMap<K, Arc<V>>, b: &BTreeMap<K, Arc<V>>) -> bool {
    let pairs = || a.iter().zip(b);
    a.len() == b.len() && pairs().all(|((ka, va), (kb, vb))| ka == kb && (Arc::ptr_eq(va, vb) || va == vb))
}

impl Rules {
    fn name(&mut self, route: &RouteName, index: usize) -> Arc<RuleName> {
        let next = &mut self.next;
        let name = self.names.entry((route.clone(), index)).or_insert_with(|| {
            *next = next.wrapping_add(1);
            let label = HeaderValue::try_from(format!("{} rule {index}", route.key));
            Arc::new(RuleName {
                route: route.clone(),
                route_text: route.to_string().into(),
                index,
                label: label.unwrap_or_else(|_| HeaderValue::from_static("rule")),
                id: *next,
            })
        });
        Arc::clone(name)
    }
}

impl Backends {
    fn index(&mut self, key: &BackendKey) -> BackendIndex {
        let index = self.index.get(key).copied().unwrap_or_else(|| {
            self.all.push(Arc::new(Backend::new(key.clone(), [])));
            self.index.insert(key.clone(), self.all.len() - 1);
            self.all.len() - 1
        });
        BackendIndex(index)
    }

    /// Gives every backend its present endpoints. Those that stay keep their counts.
    fn update(&mut self, config: &Config) {
        for key in config.backends.keys() {
            self.index(key);
        }
        let mut addresses = HashSet::default();
        for (key, &index) in &self.index {
            let wanted = config.backends.get(key).map_or(&[][..], |backend| &backend.endpoints);
            addresses.extend(wanted);
            let now = &self.all[index];
            if now.endpoints().iter().map(|endpoint| &endpoint.address).eq(wanted) {
                continue;
            }
            let endpoints = wanted.iter().map(|address| {
                let kept = now.endpoints().iter().find(|endpoint| endpoint.address == *address);
                kept.map_or_else(|| Arc::new(Endpoint::new(*address)), Arc::clone)
            });
            self.all[index] = Arc::new(Backend::new(key.clone(), endpoints.collect::<Vec<_>>()));
        }
        self.addresses = Arc::new(addresses);
    }
}
