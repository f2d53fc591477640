//! Every `golden/NAME.in.yaml` translates to `golden/NAME.out.yaml`. To rewrite those: `UPDATE=1 cargo test`, then read the diff.
#![expect(clippy::disallowed_methods, reason = "a test reads its cases from files")]

mod shared;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use postern_translate::translate;

#[test]
fn inputs_translate_to_outputs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let update = std::env::var_os("UPDATE").is_some();
    let files: BTreeSet<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    let inputs: Vec<&PathBuf> =
        files.iter().filter(|path| path.to_string_lossy().ends_with(".in.yaml")).collect();
    assert!(inputs.len() > 40, "only {} inputs were found", inputs.len());
    let mut wrong = Vec::new();
    for input in inputs {
        let output = PathBuf::from(input.to_string_lossy().replace(".in.yaml", ".out.yaml"));
        let text = std::fs::read_to_string(input).expect("readable");
        let actual = shared::render::yaml(&translate(&shared::snapshot(&text)));
        if update {
            std::fs::write(&output, actual).expect("writable");
        } else if std::fs::read_to_string(&output).unwrap_or_default() != actual {
            wrong.push(format!("{}\n{actual}", output.display()));
        }
    }
    assert!(wrong.is_empty(), "these differ:\n{}", wrong.join("\n"));
}
