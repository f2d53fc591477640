//! How serving ends: one signal that every connection of a port hears, and the time by which it must be gone.
//!
//! The end of a port and the end of the process are the same story. Accept loops take what the kernel has already
//! accepted for them and stop. HTTP/1 connections answer with `Connection: close`; those that are idle wait a moment for a
//! request that may be on its way, since closing under it would lose it, and close. HTTP/2 connections send GOAWAY and
//! finish their streams, tunnels go on. At the deadline, whatever is left is cut.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How long an idle connection goes on after the beginning: a client that asks more than once in this time, or in the time that
/// the plane has been leaving, learns from an answer that it ends, and sends nothing that crosses with its end.
const GRACE: Duration = Duration::from_secs(2);

/// Begins the drain of everyone who holds one of its [`Drain`]s.
#[derive(Debug)]
pub(crate) struct Drainer(watch::Sender<Option<Instant>>);

/// Says whether, and until when, its holder may go on.
#[derive(Clone, Debug)]
pub(crate) struct Drain(watch::Receiver<Option<Instant>>);

impl Drainer {
    /// A drain that has not begun.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Something to hold on to for whoever has to end with this drain.
    pub(crate) fn drain(&self) -> Drain {
        Drain(self.0.subscribe())
    }

    /// Begins: everything should end soon, and must within `within`. Beginning again can only bring the end nearer.
    pub(crate) fn begin(&self, within: Duration) {
        let deadline = Instant::now() + within;
        self.0.send_if_modified(|now| {
            let nearer = now.is_none_or(|now| deadline < now);
            if nearer {
                *now = Some(deadline);
            }
            nearer
        });
    }
}

impl Drain {
    /// Whether both come from the same [`Drainer`].
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Whether it has begun: no new request on this connection after the present one.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Resolves when it begins.
    pub(crate) async fn begun(&self) {
        let mut signal = self.0.clone();
        if signal.wait_for(Option::is_some).await.is_err() {
            // The port went without a drain, which is the end of its runtime.
            std::future::pending().await
        }
    }

    /// Resolves when an idle connection should go: a moment after the beginning.
    pub(crate) async fn is_over_for_idle(&self) {
        self.begun().await;
        tokio::time::sleep(GRACE).await;
    }

    /// Resolves when the time is over.
    pub(crate) async fn ended(&self) {
        let mut signal = self.0.clone();
        loop {
            let deadline = *signal.borrow_and_update();
            let Some(deadline) = deadline else {
                self.begun().await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return,
                changed = signal.changed() => if changed.is_err() {
                    tokio::time::sleep_until(deadline).await;
                    return;
                }
            }
        }
    }
}
