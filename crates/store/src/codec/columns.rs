//! Tasks and operations as flat columns. `T` is `&str` on the way in and `String` on the way out.

use std::collections::BTreeMap;

use bytes::Bytes;
use taskgate_core::operation::{self, Doubt, Evidence, Inquiry, Operation, Replay, Stage, Upstream};
use taskgate_core::task::{Asked, Ending, Fault, Found, Lifetime, Question, QuestionKey, State, Task};
use taskgate_core::time::{Millis, UnixMillis};

use crate::Error;
use crate::codec::{Code, Place, QuestionPhase, codes, signed};
use crate::record::Change;

/// Where a task stands, without what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateKind {
    /// [`State::Working`]
    Working,
    /// [`State::InputRequired`]
    InputRequired,
    /// [`State::Over`]
    Over,
}

codes!(StateKind {
    [StateKind::Working] 0 "working"
    [StateKind::InputRequired] 1 "input_required"
    [StateKind::Over] 2 "over"
});

impl StateKind {
    /// That of `state`.
    #[must_use]
    pub fn of(state: &State) -> StateKind {
        match state {
            State::Working => StateKind::Working,
            State::InputRequired(_) => StateKind::InputRequired,
            State::Over { .. } => StateKind::Over,
        }
    }
}

/// How a task ended, without what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EndingKind {
    /// [`Ending::Cancelled`]
    Cancelled,
    /// [`Ending::Returned`] without `isError`
    Returned,
    /// [`Ending::Returned`] with `isError`
    ReturnedError,
    /// [`Ending::Raised`]
    Raised,
    /// [`Found::Applied`]
    FoundApplied,
    /// [`Found::NotApplied`]
    FoundNotApplied,
    /// [`Found::AssumedNotApplied`]
    AssumedNotApplied,
    /// [`Fault::NeverSent`]
    NeverSent,
    /// [`Fault::OutcomeUnknown`]
    OutcomeUnknown,
    /// [`Fault::DeadlinePassed`]
    DeadlinePassed,
    /// [`Fault::UpstreamLost`]
    UpstreamLost,
    /// [`Fault::UpstreamFault`]
    UpstreamFault,
    /// [`Fault::NoAnswer`]
    NoAnswer,
    /// [`Fault::BudgetSpent`]
    BudgetSpent,
}

codes!(EndingKind {
    [EndingKind::Cancelled] 0 "cancelled"
    [EndingKind::Returned] 1 "returned"
    [EndingKind::ReturnedError] 2 "returned_error"
    [EndingKind::Raised] 3 "raised"
    [EndingKind::FoundApplied] 4 "found_applied"
    [EndingKind::FoundNotApplied] 5 "found_not_applied"
    [EndingKind::AssumedNotApplied] 6 "assumed_not_applied"
    [EndingKind::NeverSent] 10 "never_sent"
    [EndingKind::OutcomeUnknown] 11 "outcome_unknown"
    [EndingKind::DeadlinePassed] 12 "deadline_passed"
    [EndingKind::UpstreamLost] 13 "upstream_lost"
    [EndingKind::UpstreamFault] 14 "upstream_fault"
    [EndingKind::NoAnswer] 15 "no_answer"
    [EndingKind::BudgetSpent] 16 "budget_spent"
});

/// An ending taken apart: its kind, our own words, and the payload that lives elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct EndingColumns<'a> {
    /// The kind.
    pub kind: EndingKind,
    /// The text of a [`Fault`] that has one.
    pub text: Option<&'a str>,
    /// The back's own bytes.
    pub payload: Option<&'a Bytes>,
}

