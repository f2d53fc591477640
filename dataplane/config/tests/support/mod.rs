//! Requests that own their parts, and configurations in few words.

use std::sync::Arc;

use http::{HeaderMap, Method};
use postern_config::routing::{self, Candidate, Explanation, ListenerTable, Request, RouteTable};
use postern_config::{
    Attachment, Config, Fault, Hostname, Listener, PathMatch, Protocol, Route, RouteMatch, RouteRule,
    RuleAction,
};

/// A request as a client sends it.
#[derive(Clone, Debug)]
pub struct Ask {
    pub host: String,
    pub path: String,
    pub query: Option<String>,
    pub method: Method,
    pub headers: HeaderMap,
}

impl Ask {
    /// Looks at the request as the data plane does.
    pub fn with<R>(&self, f: impl FnOnce(&Request<'_>) -> R) -> R {
        let (host, path) = (routing::host(&self.host), routing::path::normalize(&self.path));
        f(&Request {
            host: &host,
            path: &path,
            query: self.query.as_deref(),
            method: &self.method,
            headers: &self.headers,
        })
    }
}

/// What stands in a table for a rule: `namespace/name rule index`.
pub type Table = RouteTable<String>;

pub fn table(config: &Config) -> Table {
    RouteTable::build(config, |name, _, rule| format!("{} rule {}", name.key, rule.index))
}

/// The listener of a port that takes a host.
pub fn listener<'a>(table: &'a Table, port: u16, ask: &Ask) -> Option<&'a ListenerTable<String>> {
    ask.with(|request| table.port(port)?.listener(request.host))
}

pub fn explain<'a>(listener: &'a ListenerTable<String>, ask: &Ask) -> Explanation<'a, String> {
    ask.with(|request| listener.explain(request))
}

pub fn select<'a>(table: &'a Table, port: u16, ask: &Ask) -> Option<&'a Candidate<String>> {
    let listener = listener(table, port, ask)?;
    ask.with(|request| listener.select(request)).map(|selected| selected.candidate)
}

pub fn http_listener(port: u16, hostname: Option<Hostname>) -> Arc<Listener> {
    Arc::new(Listener { port, protocol: Protocol::Http, hostname })
}

/// A route on listener `web` with one rule for each list of matches.
pub fn route<const N: usize>(hostnames: &[&str], rules: [Vec<RouteMatch>; N]) -> Route {
    let hostnames = hostnames.iter().map(|text| text.parse().expect(text)).collect();
    let rule = |(index, matches)| RouteRule { index, name: None, matches, action: nothing() };
    Route {
        created: 0,
        attachments: vec![Attachment { listener: "web".into(), hostnames }],
        rules: rules.into_iter().enumerate().map(rule).collect(),
    }
}

/// What a rule does is no matter here.
pub fn nothing() -> RuleAction {
    RuleAction::Fail(Fault { reason: "None".into(), message: String::new() })
}

pub fn prefix(path: &str) -> RouteMatch {
    RouteMatch { path: PathMatch::PathPrefix(path.into()), ..RouteMatch::default() }
}

pub fn expression(path: &str) -> RouteMatch {
    RouteMatch { path: PathMatch::RegularExpression(path.into()), ..RouteMatch::default() }
}
