//! One reload, from what the files hold to what the sockets do, and what is said about it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use postern_config::{ObjectKey, Protocol};
use postern_dataplane::Applied;
use postern_translate::Translation;
use postern_translate::api::GatewayStatusAddress;
use postern_translate::kinds::ObjectSet;
use postern_translate::snapshot::{Observed, ObservedGateway, Snapshot};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::addresses::Moved;
use super::admin::{Board, Shown};
use super::certificate::SelfSigned;
use super::echo;
use super::endpoints::{self, Endpoints};
use super::gateways::{Gateways, Served};
use super::sources::Reading;
use crate::columns::Columns;
use crate::conditions::{self, Finding};
use crate::{input, output, stamp};

/// What `serve` keeps from one reload to the next.
pub struct Serving {
    endpoints: Vec<Endpoints>,
    dev: Option<Dev>,
    gateways: Arc<Mutex<Gateways>>,
    board: Board,
    told: Vec<Finding>,
    listeners: String,
}

/// What `--dev` has made so far.
#[derive(Default)]
pub struct Dev {
    certificates: SelfSigned,
    echoes: BTreeMap<ObjectKey, SocketAddr>,
}

/// How a reload ended.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Open ports.
    pub open: usize,
    /// Ports that could not be opened.
    pub failed: usize,
}

impl Serving {
    /// Nothing is served yet.
    pub fn new(
        endpoints: Vec<Endpoints>,
        dev: Option<Dev>,
        gateways: Arc<Mutex<Gateways>>,
        board: Board,
    ) -> Self {
        Self { endpoints, dev, gateways, board, told: Vec::new(), listeners: String::new() }
    }

    /// Serves what was read, and says what is new: addresses on standard output, the rest on standard error.
    ///
    /// Fails when the system gives no threads or no port for an echo backend.
    pub async fn load(&mut self, reading: Reading) -> io::Result<Outcome> {
        let Reading { mut loaded, kept } = reading;
        kept.iter().for_each(|line| output::warning(line));
        input::report(&loaded);
        self.complete(&mut loaded.objects).await?;
        let mut snapshot = input::snapshot(loaded, Observed::Assumed);
        let plans = postern_translate::translate(&snapshot).plans;
        let served = self.gateways.lock().await.apply(&plans).await?;
        snapshot.observed = Observed::Known(observed(&snapshot.objects, &served));
        let translation = postern_translate::translate(&snapshot);
        self.show(&snapshot, &translation, &served);
        self.tell(&translation, &served);
        let count = |ports: fn(&Applied) -> usize| served.applied.values().map(ports).sum();
        Ok(Outcome {
            open: count(|applied| applied.open.len()),
            failed: count(|applied| applied.failed.len()),
        })
    }

    /// Adds what the command line stands in for.
    async fn complete(&mut self, objects: &mut ObjectSet) -> io::Result<()> {
        for endpoints in &self.endpoints {
            if !endpoints.replace(objects) {
                let port = endpoints.port.map(|port| format!(":{port}")).unwrap_or_default();
                output::warning(&format!(
                    "--backend {}{port}: there is no such Service in the files",
                    endpoints.service
                ));
            }
        }
        let Some(dev) = &mut self.dev else { return Ok(()) };
        for service in endpoints::without_slices(objects) {
            let address = match dev.echoes.get(&service) {
                Some(address) => *address,
                None => echo::start(service.clone()).await?,
            };
            dev.echoes.insert(service.clone(), address);
            Endpoints { service, port: None, h2c: false, addresses: vec![address] }.replace(objects);
        }
        for (secret, names) in dev.certificates.fill(objects) {
            output::note(&format!(
                "made a self-signed certificate for Secret {secret}: {}",
                names.join(", ")
            ));
        }
        Ok(())
    }

