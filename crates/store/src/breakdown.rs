//! That a store has broken for good.

use std::sync::Arc;

use tokio::sync::SetOnce;

use crate::Error;

/// Whether a store has broken for good: a write or a sync failed half way, so that it is not certain what is on disk, and
/// everything is refused from then on. Only a new process, which reads what was kept, can go on (notes 2.7). A disk that is
/// full, or a file that cannot be written just now, is none: such a store works again as soon as it can.
///
/// Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Breakdown(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: String,
    reason: SetOnce<String>,
}

impl Breakdown {
    /// None yet, of the store at `place`.
    #[must_use]
    pub fn of(place: impl Into<String>) -> Breakdown {
        Breakdown(Arc::new(Inner { place: place.into(), reason: SetOnce::new() }))
    }

    /// Notes it; the first reason counts. Whether this was the first.
    pub fn happen(&self, reason: impl Into<String>) -> bool {
        self.0.reason.set(reason.into()).is_ok()
    }

    /// The error for everything that is asked of the store since; `None` as long as it is sound.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.0.reason.get().map(|reason| self.broken(reason))
    }

    /// Resolves once it has happened, and for a sound store never.
    pub async fn happened(&self) -> Error {
        self.broken(self.0.reason.wait().await)
    }

    fn broken(&self, reason: &str) -> Error {
        Error::Broken { place: self.0.place.clone(), reason: reason.to_owned() }
    }
}
