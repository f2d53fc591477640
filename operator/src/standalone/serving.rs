//! One reload, from what the files hold to what the sockets do, and what is said about it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use postern_config::{ObjectKey, Protocol};
use postern_dataplane::Applied;
use postern_translate::api::GatewayStatusAddress;
use postern_translate::kinds::ObjectSet;
use postern_translate::snapshot::{Observed, ObservedGateway, Snapshot};
use postern_translate::{Statuses, Translation};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::addresses::Moved;
use super::admin::{Board, Shown};
use super::certificate::SelfSigned;
use super::echo;
use super::endpoints::Endpoints;
use super::gateways::{Gateways, Served};
use super::sources::Reading;
use crate::input::{self, slices};
use crate::output::columns::Columns;
use crate::output::{self, TITLE, paint};
use crate::status::conditions::{self, Finding};
use crate::status::stamp;

/// What `serve` keeps from one reload to the next.
pub struct Serving {
    endpoints: Vec<Endpoints>,
    dev: Option<Dev>,
    gateways: Arc<Mutex<Gateways>>,
    board: Option<Board>,
    statuses: Statuses,
    listeners: String,
    /// What was said last: a reload says what is new.
    said: Vec<String>,
}

/// What `--dev` has made so far.
#[derive(Default)]
pub struct Dev {
    certificates: SelfSigned,
    echoes: BTreeMap<ObjectKey, SocketAddr>,
}

impl Dev {
    /// The echo backend of a Service, started when it is asked for first. Fails when the system gives no port.
    async fn echo(&mut self, service: &ObjectKey) -> io::Result<SocketAddr> {
        if let Some(address) = self.echoes.get(service) {
            return Ok(*address);
        }
        let address = echo::start(service.clone()).await?;
        self.echoes.insert(service.clone(), address);
        Ok(address)
    }
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
    /// Nothing is served yet. Without a board, nothing is kept to be shown.
    pub fn new(
        endpoints: Vec<Endpoints>,
        dev: Option<Dev>,
        gateways: Arc<Mutex<Gateways>>,
        board: Option<Board>,
    ) -> Self {
        Self {
            endpoints,
            dev,
            gateways,
            board,
            statuses: Statuses::default(),
            listeners: String::new(),
            said: Vec::new(),
        }
    }

    /// Serves what was read, and says what is new: addresses on standard output, the rest on standard error.
    ///
    /// Fails when the system gives no threads.
    pub async fn load(&mut self, reading: Reading) -> io::Result<Outcome> {
        let Reading { mut loaded, kept } = reading;
        let mut lines = Vec::from_iter(kept.iter().map(output::as_warning));
        lines.extend(input::complaints(&loaded));
        lines.extend(self.complete(&mut loaded.objects).await);
        let mut snapshot = input::snapshot(loaded, Observed::Assumed);
        let plans = postern_translate::translate(&snapshot).plans;
        let served = self.gateways.lock().await.apply(&plans).await?;
        snapshot.observed = Observed::Known(observed(&snapshot.objects, &served));
        let translation = postern_translate::translate(&snapshot);
        self.show(&snapshot, &translation, &served);
        lines.extend(input::remarks(&translation.notes));
        lines.extend(remarks(&translation, &served));
        self.tell(listeners(&translation, &served), lines);
        let count = |ports: fn(&Applied) -> usize| served.applied.values().map(ports).sum();
        Ok(Outcome {
            open: count(|applied| applied.open.len()),
            failed: count(|applied| applied.failed.len()),
        })
    }

    /// Adds what the command line stands in for; gives what is worth saying about it.
    async fn complete(&mut self, objects: &mut ObjectSet) -> Vec<String> {
        let mut lines = Vec::new();
        for endpoints in &self.endpoints {
            if !endpoints.replace(objects) {
                let port = endpoints.port.map(|port| format!(":{port}")).unwrap_or_default();
                let service = &endpoints.service;
                lines.push(output::as_warning(format!(
                    "--backend {service}{port}: there is no such Service in the files"
                )));
            }
        }
        let Some(dev) = &mut self.dev else { return lines };
        for service in slices::services_without(objects) {
            match dev.echo(&service).await {
                Ok(address) => {
                    let addresses = vec![address];
                    Endpoints { service, port: None, h2c: false, addresses }.replace(objects);
                }
                Err(error) => {
                    lines.push(output::as_warning(format!("no echo backend for Service {service}: {error}")));
                }
            }
        }
        for (secret, names) in dev.certificates.fill(objects) {
            lines.push(format!("made a self-signed certificate for Secret {secret}: {}", names.join(", ")));
        }
        lines
    }

    /// Puts on the board what is served now.
    fn show(&mut self, snapshot: &Snapshot, translation: &Translation, served: &Served) {
        let objects = &snapshot.objects;
        let mut old = stamp::present(objects);
        old.gateway_classes.append(&mut self.statuses.gateway_classes);
        old.gateways.append(&mut self.statuses.gateways);
        old.http_routes.append(&mut self.statuses.http_routes);
        old.grpc_routes.append(&mut self.statuses.grpc_routes);
        self.statuses = stamp::stamped(translation.statuses.clone(), &old, stamp::now());
        let Some(board) = &self.board else { return };
        let configs = translation.plans.iter().map(|(gateway, plan)| {
            (gateway.to_string(), redacted(serde_json::to_value(&plan.config).expect("our types serialize")))
        });
        let is_ready = served.applied.values().all(|applied| applied.failed.is_empty());
        let status = stamp::list(objects, &self.statuses, |_| true);
        let shown = Shown::new(&status, &Value::Object(configs.collect()), is_ready);
        *board.write().expect("nothing panics while it reads") = shown;
    }

    /// Says what is new: listeners on standard output, all else on standard error.
    fn tell(&mut self, listeners: String, lines: Vec<String>) {
        if listeners != self.listeners {
            // A closed standard output is no reason to stop serving.
            let _ = output::data(&listeners);
            self.listeners = listeners;
        }
        lines.iter().filter(|line| !self.said.contains(line)).for_each(|line| output::note(line));
        self.said = lines;
    }
}

/// What is wrong with what is served.
fn remarks(translation: &Translation, served: &Served) -> Vec<String> {
    let mut lines = Vec::new();
    for Moved { gateway, port, taken } in &served.moved {
        let fact =
            format!("Gateway {gateway} has a free port for {port}, since {taken} is another Gateway's");
        let hint = format!("choose an address with --bind {gateway}:{port}=ADDRESS:PORT");
        lines.push(format!("{}\n  {}: {hint}", output::as_warning(fact), paint(TITLE, "hint")));
    }
    for (gateway, applied) in &served.applied {
        lines
            .extend(applied.failed.values().map(|why| output::as_error(format!("Gateway {gateway}: {why}"))));
        let refused = applied.refused.iter();
        lines.extend(
            refused
                .map(|(secret, why)| output::as_error(format!("Gateway {gateway}: Secret {secret}: {why}"))),
        );
    }
    let findings = conditions::findings(&translation.statuses);
    lines.extend(
        findings.iter().map(|Finding { subject, fact, .. }| output::as_warning(format!("{subject}: {fact}"))),
    );
    if translation.plans.is_empty() {
        lines.push(output::as_warning("there is no Gateway in the files: nothing is served"));
    }
    lines
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
            refused_listeners: BTreeMap::new(),
            obstacle: None,
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
