//! The files of `serve` over time: what changed, and the last good text of a file that is broken for the moment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use postern_translate::manifest::{self, Loaded, ManifestError, Source};

use crate::input::source::{self, File, Files};
use crate::output::failure::Failure;

/// The files as they were read last.
pub struct Sources {
    files: Files,
    seen: Vec<(PathBuf, Result<String, String>)>,
    /// By name, the last text of each file that was YAML or JSON throughout.
    good: BTreeMap<String, String>,
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
        for (path, text) in &self.seen {
            let name = path.display().to_string();
            let good = self.good.get(&name);
            if let Err(reason) = text {
                kept.push(instead(&format!("cannot read `{name}`: {reason}"), good.is_some()));
            }
            let text = text.as_ref().ok().or(good);
            sources.extend(text.map(|text| Source { name, text: text.clone() }));
        }
        let mut loaded = manifest::load(&sources);
        let broken = self.keep(&loaded, &mut sources);
        if !broken.is_empty() {
            kept.extend(broken.iter().map(|name| instead(&format!("`{name}` is not well-formed"), true)));
            let is_broken = |error: &ManifestError| is_syntax(error) && broken.contains(&error.source);
            let errors = Vec::from_iter(loaded.errors.into_iter().filter(is_broken));
            loaded = manifest::load(&sources);
            loaded.errors.splice(0..0, errors);
        }
        Reading { loaded, kept }
    }

    /// Remembers the texts that are good, puts good ones in place of others, and gives the names of those.
    fn keep(&mut self, loaded: &Loaded, sources: &mut [Source]) -> BTreeSet<String> {
        let bad =
            BTreeSet::from_iter(loaded.errors.iter().filter(|error| is_syntax(error)).map(|e| &e.source));
        let mut broken = BTreeSet::new();
        for source in sources {
            match (bad.contains(&source.name), self.good.get(&source.name)) {
                (true, Some(good)) => {
                    source.text.clone_from(good);
                    broken.insert(source.name.clone());
                }
                // Of a file that was never good, whatever can be read is better than nothing.
                (true, None) => {}
                (false, _) => _ = self.good.insert(source.name.clone(), source.text.clone()),
            }
        }
        broken
    }
}

fn instead(problem: &str, has_good: bool) -> String {
    format!("{problem}{}", if has_good { ": what it held before is served" } else { "" })
}

/// Whether a text is not YAML or JSON at all, or only in part.
fn is_syntax(error: &ManifestError) -> bool {
    error.object.is_none() && error.path.is_empty()
}