impl<'a> EndingColumns<'a> {
    /// Takes `ending` apart.
    #[must_use]
    pub fn of(ending: &'a Ending) -> EndingColumns<'a> {
        let (kind, text, payload) = match ending {
            Ending::Cancelled => (EndingKind::Cancelled, None, None),
            Ending::Returned { result, is_error: false } => (EndingKind::Returned, None, Some(result)),
            Ending::Returned { result, is_error: true } => (EndingKind::ReturnedError, None, Some(result)),
            Ending::Raised { error } => (EndingKind::Raised, None, Some(error)),
            Ending::Faulted(fault) => {
                let (kind, text) = match fault {
                    Fault::NeverSent(text) => (EndingKind::NeverSent, Some(text)),
                    Fault::OutcomeUnknown(text) => (EndingKind::OutcomeUnknown, Some(text)),
                    Fault::DeadlinePassed => (EndingKind::DeadlinePassed, None),
                    Fault::UpstreamLost => (EndingKind::UpstreamLost, None),
                    Fault::UpstreamFault(text) => (EndingKind::UpstreamFault, Some(text)),
                    Fault::NoAnswer(text) => (EndingKind::NoAnswer, Some(text)),
                    Fault::BudgetSpent(text) => (EndingKind::BudgetSpent, Some(text)),
                    Fault::Found(Found::Applied) => (EndingKind::FoundApplied, None),
                    Fault::Found(Found::NotApplied) => (EndingKind::FoundNotApplied, None),
                    Fault::Found(Found::AssumedNotApplied) => (EndingKind::AssumedNotApplied, None),
                };
                (kind, text.map(String::as_str), None)
            }
        };
        EndingColumns { kind, text, payload }
    }
}

/// A task without its questions and payloads.
#[derive(Clone, Debug)]
pub struct TaskColumns<T> {
    /// [`StateKind`]
    pub state: i64,
    /// [`EndingKind`], once it is over.
    pub ending: Option<i64>,
    /// The text of a [`Fault`] that has one.
    pub ending_text: Option<T>,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// When a cancellation that promises nothing was asked for.
    pub cancel_wished_ms: Option<i64>,
    /// What the back last said.
    pub message: Option<T>,
    /// How many question keys were given out.
    pub keys_issued: i64,
    /// When it was made.
    pub created_ms: i64,
    /// [`Lifetime::ttl`]
    pub ttl_ms: i64,
    /// [`Lifetime::linger`]
    pub linger_ms: i64,
    /// [`Lifetime::max`]
    pub max_ms: i64,
    /// When it may go, once it is over.
    pub expires_ms: Option<i64>,
}

impl<'a> TaskColumns<&'a str> {
    /// Takes `task` apart.
    #[must_use]
    pub fn of(task: &'a Task) -> Self {
        let (ending, ended_ms) = match &task.state {
            State::Working | State::InputRequired(_) => (None, None),
            State::Over { ending, at } => (Some(EndingColumns::of(ending)), Some(at.0)),
        };
        TaskColumns {
            state: StateKind::of(&task.state).code(),
            ending: ending.map(|ending| ending.kind.code()),
            ending_text: ending.and_then(|ending| ending.text),
            ended_ms,
            cancel_wished_ms: task.cancel_wished_at.map(|at| at.0),
            message: task.message.as_deref(),
            keys_issued: i64::from(task.keys_issued),
            created_ms: task.lifetime.created.0,
            ttl_ms: signed(task.lifetime.ttl.0),
            linger_ms: signed(task.lifetime.linger.0),
            max_ms: signed(task.lifetime.max.0),
            expires_ms: task.expires().map(|at| at.0),
        }
    }
}

impl TaskColumns<String> {
    /// Puts a task together again.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for what no task can be.
    pub fn task(
        self,
        place: Place<'_>,
        questions: Vec<(QuestionKey, QuestionPhase, Question)>,
        payload: Option<Bytes>,
    ) -> Result<Task, Error> {
        let mut asked = BTreeMap::new();
        let mut answering = BTreeMap::new();
        for (key, phase, question) in questions {
            match phase {
                QuestionPhase::Asked => asked.insert(key, question),
                QuestionPhase::Answering => answering.insert(key, question),
                QuestionPhase::Closed => None,
            };
        }
        let state = match (place.code("state", self.state)?, Asked::new(asked)) {
            (StateKind::Working, None) => State::Working,
            (StateKind::InputRequired, Some(asked)) => State::InputRequired(asked),
            (StateKind::Over, None) => {
                let kind = place.code("ending", place.some("ending", self.ending)?)?;
                let at = UnixMillis(place.some("ended_ms", self.ended_ms)?);
                State::Over { ending: ending(place, kind, self.ending_text, payload)?, at }
            }
            (StateKind::Working | StateKind::Over, Some(_)) | (StateKind::InputRequired, None) => {
                return Err(place.corrupt("state"));
            }
        };
        Ok(Task {
            state,
            cancel_wished_at: self.cancel_wished_ms.map(UnixMillis),
            message: self.message,
            answering,
            keys_issued: place.count("keys_issued", self.keys_issued)?,
            lifetime: Lifetime {
                created: UnixMillis(self.created_ms),
                ttl: Millis(place.count("ttl_ms", self.ttl_ms)?),
                linger: Millis(place.count("linger_ms", self.linger_ms)?),
                max: Millis(place.count("max_ms", self.max_ms)?),
            },
        })
    }
}

fn ending(
    place: Place<'_>,
    kind: EndingKind,
    text: Option<String>,
    payload: Option<Bytes>,
) -> Result<Ending, Error> {
    let text = || place.some("ending_text", text);
    let payload = || place.some("ending", payload);
    Ok(match kind {
        EndingKind::Cancelled => Ending::Cancelled,
        EndingKind::Returned => Ending::Returned { result: payload()?, is_error: false },
        EndingKind::ReturnedError => Ending::Returned { result: payload()?, is_error: true },
        EndingKind::Raised => Ending::Raised { error: payload()? },
        EndingKind::FoundApplied => Ending::Faulted(Fault::Found(Found::Applied)),
        EndingKind::FoundNotApplied => Ending::Faulted(Fault::Found(Found::NotApplied)),
        EndingKind::AssumedNotApplied => Ending::Faulted(Fault::Found(Found::AssumedNotApplied)),
        EndingKind::NeverSent => Ending::Faulted(Fault::NeverSent(text()?)),
        EndingKind::OutcomeUnknown => Ending::Faulted(Fault::OutcomeUnknown(text()?)),
        EndingKind::DeadlinePassed => Ending::Faulted(Fault::DeadlinePassed),
        EndingKind::UpstreamLost => Ending::Faulted(Fault::UpstreamLost),
        EndingKind::UpstreamFault => Ending::Faulted(Fault::UpstreamFault(text()?)),
        EndingKind::NoAnswer => Ending::Faulted(Fault::NoAnswer(text()?)),
        EndingKind::BudgetSpent => Ending::Faulted(Fault::BudgetSpent(text()?)),
    })
}

/// How an operation may be repeated, without its window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReplayKind {
    /// [`Replay::Never`]
    Never,
    /// [`Replay::Natural`]
    Natural,
    /// [`Replay::Keyed`]
    Keyed,
}

