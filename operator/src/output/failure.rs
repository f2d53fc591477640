//! How a command ends: the exit codes, and the form of an error message.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use crate::output;

/// How a command that did its work ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing to complain of: exit code 0.
    Good,
    /// What was asked about has something wrong: exit code 1.
    Findings,
}

impl Verdict {
    /// Findings when there are any.
    pub fn findings(any: bool) -> Self {
        if any { Self::Findings } else { Self::Good }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::SUCCESS,
            Verdict::Findings => Self::from(1),
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The world said no, for example an address is in use: exit code 1.
    Failed(Message),
    /// The command line asks for something that makes no sense: exit code 2.
    Usage(Message),
    /// The input cannot be read: exit code 3.
    Unreadable(Message),
    /// Standard output is gone. A reader that has seen enough is no failure.
    Output(io::Error),
}

/// The fact, then what to do about it.
#[derive(Debug)]
pub struct Message {
    fact: String,
    hint: Option<String>,
}

impl Message {
    /// A fact, in sentence case without a full stop.
    pub fn new(fact: impl Display) -> Self {
        Self { fact: fact.to_string(), hint: None }
    }

    /// Adds what to do.
    pub fn hint(self, hint: impl Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }
}

impl Failure {
    /// Says what happened on standard error and gives the exit code.
    pub fn report(self) -> ExitCode {
        let (message, code) = match self {
            Self::Failed(message) => (message, 1),
            Self::Usage(message) => (message, 2),
            Self::Unreadable(message) => (message, 3),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Self::Output(error) => (Message::new(format!("cannot write to standard output: {error}")), 1),
        };
        output::note(&output::as_error(&message.fact));
        if let Some(hint) = message.hint {
            output::hint(&hint);
        }
        ExitCode::from(code)
    }
}
