//! What a suite has found: a line for each fact, and the sum at the end.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// The facts so far.
#[derive(Debug, Default)]
pub struct Facts {
    passed: u32,
    failed: u32,
}

impl Facts {
    /// Says whether something holds. What does not is counted, and the suite goes on.
    pub fn check(&mut self, what: impl Display, holds: bool) {
        let (count, verdict) =
            if holds { (&mut self.passed, "ok     ") } else { (&mut self.failed, "FAILED ") };
        *count += 1;
        say(format_args!("{verdict} {what}"));
    }

    /// Says the sum. Nothing found is a failure, too.
    pub fn close(self) -> ExitCode {
        let Self { passed, failed } = self;
        say(format_args!("{passed} passed, {failed} failed"));
        if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Writes a line at once, for whoever watches.
pub fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    // Whoever closed the pipe does not want to know.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
