//! Configurations in few words.

use std::net::SocketAddr;
use std::sync::Arc;

use postern_config::{
    AppProtocol, Attachment, Backend, BackendRef, Certificate, Config, Listener, ObjectKey, PathMatch,
    Protocol, Route, RouteKind, RouteMatch, RouteName, RouteRule, RuleAction, Target, Timeouts,
};

/// A configuration in the making. Names of objects are in the namespace `test`.
#[derive(Clone, Default)]
pub struct Plan(Config);

impl Plan {
    pub fn new() -> Self {
        Self::default()
    }

    /// An HTTP listener for all hosts.
    pub fn http(self, listener: &str, port: u16) -> Self {
        self.listener(listener, Listener { port, protocol: Protocol::Http, hostname: None })
    }

    /// An HTTPS listener; the hostname `""` is all hosts.
    pub fn https(self, listener: &str, port: u16, hostname: &str, certificates: &[&str]) -> Self {
        let certificates = certificates.iter().map(|name| ObjectKey::new("test", *name)).collect();
        let hostname = (!hostname.is_empty()).then(|| hostname.parse().expect("a hostname"));
        self.listener(listener, Listener { port, protocol: Protocol::Https { certificates }, hostname })
    }

    pub fn listener(mut self, name: &str, listener: Listener) -> Self {
        self.0.listeners.insert(name.into(), Arc::new(listener));
        self
    }

    pub fn certificate(mut self, name: &str, certificate: Certificate) -> Self {
        self.0.certificates.insert(ObjectKey::new("test", name), Arc::new(certificate));
        self
    }

    /// An HTTPRoute for all hosts of the listeners.
    pub fn route(
        mut self,
        name: &str,
        listeners: &[&str],
        rules: impl IntoIterator<Item = RouteRule>,
    ) -> Self {
        let attachment = |listener: &&str| Attachment { listener: (*listener).into(), hostnames: Vec::new() };
        let rules = rules.into_iter().enumerate().map(|(index, rule)| RouteRule { index, ..rule });
        let route = Route {
            created: 0,
            attachments: listeners.iter().map(attachment).collect(),
            rules: rules.collect(),
        };
        let name = RouteName { key: ObjectKey::new("test", name), kind: RouteKind::Http };
        self.0.routes.insert(name, Arc::new(route));
        self
    }

    /// The endpoints of a Service's port 80.
    pub fn backend(mut self, service: &str, endpoints: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut endpoints: Vec<_> = endpoints.into_iter().collect();
        endpoints.sort_unstable();
        self.0.backends.insert(key(service), Arc::new(Backend { endpoints }));
        self
    }

    pub fn config(&self) -> Arc<Config> {
        Arc::new(self.0.clone())
    }
}

/// A rule that forwards a path prefix to a Service's port 80; its index is its place in the route.
pub fn rule(prefix: &str, service: &str) -> RouteRule {
    rule_to(prefix, service, AppProtocol::Http1)
}

/// The same with a protocol.
pub fn rule_to(prefix: &str, service: &str, protocol: AppProtocol) -> RouteRule {
    let path = PathMatch::PathPrefix(prefix.into());
    let target = Target::Backend(key(service));
    RouteRule {
        index: 0,
        name: None,
        matches: vec![RouteMatch { path, ..RouteMatch::default() }],
        action: RuleAction::Forward {
            filters: Vec::new(),
            backends: vec![BackendRef { target, protocol, weight: 1, filters: Vec::new() }],
            timeouts: Timeouts::default(),
        },
    }
}

fn key(service: &str) -> postern_config::BackendKey {
    format!("test/{service}:80").parse().expect("a backend key")
}
