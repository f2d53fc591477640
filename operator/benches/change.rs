//! What one change of a route costs the operator and its data plane, step by step: `cargo bench -p postern --bench change`.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postern_config::Config;
use postern_config::delta::{Contents, Inventory};
use postern_config::wire::{self, Updates};
use postern_dataplane::{Binds, Plane, Settings};
use postern_translate::Translator;
use postern_translate::kinds::{AnyObject, ObjectSet};
use postern_translate::snapshot::Snapshot;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Routes of the Gateway, each with a hostname.
const ROUTES: [usize; 3] = [10, 1_000, 5_000];
/// Changes that are measured. One before them makes everything from nothing.
const CHANGES: usize = 100;
/// Between two changes, as when people make them.
const CALM: Duration = Duration::from_millis(15);

/// What is done for a change, in this order.
const STEPS: [&str; 6] = ["read", "translate", "edition", "update", "take", "apply"];

fn main() -> Result<(), Box<dyn Error>> {
    postern_dataplane::install_crypto();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut out = std::io::stdout();
    writeln!(out, "milliseconds, median/90 %  {}  all", STEPS.join("  "))?;
    for routes in ROUTES {
        let times = measure(&runtime, routes)?;
        let of = |mut times: Vec<Duration>| {
            times.sort();
            let ms = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
            format!("{:.2}/{:.2}", ms(50), ms(90))
        };
        let all = of(times.iter().map(|steps| steps.iter().sum()).collect());
        let steps = (0..STEPS.len()).map(|step| of(times.iter().map(|steps| steps[step]).collect()));
        writeln!(out, "{routes} routes  {}  {all}", steps.collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}

/// The operator and one data plane, as far as a change passes through them.
struct Path {
    objects: ObjectSet,
    translator: Translator,
    edition: Contents,
    holds: Inventory,
    held: Arc<Config>,
    plane: Plane,
}

/// The steps of every change beside so many routes.
fn measure(runtime: &Runtime, routes: usize) -> Result<Vec<[Duration; STEPS.len()]>, Box<dyn Error>> {
    let _entered = runtime.enter();
    let binds = Binds { offset: 20_000, ..Binds::default() };
    let mut path = Path {
        objects: ObjectSet::default(),
        translator: Translator::default(),
        edition: Contents::default(),
        holds: Inventory::default(),
        held: Arc::default(),
        plane: Plane::start(Settings { binds, workers: 1, ..Settings::default() })?,
    };
    for object in world(routes) {
        path.objects.insert(read(object));
    }
    path.pass(runtime, &route(0, 0).to_string())?;
    let mut times = Vec::with_capacity(CHANGES);
    for revision in 1..=CHANGES {
        std::thread::sleep(CALM);
        times.push(path.pass(runtime, &route(routes / 2, revision).to_string())?);
    }
    Ok(times)
}

impl Path {
    /// Brings a changed object, as the API server sends it, to the data plane; gives the time of each step.
    fn pass(&mut self, runtime: &Runtime, object: &str) -> Result<[Duration; STEPS.len()], Box<dyn Error>> {
        let mut at = Instant::now();
        let mut lap = || std::mem::replace(&mut at, Instant::now()).elapsed();
        self.objects.insert(read(serde_json::from_str(object)?));
        let read = lap();
        let snapshot = Snapshot { objects: self.objects.clone(), ..Snapshot::default() };
        let translation = self.translator.translate(&snapshot);
        let translate = lap();
        let plan = translation.plans.values().next().ok_or("there is no Gateway")?;
        self.edition = self.edition.renewed(&plan.config);
        let edition = lap();
        let (parts, _) = wire::updates(&self.holds, &self.edition);
        let update = lap();
        let mut updates = Updates::default();
        let mut received = None;
        for part in parts {
            received = updates.add(part)?.or(received);
        }
        let received = received.ok_or("there is no update")?;
        self.holds.extend(received.digests);
        Arc::make_mut(&mut self.held).apply(received.delta);
        let take = lap();
        runtime.block_on(self.plane.apply(Arc::clone(&self.held)));
        Ok([read, translate, edition, update, take, lap()])
    }
}

fn read(object: Value) -> AnyObject {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default();
    AnyObject::parse(group, kind, &object).expect("a kind that we read").expect("an object")
}

/// A Gateway with so many routes to one Service.
fn world(routes: usize) -> Vec<Value> {
    let mut all = vec![
        json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
            "metadata": { "name": "postern", "generation": 1 },
            "spec": { "controllerName": "postern.dev/gateway-controller" } }),
        json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": { "name": "web", "namespace": "shop", "generation": 1 },
            "spec": { "gatewayClassName": "postern",
                "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }] } }),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "backend", "namespace": "shop" },
            "spec": { "ports": [{ "port": 80 }] } }),
        json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": "backend", "namespace": "shop",
                "labels": { "kubernetes.io/service-name": "backend" } },
            "addressType": "IPv4", "ports": [{ "port": 8080 }],
            "endpoints": [{ "addresses": ["10.0.0.1"] }, { "addresses": ["10.0.0.2"] }] }),
    ];
    all.extend((0..routes).map(|index| route(index, 0)));
    all
}

/// A route whose answers name its revision.
fn route(index: usize, revision: usize) -> Value {
    let set = json!({ "set": [{ "name": "x-revision", "value": revision.to_string() }] });
    json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": format!("r-{index}"), "namespace": "shop", "generation": revision + 1,
            "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "parentRefs": [{ "name": "web" }], "hostnames": [format!("r-{index}.example.com")], "rules": [{
            "backendRefs": [{ "name": "backend", "port": 80 }],
            "filters": [{ "type": "ResponseHeaderModifier", "responseHeaderModifier": set }] }] } })
}
