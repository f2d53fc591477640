//! Who writes what, and when: nothing at rest, nothing of another controller's, and on time whatever others write.

mod ask;
mod operator;
mod poison;
mod rest;
mod two;

use clap::{Args, ValueEnum};

use crate::cluster::{Cluster, Error};
use crate::facts::Facts;

/// What is looked at.
#[derive(Args)]
pub struct Options {
    /// All when none is named
    #[arg(value_enum)]
    parts: Vec<Part>,
}

/// One file each.
#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
enum Part {
    /// Nothing is written at rest
    Rest,
    /// Two controllers on one object
    Two,
    /// The worst manifests, beside healthy ones
    Poison,
}

/// Runs the suite.
pub async fn run(cluster: &Cluster, facts: &mut Facts, options: &Options) -> Result<(), Error> {
    for part in [Part::Rest, Part::Two, Part::Poison] {
        if !options.parts.is_empty() && !options.parts.contains(&part) {
            continue;
        }
        let (ended, namespaces) = match part {
            Part::Rest => (rest::run(cluster, facts).await, rest::NAMESPACES),
            Part::Two => (two::run(cluster, facts).await, two::NAMESPACES),
            Part::Poison => (poison::run(cluster, facts).await, poison::NAMESPACES),
        };
        for namespace in namespaces {
            cluster.end(namespace).await?;
        }
        ended?;
    }
    Ok(())
}
