//! Which listener a request reaches, which rule takes it, and what becomes of it.

use std::collections::BTreeSet;

use postern_config::routing::{Explanation, Judgement, ListenerTable, Outcome, PortTable, RouteTable};
use postern_config::{Config, ObjectKey, Protocol, Scheme};

use super::view::{CandidateView, Explained, ListenerView, Winner};
use crate::asked::Asked;
use crate::describe::{self, Answer, Share};

/// What becomes of the request at one Gateway.
pub fn explain(
    gateway: &ObjectKey,
    config: &Config,
    unknown: &BTreeSet<ObjectKey>,
    asked: &Asked,
) -> Explained {
    let mut explained = Explained::new(asked);
    explained.gateway = Some(gateway.to_string());
    let table = RouteTable::build(config, |_, _, _| ());
    let Some(port) = table.port(asked.port) else {
        return explained.refuse(no_port(&[(gateway, config)], asked.port));
    };
    let listener = match reach(config, port, asked) {
        Ok(listener) => listener,
        Err(Unreached::Refused(because)) => return explained.refuse(because),
        Err(Unreached::Answered(answer)) => return explained.answer(answer),
    };
    explained.listener = Some(ListenerView {
        name: listener.name().clone(),
        port: asked.port,
        protocol: config
            .listeners
            .get(listener.name())
            .map_or("", |listener| describe::protocol(&listener.protocol)),
        hostname: describe::hostname(listener.hostname()),
    });
    let explanation = listener.explain(&asked.request());
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
    match describe::answer(rule).or_else(|| no_backend(&explained.backends)) {
        Some(answer) => explained.answer(answer),
        None => Explained { is_served: true, ..explained },
    }
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
    asked: &Asked,
) -> Result<&'a ListenerTable<()>, Unreached> {
    let refuse = |because| Err(Unreached::Refused(because));
    let protocol = config
        .listeners
        .values()
        .find(|listener| listener.port == asked.port)
        .map(|listener| &listener.protocol);
    match (asked.scheme, protocol) {
        (Scheme::Http, Some(Protocol::Https { .. })) => {
            return refuse(format!("port {} speaks TLS: ask for an https URL", asked.port));
        }
        (Scheme::Https, Some(Protocol::Http)) => {
            return refuse(format!("port {} speaks no TLS: ask for an http URL", asked.port));
        }
        (Scheme::Http, _) | (Scheme::Https, _) => {}
    }
    let by_host = port.listener(&asked.host);
    if asked.scheme == Scheme::Https {
        let Some(by_name) = port.listener(&asked.server_name) else {
            return refuse(format!(
                "TLS handshake refused: no listener for server name {}",
                asked.server_name
            ));
        };
        let listener = config.listeners.get(by_name.name());
        if listener.is_some_and(
            |l| matches!(&l.protocol, Protocol::Https { certificates } if certificates.is_empty()),
        ) {
            return refuse(format!(
                "TLS handshake refused: listener {} has no usable certificate",
                by_name.name()
            ));
        }
        if by_host.is_none_or(|by_host| by_host.name() != by_name.name()) {
            let because = format!(
                "host {} is not for listener {}, which server name {} led to",
                asked.host,
                by_name.name(),
                asked.server_name
            );
            return Err(Unreached::Answered(Answer::new(421, because)));
        }
    }
    by_host.ok_or_else(|| {
        Unreached::Answered(Answer::new(
            404,
            format!("no listener on port {} is for host {}", asked.port, asked.host),
        ))
    })
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
