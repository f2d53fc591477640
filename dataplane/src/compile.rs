//! From a configuration to the state that serves it, beside the traffic.
//!
//! What did not change is taken over, by identity or else by equality: a change of endpoints keeps the routing table, a
//! change of one route keeps the actions of all others, and a certificate is parsed once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;

use http::HeaderValue;
use postern_config::routing::RouteTable;
use postern_config::{
    BackendKey, BackendRef, CertificateKey, Config, Protocol, Route, RouteName, RouteRule, RuleAction, Target,
};

use crate::backend::{Backend, Endpoint, Shares};
use crate::http::filters::Filters;
use crate::listen::{Certificates, TlsPort};
use crate::state::{Action, Addresses, BackendIndex, Destination, Does, Forward, RuleName, Share, State};

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
    addresses: Arc<Addresses>,
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
            // It holds actions with the numbers of before.
            self.table = State::empty().table;
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
            let (name, actions) = match before.remove_entry(name) {
                Some((name, (old, actions))) if Arc::ptr_eq(&old, route) || old == *route => (name, actions),
                _ => {
                    let compile = |rule| Arc::new(self.action(name, rule));
                    (name.clone(), route.rules.iter().map(compile).collect())
                }
            };
            self.actions.insert(name, (Arc::clone(route), actions));
        }
        let actions = &self.actions;
        self.rules.names.retain(|(route, index), _| {
            actions.get(route).is_some_and(|(route, _)| route.rules.iter().any(|rule| rule.index == *index))
        });
        self.table.rebuild(config, |name, route, rule| {
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
                let share = |backend: &BackendRef| {
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
                        port.insert(name.clone(), config);
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
            self.all.push(Arc::new(Backend::new(key, [])));
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
        let mut addresses = Addresses::default();
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
            self.all[index] = Arc::new(Backend::new(key, endpoints.collect::<Vec<_>>()));
        }
        self.addresses = Arc::new(addresses);
    }
}

#[cfg(test)]
mod tests {
    use postern_config::{Attachment, Listener, ObjectKey, RouteKind, RouteMatch, Timeouts};

    use super::*;

    fn key(service: usize) -> BackendKey {
        BackendKey { service: ObjectKey::new("test", format!("s{service}")), port: 80 }
    }

    /// A route for each of the services, and one endpoint for each.
    fn config(services: impl IntoIterator<Item = usize>) -> Config {
        let mut config = Config::default();
        let listener = Listener { port: 80, protocol: Protocol::Http, hostname: None };
        config.listeners.insert("web".into(), Arc::new(listener));
        for service in services {
            let forward = RuleAction::Forward {
                filters: Vec::new(),
                backends: vec![BackendRef {
                    target: Target::Backend(key(service)),
                    protocol: Default::default(),
                    weight: 1,
                    filters: Vec::new(),
                }],
                timeouts: Timeouts::default(),
            };
            let rule =
                RouteRule { index: 0, name: None, matches: vec![RouteMatch::default()], action: forward };
            let attachments = vec![Attachment { listener: "web".into(), hostnames: Vec::new() }];
            let route = Route { created: 0, attachments, rules: vec![rule] };
            let name =
                RouteName { key: ObjectKey::new("test", format!("r{service}")), kind: RouteKind::Http };
            config.routes.insert(name, Arc::new(route));
            let endpoints = vec![([10, 0, 0, 1], 8000 + u16::try_from(service % 1000).unwrap_or(0)).into()];
            config.backends.insert(key(service), Arc::new(postern_config::Backend { endpoints }));
        }
        config
    }

    fn compile(compiler: &mut Compiler, config: Config) -> State {
        compiler.compile(&Arc::new(config)).0
    }

    /// The actions in the order of precedence.
    fn actions(state: &State) -> Vec<Arc<Action>> {
        let listener = state.table.port(80).and_then(|port| port.listener("x")).expect("the listener");
        listener.candidates().map(|candidate| Arc::clone(candidate.rule().action())).collect()
    }

    /// The name and first address of the backend that an action forwards to.
    fn target(state: &State, action: &Action) -> (String, Option<std::net::SocketAddr>) {
        let Does::Forward(forward) = &action.does else { panic!("it forwards") };
        let Destination::Backend(index) = forward.shares.choose().expect("a share").to else {
            panic!("a backend")
        };
        let backend = state.backend(index);
        (backend.name.to_string(), backend.endpoints().first().map(|endpoint| endpoint.address))
    }

    #[test]
    fn a_change_of_endpoints_keeps_the_table_and_the_endpoints_that_stay() {
        let mut compiler = Compiler::new().expect("random numbers");
        let before = compile(&mut compiler, config([1, 2]));
        let mut next = config([1, 2]);
        let more = vec![([10, 0, 0, 1], 8001).into(), ([10, 0, 0, 2], 8001).into()];
        next.backends.insert(key(1), Arc::new(postern_config::Backend { endpoints: more }));
        let after = compile(&mut compiler, next);
        assert!(Arc::ptr_eq(&before.table, &after.table));
        let backend = |state: &State| {
            let named = state.backends.iter().find(|backend| *backend.name == *"test/s1:80");
            Arc::clone(named.expect("the backend"))
        };
        let (before_one, after_one) = (backend(&before), backend(&after));
        assert_eq!((before_one.endpoints().len(), after_one.endpoints().len()), (1, 2));
        assert!(Arc::ptr_eq(&before_one.endpoints()[0], &after_one.endpoints()[0]));
        assert!(
            after.has_endpoint(([10, 0, 0, 2], 8001).into())
                && !before.has_endpoint(([10, 0, 0, 2], 8001).into())
        );
    }

    #[test]
    fn a_change_of_one_route_keeps_the_actions_and_names_of_the_others() {
        let mut compiler = Compiler::new().expect("random numbers");
        let before = actions(&compile(&mut compiler, config([1, 2])));
        let mut next = config([1, 2]);
        let name: RouteName = "HTTPRoute/test/r2".parse().expect("a name");
        let mut changed = Route::clone(&next.routes[&name]);
        changed.created = 7;
        next.routes.insert(name, Arc::new(changed));
        let after = actions(&compile(&mut compiler, next));
        assert!(before.iter().filter(|old| after.iter().any(|new| Arc::ptr_eq(old, new))).count() == 1);
        for action in &before {
            assert!(after.iter().any(|new| new.rule.id == action.rule.id), "{:?}", action.rule);
        }
    }

    #[test]
    fn backends_that_come_and_go_never_change_where_rules_lead() {
        let mut compiler = Compiler::new().expect("random numbers");
        for round in 0..6 {
            let from = round * 700;
            let state = compile(&mut compiler, config(from..from + 700));
            for (action, service) in actions(&state).iter().zip({
                let mut names: Vec<_> = (from..from + 700).collect();
                names.sort_by_key(ToString::to_string);
                names
            }) {
                let port = 8000 + u16::try_from(service % 1000).expect("small");
                let expected = (format!("test/s{service}:80"), Some(([10, 0, 0, 1], port).into()));
                assert_eq!(target(&state, action), expected, "round {round}");
            }
            assert!(
                state.backends.len() <= 2 * 700 + STALE_BACKENDS + 700,
                "{} backends",
                state.backends.len()
            );
        }
    }
}
