//! What clients were told, and when.

use std::collections::BTreeMap;

use taskgate_core::time::UnixMillis;
use taskgate_store::record::{Record, Session};

/// A place in the recording.
pub(crate) type Position = usize;

/// Something that was asked of the store: when it began, and when it was acknowledged, if it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begun: Position,
    pub(crate) acknowledged: Option<Position>,
}

impl Span {
    pub(crate) fn is_promised(&self, at: Position) -> bool {
        self.acknowledged.is_some_and(|position| position <= at)
    }

    pub(crate) fn may_be(&self, at: Position) -> bool {
        self.begun <= at
    }
}

/// What is known of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// By version, from 1 on: each was asked for once.
    pub(crate) versions: Vec<(Span, Record)>,
    pub(crate) fetched: Option<(Span, UnixMillis)>,
    /// Whether a purge may take it.
    pub(crate) is_doomed: bool,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diary {
    /// When the store was open.
    pub(crate) opened: Option<Position>,
    pub(crate) secret: [u8; 32],
    pub(crate) tasks: BTreeMap<String, Known>,
    /// By key: each value that it was given, `None` for its end.
    pub(crate) sessions: BTreeMap<String, Vec<(Span, Option<Session>)>>,
    /// How many tasks each took.
    pub(crate) purges: Vec<(Span, usize)>,
}

impl Diary {
    /// What holds after a restart that found everything in order: whatever was promised at `at`, and what was found
    /// and seen since. Its positions are those of a new recording.
    pub(crate) fn carried_over(&self, at: Position, found: &Found) -> Diary {
        let past = Span { begun: 0, acknowledged: Some(0) };
        let mut next = Diary { opened: None, secret: self.secret, ..Diary::default() };
        for (id, known) in &self.tasks {
            let Some(record) = found.tasks.get(id) else {
                // Gone for good, or never there.
                continue;
            };
            let versions = known.versions.iter().take(record.version as usize);
            next.tasks.insert(
                id.clone(),
                Known {
                    versions: versions.map(|(_, record)| (past, record.clone())).collect(),
                    fetched: record.fetched.map(|at| (past, at)),
                    // A purge that was under way may not have been; one that comes takes it.
                    is_doomed: known.is_doomed,
                },
            );
        }
        for (key, values) in &self.sessions {
            if values.iter().any(|(span, _)| span.may_be(at)) {
                next.sessions.insert(key.clone(), vec![(past, found.sessions.get(key).cloned())]);
            }
        }
        next
    }
}

/// What a store held when it was opened again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) tasks: BTreeMap<String, Record>,
    pub(crate) sessions: BTreeMap<String, Session>,
}
