//! Translation after every change: one at a time, away from the event loop, and with what makes it panic left out.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use postern_config::ObjectKey;
use postern_translate::api::{Condition, ConditionStatus};
use postern_translate::snapshot::{Observed, Settings, Snapshot};
use postern_translate::{Note, Translation, translate};
use tokio::sync::watch;

use crate::observe::{Acknowledgements, Obstacles, observed};
use crate::telemetry::{State, Telemetry};
use crate::watch::Seen;

/// What was seen, and what follows from it.
#[derive(Clone, Debug)]
pub struct Current {
    /// What was seen.
    pub seen: Arc<Seen>,
    /// What follows.
    pub translation: Arc<Translation>,
}

/// What translations are made of.
pub struct Inputs {
    /// Who we are.
    pub settings: Settings,
    /// The cluster; nothing before it is known.
    pub seen: watch::Receiver<Option<Arc<Seen>>>,
    /// What data planes said.
    pub acknowledged: watch::Receiver<Acknowledgements>,
    /// What is in the way of workloads.
    pub obstacles: watch::Receiver<Obstacles>,
}

/// Where translations go.
pub struct Outputs {
    /// For who writes to the cluster.
    pub current: watch::Sender<Option<Arc<Current>>>,
    /// For who serves configuration; nothing before the cluster is known.
    pub translations: watch::Sender<Option<Arc<Translation>>>,
}

/// Translates after every change until an input ends.
pub async fn run(mut inputs: Inputs, outputs: Outputs, telemetry: Telemetry) {
    let mut notes = BTreeSet::new();
    let mut last: Option<(u64, Observed, Arc<Translation>)> = None;
    loop {
        tokio::select! {
            changed = inputs.seen.changed() => if changed.is_err() { return },
            changed = inputs.acknowledged.changed() => if changed.is_err() { return },
            changed = inputs.obstacles.changed() => if changed.is_err() { return },
        }
        let Some(seen) = inputs.seen.borrow_and_update().clone() else { continue };
        let observed =
            observed(&seen, &inputs.acknowledged.borrow_and_update(), &inputs.obstacles.borrow_and_update());
        // Our own statuses come back as changes; nothing new follows from them.
        if let Some((revision, known, translation)) = &last
            && *revision == seen.revision
            && *known == observed
        {
            let translation = translation.clone();
            outputs.current.send_replace(Some(Arc::new(Current { seen, translation })));
            continue;
        }
        let snapshot = Snapshot {
            objects: seen.objects.clone(),
            settings: inputs.settings.clone(),
            observed: observed.clone(),
        };
        let began = Instant::now();
        let task = tokio::task::spawn_blocking(move || guarded(snapshot));
        let Ok(Guarded { translation, left_out }) = task.await else { continue };
        telemetry.translations.observe(began.elapsed().as_secs_f64());
        for (kind, object) in left_out {
            telemetry.panics.inc();
            tracing::error!(kind, %object, "object is left out, for it makes translation panic: please report it");
        }
        let Some(translation) = translation else { continue };
        tell(&translation.notes, &mut notes);
        count(&translation, &telemetry);
        let translation = Arc::new(translation);
        last = Some((seen.revision, observed, translation.clone()));
        outputs.translations.send_replace(Some(translation.clone()));
        outputs.current.send_replace(Some(Arc::new(Current { seen, translation })));
    }
}

/// A translation, and the objects that had to be left out of it.
struct Guarded {
    /// `None` when it panics whatever is left out; what was there before stays.
    translation: Option<Translation>,
    left_out: Vec<(&'static str, ObjectKey)>,
}

fn guarded(snapshot: Snapshot) -> Guarded {
    if let Some(translation) = attempt(&snapshot) {
        return Guarded { translation: Some(translation), left_out: Vec::new() };
    }
    let objects = &snapshot.objects;
    let http = objects.http_routes.keys().map(|key| ("HTTPRoute", key.clone()));
    let grpc = objects.grpc_routes.keys().map(|key| ("GRPCRoute", key.clone()));
    let gateways = objects.gateways.keys().map(|key| ("Gateway", key.clone()));
    let all: Vec<_> = gateways.chain(grpc).chain(http).collect();
    let left_out = guilty(&snapshot, &all, &all);
    Guarded { translation: attempt(&without(&snapshot, &left_out)), left_out }
}

/// Which of `some` make translation panic when the rest of `all` is away.
fn guilty(
    snapshot: &Snapshot,
    all: &[(&'static str, ObjectKey)],
    some: &[(&'static str, ObjectKey)],
) -> Vec<(&'static str, ObjectKey)> {
    // A route does nothing without its Gateway, so Gateways stay unless they are in doubt themselves.
    let away: Vec<_> = all.iter().filter(|it| !some.contains(it) && it.0 != "Gateway").cloned().collect();
    match some {
        [] => Vec::new(),
        _ if attempt(&without(snapshot, &away)).is_some() => Vec::new(),
        [one] => vec![one.clone()],
        more => {
            let (left, right) = more.split_at(more.len() / 2);
            [guilty(snapshot, all, left), guilty(snapshot, all, right)].concat()
        }
    }
}

fn without(snapshot: &Snapshot, away: &[(&'static str, ObjectKey)]) -> Snapshot {
    let mut snapshot = snapshot.clone();
    away.iter().for_each(|(kind, key)| snapshot.objects.remove(kind, key));
    snapshot
}

fn attempt(snapshot: &Snapshot) -> Option<Translation> {
    // Translation holds nothing that a panic could leave half done.
    catch_unwind(AssertUnwindSafe(|| translate(snapshot))).ok()
}

/// Says each note once, for as long as it holds.
fn tell(notes: &[Note], told: &mut BTreeSet<Note>) {
    for note in notes.iter().filter(|note| !told.contains(note)) {
        tracing::info!(kind = note.kind, object = %note.object, "{}", note.message);
    }
    *told = notes.iter().cloned().collect();
}

fn count(translation: &Translation, telemetry: &Telemetry) {
    let statuses = &translation.statuses;
    let is = |conditions: &[Condition], kind: &str| {
        conditions.iter().any(|it| it.kind == kind && it.status == ConditionStatus::True)
    };
    let set = |kind, state, count: usize| {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        telemetry.objects.get_or_create(&State { kind, state }).set(count);
    };
    let gateways = statuses.gateways.values();
    let accepted = gateways.clone().filter(|it| is(&it.conditions, "Accepted")).count();
    set("Gateway", "accepted", accepted);
    set("Gateway", "refused", statuses.gateways.len() - accepted);
    set("Gateway", "programmed", gateways.filter(|it| is(&it.conditions, "Programmed")).count());
    for (kind, routes) in [("HTTPRoute", &statuses.http_routes), ("GRPCRoute", &statuses.grpc_routes)] {
        let accepted = routes
            .values()
            .filter(|route| route.parents.iter().all(|parent| is(&parent.conditions, "Accepted")))
            .count();
        set(kind, "accepted", accepted);
        set(kind, "refused", routes.len() - accepted);
    }
}
