//! Objects in, configuration and statuses out: the pure core, with no clock, file, client or channel.

pub mod api;
pub mod kinds;
pub mod manifest;
pub mod snapshot;
pub mod workload;

mod attach;
mod backends;
mod certificates;
mod classes;
mod conflicts;
mod durations;
mod filters;
mod grants;
mod listeners;
mod namespaces;
mod nearest;
mod outcome;
mod parameters;
mod plan;
mod routes;
mod status;
mod translator;
mod unsupported;

use std::collections::BTreeMap;

use postern_config::{Config, ObjectKey};

use crate::classes::Classes;
use crate::grants::Grants;
use crate::outcome::World;
use crate::snapshot::Snapshot;
pub use crate::status::{CONDITION_TYPES, Statuses};
use crate::translator::Outcomes;
pub use crate::translator::Translator;
use crate::workload::Workload;

/// All that follows from a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// What to run for each Gateway that is ours.
    pub plans: BTreeMap<ObjectKey, Plan>,
    /// What to tell the authors of the objects, in full: an object that is not here has no status of ours.
    pub statuses: Statuses,
    /// What is worth telling and has no place in a status, in the order of kind and name.
    pub notes: Vec<Note>,
    /// When the certificates end that are served, in seconds since 1970, by Secret.
    pub expiries: BTreeMap<ObjectKey, i64>,
}

/// What to run for one Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What its data plane serves.
    pub config: Config,
    /// What runs it on a cluster. `None` where nothing is to be made or changed: without a cluster, and while the Gateway is
    /// refused.
    pub workload: Option<Workload>,
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
    Translator::default().translate(snapshot)
}

impl Translator {
    /// What [`translate`] gives. What follows from routes that did not change, and look at nothing that did, is taken over
    /// from the last time.
    pub fn translate(&mut self, snapshot: &Snapshot) -> Translation {
        let objects = &snapshot.objects;
        let grants = Grants::of(objects);
        let classes = classes::resolve(snapshot);
        let secrets = certificates::secrets(objects, &classes);
        let gateways = listeners::resolve(snapshot, &classes, &grants, &secrets);
        let controller = &snapshot.settings.controller_name;
        let world = World { objects, controller, grants, gateways };
        let outcomes = self.outcomes(&world);
        let plans = plan::per_gateway(snapshot, &world, outcomes);
        let statuses = status::all(snapshot, &classes, &world, outcomes);
        let notes = notes(&classes, &world, outcomes);
        let expiries = certificates::expiries(&secrets, &plans);
        Translation { plans, statuses, notes, expiries }
    }
}

fn notes(classes: &Classes<'_>, world: &World<'_>, outcomes: &Outcomes) -> Vec<Note> {
    let of_gateways = world.gateways.values().flat_map(|gateway| &gateway.notes);
    let of_routes = outcomes.all().flat_map(|(_, outcome)| &outcome.notes);
    let mut notes: Vec<Note> = classes.notes.iter().chain(of_gateways).chain(of_routes).cloned().collect();
    notes.sort();
    notes.dedup();
    notes
}
