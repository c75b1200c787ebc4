//! The tools of a server, as far as anyone here decides by them.

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};
use taskgate_core::gate::TaskSupport;
use taskgate_wire::json;
use taskgate_wire::listing::Tool;

/// Pages of a listing that are read; more than this is a server that never ends.
pub(crate) const PAGES_MAX: usize = 1_000;

/// All tools of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ToolTable {
    tools: BTreeMap<String, ToolFacts>,
}

/// One tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolFacts {
    /// Whether it may be called as a task.
    pub support: TaskSupport,
    /// What its server says about its effect; a hint, no more.
    pub read_only_hint: Option<bool>,
    /// SHA-256, in lower-case hex, over its entry with names sorted: any change of schema or description shows.
    pub digest: String,
    /// The raw schema of its arguments, kept only if some of them are mirrored into headers (B-045).
    pub mirroring: Option<String>,
}

impl ToolTable {
    /// One tool by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolFacts> {
        self.tools.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ToolFacts)> {
        self.tools.iter().map(|(name, facts)| (name.as_str(), facts))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub(crate) fn add(&mut self, tool: &Tool<'_>) {
        let mut digest = String::with_capacity(64);
        for byte in Sha256::digest(json::canonical(tool.raw)) {
            let _ = write!(digest, "{byte:02x}");
        }
        let facts = ToolFacts {
            support: tool.support,
            read_only_hint: tool.read_only_hint,
            digest,
            mirroring: tool.mirroring().map(String::from),
        };
        self.tools.insert(tool.name.clone().into_owned(), facts);
    }
}
