//! `latency`: how long a change of a route and a new Gateway take until they answer, and what an idle Gateway costs.

mod change;
mod figures;
mod gateway;
mod kept;
mod usage;

use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::sleep;

use crate::backend::echo;
use crate::cluster::{Cluster, Error};
use crate::facts::{Facts, say};
use change::{Change, Changes};
use figures::Times;
use usage::Usage;

/// What is measured, and how often.
#[derive(Args)]
pub struct Options {
    /// Changes are measured beside so many routes
    #[arg(long, default_values_t = [10, 1_000])]
    routes: Vec<usize>,
    /// How many changes of each kind
    #[arg(long, default_value_t = 200)]
    changes: usize,
    /// How many Gateways are created, one after the other
    #[arg(long, default_value_t = 20)]
    gateways: usize,
    /// Seconds without a change before memory is measured
    #[arg(long, default_value_t = 30)]
    idle: u64,
}

const NAMESPACE: &str = "e2e-latency";
/// What is aimed at on a machine that is idle.
const CHANGE: Duration = Duration::from_millis(50);
const GATEWAY: Duration = Duration::from_secs(3);
const IDLE_MIB: f64 = 15.0;
/// A loaded machine may take so many times as long; more is a fault and not load.
const SLACK: u32 = 10;

/// Measures, says a table, and checks that nothing is out of all proportion to its target.
pub async fn run(cluster: &Cluster, options: &Options, facts: &mut Facts) -> Result<(), Error> {
    cluster.namespace(NAMESPACE).await?;
    let ended = measure(cluster, options, facts).await;
    cluster.end(NAMESPACE).await?;
    ended
}

async fn measure(cluster: &Cluster, options: &Options, facts: &mut Facts) -> Result<(), Error> {
    cluster.apply(NAMESPACE, &(WORLD.to_owned() + &echo("backend", 80, 2))).await?;
    let address = cluster.address(NAMESPACE, "web").await?;
    let mut changes = Changes::new(cluster, &address, options.changes).await?;
    changes.start().await?;

    sleep(Duration::from_secs(options.idle)).await;
    let idle = Usage::of_gateway(cluster, NAMESPACE, "web").await?;
    say(format_args!("an idle Gateway: {idle}"));
    say(format_args!("the operator: {}", Usage::of_operator(cluster).await?));

    figures::head();
    let mut there = 0;
    for &count in &options.routes {
        let filled = changes.fill(there, count).await?;
        there = there.max(count);
        let (operator, plane) = both(cluster).await?;
        for kind in [Change::Edit, Change::New] {
            let (answered, judged) = changes.measure(kind).await?;
            let what = kind.as_str();
            answered.line(&format!("{what}: answers"), count);
            judged.line(&format!("{what}: has a status"), count);
            bound(facts, &format!("{what} beside {count} routes"), &answered, CHANGE);
        }
        let gone = changes.measure(Change::Delete).await?.0;
        gone.line("delete: answers 404", count);
        bound(facts, &format!("delete beside {count} routes"), &gone, CHANGE);

        sleep(Duration::from_secs(options.idle)).await;
        let (operator_now, plane_now) = both(cluster).await?;
        if let Some(filled) = filled {
            say(filled);
        }
        let all = options.changes * Change::ALL;
        say(format_args!(
            "{count} routes, the operator: {operator_now}, {}",
            operator_now.since(&operator, all)
        ));
        say(format_args!("{count} routes, the data plane: {plane_now}, {}", plane_now.since(&plane, all)));
    }

    let new = gateway::measure(cluster, NAMESPACE, options.gateways).await?;
    new.programmed.line("Gateway created: programmed", there);
    new.answered.line("Gateway created: answers", there);
    bound(facts, "a new Gateway is programmed", &new.programmed, GATEWAY);
    bound(facts, "a new Gateway answers", &new.answered, GATEWAY);
    if let Some(mib) = idle.resident_mib() {
        facts.check(
            format_args!("an idle Gateway has {mib:.1} MiB resident, at most {IDLE_MIB}"),
            mib <= IDLE_MIB,
        );
    }
    Ok(())
}

async fn both(cluster: &Cluster) -> Result<(Usage, Usage), Error> {
    Ok((Usage::of_operator(cluster).await?, Usage::of_gateway(cluster, NAMESPACE, "web").await?))
}

fn bound(facts: &mut Facts, what: &str, times: &Times, target: Duration) {
    let (p99, bound) = (times.quantile(0.99), target * SLACK);
    facts.check(format_args!("{what}: p99 {p99:.0?}, target {target:?}, at most {bound:?}"), p99 <= bound);
}

/// A route of this namespace for one host, whose answers name the revision.
fn route(gateway: &str, name: &str, revision: &str) -> serde_json::Value {
    let revision = json!({ "set": [{ "name": kept::REVISION, "value": revision }] });
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "parentRefs": [{ "name": gateway }],
            "hostnames": [kept::host(name)],
            "rules": [{
                "backendRefs": [{ "name": "backend", "port": 80 }],
                "filters": [{ "type": "ResponseHeaderModifier", "responseHeaderModifier": revision }],
            }],
        },
    })
}

const WORLD: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: postern
  listeners: [{ name: http, port: 80, protocol: HTTP }]
";
