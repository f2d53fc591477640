//! The data planes: one for each Gateway, started, changed and ended as the Gateways come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use postern_config::ObjectKey;
use postern_dataplane::{AccessLogTo, Applied, Binds, Plane, Settings};
use postern_translate::Plan;

use super::addresses::{Addresses, Moved};

/// How long requests that are under way may take when a Gateway goes.
const DRAIN: Duration = Duration::from_secs(20);

/// The running data planes.
pub struct Gateways {
    planes: BTreeMap<ObjectKey, Plane>,
    addresses: Addresses,
    route_header: bool,
    access_log: bool,
}

/// What became of the plans.
pub struct Served {
    /// By Gateway.
    pub applied: BTreeMap<ObjectKey, Applied>,
    /// The ports that had to move because another Gateway has their address.
    pub moved: Vec<Moved>,
}

impl Gateways {
    /// None yet.
    pub fn new(addresses: Addresses, route_header: bool, access_log: bool) -> Self {
        Self { planes: BTreeMap::new(), addresses, route_header, access_log }
    }

    /// Serves these plans from now on. What a Gateway that is gone has under way is finished on the side.
    ///
    /// Fails when the system gives no threads for a new one.
    pub async fn apply(&mut self, plans: &BTreeMap<ObjectKey, Plan>) -> io::Result<Served> {
        let gone = Vec::from_iter(self.planes.extract_if(.., |gateway, _| !plans.contains_key(gateway)));
        for (_, plane) in gone {
            tokio::spawn(plane.drain(DRAIN));
        }
        let ports = |(gateway, plan): (&ObjectKey, &Plan)| {
            let ports = plan.config.listeners.values().map(|listener| listener.port);
            BTreeSet::from_iter(ports.map(|port| (gateway.clone(), port)))
        };
        let moved = self.addresses.choose(&plans.iter().flat_map(ports).collect());
        let mut applied = BTreeMap::new();
        for (gateway, plan) in plans {
            if !self.planes.contains_key(gateway) {
                self.planes.insert(gateway.clone(), Plane::start(self.settings())?);
            }
            let plane = &self.planes[gateway];
            plane.rebind(Binds { overrides: self.addresses.of(gateway), ..Binds::default() }).await;
            applied.insert(gateway.clone(), plane.apply(Arc::new(plan.config.clone())).await);
        }
        Ok(Served { applied, moved })
    }

    /// The metrics of all of them.
    pub fn metrics(&self) -> Vec<(String, String)> {
        self.planes.iter().map(|(gateway, plane)| (gateway.to_string(), plane.metrics())).collect()
    }

    /// Takes no more connections and returns when all requests are answered, or when their time is over.
    pub async fn drain(&mut self) {
        join_all(mem::take(&mut self.planes).into_values().map(|plane| plane.drain(DRAIN))).await;
    }

    fn settings(&self) -> Settings {
        Settings {
            route_header: self.route_header,
            access_log: if self.access_log { AccessLogTo::Stdout } else { AccessLogTo::Off },
            ..Settings::default()
        }
    }
}
