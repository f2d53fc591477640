//! From a port and a request to the rule that takes it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::bucket::Bucket;
use super::header::LastHeader;
use super::host::HostMap;
use super::path::merge_slashes;
use super::regex::{Compiled, Compiler};
use super::{Candidate, Explanation, Request, Rule, Selected};
use crate::{Config, Hostname, Listener, ListenerName, Route, RouteName, RouteRule};

/// The routing tables of everything that one Gateway serves. `A` is what a rule compiles to.
pub struct RouteTable<A> {
    ports: BTreeMap<u16, PortTable<A>>,
    expressions: Compiled,
}

/// The listeners of a port.
pub struct PortTable<A> {
    listeners: Vec<ListenerTable<A>>,
    hosts: HostMap<usize>,
}

/// The routes of a listener.
pub struct ListenerTable<A> {
    name: Arc<str>,
    hostname: Option<Hostname>,
    hosts: HostMap<Bucket<A>>,
}

/// A route, for a hostname of its own; `None` if it names none.
type Member<'c> = (Option<&'c Hostname>, (&'c RouteName, &'c Arc<Route>));

impl<A> RouteTable<A> {
    /// The tables of a configuration. `compile` is called once for each rule.
    ///
    /// Total: a regular expression that [`super::check_regex`] refuses matches nothing, a listener that a route names and
    /// that does not exist is passed over, and of two listeners with one port and hostname the first by name is taken.
    pub fn build(config: &Config, compile: impl FnMut(&RouteName, &Route, &RouteRule) -> A) -> Self {
        Self::build_with(None, config, compile)
    }

    /// The tables of a configuration that follows this one's: what [`Self::build`] gives, as long as `compile` gives for the
    /// rules of a route that is as it was what it gave before. Hostnames whose routes are all as they were are taken over
    /// as they are, and so is every regular expression.
    pub fn rebuild(&self, config: &Config, compile: impl FnMut(&RouteName, &Route, &RouteRule) -> A) -> Self {
        Self::build_with(Some(self), config, compile)
    }

    fn build_with(
        before: Option<&Self>,
        config: &Config,
        mut compile: impl FnMut(&RouteName, &Route, &RouteRule) -> A,
    ) -> Self {
        let mut compiler = Compiler::new(before.map(|before| &before.expressions));
        let mut rules = Rules { of: HashMap::default(), compile: &mut compile };
        let mut attached: BTreeMap<&ListenerName, Vec<Member<'_>>> = BTreeMap::new();
        for (name, route) in &config.routes {
            compiler.keep(route);
            for attachment in &route.attachments {
                let members = attached.entry(&attachment.listener).or_default();
                members.extend(hostnames(&attachment.hostnames).map(|hostname| (hostname, (name, route))));
            }
        }
        let mut ports: BTreeMap<u16, PortTable<A>> = BTreeMap::new();
        for (name, listener) in &config.listeners {
            let members = attached.remove(name).unwrap_or_default();
            let before = before.and_then(|before| before.listener(name));
            let table = ListenerTable::new(before, name, listener, members, &mut rules, &mut compiler);
            ports.entry(listener.port).or_default().add(table);
        }
        Self { ports, expressions: compiler.finish() }
    }

    fn listener(&self, name: &str) -> Option<&ListenerTable<A>> {
        self.ports.values().flat_map(|port| &port.listeners).find(|listener| *listener.name == *name)
    }

    /// The ports, in ascending order.
    pub fn ports(&self) -> impl Iterator<Item = (u16, &PortTable<A>)> {
        self.ports.iter().map(|(port, table)| (*port, table))
    }

    /// The listeners of a port; `None` if no listener names the port.
    pub fn port(&self, port: u16) -> Option<&PortTable<A>> {
        self.ports.get(&port)
    }
}

/// The rules of routes, made when they are asked for first.
struct Rules<'c, A, F> {
    of: HashMap<&'c RouteName, Made<A>, RandomState>,
    compile: F,
}

/// A route's name and its rules, to be shared.
type Made<A> = (Arc<RouteName>, Vec<Arc<Rule<A>>>);

impl<'c, A, F: FnMut(&RouteName, &Route, &RouteRule) -> A> Rules<'c, A, F> {
    fn of(&mut self, name: &'c RouteName, route: &'c Arc<Route>) -> &Made<A> {
        let compile = &mut self.compile;
        self.of.entry(name).or_insert_with(|| {
            let name = Arc::new(name.clone());
            let rule = |(position, rule)| {
                let action = compile(&name, route, rule);
                Arc::new(Rule::new(Arc::clone(&name), Arc::clone(route), position, action))
            };
            let rules = route.rules.iter().enumerate().map(rule).collect();
            (name, rules)
        })
    }
}

