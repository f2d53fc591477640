//! What is kept from one translation to the next: what followed from each route, for as long as all that it looked at stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Service};
use postern_config::{Hostname, ObjectKey, RouteKind};

use crate::api::{self, GrpcRoute, HttpRoute, Kind, Object, ReferenceGrant};
use crate::kinds::Objects;
use crate::listeners::{self, OurGateway};
use crate::outcome::{Outcome, World};
use crate::routes::AnyRoute;

/// Translates again and again. The result is that of [`crate::translate`], whatever was translated before.
#[derive(Debug, Default)]
pub struct Translator {
    known: Known,
    outcomes: Outcomes,
}

/// What follows from every route.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    http: BTreeMap<ObjectKey, (Arc<HttpRoute>, Outcome)>,
    grpc: BTreeMap<ObjectKey, (Arc<GrpcRoute>, Outcome)>,
}

/// What routes may have looked at.
#[derive(Debug, Default)]
struct Known {
    controller: String,
    /// Our Gateways.
    gateways: BTreeMap<ObjectKey, Vec<Face>>,
    /// All Gateways that there are.
    names: BTreeSet<ObjectKey>,
    services: Objects<Service>,
    namespaces: Objects<Namespace>,
    grants: Objects<ReferenceGrant>,
}

/// What a route sees of a listener.
#[derive(Debug)]
struct Face {
    spec: api::Listener,
    hostname: Option<Hostname>,
    kinds: BTreeSet<RouteKind>,
    service: listeners::Service,
}

/// What of it is not as it was.
struct Changes {
    /// All of it.
    all: bool,
    /// The set of names of Gateways, which are looked through for hints.
    names: bool,
    gateways: BTreeSet<ObjectKey>,
    services: BTreeSet<ObjectKey>,
    namespaces: BTreeSet<ObjectKey>,
}

impl Translator {
    /// What follows from every route in this world.
    pub(crate) fn outcomes(&mut self, world: &World<'_>) -> &Outcomes {
        let changes = self.known.follow(world);
        let Outcomes { http, grpc } = &mut self.outcomes;
        renew(http, &world.objects.http_routes, &changes, |key, route| {
            Outcome::of(world, &AnyRoute::http(key, route))
        });
        renew(grpc, &world.objects.grpc_routes, &changes, |key, route| {
            Outcome::of(world, &AnyRoute::grpc(key, route))
        });
        &self.outcomes
    }
}

impl Outcomes {
    /// All of them, each with the name of its route.
    pub(crate) fn all(&self) -> impl Iterator<Item = ((&ObjectKey, RouteKind), &Outcome)> {
        let grpc = self.grpc.iter().map(|(key, (_, outcome))| ((key, RouteKind::Grpc), outcome));
        grpc.chain(self.http.iter().map(|(key, (_, outcome))| ((key, RouteKind::Http), outcome)))
    }
}

/// Brings what is kept to these objects.
///
/// Should `make` panic, nothing is kept, and that is no lie either.
fn renew<S: Kind + PartialEq>(
    kept: &mut BTreeMap<ObjectKey, (Arc<Object<S>>, Outcome)>,
    objects: &Objects<Object<S>>,
    changes: &Changes,
    make: impl Fn(&ObjectKey, &Object<S>) -> Outcome,
) {
    let mut before = std::mem::take(kept).into_iter().peekable();
    let now = objects.iter().map(|(key, object)| {
        while before.next_if(|(old, _)| old < key).is_some() {}
        let old = before.next_if(|(old, _)| old == key);
        let old = old.filter(|(key, (old, outcome))| is_same(old, object) && !changes.touch(key, outcome));
        let (key, outcome) = match old {
            Some((key, (_, outcome))) => (key, outcome),
            None => (key.clone(), make(key, object)),
        };
        (key, (object.clone(), outcome))
    });
    *kept = now.collect();
}

