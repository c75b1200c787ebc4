//! The task: what a front shows of a call, and what each command does to it (R3.1).
//!
//! The machine records what happened; the dialects say what to call it. A tool result with `isError` is *failed*
//! in dialect A and *completed* in B (A-044, B-073), so an [`Ending`] keeps the result and the flag. Cancelling is
//! a promise in A and a wish in B (A-088, B-101), so the command carries the rule.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use taskgate_seeded::Bug;

use crate::time::{Millis, UnixMillis};

/// A task's state and everything that the state machine knows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Task {
    /// Where it stands.
    pub state: State,
    /// When a cancellation was asked for that promises nothing (B-101).
    pub cancel_wished_at: Option<UnixMillis>,
    /// What the back last said about its work, cleaned (R6.3).
    pub message: Option<String>,
    /// Questions whose answer is on its way to the back.
    pub answering: BTreeMap<QuestionKey, Question>,
    /// How many question keys were ever given out; the next key follows from it (G-012).
    pub keys_issued: u32,
    /// How long the record lives.
    pub lifetime: Lifetime,
}

/// Where a task stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// The work goes on.
    Working,
    /// The work waits for at least one answer.
    InputRequired(Asked),
    /// Final: nothing changes it any more.
    Over {
        /// How it ended.
        ending: Ending,
        /// When.
        at: UnixMillis,
    },
}

/// How a task ended. What became of the effect in the world is the operation's outcome, never this (R4.7).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Ending {
    /// A promise to cancel was given; later news changes nothing here.
    Cancelled,
    /// The call returned a result.
    Returned {
        /// The result object's bytes, without `resultType` and related-task metadata.
        result: Bytes,
        /// Whether the result says `isError: true`.
        is_error: bool,
    },
    /// The call was answered by a JSON-RPC error.
    Raised {
        /// The error object's bytes, as the back sent them.
        error: Bytes,
    },
    /// We ended it.
    Faulted(Fault),
}

/// Why we ended a task ourselves.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The call never left us; doing it again is safe.
    NeverSent(String),
    /// The call left us and no answer can come any more: it may or may not have happened.
    OutcomeUnknown(String),
    /// The work's deadline passed.
    DeadlinePassed,
    /// The back no longer knows its own task, before its time.
    UpstreamLost,
    /// The back's answers make no sense (G-025).
    UpstreamFault(String),
    /// The client could not answer what the back needs, and there is no form for saying so.
    NoAnswer(String),
    /// A budget was spent (R5.4).
    BudgetSpent(String),
    /// No answer can come any more, and it was found out what became of the effect (design 7).
    Found(Found),
}

/// What was found out of an effect whose answer was lost. What says so stands with the operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Found {
    /// It was made.
    Applied,
    /// It was not, and doing it again is safe.
    NotApplied,
    /// Look-ups found nothing, which proves nothing.
    AssumedNotApplied,
}

/// Names one question for the whole life of the task; never used again (B-092, G-012).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QuestionKey(pub String);

impl QuestionKey {
    /// The key of the `n`th question of a task, from 1.
    fn nth(n: u32) -> QuestionKey {
        QuestionKey(format!("in-{n}"))
    }
}

/// The kind of a question. It is also the class under which the question is recorded (R6.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QuestionKind {
    /// `elicitation/create` in form mode.
    Form,
    /// `elicitation/create` in URL mode: an answer is consent to open the URL, nothing more (R6.4).
    Url,
    /// `sampling/createMessage`.
    Sampling,
    /// `roots/list`.
    Roots,
}

impl QuestionKind {
    /// The method that asks it.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            QuestionKind::Form | QuestionKind::Url => "elicitation/create",
            QuestionKind::Sampling => "sampling/createMessage",
            QuestionKind::Roots => "roots/list",
        }
    }
}

/// One request by the back for something that only the caller has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Question {
    /// What kind it is.
    pub kind: QuestionKind,
    /// The `params` object's bytes, without `task` and related-task metadata. `{}` where the request had none.
    pub params: Bytes,
    /// What the back needs to hear the answer: its own key in dialect B, nothing for a parked request.
    pub back_key: Option<String>,
}

/// The questions that wait: at least one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Asked(BTreeMap<QuestionKey, Question>);

impl Asked {
    /// `None` for an empty map.
    #[must_use]
    pub fn new(questions: BTreeMap<QuestionKey, Question>) -> Option<Asked> {
        if questions.is_empty() { None } else { Some(Asked(questions)) }
    }

    /// All of them, by key.
    #[must_use]
    pub fn questions(&self) -> &BTreeMap<QuestionKey, Question> {
        &self.0
    }
}

