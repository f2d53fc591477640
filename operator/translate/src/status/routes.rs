//! The status of a route: one entry for each parentRef to a Gateway of ours.

use super::{ConditionType, Conditions, Reason};
use crate::api::{ParentStatus, RouteStatus};
use crate::attach::Parent;
use crate::routes::{AnyRoute, Rules, numbered};

/// The entries for our parents, in the order of the parentRefs.
pub(crate) fn status(
    controller: &str,
    route: &AnyRoute<'_>,
    parents: &[Parent<'_>],
    rules: &Rules,
) -> RouteStatus {
    RouteStatus { parents: parents.iter().map(|parent| entry(controller, route, parent, rules)).collect() }
}

fn entry(controller: &str, route: &AnyRoute<'_>, parent: &Parent<'_>, rules: &Rules) -> ParentStatus {
    let conditions = Conditions::of(route.metadata);
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