/// The hostnames of an attachment; one `None` stands for all hosts.
fn hostnames(hostnames: &[Hostname]) -> impl Iterator<Item = Option<&Hostname>> {
    hostnames.iter().map(Some).chain(hostnames.is_empty().then_some(None))
}

/// The candidates in the order of precedence. Each rank is computed once, for it is gathered from several places.
fn sorted<A>(candidates: Vec<Candidate<A>>) -> Vec<Candidate<A>> {
    if candidates.len() < 2 {
        return candidates;
    }
    let ranks: Vec<_> = candidates.iter().map(Candidate::rank).collect();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|a, b| ranks[*a].cmp(&ranks[*b]));
    drop(ranks);
    let mut candidates: Vec<_> = candidates.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| candidates[at].take()).collect()
}

impl<A> PortTable<A> {
    fn add(&mut self, listener: ListenerTable<A>) {
        self.hosts.insert(listener.hostname.as_ref(), self.listeners.len());
        self.listeners.push(listener);
    }

    /// The listener with the most specific hostname for `host`, be it a request's or a TLS server name: only its
    /// routes are looked at, whether or not one of them matches (listener isolation).
    pub fn listener(&self, host: &str) -> Option<&ListenerTable<A>> {
        self.hosts.find_map(host, |index| self.listeners.get(*index))
    }

    /// The listeners, by name.
    pub fn listeners(&self) -> impl Iterator<Item = &ListenerTable<A>> {
        self.listeners.iter()
    }
}

impl<A> Default for PortTable<A> {
    fn default() -> Self {
        Self { listeners: Vec::new(), hosts: HostMap::default() }
    }
}

impl<A> ListenerTable<A> {
    fn new<'c, F: FnMut(&RouteName, &Route, &RouteRule) -> A>(
        before: Option<&Self>,
        name: &ListenerName,
        listener: &Listener,
        members: Vec<Member<'c>>,
        rules: &mut Rules<'c, A, F>,
        compiler: &mut Compiler<'_>,
    ) -> Self {
        let mut by_hostname: HashMap<_, Vec<_>, RandomState> = HashMap::default();
        for (hostname, member) in members {
            by_hostname.entry(hostname).or_default().push(member);
        }
        let mut hosts = HostMap::default();
        for (hostname, members) in by_hostname {
            let same = before.and_then(|before| before.hosts.get(hostname));
            let bucket = match same.filter(|same| same.is_of(&members)) {
                Some(same) => {
                    same.keep(compiler);
                    same.clone()
                }
                None => bucket(hostname, &members, rules, compiler),
            };
            hosts.insert(hostname, bucket);
        }
        Self { name: name.as_str().into(), hostname: listener.hostname.clone(), hosts }
    }

    /// The listener's name, to be shared by what outlives this table.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The hosts that the listener serves; `None` is all.
    pub fn hostname(&self) -> Option<&Hostname> {
        self.hostname.as_ref()
    }

    /// All candidates, in the order of precedence. Takes time for all of them.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate<A>> {
        let mut buckets: Vec<&[Candidate<A>]> = self.hosts.values().map(Bucket::candidates).collect();
        buckets.sort_by(|a, b| a.first().map(Candidate::rank).cmp(&b.first().map(Candidate::rank)));
        buckets.into_iter().flatten()
    }

    /// The rule that takes the request; `None` is 404. Allocates nothing for an ordinary request.
    ///
    /// When no match under the most specific hostname holds, those under the next one are looked at.
    pub fn select(&self, request: &Request<'_>) -> Option<Selected<'_, A>> {
        let path = merge_slashes(request.path);
        let mut last = LastHeader::default();
        let candidate =
            self.hosts.find_map(request.host, |bucket| bucket.first(&path, request, &mut last))?;
        Some(Selected { action: candidate.rule().action(), candidate })
    }

    /// What becomes of each candidate, and why. Takes time and memory for all of them.
    pub fn explain(&self, request: &Request<'_>) -> Explanation<'_, A> {
        Explanation::new(self, request)
    }
}

/// The bucket of a hostname.
fn bucket<'c, A, F: FnMut(&RouteName, &Route, &RouteRule) -> A>(
    hostname: Option<&Hostname>,
    members: &[(&'c RouteName, &'c Arc<Route>)],
    rules: &mut Rules<'c, A, F>,
    compiler: &mut Compiler<'_>,
) -> Bucket<A> {
    let hostname = hostname.map(|hostname| Arc::new(hostname.clone()));
    let mut candidates = Vec::new();
    let mut made_of = Vec::with_capacity(members.len());
    for &(name, route) in members {
        let (name, rules) = rules.of(name, route);
        for rule in rules {
            candidates.extend(Candidate::of_rule(rule, hostname.as_ref(), compiler));
        }
        made_of.push((Arc::clone(name), Arc::clone(route)));
    }
    Bucket::new(sorted(candidates), made_of, compiler)
}
