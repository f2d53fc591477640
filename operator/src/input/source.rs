//! Which files are read, and what is in them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::output::failure::{Failure, Message};

/// The input of every command.
#[derive(Args, Clone, Debug)]
pub struct Files {
    /// A file, a folder (all .yaml, .yml and .json files in it and below), or `-` for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub filename: Vec<PathBuf>,
}

/// A file that was asked for, and its text or why there is none.
#[derive(Debug)]
pub struct File {
    /// As it is shown, and `-` for standard input.
    pub path: PathBuf,
    /// The text.
    pub text: io::Result<String>,
}

impl Files {
    /// Reads all files in the order of the command line, folders in the order of names.
    ///
    /// Fails when a folder cannot be listed or has no manifests, and when standard input is asked for twice.
    pub fn read(&self) -> Result<Vec<File>, Failure> {
        if self.filename.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err(Failure::Usage(Message::new(
                "standard input can be read once, and `-f -` is there twice",
            )));
        }
        Ok(self.paths()?.into_iter().map(|path| File { text: text(&path), path }).collect())
    }

    /// The files that there are now.
    ///
    /// Fails when a folder cannot be listed or has no manifests.
    pub fn paths(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut paths = Vec::new();
        for path in &self.filename {
            let listed = list(path)?;
            if listed.is_empty() {
                let fact = format!("no .yaml, .yml or .json file in `{}`", path.display());
                return Err(Failure::Unreadable(Message::new(fact)));
            }
            paths.extend(listed);
        }
        Ok(paths)
    }
}

fn list(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if is_stdin(path) || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    walk(path, &mut BTreeSet::new(), &mut found).map_err(|error| unreadable(path, &error))?;
    found.sort();
    Ok(found)
}

/// Files whose names begin with a dot are left out: a mounted ConfigMap keeps its versions in such folders.
fn walk(folder: &Path, seen: &mut BTreeSet<PathBuf>, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if !seen.insert(folder.canonicalize()?) {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        if path.is_dir() {
            walk(&path, seen, found)?;
        } else if is_manifest(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    path.extension()
        .is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// Whether it is `-`, which can be read once only.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The text of a file or of standard input.
pub fn text(path: &Path) -> io::Result<String> {
    if is_stdin(path) {
        let mut text = String::new();
        return io::stdin().read_to_string(&mut text).map(|_| text);
    }
    fs::read_to_string(path)
}

/// `path` cannot be read, for the reason that the system gives.
pub fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::Unreadable(Message::new(format!("cannot read `{}`: {}", path.display(), reason(error))))
}

/// The system's words without Rust's number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}
