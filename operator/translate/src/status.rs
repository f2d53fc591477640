//! What authors are told: reasons, and the statuses that they end up in.

use std::collections::BTreeMap;

use postern_config::ObjectKey;

use crate::api::{GatewayClassStatus, GatewayStatus, RouteStatus};

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
