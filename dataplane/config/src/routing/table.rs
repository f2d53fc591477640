//! From a port and a request to the rule that takes it.

use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// In the order of precedence, so those of one hostname stand together.
    candidates: Vec<Candidate<A>>,
    hosts: HostMap<Bucket>,
}

impl<A> RouteTable<A> {
    /// The tables of a configuration. `compile` is called once for each rule.
    ///
    /// Total: a regular expression that [`super::check_regex`] refuses matches nothing, a listener that a route names and
    /// that does not exist is passed over, and of two listeners with one port and hostname the first by name is taken.
    pub fn build(config: &Config, compile: impl FnMut(&RouteName, &Route, &RouteRule) -> A) -> Self {
        Self::build_with(None, config, compile)
    }

    /// The tables of a configuration that follows this one's: what [`Self::build`] gives, but regular expressions that are
    /// here already are not compiled again, which is most of the work where there are many.
    pub fn rebuild(&self, config: &Config, compile: impl FnMut(&RouteName, &Route, &RouteRule) -> A) -> Self {
        Self::build_with(Some(&self.expressions), config, compile)
    }

    fn build_with(
        known: Option<&Compiled>,
        config: &Config,
        mut compile: impl FnMut(&RouteName, &Route, &RouteRule) -> A,
    ) -> Self {
        let mut compiler = Compiler::new(known);
        let mut attached: BTreeMap<&ListenerName, Vec<Candidate<A>>> = BTreeMap::new();
        for (name, route) in &config.routes {
            let rules = rules(name, route, &mut compile);
            for attachment in &route.attachments {
                let candidates = attached.entry(&attachment.listener).or_default();
                for hostname in hostnames(&attachment.hostnames) {
                    for rule in &rules {
                        candidates.extend(Candidate::of_rule(rule, hostname.as_ref(), &mut compiler));
                    }
                }
            }
        }
        let mut ports: BTreeMap<u16, PortTable<A>> = BTreeMap::new();
        for (name, listener) in &config.listeners {
            let candidates = attached.remove(name).unwrap_or_default();
            let listener_table = ListenerTable::new(name, listener, candidates, &mut compiler);
            ports.entry(listener.port).or_default().add(listener_table);
        }
        Self { ports, expressions: compiler.finish() }
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

fn rules<A>(
    name: &RouteName,
    route: &Arc<Route>,
    compile: &mut impl FnMut(&RouteName, &Route, &RouteRule) -> A,
) -> Vec<Arc<Rule<A>>> {
    let name = Arc::new(name.clone());
    let rule = |(position, rule)| {
        let action = compile(&name, route, rule);
        Arc::new(Rule::new(Arc::clone(&name), Arc::clone(route), position, action))
    };
    route.rules.iter().enumerate().map(rule).collect()
}

fn hostnames(hostnames: &[Hostname]) -> Vec<Option<Arc<Hostname>>> {
    if hostnames.is_empty() {
        return vec![None];
    }
    hostnames.iter().map(|hostname| Some(Arc::new(hostname.clone()))).collect()
}

/// The candidates in the order of precedence. Each rank is computed once, for it is gathered from several places.
fn sorted<A>(candidates: Vec<Candidate<A>>) -> Vec<Candidate<A>> {
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
    fn new(
        name: &ListenerName,
        listener: &Listener,
        candidates: Vec<Candidate<A>>,
        compiler: &mut Compiler<'_>,
    ) -> Self {
        let candidates = sorted(candidates);
        let mut hosts = HostMap::default();
        let mut start = 0;
        for bucket in candidates.chunk_by(|a, b| a.hostname() == b.hostname()) {
            hosts.insert(bucket[0].hostname(), Bucket::new(start, bucket, compiler));
            start += bucket.len();
        }
        Self { name: name.as_str().into(), hostname: listener.hostname.clone(), candidates, hosts }
    }

    /// The listener's name, to be shared by what outlives this table.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The hosts that the listener serves; `None` is all.
    pub fn hostname(&self) -> Option<&Hostname> {
        self.hostname.as_ref()
    }

    /// All candidates, in the order of precedence.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate<A>> {
        self.candidates.iter()
    }

    /// The rule that takes the request; `None` is 404. Allocates nothing for an ordinary request.
    ///
    /// When no match under the most specific hostname holds, those under the next one are looked at.
    pub fn select(&self, request: &Request<'_>) -> Option<Selected<'_, A>> {
        let path = merge_slashes(request.path);
        let mut last = LastHeader::default();
        let candidate = self
            .hosts
            .find_map(request.host, |bucket| bucket.first(&self.candidates, &path, request, &mut last))?;
        Some(Selected { action: candidate.rule().action(), candidate })
    }

    /// What becomes of each candidate, and why. Takes time and memory for all of them.
    pub fn explain(&self, request: &Request<'_>) -> Explanation<'_, A> {
        Explanation::new(self, request)
    }
}
