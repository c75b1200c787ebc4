//! What an operation is told.

use super::{Doubt, Finding, HandOff, Standing, Text, Upstream, Verdict};
use crate::time::Millis;

/// What the back's answer means for the effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Word {
    /// A result without `isError`.
    Success,
    /// A result with `isError`.
    ToolError,
    /// `-32601` or `-32602`: the call was not understood, so it was not carried out.
    NotUnderstood,
    /// Any other JSON-RPC error.
    OtherError,
}

impl Word {
    /// What it says of the effect, if it says anything.
    #[must_use]
    pub fn verdict(self) -> Option<Verdict> {
        match self {
            Word::Success => Some(Verdict::Applied),
            Word::NotUnderstood => Some(Verdict::NotApplied),
            Word::ToolError | Word::OtherError => None,
        }
    }
}

/// Proof issued by the system of record, accepted by the workflow's rule (R4.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Its own name for the effect: a transaction id, a commit.
    pub reference: Text,
    /// What it proves.
    pub verdict: Verdict,
}

/// What a probe of the system of record came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probed {
    /// What it found.
    pub finding: Finding,
    /// In its own words, for the history.
    pub what: Text,
    /// How long to wait before the next, if this one decides nothing.
    pub again: Millis,
}

/// What a person says happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attestation {
    /// Whether the effect was made.
    pub verdict: Verdict,
    /// Who says so.
    pub name: Text,
    /// How they know.
    pub reason: Text,
}

/// What an operation is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// It is about to be sent.
    Dispatch,
    /// The back made a task.
    Accept(Upstream),
    /// The back answered.
    Hear(Word),
    /// Proof that no byte of it left us.
    NeverSent,
    /// No answer can come any more.
    Lose(Doubt),
    /// The attempt is over by the back's word that a URL must be visited first, and that was done: begin another, if the
    /// operator lets it be sent again (G-022).
    Repeat,
    /// The last attempt's exchange is proved over: from now on nothing of it can still be sent.
    Close,
    /// A receipt that the workflow's rule accepts.
    Receive(Receipt),
    /// Ask the system of record, first after this long. From a person's list it goes back to asking, with a fresh budget.
    Reconcile {
        /// How long to wait before the first look-up.
        first: Millis,
    },
    /// A look-up was made.
    Probed(Probed),
    /// Asking is over, or there is nobody to ask: a person decides. What only negative look-ups speak for becomes
    /// [`Outcome::Assumed`](super::Outcome::Assumed).
    HandOff {
        /// Why.
        why: HandOff,
        /// What a person should know beyond that.
        note: Option<Text>,
    },
    /// A person says what happened.
    Attest(Attestation),
    /// A person says what happened in the place of what a person said before; as [`Command::Attest`] where nobody did. It
    /// corrects nothing that is confirmed.
    Correct(Attestation),
    /// The attempts so far are confirmed to have done nothing, and the workflow lets the operation be sent again: same
    /// operation, same key (notes 2.3). A look-up whose standing is [`Standing::Open`] clears nothing.
    Clear {
        /// What the negative look-up proves.
        standing: Standing,
        /// In its own words.
        what: Text,
    },
    /// Something to be remembered that changes nothing: a rule that failed.
    Note(Text),
}
