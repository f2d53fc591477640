//! What a data plane keeps in memory: resident MiB with so many routes, and how long it takes to compile them.
//!
//! `cargo bench -p postern-dataplane --bench memory`

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use postern_config::Config;
use postern_dataplane::{Plane, Settings};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Numbers of routes, each with two rules.
const COUNTS: [usize; 4] = [0, 1_000, 5_000, 40_000];

#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn main() -> Result<(), Box<dyn Error>> {
    // Each count in a process of its own: memory that is free again stays resident for a while.
    let Some(count) = std::env::args().find_map(|argument| argument.parse::<usize>().ok()) else {
        for count in COUNTS {
            std::process::Command::new(std::env::current_exe()?).arg(count.to_string()).status()?;
        }
        return Ok(());
    };
    postern_dataplane::install_crypto();
    let config = Arc::new(config(count)?);
    let held = resident()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let plane = Plane::start(Settings::default())?;
    let begin = Instant::now();
    runtime.block_on(plane.apply(Arc::clone(&config)));
    let took = begin.elapsed();
    println!(
        "{count:>6} routes: {:.1} MiB resident, {held:.1} of it before the data plane; compiled in {took:.1?}",
        resident()?
    );
    Ok(())
}

/// One listener, which needs no port that is free, and routes with a hostname for every five and a backend for every ten.
fn config(count: usize) -> Result<Config, Box<dyn Error>> {
    let mut config: Config = serde_json::from_value(json!({
        "listeners": { "plain": { "port": 0, "protocol": { "type": "http" } } },
    }))?;
    for index in 0..count {
        let backend = format!("bench/web-{}:80", index / 10);
        let endpoints = json!({ "endpoints": ["10.0.0.1:8080", "10.0.0.2:8080"] });
        config.backends.insert(parsed(json!(backend))?, Arc::new(parsed(endpoints)?));
        let name = parsed(json!(format!("HTTPRoute/bench/route-{index}")))?;
        config.routes.insert(name, Arc::new(parsed(route(index, &backend))?));
    }
    Ok(config)
}

fn route(index: usize, backend: &str) -> Value {
    let path = json!({ "type": "PathPrefix", "value": format!("/app-{index}") });
    let forward = |filters: Value| {
        let backends = json!([{ "protocol": "http1", "target": { "backend": backend }, "weight": 1 }]);
        json!({ "type": "forward", "backends": backends, "filters": filters, "timeouts": {} })
    };
    let set = json!([{ "type": "requestHeaderModifier", "set": [{ "name": "x-route", "value": format!("route-{index}") }] }]);
    let header = json!([{ "name": "x-version", "type": "Exact", "value": "v2" }]);
    json!({
        "attachments": [{ "listener": "plain", "hostnames": [format!("host-{}.example.com", index / 5)] }],
        "created": 1_767_225_600,
        "rules": [
            { "index": 0, "matches": [{ "path": path, "headers": header }], "action": forward(json!([])) },
            { "index": 1, "matches": [{ "path": path }], "action": forward(set) },
        ],
    })
}

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value)
}

/// Resident MiB of this process.
fn resident() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}
