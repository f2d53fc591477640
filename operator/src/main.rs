//! `postern`: serves Gateway API manifests and explains every routing decision. One line for each command.

mod cluster;
mod cmd;
mod input;
mod output;
mod standalone;
mod status;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use output::failure::{Failure, Verdict};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Gateway API for Kubernetes: serve manifests without a cluster, and see why every request goes where it goes
#[derive(Parser)]
#[command(name = "postern", version, after_help = EXIT_CODES, max_term_width = 110)]
#[command(propagate_version = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 good, 1 findings, 2 wrong usage, 3 input that cannot be read";

#[derive(Subcommand)]
enum Command {
    Operator(cluster::settings::Settings),
    Serve(cmd::serve::Args),
    Status(cmd::status::Args),
    Table(cmd::table::Args),
    Route(cmd::route::Args),
    Completions(cmd::completions::Args),
    Man(cmd::man::Args),
}

fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match run(cli.command) {
        Ok(verdict) => verdict.into(),
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<Verdict, Failure> {
    match command {
        Command::Operator(settings) => cmd::operator::run(settings),
        Command::Serve(args) => cmd::serve::run(args),
        Command::Status(args) => cmd::status::run(&args),
        Command::Table(args) => cmd::table::run(&args),
        Command::Route(args) => cmd::route::run(&args),
        Command::Completions(args) => cmd::completions::run(&args, Cli::command()),
        Command::Man(args) => cmd::man::run(&args, Cli::command()),
    }
}

/// Help and version go to standard output and are no mistake.
fn usage(error: &clap::Error) -> ExitCode {
    // There is nobody to tell when this fails.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