codes!(ReplayKind {
    [ReplayKind::Never] 0 "never"
    [ReplayKind::Natural] 1 "natural"
    [ReplayKind::Keyed] 2 "keyed"
});

/// How far an operation has come, without what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StageKind {
    /// [`Stage::Prepared`]
    Prepared,
    /// [`Stage::Dispatched`]
    Dispatched,
    /// [`Stage::Observing`]
    Observing,
    /// [`Stage::Settled`]
    Settled,
    /// [`Stage::Unknown`]
    Unknown,
}

codes!(StageKind {
    [StageKind::Prepared] 0 "prepared"
    [StageKind::Dispatched] 1 "dispatched"
    [StageKind::Observing] 2 "observing"
    [StageKind::Settled] 3 "settled"
    [StageKind::Unknown] 4 "unknown"
});

/// What is being done to learn more, without what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InquiryKind {
    /// [`Inquiry::Idle`]
    Idle,
    /// [`Inquiry::Reconciling`]
    Reconciling,
    /// [`Inquiry::Person`]
    Person,
}

codes!(InquiryKind {
    [InquiryKind::Idle] 0 "idle"
    [InquiryKind::Reconciling] 1 "reconciling"
    [InquiryKind::Person] 2 "person"
});

/// An operation, flat.
#[derive(Clone, Debug)]
pub struct OperationColumns<T> {
    /// [`Effect`](operation::Effect)
    pub effect: i64,
    /// [`ReplayKind`]
    pub replay: i64,
    /// The window of [`Replay::Keyed`].
    pub replay_window_ms: Option<i64>,
    /// [`StageKind`]
    pub stage: i64,
    /// Attempts dispatched so far.
    pub attempts: i64,
    /// When the first was.
    pub first_dispatched_ms: Option<i64>,
    /// When the running one was.
    pub dispatched_ms: Option<i64>,
    /// The back's task.
    pub upstream_task: Option<T>,
    /// The session in which the back knows it.
    pub upstream_session: Option<T>,
    /// [`Outcome`], once settled.
    pub outcome: Option<i64>,
    /// [`Doubt`], while unknown.
    pub doubt: Option<i64>,
    /// Attempts that did nothing for certain.
    pub cleared: i64,
    /// When the last attempt's exchange was proved over.
    pub closed_ms: Option<i64>,
    /// [`InquiryKind`]
    pub inquiry: i64,
    /// Since when it is asked after, or a person is to decide.
    pub inquiry_since_ms: Option<i64>,
    /// Look-ups made.
    pub inquiry_tries: Option<i64>,
    /// When the next is due.
    pub inquiry_next_ms: Option<i64>,
    /// The last [`Finding`](operation::Finding), while the system of record is asked.
    pub inquiry_last: Option<i64>,
    /// [`HandOff`](operation::HandOff), while a person is to decide.
    pub inquiry_why: Option<i64>,
    /// The system of record's own name for the effect.
    pub receipt: Option<T>,
}

