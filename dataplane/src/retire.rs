//! Frees states that are no longer served, beside the traffic.
//!
//! The last request that still reads a state would free it otherwise, and all of its worker's clients would wait while tens
//! of thousands of routes are taken apart.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::state::State;

/// Takes states that were replaced.
pub(crate) struct Retired(Sender<Arc<State>>);

/// How often it is looked whether a state is still read, and how long at most.
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

impl Retired {
    /// Starts the thread that frees; it ends after this was dropped.
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, receiver) = channel();
        std::thread::Builder::new().name("postern-retire".into()).spawn(move || free_all(&receiver))?;
        Ok(Self(sender))
    }

    /// Frees a state as soon as nobody reads it.
    pub(crate) fn add(&self, state: Arc<State>) {
        // Without the thread, it is freed here.
        let _ = self.0.send(state);
    }
}

fn free_all(states: &Receiver<Arc<State>>) {
    for state in states {
        let began = Instant::now();
        while Arc::strong_count(&state) > 1 && began.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
    }
}
