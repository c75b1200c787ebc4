//! The domain operation: what the caller wants done in the world, and what is known of whether it was (R4).
//!
//! It is apart from the task, which only says what the receiver reports about executing the request (R4.7).

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upstream {
    /// The back's own task id. Never shown to a client.
    pub task_id: String,
    /// What the back needs to find its session again: an MCP session id, where it had one.
    pub session: Option<String>,
}

/// How far an operation has come.
#[derive(Clone, PartialEq, Eq, Debug)]
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

/// What is known of the effect once the operation is settled. `confirmed` never changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// A read-only call has no effect to speak of.
    NoneExpected,
    /// The peer's word, no more (R4.3).
    Reported(Verdict),
    /// Certain: the call never left us.
    Confirmed(Verdict),
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
}

/// What happened to an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An attempt was made durable and may now be sent.
    Dispatched {
        /// When.
        at: UnixMillis,
    },
    /// The back's task is known.
    Accepted {
        /// Which.
        upstream: Upstream,
    },
    /// It is closed.
    Settled {
        /// With this.
        outcome: Outcome,
    },
    /// Nothing certain can be said.
    Doubted {
        /// Why.
        doubt: Doubt,
    },
}

/// A command that does not fit the stage. The operation is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the operation is not at a stage where this can happen")]
pub struct OutOfStage;

/// A domain operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// What it does to the world.
    pub effect: Effect,
    /// Whether it may be sent again.
    pub replay: Replay,
    /// How far it has come.
    pub stage: Stage,
    /// Attempts dispatched so far.
    pub attempts: u32,
    /// When the first attempt was dispatched; a replay window counts from here.
    pub first_dispatched_at: Option<UnixMillis>,
}

impl Operation {
    /// A recorded operation of which nothing has been sent.
    #[must_use]
    pub fn new(effect: Effect, replay: Replay) -> Operation {
        Operation { effect, replay, stage: Stage::Prepared, attempts: 0, first_dispatched_at: None }
    }

    /// Decides what `command` does at `now`; changes nothing.
    ///
    /// # Errors
    /// [`OutOfStage`]: for instance a second dispatch while the first may still arrive (R4.5).
    ///
    /// # Source
    /// design 7; notes 2.3
    pub fn decide(&self, now: UnixMillis, command: Command) -> Result<Vec<Event>, OutOfStage> {
        match (&self.stage, command) {
            (Stage::Prepared, Command::Dispatch) => Ok(vec![Event::Dispatched { at: now }]),
            (Stage::Dispatched { .. } | Stage::Unknown(_), Command::Dispatch) if self.may_resend(now) => {
                Ok(vec![Event::Dispatched { at: now }])
            }
            (Stage::Dispatched { .. }, Command::Accept(upstream)) => Ok(vec![Event::Accepted { upstream }]),
            (Stage::Dispatched { .. } | Stage::Observing { .. }, Command::Hear(word)) => {
                Ok(vec![self.heard(word)])
            }
            // Only the first attempt's failure to leave proves anything: an earlier one may have arrived.
            (Stage::Dispatched { .. }, Command::NeverSent) if self.attempts > 1 => {
                Ok(vec![self.lost(Doubt::AnswerLost)])
            }
            (Stage::Prepared | Stage::Dispatched { .. }, Command::NeverSent) => Ok(vec![Event::Settled {
                outcome: self.unless_read_only(Outcome::Confirmed(Verdict::NotApplied)),
            }]),
            (Stage::Dispatched { .. } | Stage::Observing { .. }, Command::Lose(doubt)) => {
                Ok(vec![self.lost(doubt)])
            }
            // A late answer is still the best word there is on an effect in doubt.
            (Stage::Unknown(_), Command::Hear(word)) => Ok(vec![self.heard(word)]),
            (Stage::Prepared, Command::Accept(_) | Command::Hear(_) | Command::Lose(_))
            | (Stage::Dispatched { .. }, Command::Dispatch)
            | (Stage::Observing { .. }, Command::Dispatch | Command::Accept(_) | Command::NeverSent)
            | (
                Stage::Unknown(_),
                Command::Dispatch | Command::Accept(_) | Command::NeverSent | Command::Lose(_),
            )
            | (
                Stage::Settled(_),
                Command::Dispatch
                | Command::Accept(_)
                | Command::Hear(_)
                | Command::NeverSent
                | Command::Lose(_),
            ) => Err(OutOfStage),
        }
    }

