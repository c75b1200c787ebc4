//! A store that is of no use to this process any more: it has broken for good, or another process has it.
//!
//! Then nothing more is decided, recorded or sent, and whoever runs the engine ends the process: only the next one can go on
//! (INV-15, notes 2.7). Until then everybody who asks hears so.

use std::sync::Arc;

use taskgate_store::Error;

use crate::engine::{Engine, SubmitError};

impl Engine {
    /// Whether the store is lost to this process.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.initialized() || self.parts.store.breakdown().error().is_some()
    }

    /// Resolves once the store is lost to this process, by what it said: [`Error::Broken`] or [`Error::InUse`]. By then the
    /// engine has stopped. For a store that works, or that is full and may work again, it never does.
    pub async fn lost(&self) -> Arc<Error> {
        tokio::select! {
            biased;
            lost = self.lost.wait() => return lost.clone(),
            // Nobody need have written anything: the log is moved into the file in idle moments.
            broken = self.parts.store.breakdown().happened() => {
                self.give_way(&broken);
            }
        }
        self.lost.wait().await.clone()
    }

    /// Stops, if that is what an error of the store means.
    pub(crate) fn give_way(&self, error: &Error) {
        let lost = match error {
            Error::Broken { place, reason } => Error::Broken { place: place.clone(), reason: reason.clone() },
            Error::InUse { place } => Error::InUse { place: place.clone() },
            Error::Full { .. }
            | Error::ReadOnly { .. }
            | Error::Open { .. }
            | Error::Newer { .. }
            | Error::Damaged { .. }
            | Error::Corrupt { .. }
            | Error::Closed
            | Error::Backend { .. } => return,
        };
        if self.lost.set(Arc::new(lost)).is_ok() {
            tracing::error!(%error, "the store is lost; nothing more is done here");
            self.closing.cancel();
            self.stopping.cancel();
        }
    }

    /// Why a call is not taken by an engine that is closing.
    pub(crate) fn not_taken(&self) -> SubmitError {
        match self.parts.store.breakdown().error() {
            Some(error) => SubmitError::Store(error),
            None => SubmitError::Stopping,
        }
    }
}
