//! When changes are passed on: at once after a calm, and many together in a storm.

use std::time::Duration;

use tokio::time::Instant;

/// Changes that wait to be passed on.
#[derive(Debug, Default)]
pub struct Pace {
    /// When the first and the last of them came.
    waiting: Option<(Instant, Instant)>,
    passed: Option<Instant>,
}

/// After so long without anything passed on, the next change waits for no other.
const CALM: Duration = Duration::from_millis(20);
/// How long a change waits for the next one in a storm.
const QUIET: Duration = Duration::from_millis(4);
/// How long a change waits at most.
const LATEST: Duration = Duration::from_millis(40);

impl Pace {
    /// Something has changed.
    pub fn changed(&mut self, now: Instant) {
        self.waiting = Some((self.waiting.map_or(now, |(first, _)| first), now));
    }

    /// When what has changed is to be passed on; `None` while nothing has.
    pub fn due(&self) -> Option<Instant> {
        let (first, last) = self.waiting?;
        let is_calm = self.passed.is_none_or(|passed| first.duration_since(passed) >= CALM);
        Some(if is_calm { first } else { (last + QUIET).min(first + LATEST) })
    }

    /// All that has changed is passed on; gives when the first of it came.
    pub fn pass(&mut self, now: Instant) -> Option<Instant> {
        self.passed = Some(now);
        self.waiting.take().map(|(first, _)| first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_change_after_a_calm_waits_for_nothing_and_those_that_follow_wait_for_each_other() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.due(), None);
        pace.changed(start);
        assert_eq!(pace.due(), Some(start));
        pace.pass(start);
        assert_eq!(pace.due(), None);
        pace.changed(start + 5 * MS);
        pace.changed(start + 7 * MS);
        assert_eq!(pace.due(), Some(start + 7 * MS + QUIET));
        pace.pass(start + 11 * MS);
        pace.changed(start + 11 * MS + CALM);
        assert_eq!(pace.due(), Some(start + 11 * MS + CALM));
    }

    #[test]
    fn a_storm_that_does_not_end_is_passed_on_all_the_same() {
        let start = Instant::now();
        let mut pace = Pace::default();
        pace.pass(start);
        for ms in 1..200 {
            pace.changed(start + ms * MS);
        }
        assert_eq!(pace.due(), Some(start + MS + LATEST));
    }
}
