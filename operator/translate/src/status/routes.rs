//! The status of a route: one entry for each parentRef to a Gateway of ours.

use std::collections::{BTreeMap, BTreeSet};

use postern_config::{ObjectKey, RouteName};

use super::{ConditionType, Conditions, Reason};
use crate::api::{ParentStatus, RouteStatus};
use crate::attach::{Attached, AttachedRoute, Parent};
use crate::routes::{Rules, numbered};

/// How many routes each listener, by Gateway and place, has accepted.
pub(super) type Counts<'a> = BTreeMap<(&'a ObjectKey, usize), i32>;

/// Counts the routes that are attached and accepted, each once.
pub(super) fn attached<'a>(attached: &Attached<'a>, rules: &BTreeMap<RouteName, Rules>) -> Counts<'a> {
    let mut counts = Counts::new();
    for (name, route) in attached.routes.iter().filter(|(name, _)| rules[name].refusal().is_none()) {
        debug_assert_eq!(*name, route.route.name);
        let landings = route.parents.iter().flat_map(|parent| {
            parent.verdict.iter().flatten().map(|landing| (parent.gateway, landing.listener))
        });
        for place in landings.collect::<BTreeSet<_>>() {
            *counts.entry(place).or_default() += 1;
        }
    }
    counts
}

/// The entries for our parents, in the order of the parentRefs.
pub(super) fn status(controller: &str, route: &AttachedRoute<'_>, rules: &Rules) -> RouteStatus {
    RouteStatus {
        parents: route.parents.iter().map(|parent| entry(controller, route, parent, rules)).collect(),
    }
}

fn entry(controller: &str, route: &AttachedRoute<'_>, parent: &Parent<'_>, rules: &Rules) -> ParentStatus {
    let conditions = Conditions::of(route.route.metadata);
    let refusal = parent.verdict.as_ref().err().cloned().or_else(|| rules.refusal());
    let accepted = refusal.is_none();
    let conditions = conditions.unless(
        refusal.as_ref(),
        ConditionType::Accepted,
        Reason::Accepted,
        "the route is attached",
    );
    // "This condition MUST NOT be set if a Route is fully valid, fully invalid, or not accepted."
    let conditions = if accepted && !rules.dropped.is_empty() {
        let (one, it) = if let [_] = rules.dropped.as_slice() { ("", "it") } else { ("s", "them") };
        let which = rules.dropped.iter().map(|(index, _)| index.to_string()).collect::<Vec<_>>().join(", ");
        let why = numbered(&rules.dropped);
        let message = format!("Dropped Rule{one} {which}, and requests for {it} answer 500: {why}");
        conditions.yes(ConditionType::PartiallyInvalid, Reason::UnsupportedValue, message)
    } else {
        conditions
    };
    let unresolved =
        rules.unresolved.first().map(|(_, first)| first.reason.because(numbered(&rules.unresolved)));
    let message = "all references can be followed";
    let conditions =
        conditions.unless(unresolved.as_ref(), ConditionType::ResolvedRefs, Reason::ResolvedRefs, message);
    ParentStatus {
        parent_ref: parent.reference.clone(),
        controller_name: controller.into(),
        conditions: conditions.sorted(),
    }
}