/// Whether the same follows from two states of a route: statuses and what the API server keeps for itself are no difference.
fn is_same<S: Kind + PartialEq>(old: &Arc<Object<S>>, new: &Arc<Object<S>>) -> bool {
    let metadata = |object: &Object<S>| {
        (object.metadata.generation, object.metadata.creation_timestamp.as_ref().map(|time| time.0))
    };
    Arc::ptr_eq(old, new) || metadata(old) == metadata(new) && old.spec == new.spec
}

impl Changes {
    /// Whether a route looked at something that changed.
    fn touch(&self, route: &ObjectKey, outcome: &Outcome) -> bool {
        self.all
            || self.names && !outcome.notes.is_empty()
            || any(&self.gateways, &outcome.gateways)
            || any(&self.services, &outcome.services)
            || self.namespaces.iter().any(|namespace| namespace.name == route.namespace)
    }
}

fn any(changed: &BTreeSet<ObjectKey>, of: &BTreeSet<ObjectKey>) -> bool {
    !changed.is_empty() && of.iter().any(|key| changed.contains(key))
}

impl Known {
    /// Brings what is known to what is in the world; gives what changed.
    fn follow(&mut self, world: &World<'_>) -> Changes {
        let objects = world.objects;
        let mut gateways = self.follow_gateways(world);
        let names = !self.names.iter().eq(objects.gateways.keys());
        if names {
            let now = objects.gateways.keys().cloned().collect();
            gateways.extend(self.names.symmetric_difference(&now).cloned());
            self.names = now;
        }
        let controller = self.controller != world.controller;
        if controller {
            self.controller = world.controller.into();
        }
        let grants = differences(&mut self.grants, &objects.reference_grants, |a, b| a.spec == b.spec);
        Changes {
            all: controller || !grants.is_empty(),
            names,
            gateways,
            services: differences(&mut self.services, &objects.services, |a, b| a.spec == b.spec),
            namespaces: differences(&mut self.namespaces, &objects.namespaces, |a, b| {
                a.metadata.labels == b.metadata.labels
            }),
        }
    }

    fn follow_gateways(&mut self, world: &World<'_>) -> BTreeSet<ObjectKey> {
        let mut changed = BTreeSet::new();
        self.gateways.retain(|key, _| {
            let stays = world.gateways.contains_key(key);
            if !stays {
                changed.insert(key.clone());
            }
            stays
        });
        for (key, gateway) in &world.gateways {
            if !self.gateways.get(*key).is_some_and(|known| Face::are_of(known, gateway)) {
                self.gateways.insert((*key).clone(), Face::of(gateway));
                changed.insert((*key).clone());
            }
        }
        changed
    }
}

impl Face {
    fn of(gateway: &OurGateway<'_>) -> Vec<Self> {
        let of = |listener: &listeners::OurListener<'_>| Self {
            spec: listener.spec.clone(),
            hostname: listener.hostname.clone(),
            kinds: listener.kinds.clone(),
            service: listener.service,
        };
        gateway.listeners.iter().map(of).collect()
    }

    fn are_of(faces: &[Self], gateway: &OurGateway<'_>) -> bool {
        let is_of = |(face, listener): (&Self, &listeners::OurListener<'_>)| {
            face.spec == *listener.spec
                && face.hostname == listener.hostname
                && face.kinds == listener.kinds
                && face.service == listener.service
        };
        faces.len() == gateway.listeners.len() && faces.iter().zip(&gateway.listeners).all(is_of)
    }
}

/// Brings `known` to `now`; gives the names of those that came, went, or are not as they were.
fn differences<T>(
    known: &mut Objects<T>,
    now: &Objects<T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> BTreeSet<ObjectKey> {
    let mut changed = BTreeSet::new();
    let mut pairs = known.iter().zip(now);
    if known.len() == now.len() && pairs.all(|((a, old), (b, new))| Arc::ptr_eq(old, new) && a == b) {
        return changed;
    }
    changed.extend(known.keys().filter(|key| !now.contains_key(*key)).cloned());
    for (key, new) in now {
        let same = |old: &Arc<T>| Arc::ptr_eq(old, new) || is_same(old, new);
        if !known.get(key).is_some_and(same) {
            changed.insert(key.clone());
        }
    }
    known.clone_from(now);
    changed
}
