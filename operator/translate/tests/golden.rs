//! Every `golden/NAME.in.yaml` translates to `golden/NAME.out.yaml`. To rewrite those: `UPDATE=1 cargo test`, then read the diff.
#![expect(clippy::disallowed_methods, reason = "a test reads its cases from files")]

#[path = "shared/given.rs"]
mod given;
#[path = "shared/render.rs"]
mod render;
mod shared;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use postern_translate::translate;

#[test]
fn inputs_translate_to_outputs() {
    let files = std::fs::read_dir(folder()).expect("the folder is there");
    let files: BTreeSet<PathBuf> = files.map(|entry| entry.expect("readable").path()).collect();
    let inputs: Vec<&PathBuf> =
        files.iter().filter(|path| path.to_string_lossy().ends_with(".in.yaml")).collect();
    assert!(inputs.len() > 40, "only {} inputs were found", inputs.len());
    let wrong: Vec<String> = inputs
        .into_iter()
        .filter_map(|input| {
            difference(input, Path::new(&input.to_string_lossy().replace(".in.yaml", ".out.yaml")))
        })
        .collect();
    assert!(wrong.is_empty(), "these differ:\n{}", wrong.join("\n"));
}

/// The fixture of the command line's tests, too.
#[test]
fn the_shop_translates_to_its_output() {
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/shop.yaml");
    assert_eq!(difference(&input, &folder().join("shop.out.yaml")), None);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// What came out where it is not what `output` holds, which `UPDATE` rewrites.
fn difference(input: &Path, output: &Path) -> Option<String> {
    let text = std::fs::read_to_string(input).expect("readable");
    let actual = render::yaml(&translate(&given::snapshot(&text)));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(output, actual).expect("writable");
        return None;
    }
    let expected = std::fs::read_to_string(output).unwrap_or_default();
    (expected != actual).then(|| format!("{}\n{actual}", output.display()))
}
