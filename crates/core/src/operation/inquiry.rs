//! The asking after an effect that nobody is certain of.

use crate::time::UnixMillis;

/// What is being done to learn more of the effect.
///
/// Only an unknown, a reported or an assumed outcome is asked after. A contradiction waits for a person whatever the
/// outcome.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Inquiry {
    /// Nothing.
    #[default]
    Idle,
    /// The system of record is asked.
    Reconciling {
        /// Since when; its budget counts from here (R5.4).
        since: UnixMillis,
        /// Look-ups made.
        tries: u32,
        /// When the next is due.
        next: UnixMillis,
        /// What the last found.
        last: Option<Finding>,
    },
    /// A person is to decide.
    Person {
        /// Since when.
        since: UnixMillis,
        /// Why.
        why: HandOff,
    },
}

/// Why a person is to decide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HandOff {
    /// The operator declared no way to find out.
    NoRule,
    /// The reconciliation budget is spent (R5.4).
    BudgetSpent,
    /// Look-ups found nothing, and that proves nothing (notes 3.4).
    Assumed,
    /// One source says the opposite of another.
    Contradiction,
    /// The rule that would decide failed.
    RuleFailed,
    /// A person asked for it.
    Wished,
}

/// What a probe found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Finding {
    /// The system of record has the effect.
    Applied,
    /// It has not.
    NotApplied(Standing),
    /// Its answer says neither.
    Unclear,
    /// There was no answer, or the rule that reads it failed. It decides nothing (R5.6).
    Failed,
}

/// What it proves that a look-up found nothing: the first request may still be on its way (R4.5, notes 3.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Standing {
    /// The server was told to void the requests that were sent so far, and agreed: it confirms.
    Fenced,
    /// Everything that could still have arrived has had its time: it confirms.
    Settled,
    /// Nothing.
    Open,
}
