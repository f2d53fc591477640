//! Which GatewayClasses are ours, and with them which Gateways.

use std::collections::BTreeMap;

use postern_config::ObjectKey;
use serde_json::Value;

use crate::Note;
use crate::api::{Gateway, GatewayClass};
use crate::nearest::nearest;
use crate::parameters;
use crate::snapshot::{Claim, Snapshot};
use crate::status::{Reason, Refusal};

/// What we support, as names of the conformance suite, in ascending order. A name is here when its test passes.
pub(crate) const SUPPORTED_FEATURES: &[&str] = &[
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "GRPCRouteRequestHeaderModifier",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructure",
    "GatewayPort8080",
    "GatewayRouteHostnameIntersectionPrecedence",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteBackendURLRewrite",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
    "ReferenceGrant",
];

/// The classes that name our controller.
pub(crate) struct Classes<'a> {
    /// By name.
    pub(crate) ours: BTreeMap<&'a str, OurClass<'a>>,
    /// What no status can say.
    pub(crate) notes: Vec<Note>,
    claim: Claim,
}

/// A class of ours.
pub(crate) struct OurClass<'a> {
    /// The object.
    pub(crate) object: &'a GatewayClass,
    /// What it says of the data planes of its Gateways, if it does, or why it is not accepted.
    pub(crate) parameters: Result<Option<&'a Value>, Refusal>,
}

/// Finds our classes.
pub(crate) fn resolve(snapshot: &Snapshot) -> Classes<'_> {
    let controller = &snapshot.settings.controller_name;
    let claim = snapshot.settings.claim;
    let mut classes = Classes { ours: BTreeMap::new(), notes: Vec::new(), claim };
    for (key, class) in &snapshot.objects.gateway_classes {
        if class.spec.controller_name == *controller {
            let reference = class.spec.parameters_ref.as_ref();
            let parameters = reference.map(|reference| parameters::of_class(snapshot, reference)).transpose();
            classes.notes.extend(reference.filter(|_| parameters.is_ok()).and_then(|it| {
                parameters::without_effect(snapshot, it.namespace.as_deref().unwrap_or_default(), &it.name)
            }));
            classes.ours.insert(&key.name, OurClass { object: class, parameters });
        } else if claim == Claim::Every {
            classes.notes.push(Note {
                kind: "GatewayClass",
                object: key.clone(),
                message: format!(
                    "its controller is `{}`: Gateways of this class are served here all the same, and on a cluster they are left to it",
                    class.spec.controller_name
                ),
            });
        }
    }
    classes.notes.extend(missing_classes(snapshot));
    classes
}

impl<'a> Classes<'a> {
    /// Whether a Gateway is ours.
    pub(crate) fn claim(&self, gateway: &Gateway) -> bool {
        match self.claim {
            Claim::Every => true,
            Claim::OurClasses => self.ours.contains_key(gateway.spec.gateway_class_name.as_str()),
        }
    }

    /// What the class of a Gateway says of its data planes, if it does, or why the class keeps it from being served.
    pub(crate) fn parameters(&self, gateway: &Gateway) -> Result<Option<&'a Value>, Refusal> {
        let name = gateway.spec.gateway_class_name.as_str();
        let Some(class) = self.ours.get(name) else { return Ok(None) };
        class.parameters.clone().map_err(|refusal| {
            Reason::InvalidParameters
                .because(format!("GatewayClass `{name}` is not accepted: {}", refusal.message))
        })
    }
}

/// Gateways whose class does not exist: no controller will ever tell their authors.
fn missing_classes(snapshot: &Snapshot) -> impl Iterator<Item = Note> {
    let classes = &snapshot.objects.gateway_classes;
    let claim = snapshot.settings.claim;
    snapshot.objects.gateways.iter().filter(move |_| claim == Claim::OurClasses).filter_map(
        |(key, gateway)| {
            let name = &gateway.spec.gateway_class_name;
            if classes.contains_key(&ObjectKey::new("", name.as_str())) {
                return None;
            }
            let hint = nearest(name, classes.keys().map(|class| class.name.as_str()));
            let message =
                format!("GatewayClass `{name}` does not exist, so no controller serves this Gateway{hint}");
            Some(Note { kind: "Gateway", object: key.clone(), message })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_in_ascending_order_without_duplicates() {
        assert!(SUPPORTED_FEATURES.is_sorted_by(|a, b| a < b));
    }
}
