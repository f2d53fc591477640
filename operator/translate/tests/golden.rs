//! Every `golden/NAME.in.yaml` translates to `golden/NAME.out.yaml`. To rewrite those: `UPDATE=1 cargo test`, then read the diff.
#![expect(clippy::disallowed_methods, reason = "a test reads its cases from files")]

#[path = "shared/given.rs"]
mod given;
#[path = "shared/render.rs"]
mod render;
mod shared;

use std::path::{Path, PathBuf};

use postern_translate::translate;

#[test]
fn inputs_translate_to_outputs() {
    let wrong = inputs().into_iter().filter_map(|input| {
        difference(&input, Path::new(&input.to_string_lossy().replace(".in.yaml", ".out.yaml")))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "these differ:\n{}", wrong.join("\n"));
}

#[test]
fn defaults_that_the_api_server_writes_change_nothing() {
    for input in inputs() {
        let text = std::fs::read_to_string(&input).expect("readable");
        let written = render::yaml(&translate(&given::snapshot_with_defaults(&text)));
        assert_eq!(written, render::yaml(&translate(&given::snapshot(&text))), "{}", input.display());
    }
}

/// The fixture of the command line's tests, too.
#[test]
fn the_shop_translates_to_its_output() {
    let input = Path::new("../tests/fixtures/shop.yaml");
    assert_eq!(difference(input, &folder().join("shop.out.yaml")), None);
}

fn inputs() -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder()).expect("the folder is there");
    let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".in.yaml"));
    files.sort();
    assert!(files.len() > 40, "only {} inputs were found", files.len());
    files
}

fn folder() -> PathBuf {
    PathBuf::from("tests/golden")
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
