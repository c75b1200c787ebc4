//! How often things happened, over all seeds.

use std::collections::BTreeMap;

use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<BTreeMap<String, u64>>);

impl Tally {
    pub(crate) fn count(&self, what: impl Into<String>) {
        *self.0.lock().entry(what.into()).or_default() += 1;
    }

    pub(crate) fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }
}
