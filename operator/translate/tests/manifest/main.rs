//! Manifests as users write them: what loads, what is refused, and where an error says it is.

mod fields;
mod forms;
mod rules;
mod total;

use postern_translate::manifest::{Loaded, Source, load};

/// Loads one text by the name `f`.
fn loaded(text: &str) -> Loaded {
    load(&[Source { name: "f".into(), text: text.into() }])
}

/// The errors of one text, as they are shown.
fn errors(text: &str) -> Vec<String> {
    loaded(text).errors.iter().map(ToString::to_string).collect()
}

/// The names of the HTTPRoutes of a text that has no errors.
fn routes(text: &str) -> Vec<String> {
    let loaded = loaded(text);
    assert_eq!(loaded.errors, [], "{text}");
    loaded.objects.http_routes.keys().map(|key| format!("{}/{}", key.namespace, key.name)).collect()
}

/// An HTTPRoute whose one rule has these lines; the first of them is line 7.
fn rule(lines: &str) -> String {
    let head = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: app\nspec:\n  rules:\n";
    let indented: String = lines
        .lines()
        .enumerate()
        .map(|(index, line)| format!("  {}{line}\n", if index == 0 { "- " } else { "  " }))
        .collect();
    head.to_owned() + &indented
}

/// A Gateway with these lines below `spec`; the first of them is line 7.
fn gateway(lines: &str) -> String {
    let head = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n  name: web\nspec:\n  gatewayClassName: postern\n";
    head.to_owned() + &lines.lines().map(|line| format!("  {line}\n")).collect::<String>()
}
