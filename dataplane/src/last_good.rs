//! The last configuration that was served, in a file: a container that starts again serves before it hears of anyone.
//!
//! The file holds private keys. It belongs on a volume in memory, and only its owner may read it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use postern_config::Config;
use postern_config::delta::{Contents, Digest, Inventory, Version};
use serde::{Deserialize, Serialize};

/// Begins the first line; the number is that of the format.
const MAGIC: &str = "postern-last-good 1 ";

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// It is not ours, or of another version.
    #[error("it does not begin as a file of this version does")]
    Unknown,
    /// It is not as it was written.
    #[error("its content does not go with its checksum: it was cut off or changed")]
    Damaged,
    /// What was written cannot be understood by this version.
    #[error("this version does not understand it")]
    NotUnderstood,
}

#[derive(Serialize)]
struct Written<'a> {
    version: &'a Version,
    inventory: &'a Inventory,
    config: &'a Config,
}

#[derive(Deserialize)]
struct Read {
    version: Version,
    inventory: Inventory,
    config: Config,
}

/// Writes the file anew. A crash leaves the old one or the new one, never a half.
///
/// Fails as the file system does.
pub fn save(path: &Path, contents: &Contents) -> io::Result<()> {
    let Contents { config, inventory, version } = contents;
    let body = serde_json::to_vec(&Written { version, inventory, config })?;
    let new = path.with_extension("new");
    // What an earlier run left here may have other permissions.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    writeln!(file, "{MAGIC}{}", String::from(Digest::of(&body)))?;
    file.write_all(&body)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

/// Reads the file; `None` when there is none.
///
/// Fails when it is not whole and understood: a part of a configuration would send requests elsewhere than the whole.
pub fn load(path: &Path) -> Result<Option<Contents>, Unusable> {
    let file = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let end = file.iter().position(|byte| *byte == b'\n').ok_or(Unusable::Unknown)?;
    let (first, body) = (&file[..end], &file[end + 1..]);
    let checksum = first.strip_prefix(MAGIC.as_bytes()).ok_or(Unusable::Unknown)?;
    if checksum != String::from(Digest::of(body)).as_bytes() {
        return Err(Unusable::Damaged);
    }
    // What serde says may quote a key.
    let Read { version, inventory, config } =
        serde_json::from_slice(body).map_err(|_| Unusable::NotUnderstood)?;
    Ok(Some(Contents { config: Arc::new(config), inventory: Arc::new(inventory), version }))
}
