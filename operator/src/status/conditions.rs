//! Which conditions are not as they should be, of which object.

use postern_translate::api::{Condition, ConditionStatus, ParentReference, RouteStatus};
use postern_translate::{Statuses, api};

/// A condition that is not as it should be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The namespace of the object; empty for a GatewayClass.
    pub namespace: String,
    /// The object, and what of it is meant: `HTTPRoute shop/app on shop/web`.
    pub subject: String,
    /// `ResolvedRefs is False (BackendNotFound): ...`
    pub fact: String,
}

/// All findings, in the order of kinds and names.
pub fn findings(statuses: &Statuses) -> Vec<Finding> {
    let mut all = Vec::new();
    for (name, status) in &statuses.gateway_classes {
        add(&mut all, "", format!("GatewayClass {name}"), &status.conditions);
    }
    for (key, status) in &statuses.gateways {
        add(&mut all, &key.namespace, format!("Gateway {key}"), &status.conditions);
        for listener in &status.listeners {
            let subject = format!("Gateway {key} listener {}", listener.name);
            add(&mut all, &key.namespace, subject, &listener.conditions);
        }
    }
    let http = statuses.http_routes.iter().map(|(key, status)| ("HTTPRoute", key, status));
    let grpc = statuses.grpc_routes.iter().map(|(key, status)| ("GRPCRoute", key, status));
    for (kind, key, status) in grpc.chain(http) {
        let RouteStatus { parents } = &**status;
        for api::ParentStatus { parent_ref, conditions, .. } in parents {
            let subject = format!("{kind} {key} on {}", parent(parent_ref, &key.namespace));
            add(&mut all, &key.namespace, subject, conditions);
        }
    }
    all
}

fn add(findings: &mut Vec<Finding>, namespace: &str, subject: String, conditions: &[Condition]) {
    for condition in conditions.iter().filter(|condition| is_wrong(condition)) {
        let fact = format!("{}: {}", summary(condition), condition.message);
        findings.push(Finding { namespace: namespace.into(), subject: subject.clone(), fact });
    }
}

/// Most conditions are good when they hold; these are good when they do not.
pub fn is_wrong(condition: &Condition) -> bool {
    let good = match condition.kind.as_str() {
        "Conflicted" | "OverlappingTLSConfig" | "PartiallyInvalid" | "InsecureFrontendValidationMode" => {
            ConditionStatus::False
        }
        _ => ConditionStatus::True,
    };
    condition.status != good
}

/// `ResolvedRefs is False (BackendNotFound)`
pub fn summary(condition: &Condition) -> String {
    format!("{} is {} ({})", condition.kind, word(condition.status), condition.reason)
}

/// As it stands in `status:`
pub fn word(status: ConditionStatus) -> &'static str {
    match status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    }
}

/// `namespace/name`, with the listener and the port where the reference names them.
pub fn parent(reference: &ParentReference, own_namespace: &str) -> String {
    let namespace = reference.namespace.as_deref().unwrap_or(own_namespace);
    let section = reference.section_name.iter().map(|name| format!("/{name}"));
    let port = reference.port.iter().map(|port| format!(":{port}"));
    format!("{namespace}/{}", reference.name) + &section.chain(port).collect::<String>()
}