impl<'a> OperationColumns<&'a str> {
    /// Takes `operation` apart.
    #[must_use]
    pub fn of(operation: &'a Operation) -> Self {
        let (replay, window) = match operation.replay {
            Replay::Never => (ReplayKind::Never, None),
            Replay::Natural => (ReplayKind::Natural, None),
            Replay::Keyed { window } => (ReplayKind::Keyed, Some(signed(window.0))),
        };
        let mut columns = OperationColumns {
            effect: operation.effect.code(),
            replay: replay.code(),
            replay_window_ms: window,
            stage: 0,
            attempts: i64::from(operation.attempts),
            first_dispatched_ms: operation.first_dispatched_at.map(|at| at.0),
            dispatched_ms: None,
            upstream_task: None,
            upstream_session: None,
            outcome: None,
            doubt: None,
            cleared: i64::from(operation.cleared),
            closed_ms: operation.closed_at.map(|at| at.0),
            inquiry: InquiryKind::Idle.code(),
            inquiry_since_ms: None,
            inquiry_tries: None,
            inquiry_next_ms: None,
            inquiry_last: None,
            inquiry_why: None,
            receipt: operation.receipt.as_ref().map(operation::Text::as_str),
        };
        let stage = match &operation.stage {
            Stage::Prepared => StageKind::Prepared,
            Stage::Dispatched { at } => {
                columns.dispatched_ms = Some(at.0);
                StageKind::Dispatched
            }
            Stage::Observing { at, upstream } => {
                columns.dispatched_ms = Some(at.0);
                columns.upstream_task = Some(upstream.task_id.as_str());
                columns.upstream_session = upstream.session.as_deref();
                StageKind::Observing
            }
            Stage::Settled(outcome) => {
                columns.outcome = Some(outcome.code());
                StageKind::Settled
            }
            Stage::Unknown(doubt) => {
                columns.doubt = Some(doubt.code());
                StageKind::Unknown
            }
        };
        columns.stage = stage.code();
        match operation.inquiry {
            Inquiry::Idle => {}
            Inquiry::Reconciling { since, tries, next, last } => {
                columns.inquiry = InquiryKind::Reconciling.code();
                columns.inquiry_since_ms = Some(since.0);
                columns.inquiry_tries = Some(i64::from(tries));
                columns.inquiry_next_ms = Some(next.0);
                columns.inquiry_last = last.map(Code::code);
            }
            Inquiry::Person { since, why } => {
                columns.inquiry = InquiryKind::Person.code();
                columns.inquiry_since_ms = Some(since.0);
                columns.inquiry_why = Some(why.code());
            }
        }
        columns
    }
}

