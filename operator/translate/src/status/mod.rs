//! What authors are told of their objects.

mod gateways;
mod reason;
mod routes;

use std::collections::BTreeMap;
use std::sync::Arc;

use postern_config::{ObjectKey, RouteKind};
pub use reason::CONDITION_TYPES;
pub(crate) use reason::{ConditionType, Conditions, Reason, Refusal};
pub(crate) use routes::status as route;

use crate::api::{GatewayClassStatus, GatewayStatus, RouteStatus, SupportedFeature};
use crate::classes::{Classes, OurClass, SUPPORTED_FEATURES};
use crate::outcome::World;
use crate::snapshot::Snapshot;
use crate::translator::Outcomes;

/// How many routes each listener, by Gateway and place, has accepted.
type Counts<'a> = BTreeMap<(&'a ObjectKey, usize), i32>;

/// The statuses that we want, without times and without what other controllers wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statuses {
    /// Of the GatewayClasses that name our controller, by name.
    pub gateway_classes: BTreeMap<String, GatewayClassStatus>,
    /// Of the Gateways that are ours.
    pub gateways: BTreeMap<ObjectKey, GatewayStatus>,
    /// Of the HTTPRoutes with a parentRef to a Gateway that is ours; only the entries of those parents.
    pub http_routes: BTreeMap<ObjectKey, Arc<RouteStatus>>,
    /// The same of GRPCRoutes.
    pub grpc_routes: BTreeMap<ObjectKey, Arc<RouteStatus>>,
}

/// The statuses of our classes and Gateways, and of the routes what follows from each.
pub(crate) fn all(
    snapshot: &Snapshot,
    classes: &Classes<'_>,
    world: &World<'_>,
    outcomes: &Outcomes,
) -> Statuses {
    let mut counts = Counts::new();
    for (_, outcome) in outcomes.all() {
        for (gateway, place) in &outcome.counted {
            *counts.entry((gateway, *place)).or_default() += 1;
        }
    }
    let gateways = world.gateways.iter();
    let gateways = gateways
        .map(|(key, ours)| ((*key).clone(), gateways::status(key, ours, &snapshot.observed, &counts)));
    let mut statuses = Statuses {
        gateway_classes: classes.ours.iter().map(|(name, ours)| ((*name).into(), class(ours))).collect(),
        gateways: gateways.collect(),
        ..Statuses::default()
    };
    let of = |routes: &Outcomes, kind| {
        let of_kind = routes.all().filter(|(name, _)| name.1 == kind);
        of_kind.filter_map(|(name, outcome)| Some((name.0.clone(), outcome.status.clone()?))).collect()
    };
    statuses.http_routes = of(outcomes, RouteKind::Http);
    statuses.grpc_routes = of(outcomes, RouteKind::Grpc);
    statuses
}

fn class(ours: &OurClass<'_>) -> GatewayClassStatus {
    let message = "the class is served by this controller";
    let conditions = Conditions::of(&ours.object.metadata)
        .unless(ours.parameters.as_ref().err(), ConditionType::Accepted, Reason::Accepted, message)
        .sorted();
    let supported_features =
        SUPPORTED_FEATURES.iter().map(|name| SupportedFeature { name: (*name).into() }).collect();
    GatewayClassStatus { conditions, supported_features }
}
