//! Every rule that spans several fields, broken once: line, path and upstream's message.

mod gateway;
mod route;

use std::collections::BTreeSet;

use postern_translate::manifest::openapi;
use serde_json::Value;

use crate::{loaded, rule};
use gateway::{GATEWAYS, LISTENER_LISTS};
use route::{GRPC_SPECS, HTTP_RULES, HTTP_SPECS};

/// What breaks a rule, then the line of the error, its path below `spec` and its message.
type Broken = (&'static str, usize, &'static str, &'static str);

#[test]
fn rules_of_http_routes() {
    broken(HTTP_RULES, rule, "rules[0]");
    broken(HTTP_SPECS, |lines| spec("HTTPRoute", lines), "");
}

#[test]
fn rules_of_grpc_routes() {
    broken(GRPC_SPECS, |lines| spec("GRPCRoute", lines), "");
}

#[test]
fn rules_of_gateways() {
    broken(GATEWAYS, |lines| crate::gateway(&(lines.to_owned() + LISTENERS)), "");
    broken(LISTENER_LISTS, crate::gateway, "");
}

#[test]
fn each_message_of_the_schemas_has_a_case_here() {
    let mut messages = BTreeSet::new();
    for kind in ["GatewayClass", "Gateway", "HTTPRoute", "GRPCRoute", "ReferenceGrant"] {
        collect(&openapi(kind).expect("it is a kind of ours"), &mut messages);
    }
    let cases = [HTTP_RULES, HTTP_SPECS, GRPC_SPECS, GATEWAYS, LISTENER_LISTS].concat();
    let tested: BTreeSet<String> = cases.iter().map(|(_, _, _, message)| (*message).to_owned()).collect();
    // The list key says it first, and a list that has a double is asked no more.
    let said_before = |message: &String| {
        message == "Listener name must be unique within the Gateway"
            || message == "Port for TLS configuration must be unique within the Gateway"
    };
    let missing: Vec<_> = messages.difference(&tested).filter(|message| !said_before(message)).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

fn collect(schema: &Value, messages: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(rules) = fields.get("x-kubernetes-validations").and_then(Value::as_array) {
                messages.extend(rules.iter().filter_map(|rule| Some(rule["message"].as_str()?.to_owned())));
            }
            fields.values().for_each(|value| collect(value, messages));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, messages)),
        _ => {}
    }
}

fn broken(cases: &[Broken], manifest: impl Fn(&str) -> String, below: &str) {
    for (lines, line, path, message) in cases {
        let text = manifest(lines);
        let wanted = (
            *line,
            ["spec", below, path].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("."),
        );
        let found = loaded(&text).errors;
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        let same =
            found.iter().any(|error| (error.line, error.path.clone()) == wanted && error.message == *message);
        assert!(same, "{text}\nwanted {wanted:?} {message}\nfound {shown:#?}");
    }
}

/// A route with these lines below `spec`; the first of them is line 6.
fn spec(kind: &str, lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("  {line}\n")).collect();
    format!("apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: app\nspec:\n{lines}")
}

const LISTENERS: &str = "\nlisteners: [{name: a, port: 80, protocol: HTTP}]";
