//! The files of `serve` over time: what changed, and the last good text of a file that is broken for the moment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use postern_translate::manifest::{self, Loaded, ManifestError, Source};

use crate::failure::Failure;
use crate::source::{self, File, Files};

/// The files as they were read last.
pub struct Sources {
    files: Files,
    seen: Vec<(PathBuf, Result<String, String>)>,
    /// The last text of each file that could be read as YAML or JSON.
    good: BTreeMap<PathBuf, String>,
}

/// What the files hold now.
pub struct Reading {
    /// The objects; for a file that is broken, those of its last good text.
    pub loaded: Loaded,
    /// What is said of files that are not served as they are.
    pub kept: Vec<String>,
}

impl Sources {
    /// Nothing has been read yet.
    pub fn new(files: Files) -> Self {
        Self { files, seen: Vec::new(), good: BTreeMap::new() }
    }

    /// Reads for the first time. Here a file that cannot be read is a failure: there is nothing good to keep.
    pub fn first(&mut self) -> Result<Reading, Failure> {
        for File { path, text } in self.files.read()? {
            let text = text.map_err(|error| source::unreadable(&path, &error))?;
            self.seen.push((path, Ok(text)));
        }
        Ok(self.load())
    }

    /// Reads again; `None` when every file is as it was.
    pub fn again(&mut self) -> Option<Reading> {
        let seen = self.current();
        if seen == self.seen {
            return None;
        }
        self.seen = seen;
        Some(self.load())
    }

    /// The paths that are worth watching.
    pub fn watched(&self) -> Vec<PathBuf> {
        self.files.filename.iter().filter(|path| !source::is_stdin(path)).cloned().collect()
    }

    fn current(&self) -> Vec<(PathBuf, Result<String, String>)> {
        let Ok(paths) = self.files.paths() else {
            // A folder that is gone or empty in the midst of a change: what was there is kept until there is something.
            return self.seen.clone();
        };
        let read = |path: PathBuf| match self
            .seen
            .iter()
            .find(|(seen, _)| *seen == path && source::is_stdin(seen))
        {
            Some(stdin) => stdin.clone(),
            None => {
                let text = source::text(&path).map_err(|error| source::reason(&error));
                (path, text)
            }
        };
        paths.into_iter().map(read).collect()
    }

    /// Loads every file, the last good text standing in for what cannot be read or parsed.
    fn load(&mut self) -> Reading {
        let mut kept = Vec::new();
        let mut sources = Vec::new();
        let mut broken = Vec::new();
        for (path, text) in &self.seen {
            let name = path.display().to_string();
            let problem = match text {
                Err(reason) => Some(format!("cannot read `{name}`: {reason}")),
                Ok(text) => {
                    let errors = not_manifests(Source { name: name.clone(), text: text.clone() });
                    // Of a file that was never good, whatever can be read is better than nothing.
                    let is_broken = !errors.is_empty() && self.good.contains_key(path);
                    if !is_broken {
                        self.good.insert(path.clone(), text.clone());
                    }
                    broken.extend(errors.into_iter().filter(|_| is_broken));
                    is_broken.then(|| format!("`{name}` is not well-formed"))
                }
            };
            let good = self.good.get(path);
            kept.extend(problem.map(|problem| match good {
                Some(_) => format!("{problem}: what it held before is served"),
                None => problem,
            }));
            sources.extend(good.map(|text| Source { name, text: text.clone() }));
        }
        let mut loaded = manifest::load(&sources);
        loaded.errors.splice(0..0, broken);
        Reading { loaded, kept }
    }
}

/// The errors for which a text is not YAML or JSON at all, or only in part.
fn not_manifests(source: Source) -> Vec<ManifestError> {
    let is_syntax = |error: &ManifestError| error.object.is_none() && error.path.is_empty();
    manifest::load(&[source]).errors.into_iter().filter(is_syntax).collect()
}