    fn show(&self, snapshot: &Snapshot, translation: &Translation, served: &Served) {
        let configs = translation.plans.iter().map(|(gateway, plan)| {
            (gateway.to_string(), redacted(serde_json::to_value(&plan.config).expect("our types serialize")))
        });
        let shown = Shown {
            status: stamp::list(&snapshot.objects, translation, stamp::now(), |_| true),
            config: Value::Object(configs.collect()),
            is_ready: served.applied.values().all(|applied| applied.failed.is_empty()),
        };
        *self.board.write().expect("nothing panics while it reads") = shown;
    }

    fn tell(&mut self, translation: &Translation, served: &Served) {
        let listeners = listeners(translation, served);
        if listeners != self.listeners {
            // A closed standard output is no reason to stop serving.
            let _ = output::data(&listeners);
            self.listeners = listeners;
        }
        for Moved { gateway, port, taken } in &served.moved {
            output::warning(&format!(
                "Gateway {gateway} port {port} got a free port: {taken} is another Gateway's"
            ));
            output::note(&format!("  hint: choose an address with --bind {gateway}:{port}=ADDRESS:PORT"));
        }
        for (gateway, applied) in &served.applied {
            applied
                .failed
                .values()
                .for_each(|message| output::error(&format!("Gateway {gateway}: {message}")));
        }
        translation
            .notes
            .iter()
            .for_each(|note| output::warning(&format!("{} {}: {}", note.kind, note.object, note.message)));
        let findings = conditions::findings(&translation.statuses);
        for Finding { subject, fact, .. } in findings.iter().filter(|finding| !self.told.contains(finding)) {
            output::warning(&format!("{subject}: {fact}"));
        }
        self.told = findings;
        if translation.plans.is_empty() {
            output::warning("there is no Gateway in the files: nothing is served");
        }
    }
}

/// A line for each listener that is open: where it is reached, its name, its hosts and the number of its routes.
fn listeners(translation: &Translation, served: &Served) -> String {
    let mut columns = Columns::new(0);
    for (gateway, status) in &translation.statuses.gateways {
        let Some(plan) = translation.plans.get(gateway) else { continue };
        for listener in &status.listeners {
            let Some(spec) = plan.config.listeners.get(&listener.name) else { continue };
            let Some(address) = served.applied.get(gateway).and_then(|applied| applied.open.get(&spec.port))
            else {
                continue;
            };
            let scheme = match spec.protocol {
                Protocol::Http => "http",
                Protocol::Https { .. } => "https",
            };
            let hostname = spec.hostname.as_ref().map_or("*".into(), ToString::to_string);
            let routes = match listener.attached_routes {
                1 => "(1 route)".into(),
                count => format!("({count} routes)"),
            };
            columns.row([
                &format!("{scheme}://{address}"),
                &format!("{gateway} {}", listener.name),
                &hostname,
                &routes,
            ]);
        }
    }
    columns.render()
}

/// What translation is told of the outcome.
fn observed(objects: &ObjectSet, served: &Served) -> BTreeMap<ObjectKey, ObservedGateway> {
    let one = |(gateway, applied): (&ObjectKey, &Applied)| {
        let object = objects.gateways.get(gateway);
        let ips = BTreeSet::from_iter(applied.open.values().map(|address| address.ip()));
        let address = |ip: std::net::IpAddr| GatewayStatusAddress {
            kind: Some("IPAddress".into()),
            value: ip.to_string(),
        };
        let listeners = object.into_iter().flat_map(|object| &object.spec.listeners);
        let failed = listeners.filter_map(|listener| {
            let message = applied.failed.get(&listener.port)?;
            Some((listener.name.clone(), message.clone()))
        });
        let observed = ObservedGateway {
            addresses: ips.into_iter().map(address).collect(),
            acknowledged_generation: object.and_then(|object| object.metadata.generation),
            failed_listeners: failed.collect(),
        };
        (gateway.clone(), observed)
    };
    served.applied.iter().map(one).collect()
}

/// Private keys do not leave the process.
fn redacted(mut config: Value) -> Value {
    for certificate in config["certificates"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        certificate["key"] = json!("[redacted]");
    }
    config
}
