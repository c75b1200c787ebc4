//! What no store lets happen to a record, whoever asks.
//!
//! The core decides what may follow from what. These are the few rules whose breach would be unforgivable, so
//! stores hold them too, as the last fence (notes 2.4): the twin in memory by [`check`], those in SQL by constraints
//! and triggers.

use std::collections::BTreeSet;

use taskgate_core::operation::{HandOff, Inquiry, Operation, Outcome, Stage, Verdict};
use taskgate_core::task::{QuestionKey, State, Task};
use taskgate_seeded::Bug;

use crate::Error;
use crate::codec::columns::{EndingKind, StateKind};
use crate::ledger::LedgerEntry;
use crate::record::{Change, Record};

/// A breach. Only a defect of ours can ask for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Breach {
    /// A task that is over stays byte for byte as it is (A-043, INV-03).
    #[error("a task that is over cannot change")]
    OverIsFinal,
    /// A confirmed outcome never changes (design 7).
    #[error("a confirmed outcome cannot change")]
    ConfirmedIsFinal,
    /// A person's word gives way to what is confirmed, and to nothing else (design 7).
    #[error("an attested outcome gives way to a confirmed one only")]
    AttestedStays,
    /// What is under way, certain or of no effect is not asked after (design 7).
    #[error("there is nothing to be asked after")]
    NothingToAsk,
    /// A question goes from asked to answering to closed, and its key is never used again (INV-20).
    #[error("a question cannot go back, nor its key be used again")]
    QuestionGoesBack,
    /// A new record begins at version 1 (INV-04).
    #[error("a new record begins at version 1")]
    NotTheFirst,
    /// An id names one thing for ever.
    #[error("an id cannot be used twice")]
    IdUsed,
}

impl Breach {
    /// The error by which a store reports it.
    #[must_use]
    pub fn refused(self, doing: &'static str) -> Error {
        Error::Backend { doing, source: Box::new(self) }
    }
}

/// Whether `old` may become `new` by `changes`; `closed` are the keys of questions that are settled or void.
///
/// # Errors
/// The rule that forbids it.
pub fn check(
    old: &Record,
    new: &Record,
    changes: &[Change],
    closed: &BTreeSet<QuestionKey>,
) -> Result<(), Breach> {
    if matches!(old.task.state, State::Over { .. }) {
        after_the_end(changes)?;
        if old.task != new.task {
            return Err(Breach::OverIsFinal);
        }
    }
    outcome(&old.operation, &new.operation)?;
    let goes_back = asked_keys(&new.task)
        .any(|key| closed.contains(key) || old.task.answering.contains_key(key))
        || new.task.answering.keys().any(|key| closed.contains(key));
    if goes_back { Err(Breach::QuestionGoesBack) } else { Ok(()) }
}

/// Whether what is known of an operation may change so.
///
/// # Errors
/// The rule that forbids it.
pub fn outcome(old: &Operation, new: &Operation) -> Result<(), Breach> {
    if !may_be_asked_after(new) {
        return Err(Breach::NothingToAsk);
    }
    match (&old.stage, &new.stage) {
        (Stage::Settled(Outcome::Confirmed(_)), now) if old.stage != *now => Err(Breach::ConfirmedIsFinal),
        (
            Stage::Settled(Outcome::Attested(_)),
            Stage::Settled(Outcome::Attested(_) | Outcome::Confirmed(_)),
        ) => Ok(()),
        (Stage::Settled(Outcome::Attested(_)), _) => Err(Breach::AttestedStays),
        (
            Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. }
            | Stage::Settled(
                Outcome::NoneExpected | Outcome::Reported(_) | Outcome::Assumed | Outcome::Confirmed(_),
            )
            | Stage::Unknown(_),
            _,
        ) => Ok(()),
    }
}

