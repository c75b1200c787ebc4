//! How often things happened, over all seeds.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// How often each thing happened.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<String, u64>>);

impl Tally {
    /// It happened once more.
    pub fn count(&self, what: impl Into<String>) {
        *self.0.lock().entry(what.into()).or_default() += 1;
    }

    /// Everything that happened, and how often.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }
}
