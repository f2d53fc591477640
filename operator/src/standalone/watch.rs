//! When the files may have changed: a word on a channel, some milliseconds after the last event.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// Editors and ConfigMap mounts change files in several steps; what comes this close together is one change.
const QUIET: Duration = Duration::from_millis(50);
/// A folder in which something always changes is read this often.
const LONGEST: Duration = Duration::from_secs(1);

/// Watches for as long as it lives.
pub struct Watch {
    _watcher: RecommendedWatcher,
    events: mpsc::Receiver<()>,
}

impl Watch {
    /// Watches files and folders, those below included. A file is watched through its folder: editors and mounts replace
    /// files by renaming, which a watch on the file itself would not survive.
    ///
    /// Fails when the system refuses a watch, for example because there are too many.
    pub fn start(paths: &[PathBuf]) -> notify::Result<Self> {
        let (sender, events) = mpsc::channel(1);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // A lost event is a full channel, which is a change that has not been looked at yet.
            if !matches!(event, Ok(notify::Event { kind: EventKind::Access(_), .. })) {
                let _ = sender.try_send(());
            }
        })?;
        for (folder, is_deep) in folders(paths) {
            let mode = if is_deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            watcher.watch(&folder, mode)?;
        }
        Ok(Self { _watcher: watcher, events })
    }

    /// Waits for a change, then until it has been quiet, though not for ever.
    pub async fn changed(&mut self) {
        if self.events.recv().await.is_none() {
            return std::future::pending().await;
        }
        let more =
            async { while let Ok(Some(())) = tokio::time::timeout(QUIET, self.events.recv()).await {} };
        // Either way it is time to look.
        let _ = tokio::time::timeout(LONGEST, more).await;
    }
}

/// The folders to watch, and whether those below are meant too. A link's target is watched as well: the file that it points
/// to may change in place.
fn folders(paths: &[PathBuf]) -> BTreeMap<PathBuf, bool> {
    let mut folders = BTreeMap::new();
    for path in paths {
        if path.is_dir() {
            folders.insert(path.clone(), true);
            continue;
        }
        for path in [Some(path.clone()), path.canonicalize().ok()].into_iter().flatten() {
            folders.entry(folder(&path)).or_insert(false);
        }
    }
    folders
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
