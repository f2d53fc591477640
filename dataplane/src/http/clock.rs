//! The limits on time of one exchange, watched by one timer.
//!
//! A timer is armed when it is created and after that only when it fires, or when a limit comes that ends earlier: what moves
//! between costs no system call, no lock and no look at the clock.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The limits that hold at present. Times count from its creation; `u64::MAX` is never.
#[derive(Debug)]
pub(super) struct Clock {
    created: Instant,
    request: AtomicU64,
    attempt: AtomicU64,
    idle: AtomicU64,
    may_idle: AtomicU64,
    moved: AtomicBool,
}

/// Which limit is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Expired {
    /// What had to be whole by then is not.
    Limit,
    /// Nothing has moved for as long as may be.
    Idle,
}

const NEVER: u64 = u64::MAX;

impl Clock {
    pub(super) fn new() -> Self {
        let never = || AtomicU64::new(NEVER);
        Self {
            created: Instant::now(),
            request: never(),
            attempt: never(),
            idle: never(),
            may_idle: never(),
            moved: AtomicBool::new(false),
        }
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.created).as_nanos()).unwrap_or(NEVER)
    }

    fn after(&self, from: Instant, limit: Option<Duration>) -> u64 {
        let limit = limit.and_then(|limit| from.checked_add(limit));
        limit.map_or(NEVER, |until| self.nanoseconds(until))
    }

    /// Something new begins: `whole` is for all of it, `idle` for its longest pause.
    pub(super) fn begin(&self, now: Instant, whole: Option<Duration>, idle: Duration) {
        self.request.store(self.after(now, whole), Relaxed);
        self.attempt.store(NEVER, Relaxed);
        self.moved.store(false, Relaxed);
        self.allow_idle(now, idle);
    }

    /// Changes the longest pause, which counts from now.
    pub(super) fn allow_idle(&self, now: Instant, idle: Duration) {
        self.may_idle.store(u64::try_from(idle.as_nanos()).unwrap_or(NEVER), Relaxed);
        self.idle.store(self.after(now, Some(idle)), Relaxed);
    }

    /// Sets the limit for the whole.
    pub(super) fn limit(&self, now: Instant, whole: Option<Duration>) {
        self.request.store(self.after(now, whole), Relaxed);
    }

    /// Sets the limit for one attempt, in place of the one before.
    pub(super) fn limit_attempt(&self, attempt: Option<Duration>) {
        if attempt.is_some() || self.attempt.load(Relaxed) != NEVER {
            self.attempt.store(self.after(Instant::now(), attempt), Relaxed);
        }
    }

    /// A byte has moved.
    pub(super) fn moved(&self) {
        self.moved.store(true, Relaxed);
    }

    /// Ready when a limit is over.
    pub(super) fn poll_expired(&self, mut timer: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<Expired> {
        loop {
            let limit = self.request.load(Relaxed).min(self.attempt.load(Relaxed));
            let due = limit.min(self.idle.load(Relaxed));
            let at = self.created + Duration::from_nanos(due.min(FAR));
            if timer.deadline() > at {
                timer.as_mut().reset(at);
            }
            ready!(timer.as_mut().poll(cx));
            let now = self.nanoseconds(Instant::now());
            if now >= limit {
                return Poll::Ready(Expired::Limit);
            }
            if now >= self.idle.load(Relaxed) {
                if !self.moved.swap(false, Relaxed) {
                    return Poll::Ready(Expired::Idle);
                }
                self.idle.store(now.saturating_add(self.may_idle.load(Relaxed)), Relaxed);
            }
            let next = limit.min(self.idle.load(Relaxed)).min(FAR);
            timer.as_mut().reset(self.created + Duration::from_nanos(next));
        }
    }

    /// Resolves when a limit is over.
    pub(super) async fn expired(&self, mut timer: Pin<&mut Sleep>) -> Expired {
        std::future::poll_fn(|cx| self.poll_expired(timer.as_mut(), cx)).await
    }
}

/// About thirty years, in nanoseconds: no timer needs more, and instants can hold it.
const FAR: u64 = 1_000_000_000_000_000_000;