/// How long the handle lives. The work's deadline and the retention of evidence are other things (R3.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lifetime {
    /// When the task was made.
    pub created: UnixMillis,
    /// What was promised at creation.
    pub ttl: Millis,
    /// How long a result stays after the end, at least.
    pub linger: Millis,
    /// Never longer than this from `created`.
    pub max: Millis,
}

/// What a task is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// The back asks something.
    Ask(Question),
    /// A client answers the question with this key.
    TakeAnswer(QuestionKey),
    /// The answer has reached the back.
    SettleAnswer(QuestionKey),
    /// The back no longer asks.
    Withdraw(QuestionKey),
    /// The back says how it goes.
    Say(String),
    /// A client wants it stopped.
    Cancel(CancelRule),
    /// It is over.
    End(Ending),
}

/// What a cancellation means in the dialect it came by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CancelRule {
    /// Dialect A: over at once, and refused if already over.
    Promise,
    /// Dialect B: always acknowledged, and nothing promised (B-101, B-105).
    Wish,
}

/// What happened to a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A question was asked under a fresh key.
    Asked {
        /// Its key.
        key: QuestionKey,
        /// What is asked.
        question: Question,
    },
    /// An answer was taken from a client; only this one goes to the back (G-011).
    AnswerTaken {
        /// To which question.
        key: QuestionKey,
    },
    /// The back has the answer.
    AnswerSettled {
        /// To which question.
        key: QuestionKey,
    },
    /// The question is void.
    Withdrawn {
        /// Which one.
        key: QuestionKey,
    },
    /// The back's message changed.
    Said {
        /// The new one.
        message: String,
    },
    /// A cancellation that promises nothing was asked for.
    CancelWished {
        /// When.
        at: UnixMillis,
    },
    /// It ended.
    Ended {
        /// When.
        at: UnixMillis,
        /// How.
        ending: Ending,
    },
}

/// Why a command was not carried out. The task is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The task is final.
    #[error("the task is already over")]
    AlreadyOver,
    /// No such question is open: never asked, answered already, or void (B-096).
    #[error("no such question is outstanding")]
    NotOutstanding,
}

/// An event that cannot follow from the state: the record is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Corrupt {
    /// Something happened after the end.
    #[error("an event follows the end")]
    EventAfterEnd,
    /// An event names a question that is not there, or one that is there already.
    #[error("an event names a question in the wrong phase")]
    QuestionPhase,
}

impl Task {
    /// A new task. Every task begins in `working`.
    #[must_use]
    pub fn new(lifetime: Lifetime) -> Task {
        Task {
            state: State::Working,
            cancel_wished_at: None,
            message: None,
            answering: BTreeMap::new(),
            keys_issued: 0,
            lifetime,
        }
    }

    /// Decides what `command` does at `now`; changes nothing.
    ///
    /// # Errors
    /// A [`Refusal`] says which rule forbids it.
    ///
    /// # Source
    /// B-096, B-101, B-105, G-009, G-011, G-012
    pub fn decide(&self, now: UnixMillis, command: Command) -> Result<Vec<Event>, Refusal> {
        let asked = match &self.state {
            State::Working => None,
            State::InputRequired(asked) => Some(asked),
            State::Over { .. } => return self.decide_over(&command),
        };
        let is_asked = |key| asked.is_some_and(|asked| asked.0.contains_key(key));
        match command {
            Command::Ask(question) => {
                let key = QuestionKey::nth(self.keys_issued + 1);
                Ok(vec![Event::Asked { key, question }])
            }
            Command::TakeAnswer(key) if is_asked(&key) => Ok(vec![Event::AnswerTaken { key }]),
            Command::TakeAnswer(key)
                if self.answering.contains_key(&key) && taskgate_seeded::is(Bug::AnsweredTwice) =>
            {
                Ok(vec![Event::AnswerTaken { key }])
            }
            Command::SettleAnswer(key) if self.answering.contains_key(&key) => {
                Ok(vec![Event::AnswerSettled { key }])
            }
            Command::Withdraw(key) if is_asked(&key) || self.answering.contains_key(&key) => {
                Ok(vec![Event::Withdrawn { key }])
            }
            Command::TakeAnswer(_) | Command::SettleAnswer(_) | Command::Withdraw(_) => {
                Err(Refusal::NotOutstanding)
            }
            Command::Say(message) if self.message.as_ref() == Some(&message) => Ok(vec![]),
            Command::Say(message) => Ok(vec![Event::Said { message }]),
            Command::Cancel(CancelRule::Wish) if self.cancel_wished_at.is_some() => Ok(vec![]),
            Command::Cancel(CancelRule::Wish) => Ok(vec![Event::CancelWished { at: now }]),
            Command::Cancel(CancelRule::Promise) => {
                Ok(vec![Event::Ended { at: now, ending: Ending::Cancelled }])
            }
            Command::End(ending) => Ok(vec![Event::Ended { at: now, ending }]),
        }
    }

