//! The listeners of our Gateways: what each can carry, and why it cannot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use postern_config::{Certificate, CertificateKey, Hostname, ObjectKey, RouteKind};

use crate::Note;
use crate::api::{
    self, GROUP, Gateway, ParametersReference, PosternParametersSpec, ProtocolType, RouteGroupKind,
    SectionName,
};
use crate::certificates::{self, Certificates, Secrets};
use crate::classes::Classes;
use crate::grants::Grants;
use crate::snapshot::Snapshot;
use crate::status::{Reason, Refusal};
use crate::{conflicts, parameters, unsupported};

/// Our Gateways by name.
pub(crate) type Gateways<'a> = BTreeMap<&'a ObjectKey, OurGateway<'a>>;

/// A Gateway of ours.
pub(crate) struct OurGateway<'a> {
    /// The object.
    pub(crate) object: &'a Gateway,
    /// What is said of its data planes.
    pub(crate) parameters: PosternParametersSpec,
    /// Why nothing of it is taken.
    pub(crate) refusal: Option<Refusal>,
    /// Why a reference outside of its listeners cannot be followed.
    pub(crate) unresolved: Option<Refusal>,
    /// Its listeners, in the order of the object, each name once.
    pub(crate) listeners: Vec<OurListener<'a>>,
    /// What no status can say.
    pub(crate) notes: Vec<Note>,
}

/// A listener of a Gateway of ours.
pub(crate) struct OurListener<'a> {
    /// As the user wrote it.
    pub(crate) spec: &'a api::Listener,
    /// The hosts it claims; `None` is all.
    pub(crate) hostname: Option<Hostname>,
    /// The kinds of routes that it can carry and that the user lets attach.
    pub(crate) kinds: BTreeSet<RouteKind>,
    /// Why it is not accepted; a conflict among other reasons.
    pub(crate) refusal: Option<Refusal>,
    /// Whether `refusal` is a conflict with other listeners.
    pub(crate) conflicted: bool,
    /// Why a reference of it cannot be followed, or a kind of route not be carried.
    pub(crate) unresolved: Option<Refusal>,
    /// The certificates that could be resolved, in the order of the object.
    pub(crate) certificates: Vec<(CertificateKey, Arc<Certificate>)>,
    /// Until when they are valid, for people.
    pub(crate) validity: Vec<String>,
    /// Listeners of the same port whose hostnames overlap with this one's, under TLS.
    pub(crate) overlaps: Vec<&'a SectionName>,
    /// How much of it the data plane gets.
    pub(crate) service: Service,
}

/// How much of a listener the data plane gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Service {
    /// The listener with its routes.
    Full,
    /// The listener without routes and certificates. It claims its hostname and serves nothing there: requests for a host
    /// whose security settings cannot be honoured are not for a less specific listener to serve without them.
    Claim,
    /// Nothing.
    None,
}

/// Takes the Gateways that are ours and judges their listeners.
pub(crate) fn resolve<'a>(
    snapshot: &'a Snapshot,
    classes: &Classes<'_>,
    grants: &Grants<'_>,
    secrets: &Secrets,
) -> Gateways<'a> {
    let ours = snapshot.objects.gateways.iter().filter(|(_, gateway)| classes.claim(gateway));
    ours.map(|(key, object)| (key, gateway(snapshot, classes, grants, secrets, key, object))).collect()
}

fn gateway<'a>(
    snapshot: &Snapshot,
    classes: &Classes<'_>,
    grants: &Grants<'_>,
    secrets: &Secrets,
    key: &ObjectKey,
    object: &'a Gateway,
) -> OurGateway<'a> {
    let (parameters, invalid) = match parameters(snapshot, classes, key, object) {
        Ok(parameters) => (parameters, None),
        Err(refusal) => (PosternParametersSpec::default(), Some(refusal)),
    };
    // A Gateway that runs already is left as it runs while its parameters are not good: nobody loses requests by them.
    let keeps_on = invalid.is_some() && snapshot.settings.infrastructure.is_some();
    let unsupported = unsupported::gateway(&object.spec);
    let is_served = unsupported.is_none() && (invalid.is_none() || keeps_on);
    let refusal = invalid.or(unsupported);
    let mut names = BTreeSet::new();
    let specs: Vec<&api::Listener> =
        object.spec.listeners.iter().filter(|spec| names.insert(&spec.name)).collect();
    let conflicts = conflicts::between(&specs);
    let overlaps = conflicts::overlaps(&specs, &conflicts);
    let mut notes = unsupported::ignored_fields(key, &object.spec);
    notes.extend(
        reference(object)
            .filter(|_| refusal.is_none())
            .and_then(|reference| parameters::without_effect(snapshot, &key.namespace, &reference.name)),
    );
    let listeners = specs.into_iter().zip(conflicts).zip(overlaps).map(|((spec, conflict), overlaps)| {
        notes.extend(unsupported::ignored_options(key, spec));
        listener(grants, secrets, key, object, spec, conflict, overlaps)
    });
    let mut listeners: Vec<OurListener<'_>> = listeners.collect();
    if !is_served {
        listeners.iter_mut().for_each(|listener| listener.service = Service::None);
    }
    OurGateway {
        object,
        parameters,
        refusal,
        unresolved: unsupported::backend_tls(&object.spec),
        listeners,
        notes,
    }
}

