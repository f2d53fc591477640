//! `postern-e2e`: what must hold of Postern in a cluster, suite by suite. Run it through `e2e/run`, or with `e2e/cluster exec`.

mod backend;
mod channel;
mod cluster;
mod convergence;
mod facts;
mod latency;
mod load;
mod loss;
mod parameters;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use cluster::Cluster;
use facts::Facts;

/// What must hold of Postern in the cluster of KUBECONFIG, where it is installed already
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

/// One file each.
#[derive(Subcommand)]
enum Suite {
    /// Who is let in to the channel of configuration, and what is sent
    Channel,
    /// Who writes what, and when
    Convergence(convergence::Options),
    /// How long changes and new Gateways take, and what an idle one costs
    Latency(latency::Options),
    /// What clients lose while something happens to Postern
    Loss(loss::Arguments),
    /// What PosternParameters do to data planes
    Parameters,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { suite } = Cli::parse();
    let mut facts = Facts::default();
    let ended = run(suite, &mut facts).await;
    if let Err(error) = ended {
        facts.check(format_args!("the suite comes to its end: {error}"), false);
    }
    facts.close()
}

async fn run(suite: Suite, facts: &mut Facts) -> Result<(), cluster::Error> {
    let cluster = Cluster::connect().await?;
    match suite {
        Suite::Channel => channel::run(&cluster, facts).await,
        Suite::Convergence(options) => convergence::run(&cluster, facts, &options).await,
        Suite::Latency(options) => latency::run(&cluster, &options, facts).await,
        Suite::Loss(arguments) => loss::run(&cluster, facts, &arguments).await,
        Suite::Parameters => parameters::run(&cluster, facts).await,
    }
}
