//! Times that were measured, and how they are shown.

use std::time::Duration;

use crate::facts::say;

/// Times, in order.
pub struct Times(Vec<Duration>);

impl Times {
    /// Puts them in order.
    pub fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// The time that this share of all stays below; of none it is zero.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a small number"
    )]
    pub fn quantile(&self, share: f64) -> Duration {
        let at = (share * self.0.len() as f64) as usize;
        self.0.get(at.min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// Says a line of the table.
    pub fn line(&self, what: &str, routes: usize) {
        let [p50, p90, p99, max] =
            [0.5, 0.9, 0.99, 1.0].map(|share| self.quantile(share).as_secs_f64() * 1e3);
        let n = self.0.len();
        say(format_args!(
            "| {what:<28} | {routes:>6} | {n:>4} | {p50:>7.1} | {p90:>7.1} | {p99:>7.1} | {max:>7.1} |"
        ));
    }
}

/// Says the head of the table.
pub fn head() {
    say("| milliseconds                 | routes |    n |     p50 |     p90 |     p99 |     max |");
    say("| ---------------------------- | ------ | ---- | ------- | ------- | ------- | ------- |");
}