    fn decide_over(&self, command: &Command) -> Result<Vec<Event>, Refusal> {
        match command {
            Command::End(ending) if taskgate_seeded::is(Bug::EndsTwice) => {
                Ok(vec![Event::Ended { at: UnixMillis::default(), ending: ending.clone() }])
            }
            Command::Cancel(CancelRule::Wish) => Ok(vec![]),
            Command::Ask(_) | Command::Say(_) | Command::Cancel(CancelRule::Promise) | Command::End(_) => {
                Err(Refusal::AlreadyOver)
            }
            Command::TakeAnswer(_) | Command::SettleAnswer(_) | Command::Withdraw(_) => {
                Err(Refusal::NotOutstanding)
            }
        }
    }

    /// Folds one recorded event in.
    ///
    /// # Errors
    /// [`Corrupt`]: the event cannot have happened here.
    pub fn apply(&mut self, event: &Event) -> Result<(), Corrupt> {
        let mut asked = match &mut self.state {
            State::Working => BTreeMap::new(),
            State::InputRequired(asked) => core::mem::take(&mut asked.0),
            State::Over { .. } => return Err(Corrupt::EventAfterEnd),
        };
        let mut verdict = Ok(());
        match event {
            Event::Asked { key, question } => {
                if asked.insert(key.clone(), question.clone()).is_some() {
                    verdict = Err(Corrupt::QuestionPhase);
                }
                self.keys_issued += 1;
            }
            Event::AnswerTaken { key } => match asked.remove(key) {
                Some(question) => {
                    self.answering.insert(key.clone(), question);
                }
                None => verdict = Err(Corrupt::QuestionPhase),
            },
            Event::AnswerSettled { key } => {
                if self.answering.remove(key).is_none() {
                    verdict = Err(Corrupt::QuestionPhase);
                }
            }
            Event::Withdrawn { key } => {
                if asked.remove(key).or_else(|| self.answering.remove(key)).is_none() {
                    verdict = Err(Corrupt::QuestionPhase);
                }
            }
            Event::Said { message } => self.message = Some(message.clone()),
            Event::CancelWished { at } => {
                self.cancel_wished_at.get_or_insert(*at);
            }
            Event::Ended { at, ending } => {
                self.answering.clear();
                self.state = State::Over { ending: ending.clone(), at: *at };
                return verdict;
            }
        }
        self.state = Asked::new(asked).map_or(State::Working, State::InputRequired);
        verdict
    }

    /// The questions that wait, none if there are none.
    #[must_use]
    pub fn outstanding(&self) -> Option<&Asked> {
        match &self.state {
            State::InputRequired(asked) => Some(asked),
            State::Working | State::Over { .. } => None,
        }
    }

    /// The keys that were given out since `before` had been, in the order of their questions.
    pub fn keys_since(&self, before: u32) -> impl Iterator<Item = QuestionKey> + use<> {
        (before + 1..=self.keys_issued).map(QuestionKey::nth)
    }

    /// The ending, once there is one.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        match &self.state {
            State::Over { ending, .. } => Some(ending),
            State::Working | State::InputRequired(_) => None,
        }
    }

    /// When the record may go. `None` while it is not over: running work is never dropped (R3.6).
    ///
    /// # Source
    /// A-093, B-163, G-023; design 8: the later of `created + ttl` and `ended + linger`, within the maximum, and
    /// never before what was promised.
    #[must_use]
    pub fn expires(&self) -> Option<UnixMillis> {
        match &self.state {
            State::Working | State::InputRequired(_) => None,
            State::Over { at, .. } => Some(self.lifetime.created + self.lifetime.span(*at)),
        }
    }

    /// The lifetime to show at `now`, counted from creation. It only grows while the work runs (A-038, B-086).
    #[must_use]
    pub fn ttl(&self, now: UnixMillis) -> Millis {
        match &self.state {
            State::Working | State::InputRequired(_) => self.lifetime.span(now),
            State::Over { at, .. } => self.lifetime.span(*at),
        }
    }
}

impl Lifetime {
    fn span(&self, at: UnixMillis) -> Millis {
        let lingering = (at.since(self.created) + self.linger).min(self.max);
        self.ttl.max(lingering)
    }
}

#[cfg(test)]
mod tests;