/// A contradiction waits for a person whatever is held.
fn may_be_asked_after(operation: &Operation) -> bool {
    match (operation.inquiry, &operation.stage) {
        (Inquiry::Idle, _)
        | (_, Stage::Unknown(_) | Stage::Settled(Outcome::Reported(_) | Outcome::Assumed))
        | (Inquiry::Person { why: HandOff::Contradiction, .. }, Stage::Settled(_)) => true,
        (
            Inquiry::Reconciling { .. } | Inquiry::Person { .. },
            Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. }
            | Stage::Settled(Outcome::NoneExpected | Outcome::Confirmed(_) | Outcome::Attested(_)),
        ) => false,
    }
}

/// Whether a new operation may take the key over that `entry` has: its task is over or gone, and it is certain that
/// nothing was done (R4.6). What is unknown, open, assumed, or only its server's word keeps its key for good.
///
/// A read-only call did nothing whatever became of it. It gives its key free when it has no answer that another could be
/// given.
#[must_use]
pub fn gives_key_free(entry: &LedgerEntry) -> bool {
    let is_over = entry.kept.is_none_or(|kept| kept.state == StateKind::Over);
    let is_nothing = match &entry.operation.stage {
        Stage::Settled(Outcome::NoneExpected) => entry.kept.is_none_or(|kept| !is_answer(kept.ending)),
        Stage::Settled(
            Outcome::Reported(_) | Outcome::Confirmed(_) | Outcome::Attested(_) | Outcome::Assumed,
        )
        | Stage::Prepared
        | Stage::Dispatched { .. }
        | Stage::Observing { .. }
        | Stage::Unknown(_) => entry.operation.is_surely_undone(),
    };
    is_over && is_nothing
}

/// Whether a task that ended so has an answer of its server's.
fn is_answer(ending: Option<EndingKind>) -> bool {
    match ending {
        Some(EndingKind::Returned | EndingKind::ReturnedError | EndingKind::Raised) => true,
        Some(
            EndingKind::Cancelled
            | EndingKind::FoundApplied
            | EndingKind::FoundNotApplied
            | EndingKind::AssumedNotApplied
            | EndingKind::NeverSent
            | EndingKind::OutcomeUnknown
            | EndingKind::DeadlinePassed
            | EndingKind::UpstreamLost
            | EndingKind::UpstreamFault
            | EndingKind::NoAnswer
            | EndingKind::BudgetSpent,
        )
        | None => false,
    }
}

/// Whether the word of a person that nothing was done gives way to the opposite, and nobody is told of that. Its key may
/// have been given to another operation meanwhile, and then there may be two effects: a store takes such a change only
/// together with one that hands it to a person.
#[must_use]
pub fn overturns(old: &Operation, new: &Operation) -> bool {
    old.stage == Stage::Settled(Outcome::Attested(Verdict::NotApplied))
        && match &new.stage {
            Stage::Settled(Outcome::Attested(Verdict::Applied) | Outcome::Confirmed(Verdict::Applied)) => {
                new.inquiry == Inquiry::Idle && !taskgate_seeded::is(Bug::CorrectionUntold)
            }
            Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. }
            | Stage::Settled(_)
            | Stage::Unknown(_) => false,
        }
}

/// Whether `changes` may happen to a task that is over: there is one terminal event, and none of the task's after it
/// (INV-06).
///
/// # Errors
/// [`Breach::OverIsFinal`]
pub fn after_the_end(changes: &[Change]) -> Result<(), Breach> {
    for change in changes {
        match change {
            Change::Created | Change::Task(_) => return Err(Breach::OverIsFinal),
            Change::Operation(_) | Change::Observed(_) => {}
        }
    }
    Ok(())
}

/// The keys of the questions that are open in `task`, waiting or on their way.
pub fn open_keys(task: &Task) -> impl Iterator<Item = &QuestionKey> {
    asked_keys(task).chain(task.answering.keys())
}

fn asked_keys(task: &Task) -> impl Iterator<Item = &QuestionKey> {
    task.outstanding().into_iter().flat_map(|asked| asked.questions().keys())
}
