//! The CRD in `crds` and the one in the chart are what the types say.
#![expect(clippy::disallowed_methods, reason = "a test reads the files that it compares")]

use std::path::Path;

use postern_translate::api;
use serde_json::Value;

/// `UPDATE=1` writes the files anew.
#[test]
fn the_files_are_what_the_types_say() {
    let crd = api::crd();
    let mut kept = crd.clone();
    // With a kind, all of its objects would go.
    kept["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
    compare("crds/posternparameters.yaml", &crd);
    compare("charts/postern-crds/templates/posternparameters.yaml", &kept);
}

fn compare(file: &str, crd: &Value) {
    let path = Path::new("../..").join(file);
    let origin = "# Made of operator/translate/src/api/parameters: change it there, and run `UPDATE=1 cargo test -p postern-translate --test crds`.\n";
    let text = origin.to_owned() + &serde_saphyr::to_string(crd).expect("plain data");
    // Helm reads the chart's file as a template.
    assert!(!text.contains("{{"), "a description has braces that Helm would take for its own");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{file} is not what the types say: run with UPDATE=1, and read the difference");
}
