//! Files to translation: what every read-only command starts with.

pub mod slices;
pub mod source;

use std::collections::BTreeSet;

use postern_config::{Config, ObjectKey};
use postern_translate::manifest::{self, Loaded, ManifestError, Source};
use postern_translate::snapshot::{Claim, Observed, Settings, Snapshot};
use postern_translate::{Note, Translation};

use self::source::Files;
use crate::output::failure::{Failure, Message};
use crate::output::{self, TITLE, paint};

/// What the files hold, and what follows from it.
pub struct Input {
    /// The objects.
    pub snapshot: Snapshot,
    /// What the data plane would serve, and the statuses.
    pub translation: Translation,
    /// Services of which the input has no EndpointSlice: whether they have endpoints is not known.
    pub unknown: BTreeSet<ObjectKey>,
    /// Whether an object had to be left out.
    pub has_errors: bool,
}

impl Input {
    /// The Gateways with what they serve; only `chosen` if it is given.
    ///
    /// Fails when there is no such Gateway.
    pub fn plans(&self, chosen: Option<&ObjectKey>) -> Result<Vec<(&ObjectKey, &Config)>, Failure> {
        let plans = self.translation.plans.iter().map(|(key, plan)| (key, &plan.config));
        let found = Vec::from_iter(plans.filter(|(key, _)| chosen.is_none_or(|chosen| chosen == *key)));
        match chosen {
            Some(chosen) if found.is_empty() => {
                let message = Message::new(format!("there is no Gateway `{chosen}` in the input"));
                let keys: Vec<_> = self.translation.plans.keys().map(|key| format!("`{key}`")).collect();
                let hint = if keys.is_empty() {
                    "there is none at all".into()
                } else {
                    format!("there is {}", keys.join(", "))
                };
                Err(Failure::Usage(message.hint(hint)))
            }
            Some(_) | None => Ok(found),
        }
    }
}

/// Reads, loads and translates; says on standard error what is wrong with the input.
///
/// Fails when a file cannot be read.
pub fn load(files: &Files) -> Result<Input, Failure> {
    let mut sources = Vec::new();
    for file in files.read()? {
        let text = file.text.map_err(|error| source::unreadable(&file.path, &error))?;
        sources.push(Source { name: file.path.display().to_string(), text });
    }
    let loaded = manifest::load(&sources);
    complaints(&loaded).iter().for_each(|line| output::note(line));
    let has_errors = !loaded.errors.is_empty();
    let snapshot = snapshot(loaded, Observed::Assumed);
    let translation = postern_translate::translate(&snapshot);
    remarks(&translation.notes).for_each(|line| output::note(&line));
    let unknown = BTreeSet::from_iter(slices::services_without(&snapshot.objects));
    Ok(Input { snapshot, translation, unknown, has_errors })
}

/// Files have no other controller: every Gateway in them is ours.
pub fn snapshot(loaded: Loaded, observed: Observed) -> Snapshot {
    let settings = Settings { claim: Claim::Every, ..Settings::default() };
    Snapshot { objects: loaded.objects, settings, observed, ..Snapshot::default() }
}

/// What did not load, and what is worth knowing of what did, as lines for standard error.
pub fn complaints(loaded: &Loaded) -> Vec<String> {
    let errors = loaded.errors.iter().map(complaint);
    let duplicates = loaded.duplicates.iter().map(output::as_warning);
    let ignored = loaded.ignored.iter().map(output::as_warning);
    errors.chain(duplicates).chain(ignored).collect()
}

/// What translation has to say beside statuses, as lines for standard error.
pub fn remarks(notes: &[Note]) -> impl Iterator<Item = String> {
    notes
        .iter()
        .map(|Note { kind, object, message }| output::as_warning(format!("{kind} {object}: {message}")))
}

fn complaint(error: &ManifestError) -> String {
    let ManifestError { source, line, column, object, path, message, hint } = error;
    let subject = [object.as_deref().unwrap_or_default(), path].into_iter().filter(|part| !part.is_empty());
    let subject: String = subject.map(|part| format!("{part}: ")).collect();
    let hint = hint.iter().map(|hint| format!("\n  {}: {hint}", paint(TITLE, "hint"))).collect::<String>();
    output::as_error(format!("{source}:{line}:{column}: {subject}{message}")) + &hint
}
