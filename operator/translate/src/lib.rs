//! Objects in, configuration and statuses out: the pure core, with no clock, file, client or channel.

pub mod api;
pub mod kinds;
pub mod manifest;
pub mod snapshot;
mod status;

use std::collections::BTreeMap;

use postern_config::{Config, ObjectKey};

use crate::snapshot::Snapshot;
pub use crate::status::Statuses;

/// All that follows from a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// What to run for each Gateway that is ours.
    pub plans: BTreeMap<ObjectKey, Plan>,
    /// What to tell the authors of the objects, in full: an object that is not here has no status of ours.
    pub statuses: Statuses,
    /// What is worth telling and has no place in a status, in the order of kind and name.
    pub notes: Vec<Note>,
}

/// What to run for one Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What its data plane serves.
    pub config: Config,
}

/// A remark about an object that no status of ours can carry, for example a parentRef to a Gateway that does not exist.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Note {
    /// The kind of the object, as in `kind:`.
    pub kind: &'static str,
    /// The object; cluster-scoped ones have an empty namespace.
    pub object: ObjectKey,
    /// The fact, then what to do.
    pub message: String,
}

/// What the objects say, turned into everything we do about it.
///
/// Never fails: what a user got wrong becomes a condition on that user's object and leaves every other object as it was.
pub fn translate(snapshot: &Snapshot) -> Translation {
    let _ = snapshot;
    Translation::default()
}
