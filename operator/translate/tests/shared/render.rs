//! A translation as YAML for people: a condition is one line, keys are left out.

use postern_translate::Translation;
use postern_translate::api::Condition;
use postern_translate::workload::Workload;
use serde_json::{Map, Value, json};

/// The whole translation.
pub fn yaml(translation: &Translation) -> String {
    let statuses = &translation.statuses;
    let mut root = Map::new();
    let mut section = |name: &str, entries: Vec<(String, Value)>| {
        if !entries.is_empty() {
            root.insert(name.into(), Value::Object(entries.into_iter().collect()));
        }
    };
    section(
        "configs",
        translation.plans.iter().map(|(key, plan)| (key.to_string(), config(&plan.config))).collect(),
    );
    let workloads = translation.plans.iter();
    let workloads =
        workloads.filter_map(|(key, plan)| Some((key.to_string(), workload(plan.workload.as_ref()?))));
    section("workloads", workloads.collect());
    let classes = statuses.gateway_classes.iter();
    section(
        "gatewayClasses",
        classes.map(|(name, status)| (name.clone(), conditions(&status.conditions))).collect(),
    );
    section(
        "gateways",
        statuses.gateways.iter().map(|(key, status)| (key.to_string(), gateway(status))).collect(),
    );
    for (name, routes) in [("httpRoutes", &statuses.http_routes), ("grpcRoutes", &statuses.grpc_routes)] {
        section(name, routes.iter().map(|(key, status)| (key.to_string(), route(status))).collect());
    }
    section(
        "expiries",
        translation.expiries.iter().map(|(key, until)| (key.to_string(), json!(until))).collect(),
    );
    let notes: Vec<String> = translation
        .notes
        .iter()
        .map(|note| format!("{} {}: {}", note.kind, note.object, note.message))
        .collect();
    if !notes.is_empty() {
        root.insert("notes".into(), json!(notes));
    }
    serde_saphyr::to_string(&Value::Object(root)).expect("plain data")
}

/// A configuration without keys; the chain is as long as in the Secret.
fn config(config: &postern_config::Config) -> Value {
    let mut value = serde_json::to_value(config).expect("plain data");
    for certificate in value["certificates"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        let chain = certificate["chain"].as_str().unwrap_or_default().matches("BEGIN CERTIFICATE").count();
        *certificate = json!({ "chain": format!("[{chain} certificate]"), "key": "[redacted]" });
    }
    let sections = value.as_object_mut().expect("a Config is an object");
    sections.retain(|_, section| section.as_object().is_none_or(|section| !section.is_empty()));
    value
}

fn workload(workload: &Workload) -> Value {
    json!({
        "serviceAccount": workload.service_account,
        "ca": workload.ca,
        "deployment": workload.deployment,
        "service": workload.service,
    })
}

fn gateway(status: &postern_translate::api::GatewayStatus) -> Value {
    let addresses: Vec<&str> = status.addresses.iter().map(|address| address.value.as_str()).collect();
    let listeners: Map<String, Value> = status
        .listeners
        .iter()
        .map(|listener| {
            let kinds: Vec<&str> = listener.supported_kinds.iter().map(|kind| kind.kind.as_str()).collect();
            let entry = json!({
                "supportedKinds": kinds.join(", "),
                "attachedRoutes": listener.attached_routes,
                "conditions": conditions(&listener.conditions),
            });
            (listener.name.clone(), entry)
        })
        .collect();
    json!({ "addresses": addresses.join(", "), "conditions": conditions(&status.conditions), "listeners": listeners })
}

fn route(status: &postern_translate::api::RouteStatus) -> Value {
    let parents = status.parents.iter().map(|parent| {
        let reference = &parent.parent_ref;
        let mut name = format!(
            "{} {}/{}",
            reference.kind,
            reference.namespace.as_deref().unwrap_or("?"),
            reference.name
        );
        if let Some(section) = &reference.section_name {
            name += &format!(" {section}");
        }
        if let Some(port) = reference.port {
            name += &format!(" :{port}");
        }
        json!({ "parent": name, "conditions": conditions(&parent.conditions) })
    });
    Value::Array(parents.collect())
}

/// `Type: Status/Reason: message`, with `@generation` unless it is the first.
fn conditions(conditions: &[Condition]) -> Value {
    let line = |condition: &Condition| {
        let generation = match condition.observed_generation {
            Some(1) => String::new(),
            Some(generation) => format!(" @{generation}"),
            None => " @?".into(),
        };
        format!("{:?}/{}{generation}: {}", condition.status, condition.reason, condition.message)
    };
    Value::Object(
        conditions.iter().map(|condition| (condition.kind.clone(), line(condition).into())).collect(),
    )
}
