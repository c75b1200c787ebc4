//! What the server itself knows.

use std::collections::{BTreeMap, BTreeSet};

/// What the server's own books say of one call.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Requests that came.
    pub requests: u32,
    /// Effects that were made.
    pub effects: u32,
    /// Whether it once said that it did what it had not done.
    pub boasted: bool,
    /// Whether it once said that it did not understand what it had done.
    pub denied: bool,
    /// What it asked meanwhile, and the replies that came to each question.
    pub questions: BTreeMap<String, BTreeSet<String>>,
}

/// All entries, by the names of calls.
#[derive(Debug, Default)]
pub(super) struct Books(BTreeMap<String, Entry>);

impl Books {
    pub(super) fn of(&self, call: &str) -> Entry {
        self.0.get(call).cloned().unwrap_or_default()
    }

    pub(super) fn entry(&mut self, call: &str) -> &mut Entry {
        self.0.entry(call.to_owned()).or_default()
    }

    pub(super) fn all(&self) -> BTreeMap<String, Entry> {
        self.0.clone()
    }
}
