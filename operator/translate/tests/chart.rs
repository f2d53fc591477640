//! The chart's operator may read exactly the kinds that translation reads.
#![expect(clippy::disallowed_methods, reason = "a test reads the chart from its folder")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use postern_translate::api::{OWN_GROUP, crd};
use postern_translate::kinds::KINDS;

/// `UPDATE=1` writes the chart's file anew.
#[test]
fn the_reader_role_has_a_rule_for_every_kind() {
    let path = Path::new("../../charts/postern/files/kinds.yaml");
    let rules = rules();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &rules).expect("the chart's file can be written");
    }
    let found = std::fs::read_to_string(path).expect("the chart has the file");
    assert_eq!(
        found, rules,
        "charts/postern/files/kinds.yaml is not what the list of kinds says: run with UPDATE=1"
    );
}

fn rules() -> String {
    let mut groups: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for kind in KINDS {
        let own = (kind.group == OWN_GROUP).then(|| plural_of_ours(kind.kind));
        groups.entry(kind.group).or_default().insert(own.unwrap_or_else(|| plural(kind.kind)));
    }
    let mut text = String::new();
    for (group, resources) in groups {
        let group = if group.is_empty() { r#""""# } else { group };
        let resources = Vec::from_iter(resources).join(", ");
        writeln!(text, "- apiGroups: [{group}]\n  resources: [{resources}]\n  verbs: [get, list, watch]")
            .expect("a string takes all");
    }
    text
}

/// As our CRD names the collection.
fn plural_of_ours(kind: &str) -> String {
    let crd = crd();
    assert_eq!(crd["spec"]["names"]["kind"], kind, "a kind of ours without a CRD");
    crd["spec"]["names"]["plural"].as_str().expect("a CRD names its collection").into()
}

/// As the API names the collection of a kind.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}
