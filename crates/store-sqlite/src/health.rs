//! Whether the store still takes commands.

use std::sync::atomic::{AtomicBool, Ordering};

use taskgate_store::Error;
use taskgate_store::breakdown::Breakdown;

use crate::fault::Said;

#[derive(Debug)]
pub(crate) struct Health {
    place: String,
    closed: AtomicBool,
    breakdown: Breakdown,
}

impl Health {
    pub(crate) fn new(place: String) -> Health {
        let breakdown = Breakdown::of(place.clone());
        Health { place, closed: AtomicBool::new(false), breakdown }
    }

    /// The file, for errors.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Refuses everything from now on: after a failed write or sync the page cache cannot be trusted, so only a new process
    /// can tell what was kept (notes 2.7).
    pub(crate) fn break_down(&self, said: &Said) {
        if self.breakdown.happen(said.to_string()) {
            tracing::error!(place = self.place, reason = %said, "the store has failed and takes no more commands");
        }
    }

    /// See [`taskgate_store::Store::breakdown`].
    pub(crate) fn breakdown(&self) -> &Breakdown {
        &self.breakdown
    }

    /// The error for everything after a failed write.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.breakdown.error()
    }

    /// Whether a command may begin.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(error) = self.broken() {
            return Err(error);
        }
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// The error for a command whose answer never came.
    pub(crate) fn gone(&self) -> Error {
        self.broken().unwrap_or(Error::Closed)
    }
}
