//! Whether the store still takes commands.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use taskgate_store::Error;

use crate::fault::Said;

/// The words of the error after a failed write. After a failed sync the page cache cannot be trusted, so only a
/// new process can tell what was kept (notes 2.7).
const BROKEN: &str = "go on after a failed write, because it is not certain what is on disk; restart taskgate, \
                      which reads what was kept";

#[derive(Debug)]
pub(crate) struct Health {
    place: String,
    closed: AtomicBool,
    broken: OnceLock<Said>,
}

impl Health {
    pub(crate) fn new(place: String) -> Health {
        Health { place, closed: AtomicBool::new(false), broken: OnceLock::new() }
    }

    /// The file, for errors.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Refuses everything from now on.
    pub(crate) fn break_down(&self, said: Said) {
        if self.broken.set(said).is_ok() {
            tracing::error!(place = self.place, reason = ?self.broken.get(), "the store takes no more commands");
        }
    }

    /// The error for everything after a failed write.
    pub(crate) fn broken(&self) -> Option<Error> {
        let said = self.broken.get()?.clone();
        Some(Error::Backend { doing: BROKEN, source: Box::new(said) })
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
