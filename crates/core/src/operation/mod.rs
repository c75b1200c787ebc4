//! The domain operation: what the caller wants done in the world, and what is known of whether it was (R4).
//!
//! It is apart from the task, which only says what the receiver reports about executing the request (R4.7). Three facts
//! stay apart: how the task ended, what is known of the effect ([`Outcome`]), and what is being done to learn more
//! ([`Inquiry`]).
//!
//! - [`Operation`]: the state
//! - [`Command`]: what an operation is told; `decide` says what may follow from it
//! - [`Event`]: what happened, with its [`Evidence`]; `apply` folds it in
//! - [`Inquiry`]: the asking after an effect that nobody is certain of

mod apply;
mod command;
mod decide;
mod event;
mod inquiry;
#[cfg(test)]
mod tests;

use alloc::string::String;

use taskgate_seeded::Bug;

pub use self::command::{Attestation, Command, Probed, Receipt, Word};
pub use self::decide::OutOfStage;
pub use self::event::{Event, Evidence, TEXT_BYTES_MAX, Text};
pub use self::inquiry::{Finding, HandOff, Inquiry, Standing};
use crate::time::{Millis, UnixMillis};

/// What a call does to the world, as its operator says. A tool nobody spoke for is [`Effect::Consequential`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Effect {
    /// Nothing: it may be sent any number of times.
    ReadOnly,
    /// Something that can be undone.
    Reversible,
    /// Something that cannot.
    Consequential,
}

/// Whether the operator declared that the same call may be sent again though its outcome is unknown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Replay {
    /// Not declared: never send again.
    Never,
    /// The same request twice has the effect of one.
    Natural,
    /// The server honours our idempotency key for this long after the first dispatch.
    Keyed {
        /// How long.
        window: Millis,
    },
}

/// The task of the back that carries out the operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Upstream {
    /// The back's own task id. Never shown to a client.
    pub task_id: String,
    /// What the back needs to find its session again: an MCP session id, where it had one.
    pub session: Option<String>,
}

/// How far an operation has come.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Recorded; nothing has been sent.
    Prepared,
    /// On its way: from here on it may have happened.
    Dispatched {
        /// When this attempt was sent.
        at: UnixMillis,
    },
    /// The back made a task of its own, which we observe.
    Observing {
        /// When this attempt was sent.
        at: UnixMillis,
        /// The task.
        upstream: Upstream,
    },
    /// Closed, with what is known of the effect.
    Settled(Outcome),
    /// It may or may not have happened; open until somebody finds out (R4.5).
    Unknown(Doubt),
}

/// What is known of the effect once the operation is settled (design 7).
///
/// From the weakest: assumed, reported, attested, confirmed. Each gives way only to a stronger one, and `confirmed` never
/// changes. Nothing but "not applied" is ever assumed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// A read-only call has no effect to speak of.
    NoneExpected,
    /// The peer's word, no more (R4.3).
    Reported(Verdict),
    /// Certain: the call never left us, or the system of record says so.
    Confirmed(Verdict),
    /// A person's word, given with a reason (R4.3).
    Attested(Verdict),
    /// Not applied, for all that look-ups showed; none of them proves it (notes 3.4). A person decides.
    Assumed,
}

impl Outcome {
    /// Whether the effect was made, as far as this goes. `None` where none was expected.
    #[must_use]
    pub fn verdict(self) -> Option<Verdict> {
        match self {
            Outcome::NoneExpected => None,
            Outcome::Reported(verdict) | Outcome::Confirmed(verdict) | Outcome::Attested(verdict) => {
                Some(verdict)
            }
            Outcome::Assumed => Some(Verdict::NotApplied),
        }
    }
}

/// Whether the effect was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// It was.
    Applied,
    /// It was not.
    NotApplied,
}

/// Why nothing certain is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Doubt {
    /// We died, or the connection did, after the call was sent.
    AnswerLost,
    /// The tool said `isError`; that proves neither.
    ToolError,
    /// The back answered with an error that does not say that nothing happened.
    PeerError,
    /// The deadline passed before an answer came.
    DeadlinePassed,
    /// The back lost its own task.
    UpstreamLost,
    /// It was cancelled and no answer came within the grace period.
    Cancelled,
}