/// What its class and the Gateway itself say of its data planes.
fn parameters(
    snapshot: &Snapshot,
    classes: &Classes<'_>,
    key: &ObjectKey,
    gateway: &Gateway,
) -> Result<PosternParametersSpec, Refusal> {
    let class = classes.parameters(gateway)?;
    let own = reference(gateway)
        .map(|reference| parameters::of_gateway(snapshot, &key.namespace, reference))
        .transpose()?;
    Ok(parameters::merged(class, own))
}

fn reference(gateway: &Gateway) -> Option<&ParametersReference> {
    gateway.spec.infrastructure.as_ref()?.parameters_ref.as_ref()
}

fn listener<'a>(
    grants: &Grants<'_>,
    secrets: &Secrets,
    key: &ObjectKey,
    gateway: &Gateway,
    spec: &'a api::Listener,
    conflict: Option<Refusal>,
    overlaps: Vec<&'a SectionName>,
) -> OurListener<'a> {
    let hostname = hostname(spec);
    let protocol = unsupported::protocol(spec);
    let insecure = unsupported::settings(&gateway.spec, spec);
    let service = match (&protocol, &conflict, &hostname, &insecure) {
        (Some(_), ..) | (_, Some(_), ..) | (_, _, Err(_), _) => Service::None,
        (.., Some(_)) => Service::Claim,
        (None, None, Ok(_), None) => Service::Full,
    };
    let (kinds, unknown_kinds) = if protocol.is_some() { (BTreeSet::new(), None) } else { kinds(spec) };
    let service = if service == Service::Full && kinds.is_empty() { Service::Claim } else { service };
    let Certificates { found, validity, refusal: no_certificate } = match spec.protocol {
        ProtocolType::Https => certificates::resolve(secrets, grants, key, spec.tls.as_ref()),
        _ => Certificates::default(),
    };
    let conflicted = protocol.is_none() && conflict.is_some();
    let (hostname, bad_hostname) = match hostname {
        Ok(hostname) => (hostname, None),
        Err(refusal) => (None, Some(refusal)),
    };
    OurListener {
        spec,
        hostname,
        kinds,
        refusal: protocol.or(conflict).or(bad_hostname).or(insecure),
        conflicted,
        unresolved: no_certificate.or(unknown_kinds),
        certificates: found,
        validity,
        overlaps,
        service,
    }
}

/// The hosts of a listener; absent and empty are all.
pub(crate) fn hostname(spec: &api::Listener) -> Result<Option<Hostname>, Refusal> {
    match spec.hostname.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|e| Reason::UnsupportedValue.because(format!("{e}"))),
    }
}

/// The kinds that a listener carries, and the refusal of those that it cannot.
fn kinds(spec: &api::Listener) -> (BTreeSet<RouteKind>, Option<Refusal>) {
    let wanted = spec.allowed_routes.as_ref().map(|allowed| allowed.kinds.as_slice()).unwrap_or_default();
    if wanted.is_empty() {
        return (BTreeSet::from([RouteKind::Grpc, RouteKind::Http]), None);
    }
    let known = wanted.iter().filter_map(route_kind).collect();
    let unknown: Vec<&str> =
        wanted.iter().filter(|w| route_kind(w).is_none()).map(|w| w.kind.as_str()).collect();
    let refusal = (!unknown.is_empty()).then(|| {
        Reason::InvalidRouteKinds.because(format!(
            "a listener of protocol {} cannot carry routes of kind {}: use HTTPRoute or GRPCRoute",
            spec.protocol,
            unknown.join(", ")
        ))
    });
    (known, refusal)
}

fn route_kind(wanted: &RouteGroupKind) -> Option<RouteKind> {
    match (wanted.group.as_deref().unwrap_or(GROUP), wanted.kind.as_str()) {
        (GROUP, "HTTPRoute") => Some(RouteKind::Http),
        (GROUP, "GRPCRoute") => Some(RouteKind::Grpc),
        _ => None,
    }
}
