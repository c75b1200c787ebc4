//! What clients were told, and when.

use std::collections::BTreeMap;

use taskgate_core::id::OperationId;
use taskgate_core::time::UnixMillis;
use taskgate_store::conformance::sample::CREATED;
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::record::{Phase, Record, Session};

/// Between what a purge may take and all else; and between evidence that may go and what must stay.
pub(crate) const OLD_BEFORE: UnixMillis = UnixMillis(CREATED.0 + 30_000);

/// Evidence may go of operations with smaller ids than this one.
pub(crate) fn old_below() -> OperationId {
    OperationId("b".into())
}

/// A place in the recording.
pub(crate) type Position = usize;

/// Something that was asked of the store: when it began, and when it was acknowledged, if it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begun: Position,
    pub(crate) acknowledged: Option<Position>,
}

impl Span {
    /// Before the recording began.
    const PAST: Span = Span { begun: 0, acknowledged: Some(0) };

    pub(crate) fn is_promised(&self, at: Position) -> bool {
        self.acknowledged.is_some_and(|position| position <= at)
    }

    pub(crate) fn may_be(&self, at: Position) -> bool {
        self.begun <= at
    }
}

/// What is known of one task and its operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// By version, from 1 on: each was asked for once.
    pub(crate) versions: Vec<(Span, Record)>,
    pub(crate) fetched: Option<(Span, UnixMillis)>,
    /// The versions that the operation had by itself, when its task was purged.
    pub(crate) alone: Vec<(Span, LedgerEntry)>,
    /// Whether the purge was seen before the power went for the first time.
    pub(crate) is_gone: bool,
}

impl Known {
    /// What a purge leaves of each version that it may take.
    fn left(&self) -> impl Iterator<Item = (Span, LedgerEntry)> {
        let old = self.versions.iter().filter(|(_, record)| {
            record.phase() != Phase::Unfinished && record.task.expires().is_some_and(|at| at < OLD_BEFORE)
        });
        old.map(|(span, record)| (*span, LedgerEntry { kept: None, ..LedgerEntry::of(record) }))
    }

    pub(crate) fn may_be_purged(&self, at: Position) -> bool {
        self.left().any(|(span, _)| span.may_be(at))
    }

    /// What may be left of it, task gone.
    pub(crate) fn may_be_left(&self, at: Position) -> Vec<(Span, LedgerEntry)> {
        self.left().chain(self.alone.iter().cloned()).filter(|(span, _)| span.may_be(at)).collect()
    }

    /// Whether its evidence may have gone.
    pub(crate) fn may_be_retired(&self, at: Position) -> bool {
        let is_old =
            |entry: &LedgerEntry| entry.may_retire() && entry.updated < OLD_BEFORE && entry.id < old_below();
        self.may_be_left(at).iter().any(|(_, entry)| is_old(entry))
    }

    /// The highest version that was acknowledged; 0 if none was.
    pub(crate) fn promised(&self, at: Position) -> usize {
        let kept = self.versions.iter().map(|(span, _)| span);
        kept.chain(self.alone.iter().map(|(span, _)| span)).filter(|span| span.is_promised(at)).count()
    }
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
    /// How many operations.
    pub(crate) retirements: Vec<(Span, usize)>,
    /// How often a purge left a task whose time was over and whose operation was not.
    pub(crate) spared: usize,
}

impl Diary {
    /// What holds after a restart that found everything in order: whatever was promised at `at`, and what was found
    /// and seen since. Its positions are those of a new recording.
    pub(crate) fn carried_over(&self, at: Position, found: &Found) -> Diary {
        let past = Span::PAST;
        let mut next = Diary { opened: None, secret: self.secret, ..Diary::default() };
        for (id, known) in &self.tasks {
            let past = |versions: &[(Span, Record)], count: usize| {
                versions.iter().take(count).map(|(_, record)| (past, record.clone())).collect()
            };
            if let Some(record) = found.tasks.get(id) {
                let versions = past(&known.versions, record.version as usize);
                let fetched = record.fetched.map(|at| (Span::PAST, at));
                next.tasks.insert(id.clone(), Known { versions, fetched, ..Known::default() });
            } else if let Some(entry) = found.alone.get(id) {
                let count = entry.version as usize;
                let versions = past(&known.versions, count);
                let count = count.saturating_sub(known.versions.len());
                let alone = known.alone.iter().take(count);
                let alone = alone.map(|(_, entry)| (Span::PAST, entry.clone())).collect();
                next.tasks.insert(id.clone(), Known { versions, alone, is_gone: true, fetched: None });
            }
            // Else it is gone for good, or was never there.
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
    /// Operations whose task was purged, by its id.
    pub(crate) alone: BTreeMap<String, LedgerEntry>,
    pub(crate) sessions: BTreeMap<String, Session>,
}
