//! Where upstream's CRDs and examples are, and what is in them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// A YAML document of upstream's, with the file and the place in it.
pub struct Document {
    /// Relative to the fetched folder.
    pub file: PathBuf,
    /// The whole file.
    pub text: String,
    /// Which of its documents, from 0.
    pub index: usize,
    /// What it says.
    pub value: Value,
}

impl Document {
    /// File and document, for messages.
    pub fn name(&self) -> String {
        format!("{}#{}", self.file.display(), self.index)
    }
}

/// The folder that `crds/fetch` made. A test that cannot have it fails, with what to do.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let script = Path::new("../../crds/fetch");
        let run =
            Command::new(script).output().unwrap_or_else(|e| panic!("cannot run {}: {e}", script.display()));
        assert!(
            run.status.success(),
            "the oracle needs upstream's CRDs:\n{}",
            String::from_utf8_lossy(&run.stderr)
        );
        let stdout = String::from_utf8(run.stdout).expect("the folder's name is UTF-8");
        PathBuf::from(stdout.lines().last().expect("crds/fetch prints the folder as its last line"))
    })
}

/// The CRDs of a channel, `standard` or `experimental`.
pub fn crds(channel: &str) -> Vec<Value> {
    let crd = |document: &Document| document.value["kind"] == "CustomResourceDefinition";
    documents(channel).into_iter().filter(crd).map(|document| document.value).collect()
}

/// Every document of every YAML file under a folder of the fetched one, in order of their names.
pub fn documents(below: &str) -> Vec<Document> {
    let mut files = Vec::new();
    collect(&folder().join(below), &mut files);
    files.sort();
    assert!(!files.is_empty(), "no YAML file under {}/{below}", folder().display());
    files.iter().flat_map(|file| read(file)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|e| panic!("cannot read {}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder that was opened lists its entries").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}

fn read(path: &Path) -> Vec<Document> {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    // The parser's own limits are for strangers' files; a CRD has more nodes.
    let options = serde_saphyr::options! { budget: None };
    let values: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options)
        .unwrap_or_else(|e| panic!("cannot parse {}: {e}", path.display()));
    let file = path.strip_prefix(folder()).expect("it was found below the folder").to_owned();
    let document = |(index, value)| Document { file: file.clone(), text: text.clone(), index, value };
    values.into_iter().enumerate().filter(|(_, value)| !value.is_null()).map(document).collect()
}
