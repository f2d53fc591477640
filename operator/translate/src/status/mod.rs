//! What authors are told of their objects.

mod gateways;
mod reason;
mod routes;

use std::collections::BTreeMap;

use postern_config::{ObjectKey, RouteKind, RouteName};
pub use reason::CONDITION_TYPES;
pub(crate) use reason::{ConditionType, Conditions, Reason, Refusal};

use crate::api::{GatewayClassStatus, GatewayStatus, RouteStatus, SupportedFeature};
use crate::attach::Attached;
use crate::classes::{Classes, OurClass, SUPPORTED_FEATURES};
use crate::listeners::Gateways;
use crate::routes::Rules;
use crate::snapshot::Snapshot;

/// The statuses that we want, without times and without what other controllers wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statuses {
    /// Of the GatewayClasses that name our controller, by name.
    pub gateway_classes: BTreeMap<String, GatewayClassStatus>,
    /// Of the Gateways that are ours.
    pub gateways: BTreeMap<ObjectKey, GatewayStatus>,
    /// Of the HTTPRoutes with a parentRef to a Gateway that is ours; only the entries of those parents.
    pub http_routes: BTreeMap<ObjectKey, RouteStatus>,
    /// The same of GRPCRoutes.
    pub grpc_routes: BTreeMap<ObjectKey, RouteStatus>,
}

/// The statuses of all objects of ours.
pub(crate) fn all(
    snapshot: &Snapshot,
    classes: &Classes<'_>,
    gateways: &Gateways<'_>,
    attached: &Attached<'_>,
    rules: &BTreeMap<RouteName, Rules>,
) -> Statuses {
    let counts = routes::attached(attached, rules);
    let mut statuses = Statuses {
        gateway_classes: classes.ours.iter().map(|(name, ours)| ((*name).into(), class(ours))).collect(),
        gateways: gateways
            .iter()
            .map(|(key, ours)| ((*key).clone(), gateways::status(key, ours, &snapshot.observed, &counts)))
            .collect(),
        ..Statuses::default()
    };
    for (name, attached) in &attached.routes {
        let status = routes::status(&snapshot.settings.controller_name, attached, &rules[name]);
        let kind = match name.kind {
            RouteKind::Grpc => &mut statuses.grpc_routes,
            RouteKind::Http => &mut statuses.http_routes,
        };
        kind.insert(name.key.clone(), status);
    }
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
