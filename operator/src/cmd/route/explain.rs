//! Which listener a request reaches, which rule takes it, and what becomes of it.

use std::collections::BTreeSet;

use postern_config::routing::{
    Candidate, Explanation, Judgement, ListenerTable, Outcome, PortTable, RouteTable,
};
use postern_config::{Config, ObjectKey, Protocol, Scheme};
use postern_dataplane::{Preview, Previewed};

use super::request::ExplainRequest;
use super::view::{CandidateView, Explained, Forwarded, ListenerView, Winner};
use crate::cmd::describe::{self, Answer, Share};

/// What becomes of the request at one Gateway.
pub fn explain(
    gateway: &ObjectKey,
    config: &Config,
    unknown: &BTreeSet<ObjectKey>,
    request: &ExplainRequest,
) -> Explained {
    let mut explained = Explained::new(request);
    explained.gateway = Some(gateway.to_string());
    let table = RouteTable::build(config, |_, _, _| ());
    let Some(port) = table.port(request.port) else {
        return explained.refuse(no_port(&[(gateway, config)], request.port));
    };
    let listener = match reach(config, port, request) {
        Ok(listener) => listener,
        Err(Unreached::Refused(because)) => return explained.refuse(because),
        Err(Unreached::Answered(answer)) => return explained.answer(answer),
    };
    explained.listener = Some(ListenerView {
        name: listener.name().to_string(),
        port: request.port,
        protocol: config
            .listeners
            .get(&**listener.name())
            .map_or("", |listener| describe::protocol(&listener.protocol)),
        hostname: describe::hostname(listener.hostname()),
    });
    let explanation = listener.explain(&request.routed());
    explained.candidates = candidates(&explanation);
    let Some(winner) = explanation.winner() else {
        let because = format!("no route of listener {} matches", listener.name());
        return explained.answer(Answer::new(404, because));
    };
    explained.winner = Some(Winner {
        name: describe::candidate(winner),
        beats_the_next_on: explanation.runner_up().map(|(_, advantage)| advantage.to_string()),
    });
    let rule = winner.rule().rule();
    explained.filters =
        describe::filters(rule).iter().map(|filter| describe::named(describe::filter(filter))).collect();
    explained.backends = describe::shares(config, rule, unknown);
    let preview = preview(winner, request).unwrap_or_default();
    explained.location = preview.redirect.map(|(_, location)| location);
    explained.forwarded = Forwarded::new(preview.host, preview.path_and_query);
    match describe::answer(rule).or_else(|| no_backend(&explained.backends)) {
        Some(answer) => explained.answer(answer),
        None => Explained { is_served: true, ..explained },
    }
}

/// What the rule's filters make of the request.
fn preview(winner: &Candidate<()>, request: &ExplainRequest) -> Option<Preview> {
    let request = Previewed {
        head: &request.head()?,
        scheme: request.scheme,
        port: request.port,
        after_prefix: winner.after_prefix(&request.path).map(str::len),
    };
    postern_dataplane::preview(describe::filters(winner.rule().rule()), &request)
}

/// The answer when no share with a weight reaches a backend.
fn no_backend(shares: &[Share]) -> Option<Answer> {
    let mut failed = shares.iter().filter(|share| share.weight > 0).map(|share| share.answer.as_ref());
    let first = failed.next()??;
    failed.all(|answer| answer.is_some()).then(|| first.clone())
}

enum Unreached {
    Refused(String),
    Answered(Answer),
}

/// The listener that takes the request: over TLS the server name chooses one, and the host must lead to the same.
fn reach<'a>(
    config: &Config,
    port: &'a PortTable<()>,
    request: &ExplainRequest,
) -> Result<&'a ListenerTable<()>, Unreached> {
    let mut listeners = config.listeners.values();
    let speaks_tls =
        listeners.any(|l| l.port == request.port && matches!(l.protocol, Protocol::Https { .. }));
    match (request.scheme, speaks_tls) {
        (Scheme::Http, false) => {}
        (Scheme::Https, true) => handshake(config, port, request)?,
        (Scheme::Http, true) => {
            return Err(Unreached::Refused(format!(
                "port {} speaks TLS: ask for an https URL",
                request.port
            )));
        }
        (Scheme::Https, false) => {
            return Err(Unreached::Refused(format!(
                "port {} speaks no TLS: ask for an http URL",
                request.port
            )));
        }
    }
    let ExplainRequest { host, server_name, .. } = request;
    let Some(by_host) = port.listener(host) else {
        let because = format!("no listener on port {} is for host {host}", request.port);
        return Err(Unreached::Answered(Answer::new(404, because)));
    };
    let by_name = port.listener(server_name).filter(|_| speaks_tls);
    match by_name.filter(|by_name| by_name.name() != by_host.name()) {
        None => Ok(by_host),
        Some(other) => {
            let because = format!(
                "host {host} is for listener {}, and server name {server_name} led to listener {}",
                by_host.name(),
                other.name()
            );
            Err(Unreached::Answered(Answer::new(421, because)))
        }
    }
}

/// Whether there is a certificate for the server name.
fn handshake(config: &Config, port: &PortTable<()>, request: &ExplainRequest) -> Result<(), Unreached> {
    let refused = |why| Err(Unreached::Refused(format!("TLS handshake refused: {why}")));
    let Some(listener) = port.listener(&request.server_name) else {
        return match request.server_name.as_str() {
            "" => refused("no listener is for all hosts, and the URL's address gives no server name".into()),
            name => refused(format!("no listener is for server name {name}")),
        };
    };
    match config.listeners.get(&**listener.name()).map(|listener| &listener.protocol) {
        Some(Protocol::Https { certificates }) if certificates.is_empty() => {
            refused(format!("listener {} has no usable certificate", listener.name()))
        }
        Some(Protocol::Https { .. } | Protocol::Http) | None => Ok(()),
    }
}

fn candidates(explanation: &Explanation<'_, ()>) -> Vec<CandidateView> {
    let view = |judgement: &Judgement<'_, ()>| {
        let (outcome, because) = match &judgement.outcome {
            Outcome::Matched => ("matched", None),
            Outcome::Outranked(advantage) => ("outranked", Some(advantage.to_string())),
            Outcome::Mismatch(mismatch) => ("mismatch", Some(mismatch.to_string())),
        };
        CandidateView {
            name: describe::candidate(judgement.candidate),
            hostname: describe::hostname(judgement.candidate.hostname()),
            conditions: describe::conditions(judgement.candidate.matches()),
            outcome,
            because,
        }
    };
    explanation.judgements.iter().map(view).collect()
}

/// Why nobody is at the other end, and which ports there are.
pub fn no_port(plans: &[(&ObjectKey, &Config)], port: u16) -> String {
    let open: BTreeSet<u16> = plans
        .iter()
        .flat_map(|(_, config)| config.listeners.values().map(|listener| listener.port))
        .collect();
    let open = open.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match open.as_str() {
        "" => format!("connection refused: no listener has port {port}, and there are no other listeners"),
        open => format!("connection refused: no listener has port {port}; the listeners' ports are {open}"),
    }
}
