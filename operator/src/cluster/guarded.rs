//! Translation that no panic stops: what makes it panic stays as it was, or is left out, and its author is told.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use postern_config::ObjectKey;
use postern_translate::api::{Condition, ConditionStatus, GROUP, ParentReference, ParentStatus, RouteStatus};
use postern_translate::kinds::ObjectSet;
use postern_translate::snapshot::Snapshot;
use postern_translate::{Translation, Translator};

/// An object by kind and key.
pub type Name = (&'static str, ObjectKey);

/// A translation, and what had to be done to get it.
#[derive(Debug)]
pub struct Guarded {
    /// `None` when it panics whatever is left out; what was there before stays.
    pub translation: Option<Translation>,
    /// What it was made of.
    pub objects: ObjectSet,
    /// The objects of which an earlier state was translated, or nothing.
    pub guilty: Vec<Name>,
}

/// Translates what can be translated. `former` is what the last translation was made of, `suspects` was guilty then.
pub fn guarded(
    translator: &mut Translator,
    snapshot: Snapshot,
    former: &ObjectSet,
    suspects: &[Name],
) -> Guarded {
    if let Some(translation) = attempt_with(translator, &snapshot) {
        return Guarded { translation: Some(translation), objects: snapshot.objects, guilty: Vec::new() };
    }
    let nothing = ObjectSet::default();
    let is_known = !suspects.is_empty() && attempt(&with(&snapshot, suspects, &nothing)).is_some();
    let guilty = if is_known { suspects.to_vec() } else { guilty(&snapshot) };
    for earlier in [former, &nothing] {
        let harmless = with(&snapshot, &guilty, earlier);
        if let Some(mut translation) = attempt(&harmless) {
            for (kind, key) in &guilty {
                tell(&mut translation, &snapshot, kind, key);
            }
            return Guarded { translation: Some(translation), objects: harmless.objects, guilty };
        }
    }
    Guarded { translation: None, objects: snapshot.objects, guilty }
}

fn attempt(snapshot: &Snapshot) -> Option<Translation> {
    attempt_with(&mut Translator::default(), snapshot)
}

fn attempt_with(translator: &mut Translator, snapshot: &Snapshot) -> Option<Translation> {
    let attempt = || {
        #[cfg(test)]
        tests::trip(snapshot);
        translator.translate(snapshot)
    };
    let translation = catch_unwind(AssertUnwindSafe(attempt)).ok();
    if translation.is_none() {
        // It may have taken note of changes from which nothing has followed yet.
        *translator = Translator::default();
    }
    translation
}

/// Which objects make translation panic: kind after kind, since a route does nothing without its Gateway.
fn guilty(snapshot: &Snapshot) -> Vec<Name> {
    let names = snapshot.objects.names();
    let (routes, rest): (Vec<_>, Vec<_>) = names.into_iter().partition(|(kind, _)| kind.ends_with("Route"));
    let (gateways, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(kind, _)| *kind == "Gateway");
    let nothing = ObjectSet::default();
    let mut guilty = Vec::new();
    let mut known = with(&with(snapshot, &routes, &nothing), &gateways, &nothing);
    for stage in [rest, gateways, routes] {
        known = with(&known, &stage, &snapshot.objects);
        let found = among(&known, &stage, 0..stage.len());
        known = with(&known, &found, &nothing);
        guilty.extend(found);
    }
    guilty
}

/// Which of `all[range]` make translation panic when the rest of `all` is away.
fn among(snapshot: &Snapshot, all: &[Name], range: Range<usize>) -> Vec<Name> {
    let nothing = ObjectSet::default();
    let without_some = with(snapshot, &all[..range.start], &nothing);
    if range.is_empty() || attempt(&with(&without_some, &all[range.end..], &nothing)).is_some() {
        return Vec::new();
    }
    if range.len() == 1 {
        return all[range].to_vec();
    }
    let middle = range.start + range.len() / 2;
    [among(snapshot, all, range.start..middle), among(snapshot, all, middle..range.end)].concat()
}

/// The snapshot with some objects as they are in another set.
fn with(snapshot: &Snapshot, some: &[Name], other: &ObjectSet) -> Snapshot {
    let mut snapshot = snapshot.clone();
    some.iter().for_each(|(kind, key)| snapshot.objects.copy(kind, key, other));
    snapshot
}

/// Says on an object that it is not served as it is. What else is told of it is of its earlier state.
fn tell(translation: &mut Translation, snapshot: &Snapshot, kind: &str, key: &ObjectKey) {
    let (objects, statuses) = (&snapshot.objects, &mut translation.statuses);
    let plans = &translation.plans;
    let entries = |parents: &[ParentReference], generation| {
        let parents = parents.iter().cloned().filter_map(|mut parent_ref| {
            let namespace = parent_ref.namespace.get_or_insert_with(|| key.namespace.clone());
            let gateway = ObjectKey::new(namespace.as_str(), parent_ref.name.as_str());
            let is_ours =
                plans.contains_key(&gateway) && parent_ref.group == GROUP && parent_ref.kind == "Gateway";
            let controller_name = snapshot.settings.controller_name.clone();
            is_ours.then(|| ParentStatus { parent_ref, controller_name, conditions: vec![fault(generation)] })
        });
        RouteStatus { parents: parents.collect() }
    };
    match kind {
        "HTTPRoute" => {
            let Some(route) = objects.http_routes.get(key) else { return };
            let status = entries(&route.spec.parent_refs, route.metadata.generation);
            statuses.http_routes.insert(key.clone(), Arc::new(status));
        }
        "GRPCRoute" => {
            let Some(route) = objects.grpc_routes.get(key) else { return };
            let status = entries(&route.spec.parent_refs, route.metadata.generation);
            statuses.grpc_routes.insert(key.clone(), Arc::new(status));
        }
        "Gateway" => {
            let Some(gateway) = objects.gateways.get(key) else { return };
            let present = || gateway.status.clone().unwrap_or_default();
            let status = statuses.gateways.entry(key.clone()).or_insert_with(present);
            status.conditions.retain(|condition| condition.kind != "Accepted");
            status.conditions.insert(0, fault(gateway.metadata.generation));
        }
        // Nobody is told of these in a status.
        _ => {}
    }
}

fn fault(generation: Option<i64>) -> Condition {
    Condition {
        kind: "Accepted".into(),
        status: ConditionStatus::False,
        reason: "InternalError".into(),
        message: "it cannot be translated, by a fault of ours; what was served of it before, if anything, is still served: \
                  change it, and please report it with the operator's log"
            .into(),
        observed_generation: generation.or(Some(1)),
        last_transition_time: None,
    }
}

#[cfg(test)]
mod tests;