/// A domain operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Operation {
    /// What it does to the world.
    pub effect: Effect,
    /// Whether it may be sent again.
    pub replay: Replay,
    /// How far it has come.
    pub stage: Stage,
    /// Attempts dispatched so far.
    pub attempts: u32,
    /// How many of them are confirmed to have done nothing, so that another could be made: see [`Command::Clear`].
    pub cleared: u32,
    /// When the first attempt was dispatched; a replay window counts from here.
    pub first_dispatched_at: Option<UnixMillis>,
    /// When the last attempt's exchange was proved over: its connection closed, its process gone, or ours, which held
    /// it. `None` while nobody can prove that; then a look-up that finds nothing proves nothing (notes 3.4).
    pub closed_at: Option<UnixMillis>,
    /// What is being done to learn more.
    pub inquiry: Inquiry,
    /// The system of record's own name for the effect, once a receipt gave it (R4.1).
    pub receipt: Option<Text>,
}

impl Operation {
    /// A recorded operation of which nothing has been sent.
    #[must_use]
    pub fn new(effect: Effect, replay: Replay) -> Operation {
        Operation {
            effect,
            replay,
            stage: Stage::Prepared,
            attempts: 0,
            cleared: 0,
            first_dispatched_at: None,
            closed_at: None,
            inquiry: Inquiry::Idle,
            receipt: None,
        }
    }

    /// Whether the operator lets an attempt in doubt be sent again, now.
    #[must_use]
    pub fn may_resend(&self, now: UnixMillis) -> bool {
        if taskgate_seeded::is(Bug::RetryUnknown) {
            return true;
        }
        match (self.effect, self.replay) {
            (Effect::ReadOnly, _) | (_, Replay::Natural) => true,
            (_, Replay::Keyed { window }) => {
                self.first_dispatched_at.is_none_or(|first| now.since(first) < window)
            }
            (Effect::Reversible | Effect::Consequential, Replay::Never) => false,
        }
    }

    /// Whether the effect may still come about, or may have come about unknown to us. Two of these on one object are
    /// what a workflow refuses or queues. What is only assumed not to have been done is one of them: the request may still
    /// arrive (notes 3.4), until that is confirmed or a person decides.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self.stage {
            Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. }
            | Stage::Unknown(_)
            | Stage::Settled(Outcome::Assumed) => true,
            Stage::Settled(
                Outcome::NoneExpected | Outcome::Reported(_) | Outcome::Confirmed(_) | Outcome::Attested(_),
            ) => false,
        }
    }

    /// Whether the gateway itself still does something about it: sends, waits, observes or asks. Such an operation is
    /// never purged with its task (INV-30). One that waits for a person is not: it needs no task for that.
    #[must_use]
    pub fn is_active(&self) -> bool {
        match &self.stage {
            Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } => true,
            Stage::Settled(_) | Stage::Unknown(_) => match self.inquiry {
                Inquiry::Reconciling { .. } => true,
                Inquiry::Idle | Inquiry::Person { .. } => false,
            },
        }
    }

    /// Whether it is certain that nothing was done, and nobody disputes that: no byte of it left us, or the system of record
    /// or a person says so. What is only reported or assumed is not certain.
    #[must_use]
    pub fn is_surely_undone(&self) -> bool {
        match (&self.stage, self.inquiry) {
            (
                Stage::Settled(
                    Outcome::Confirmed(Verdict::NotApplied) | Outcome::Attested(Verdict::NotApplied),
                ),
                Inquiry::Idle,
            ) => true,
            (Stage::Settled(Outcome::Reported(Verdict::NotApplied)), _) => {
                taskgate_seeded::is(Bug::WordFreesKey)
            }
            (Stage::Settled(Outcome::Assumed), _) => taskgate_seeded::is(Bug::AssumedFreesKey),
            (Stage::Unknown(_), _) => taskgate_seeded::is(Bug::UnknownFreesKey),
            (Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Settled(_), _) => {
                false
            }
        }
    }

    /// What a look-up asked at `asked` proves when it finds nothing, without a fence: something only once `settle` has
    /// passed since the last attempt's exchange was proved over. `settle` is what the operator says is longer than the
    /// server takes at most; `None` if nobody says.
    ///
    /// # Source
    /// notes 3.4, design 7, R4.5
    #[must_use]
    pub fn standing(&self, asked: UnixMillis, settle: Option<Millis>) -> Standing {
        let is_seeded = taskgate_seeded::is(Bug::SettleFromDispatch);
        let closed_at = if is_seeded { self.first_dispatched_at } else { self.closed_at };
        match (closed_at, settle) {
            (Some(closed), Some(settle)) if asked >= closed && asked.since(closed) >= settle => {
                Standing::Settled
            }
            (Some(_) | None, Some(_) | None) => Standing::Open,
        }
    }
}