impl OperationColumns<String> {
    /// Puts an operation together again.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for what no operation can be.
    pub fn operation(self, place: Place<'_>) -> Result<Operation, Error> {
        let dispatched = || place.some("dispatched_ms", self.dispatched_ms).map(UnixMillis);
        let replay = match place.code("replay", self.replay)? {
            ReplayKind::Never => Replay::Never,
            ReplayKind::Natural => Replay::Natural,
            ReplayKind::Keyed => {
                let window = place.some("replay_window_ms", self.replay_window_ms)?;
                Replay::Keyed { window: Millis(place.count("replay_window_ms", window)?) }
            }
        };
        let stage = match place.code("stage", self.stage)? {
            StageKind::Prepared => Stage::Prepared,
            StageKind::Dispatched => Stage::Dispatched { at: dispatched()? },
            StageKind::Observing => {
                let at = dispatched()?;
                let task_id = place.some("upstream_task", self.upstream_task)?;
                Stage::Observing { at, upstream: Upstream { task_id, session: self.upstream_session } }
            }
            StageKind::Settled => {
                Stage::Settled(place.code("outcome", place.some("outcome", self.outcome)?)?)
            }
            StageKind::Unknown => Stage::Unknown(place.code("doubt", place.some("doubt", self.doubt)?)?),
        };
        let since = || place.some("inquiry_since_ms", self.inquiry_since_ms).map(UnixMillis);
        let inquiry = match place.code("inquiry", self.inquiry)? {
            InquiryKind::Idle => Inquiry::Idle,
            InquiryKind::Reconciling => Inquiry::Reconciling {
                since: since()?,
                tries: place.count("inquiry_tries", place.some("inquiry_tries", self.inquiry_tries)?)?,
                next: UnixMillis(place.some("inquiry_next_ms", self.inquiry_next_ms)?),
                last: self.inquiry_last.map(|last| place.code("inquiry_last", last)).transpose()?,
            },
            InquiryKind::Person => {
                let why = place.code("inquiry_why", place.some("inquiry_why", self.inquiry_why)?)?;
                Inquiry::Person { since: since()?, why }
            }
        };
        Ok(Operation {
            effect: place.code("effect", self.effect)?,
            replay,
            stage,
            attempts: place.count("attempts", self.attempts)?,
            cleared: place.count("cleared", self.cleared)?,
            first_dispatched_at: self.first_dispatched_ms.map(UnixMillis),
            closed_at: self.closed_ms.map(UnixMillis),
            inquiry,
            receipt: self.receipt.as_deref().map(operation::Text::new),
        })
    }
}

/// What one attempt came to, as far as sending goes (notes 2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AttemptClass {
    /// No byte of it left us.
    NotSent,
    /// It was sent, or may have been, and no answer came.
    NoReply,
    /// The back answered.
    Replied,
}

codes!(AttemptClass {
    [AttemptClass::NotSent] 0 "not_sent"
    [AttemptClass::NoReply] 1 "no_reply"
    [AttemptClass::Replied] 2 "replied"
});

impl AttemptClass {
    /// The class of the attempt that `changes` closed, if they closed one.
    #[must_use]
    pub fn of(changes: &[Change]) -> Option<AttemptClass> {
        changes.iter().fold(None, |class, change| match change {
            Change::Operation(event) => AttemptClass::of_event(event).or(class),
            Change::Created | Change::Observed(_) | Change::Task(_) => class,
        })
    }

    fn of_event(event: &operation::Event) -> Option<AttemptClass> {
        match event {
            // By what says so: a look-up or a person tells of the effect, not of what the attempt came to.
            operation::Event::Settled { outcome: _, evidence } => match evidence {
                Evidence::NeverSent => Some(AttemptClass::NotSent),
                Evidence::Answer(_) | Evidence::Receipt { .. } => Some(AttemptClass::Replied),
                Evidence::None => Some(AttemptClass::NoReply),
                Evidence::Probe { .. } | Evidence::Silence { .. } | Evidence::Person { .. } => None,
            },
            operation::Event::Doubted { doubt } => Some(match doubt {
                Doubt::ToolError | Doubt::PeerError => AttemptClass::Replied,
                Doubt::AnswerLost | Doubt::DeadlinePassed | Doubt::UpstreamLost | Doubt::Cancelled => {
                    AttemptClass::NoReply
                }
            }),
            operation::Event::Dispatched { .. }
            | operation::Event::Accepted { .. }
            | operation::Event::Closed { .. }
            | operation::Event::Reconciling { .. }
            | operation::Event::Probed { .. }
            | operation::Event::HandedOff { .. }
            | operation::Event::Contradicted { .. }
            | operation::Event::Acknowledged { .. }
            | operation::Event::Cleared { .. }
            | operation::Event::Noted { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
