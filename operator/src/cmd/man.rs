//! `postern man`: the manual, from the same definitions as the help.

use std::fs;
use std::path::PathBuf;

use clap_mangen::Man;

use crate::input::source;
use crate::output;
use crate::output::failure::{Failure, Message, Verdict};

/// Print the manual page, or write one page for each command
#[derive(clap::Args)]
pub struct Args {
    /// Write postern.1, postern-serve.1 and so on to this folder
    folder: Option<PathBuf>,
}

/// Prints `postern.1`, or writes all pages.
pub fn run(args: &Args, command: clap::Command) -> Result<Verdict, Failure> {
    match &args.folder {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page).map_err(Failure::Output)?;
            output::data(&String::from_utf8_lossy(&page))?;
        }
        Some(folder) => {
            let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
            written.map_err(|error| {
                let reason = source::reason(&error);
                Failure::Failed(Message::new(format!("cannot write to `{}`: {reason}", folder.display())))
            })?;
        }
    }
    Ok(Verdict::Good)
}
