//! What follows from one route: how it is served and by whom, its status, and what it looked at to get there.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use postern_config::{BackendKey, ObjectKey, Route};

use crate::api::RouteStatus;
use crate::grants::Grants;
use crate::kinds::{ObjectSet, Objects};
use crate::listeners::Gateways;
use crate::routes::{AnyRoute, backends_of};
use crate::{Note, attach, plan, routes, status};

/// All that a route can depend on beside itself.
pub(crate) struct World<'a> {
    pub(crate) objects: &'a ObjectSet,
    pub(crate) controller: &'a str,
    pub(crate) grants: Grants<'a>,
    pub(crate) gateways: Gateways<'a>,
}

/// What follows from one route.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// `None` where it names no Gateway of ours.
    pub(crate) status: Option<Arc<RouteStatus>>,
    /// As each Gateway serves it.
    pub(crate) served: Vec<(ObjectKey, Arc<Route>)>,
    /// The backends that its rules forward to.
    pub(crate) backends: Vec<BackendKey>,
    /// The listeners that count it among their routes, by Gateway and place.
    pub(crate) counted: BTreeSet<(ObjectKey, usize)>,
    /// What no status can say.
    pub(crate) notes: Vec<Note>,
    /// The Gateways and the Services that it names, whether or not they exist.
    pub(crate) gateways: BTreeSet<ObjectKey>,
    pub(crate) services: BTreeSet<ObjectKey>,
}

/// Services, and which of them were asked for.
pub(crate) struct Services<'a> {
    all: &'a Objects<Service>,
    asked: RefCell<BTreeSet<ObjectKey>>,
}

impl Outcome {
    /// The outcome of a route.
    pub(crate) fn of(world: &World<'_>, route: &AnyRoute<'_>) -> Self {
        let (parents, notes) = attach::parents(world.objects, &world.gateways, route);
        let named = |reference| attach::gateway(route, reference);
        let gateways = route.parent_refs.iter().map(named).collect();
        if parents.is_empty() {
            return Self { notes, gateways, ..Self::default() };
        }
        let services = Services { all: &world.objects.services, asked: RefCell::default() };
        let rules = routes::translate(&services, &world.grants, route);
        let status = Arc::new(status::route(world.controller, route, &parents, &rules));
        let counted = if rules.refusal().is_none() { attach::landings(&parents) } else { BTreeSet::new() };
        let backends = backends_of(&rules.rules).into_iter().cloned().collect();
        let served = plan::served(&world.gateways, route, &parents, rules.rules);
        let services = services.asked.into_inner();
        Self { status: Some(status), served, backends, counted, notes, gateways, services }
    }
}

impl Services<'_> {
    /// A Service, if there is one of this name.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Service> {
        self.asked.borrow_mut().insert(key.clone());
        self.all.get(key).map(Arc::as_ref)
    }
}
