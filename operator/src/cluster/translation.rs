//! Translation after every change: one at a time, and away from the event loop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use postern_translate::api::{Condition, ConditionStatus};
use postern_translate::kinds::ObjectSet;
use postern_translate::snapshot::{Observed, Settings, Snapshot};
use postern_translate::{Note, Translation, Translator};
use tokio::sync::watch;

use crate::cluster::guarded::{Guarded, Name, guarded};
use crate::cluster::observe::{Acknowledgements, Obstacles, observed};
use crate::cluster::telemetry::{State, Telemetry};
use crate::cluster::watch::Seen;

/// What was seen, and what follows from it.
#[derive(Clone, Debug)]
pub struct Current {
    /// What was seen.
    pub seen: Arc<Seen>,
    /// What follows.
    pub translation: Arc<Translation>,
    /// What of it does not follow from what was seen, but from what was seen before, if anything.
    pub guilty: Arc<[Name]>,
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
    let mut last = Last::default();
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
        if let Some((revision, known, translation)) = &last.result
            && *revision == seen.revision
            && *known == observed
        {
            let (translation, guilty) = (translation.clone(), last.guilty.clone());
            outputs.current.send_replace(Some(Arc::new(Current { seen, translation, guilty })));
            continue;
        }
        let snapshot = Snapshot {
            objects: seen.objects.clone(),
            missing_kinds: seen.missing_kinds(),
            settings: inputs.settings.clone(),
            observed: observed.clone(),
        };
        let began = Instant::now();
        let (former, suspects) = (std::mem::take(&mut last.objects), last.guilty.clone());
        let mut translator = std::mem::take(&mut last.translator);
        let task = tokio::task::spawn_blocking(move || {
            let guarded = guarded(&mut translator, snapshot, &former, &suspects);
            (guarded, former, translator)
        });
        let Ok((Guarded { translation, objects, guilty }, former, translator)) = task.await else { continue };
        last.translator = translator;
        telemetry.translations.observe(began.elapsed().as_secs_f64());
        for (kind, object) in &guilty {
            telemetry.panics.inc();
            if !last.guilty.contains(&(*kind, object.clone())) {
                tracing::error!(kind, %object, "object is left as it was, for it makes translation panic: please report it");
            }
        }
        last.guilty = guilty.into();
        let Some(translation) = translation else {
            last.objects = former;
            continue;
        };
        tell(&translation.notes, &mut notes);
        count(&translation, &telemetry);
        let before = last.result.as_ref().map(|(.., before)| &before.expiries);
        if before != Some(&translation.expiries) {
            telemetry.expire(&translation.expiries);
        }
        let translation = Arc::new(translation);
        last.objects = objects;
        last.result = Some((seen.revision, observed, translation.clone()));
        outputs.translations.send_replace(Some(translation.clone()));
        let guilty = last.guilty.clone();
        outputs.current.send_replace(Some(Arc::new(Current { seen, translation, guilty })));
    }
}

/// What is known of the last translation.
#[derive(Default)]
struct Last {
    result: Option<(u64, Observed, Arc<Translation>)>,
    objects: ObjectSet,
    translator: Translator,
    guilty: Arc<[Name]>,
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
