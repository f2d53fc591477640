//! `postern completions`: what a shell needs to complete our command line.

use clap_complete::Shell;

use crate::output;
use crate::output::failure::{Failure, Verdict};

/// Print completions for a shell
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args, mut command: clap::Command) -> Result<Verdict, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "postern", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Good)
}