    /// Folds one recorded event in.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Dispatched { at } => {
                self.stage = Stage::Dispatched { at: *at };
                self.attempts += 1;
                self.first_dispatched_at.get_or_insert(*at);
            }
            Event::Accepted { upstream } => {
                let at = match &self.stage {
                    Stage::Dispatched { at } | Stage::Observing { at, .. } => *at,
                    Stage::Prepared | Stage::Settled(_) | Stage::Unknown(_) => UnixMillis::default(),
                };
                self.stage = Stage::Observing { at, upstream: upstream.clone() };
            }
            Event::Settled { outcome } => self.stage = Stage::Settled(*outcome),
            Event::Doubted { doubt } => self.stage = Stage::Unknown(*doubt),
        }
    }

    /// Whether the operator lets an attempt in doubt be sent again, now.
    #[must_use]
    pub fn may_resend(&self, now: UnixMillis) -> bool {
        match (self.effect, self.replay) {
            (Effect::ReadOnly, _) | (_, Replay::Natural) => true,
            (_, Replay::Keyed { window }) => {
                self.first_dispatched_at.is_none_or(|first| now.since(first) < window)
            }
            (Effect::Reversible | Effect::Consequential, Replay::Never) => false,
        }
    }

    /// Whether the ledger still waits for something: such an operation is never purged with its task (R4.8).
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self.stage {
            Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Unknown(_) => true,
            Stage::Settled(_) => false,
        }
    }

    fn heard(&self, word: Word) -> Event {
        match word {
            Word::Success => {
                Event::Settled { outcome: self.unless_read_only(Outcome::Reported(Verdict::Applied)) }
            }
            Word::NotUnderstood => {
                Event::Settled { outcome: self.unless_read_only(Outcome::Reported(Verdict::NotApplied)) }
            }
            Word::ToolError => self.lost(Doubt::ToolError),
            Word::OtherError => self.lost(Doubt::PeerError),
        }
    }

    fn lost(&self, doubt: Doubt) -> Event {
        match self.effect {
            Effect::ReadOnly => Event::Settled { outcome: Outcome::NoneExpected },
            Effect::Reversible | Effect::Consequential => Event::Doubted { doubt },
        }
    }

    fn unless_read_only(&self, outcome: Outcome) -> Outcome {
        match self.effect {
            Effect::ReadOnly => Outcome::NoneExpected,
            Effect::Reversible | Effect::Consequential => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use core::fmt::Write;

    use super::*;

    fn upstream() -> Upstream {
        Upstream { task_id: "up-1".to_string(), session: None }
    }

    /// Every stage against every command, for each way that an effect may be repeated.
    #[test]
    fn r4_5_every_stage_against_every_command() {
        let mut table = String::new();
        let kinds = [
            ("read_only", Effect::ReadOnly, Replay::Never),
            ("consequential", Effect::Consequential, Replay::Never),
            ("consequential, natural", Effect::Consequential, Replay::Natural),
            ("consequential, keyed 1 s", Effect::Consequential, Replay::Keyed { window: Millis(1_000) }),
        ];
        let stages = [
            Stage::Prepared,
            Stage::Dispatched { at: UnixMillis(1_000) },
            Stage::Observing { at: UnixMillis(1_000), upstream: upstream() },
            Stage::Settled(Outcome::Reported(Verdict::Applied)),
            Stage::Unknown(Doubt::AnswerLost),
        ];
        let commands = [
            Command::Dispatch,
            Command::Accept(upstream()),
            Command::Hear(Word::Success),
            Command::Hear(Word::ToolError),
            Command::Hear(Word::NotUnderstood),
            Command::Hear(Word::OtherError),
            Command::NeverSent,
            Command::Lose(Doubt::AnswerLost),
        ];
        for (name, effect, replay) in kinds {
            for stage in &stages {
                writeln!(table, "## {name}: {stage:?}").unwrap();
                for command in &commands {
                    let attempts = u32::from(*stage != Stage::Prepared);
                    let operation = Operation {
                        effect,
                        replay,
                        stage: stage.clone(),
                        attempts,
                        first_dispatched_at: (attempts > 0).then_some(UnixMillis(1_000)),
                    };
                    let text = match operation.decide(UnixMillis(1_500), command.clone()) {
                        Ok(events) => alloc::format!("{events:?}"),
                        Err(_) => "refused".to_string(),
                    };
                    writeln!(table, "{command:?}: {text}").unwrap();
                }
            }
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn inv_12_a_keyed_resend_ends_with_the_window() {
        let mut operation = Operation::new(Effect::Consequential, Replay::Keyed { window: Millis(1_000) });
        for event in operation.decide(UnixMillis(0), Command::Dispatch).unwrap() {
            operation.apply(&event);
        }
        assert!(operation.decide(UnixMillis(999), Command::Dispatch).is_ok());
        assert_eq!(operation.decide(UnixMillis(1_000), Command::Dispatch), Err(OutOfStage));
    }

    #[test]
    fn r4_5_a_second_attempt_that_never_left_proves_nothing_about_the_first() {
        let mut operation = Operation::new(Effect::Consequential, Replay::Natural);
        for _ in 0..2 {
            for event in operation.decide(UnixMillis(0), Command::Dispatch).unwrap() {
                operation.apply(&event);
            }
        }
        assert_eq!(
            operation.decide(UnixMillis(1), Command::NeverSent),
            Ok(vec![Event::Doubted { doubt: Doubt::AnswerLost }])
        );
    }
}
