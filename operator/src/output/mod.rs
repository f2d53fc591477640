//! Where text goes: data to standard output, everything else to standard error, colour only to a terminal.

pub mod columns;
pub mod failure;

use std::fmt::Display;
use std::io::{self, Write};

use clap::ValueEnum;
use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

use crate::output::failure::Failure;

/// What is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// What deserves a look.
pub const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// What is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What to do, and titles.
pub const TITLE: Style = Style::new().bold();
/// What matters less.
pub const DIM: Style = Style::new().dimmed();

/// The form of the answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Format {
    // No doc comments: the help would show each on a line of its own.
    #[default]
    Text,
    Json,
    Yaml,
}

/// `text` in a style; the codes are taken out again where they would not be shown.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Writes an answer to standard output, in one go.
pub fn data(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes an answer to standard output: `text` for people, else `value`.
pub fn answer<T: Serialize>(
    format: Format,
    value: impl FnOnce() -> T,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match format {
        Format::Text => data(&text()),
        Format::Json => {
            let json = serde_json::to_string_pretty(&value()).map_err(|e| Failure::Output(e.into()))?;
            data(&(json + "\n"))
        }
        Format::Yaml => {
            let yaml = serde_saphyr::to_string(&value()).map_err(|e| Failure::Output(io::Error::other(e)))?;
            data(&yaml)
        }
    }
}

/// `error: ...`
pub fn as_error(message: impl Display) -> String {
    format!("{}: {message}", paint(BAD, "error"))
}

/// `warning: ...`
pub fn as_warning(message: impl Display) -> String {
    format!("{}: {message}", paint(WARN, "warning"))
}

/// An empty line and `hint: ...` on standard error.
pub fn hint(message: &str) {
    note(&format!("\n{}: {message}", paint(TITLE, "hint")));
}

/// A line on standard error. There is nobody to tell when that fails.
pub fn note(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}
