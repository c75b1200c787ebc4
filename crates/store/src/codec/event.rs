//! What happened, as one row of the log of evidence (R5.5).
//!
//! A row says what and when, in at most [`BODY_BYTES_MAX`] bytes: one line per change, its word first. Payloads,
//! people's answers and what questions ask are never part of it; of a question only key and class are (R6.5).

use std::fmt::Write;

use taskgate_core::operation::{self, Operation, Outcome, Stage};
use taskgate_core::task::{self, State};

use crate::codec::columns::EndingColumns;
use crate::codec::{Code, codes};
use crate::record::{Change, Observed, Record};

/// The size of the largest body. Notes 2.2.
pub const BODY_BYTES_MAX: usize = 1024;

/// The size of the largest text of somebody else in a body: three of them always fit.
const TEXT_BYTES_MAX: usize = 256;

/// What kind of thing happened, by rising weight: the weightiest change names the event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventKind {
    /// The back's task was read.
    Observed,
    /// The back's message changed.
    Said,
    /// The back has an answer.
    AnswerSettled,
    /// An answer was taken.
    AnswerTaken,
    /// A question is void.
    Withdrawn,
    /// A question was asked.
    Asked,
    /// A cancellation that promises nothing was asked for.
    CancelWished,
    /// The back made a task.
    Accepted,
    /// An attempt was made durable, to be sent.
    Dispatched,
    /// Nothing certain can be said of the operation.
    Doubted,
    /// The operation is closed.
    Settled,
    /// The task ended.
    Ended,
    /// The record was made.
    Created,
}

codes!(EventKind {
    [EventKind::Observed] 0 "observed"
    [EventKind::Said] 1 "said"
    [EventKind::AnswerSettled] 2 "answer_settled"
    [EventKind::AnswerTaken] 3 "answer_taken"
    [EventKind::Withdrawn] 4 "withdrawn"
    [EventKind::Asked] 5 "asked"
    [EventKind::CancelWished] 6 "cancel_wished"
    [EventKind::Accepted] 7 "accepted"
    [EventKind::Dispatched] 8 "dispatched"
    [EventKind::Doubted] 9 "doubted"
    [EventKind::Settled] 10 "settled"
    [EventKind::Ended] 11 "ended"
    [EventKind::Created] 12 "created"
});

impl EventKind {
    /// That of one change.
    #[must_use]
    pub fn of(change: &Change) -> EventKind {
        match change {
            Change::Created => EventKind::Created,
            Change::Observed(_) => EventKind::Observed,
            Change::Task(event) => match event {
                task::Event::Asked { .. } => EventKind::Asked,
                task::Event::AnswerTaken { .. } => EventKind::AnswerTaken,
                task::Event::AnswerSettled { .. } => EventKind::AnswerSettled,
                task::Event::Withdrawn { .. } => EventKind::Withdrawn,
                task::Event::Said { .. } => EventKind::Said,
                task::Event::CancelWished { .. } => EventKind::CancelWished,
                task::Event::Ended { .. } => EventKind::Ended,
            },
            Change::Operation(event) => match event {
                operation::Event::Dispatched { .. } => EventKind::Dispatched,
                operation::Event::Accepted { .. } => EventKind::Accepted,
                operation::Event::Settled { .. } => EventKind::Settled,
                operation::Event::Doubted { .. } => EventKind::Doubted,
            },
        }
    }
}

/// One row of the log, without its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRow {
    /// The weightiest of the changes; [`EventKind::Observed`] if there are none.
    pub kind: EventKind,
    /// A line for each.
    pub body: String,
}

impl EventRow {
    /// The row for `changes`.
    #[must_use]
    pub fn of(changes: &[Change]) -> EventRow {
        let mut body = Body(String::with_capacity(64));
        for change in changes {
            body.line(change);
        }
        let kind = changes.iter().map(EventKind::of).max().unwrap_or(EventKind::Observed);
        EventRow { kind, body: body.0 }
    }

    /// The first row of `record`: that it was made, and what had happened to it by then.
    #[must_use]
    pub fn creation(record: &Record) -> EventRow {
        EventRow::of(&creation(record))
    }
}

/// Everything that a new record says has happened, so that the log adds up to the row (INV-04).
#[must_use]
pub fn creation(record: &Record) -> Vec<Change> {
    let mut changes = vec![Change::Created];
    dispatches(&record.operation, &mut changes);
    let asked = record.task.outstanding().map(task::Asked::questions);
    for (key, question) in asked.into_iter().flatten().chain(&record.task.answering) {
        let question = question.clone();
        changes.push(Change::Task(task::Event::Asked { key: key.clone(), question }));
    }
    for key in record.task.answering.keys() {
        changes.push(Change::Task(task::Event::AnswerTaken { key: key.clone() }));
    }
    if let Some(message) = &record.task.message {
        changes.push(Change::Task(task::Event::Said { message: message.clone() }));
    }
    if let Some(at) = record.task.cancel_wished_at {
        changes.push(Change::Task(task::Event::CancelWished { at }));
    }
    if record.observed != Observed::default() {
        changes.push(Change::Observed(record.observed.clone()));
    }
    match &record.operation.stage {
        Stage::Prepared | Stage::Dispatched { .. } => {}
        Stage::Observing { upstream, .. } => {
            changes.push(Change::Operation(operation::Event::Accepted { upstream: upstream.clone() }));
        }
        Stage::Settled(outcome) => {
            changes.push(Change::Operation(operation::Event::Settled { outcome: *outcome }));
        }
        Stage::Unknown(doubt) => {
            changes.push(Change::Operation(operation::Event::Doubted { doubt: *doubt }));
        }
    }
    if let State::Over { ending, at } = &record.task.state {
        changes.push(Change::Task(task::Event::Ended { at: *at, ending: ending.clone() }));
    }
    changes
}

fn dispatches(operation: &Operation, changes: &mut Vec<Change>) {
    let last = match &operation.stage {
        Stage::Dispatched { at } | Stage::Observing { at, .. } => Some(*at),
        Stage::Prepared | Stage::Settled(_) | Stage::Unknown(_) => operation.first_dispatched_at,
    };
    if let Some(at) = last {
        changes.push(Change::Operation(operation::Event::Dispatched { at }));
    }
}

struct Body(String);

impl Body {
    fn line(&mut self, change: &Change) {
        let before = self.0.len();
        if before > 0 {
            self.0.push('\n');
        }
        self.0.push_str(EventKind::of(change).word());
        match change {
            Change::Created => {}
            Change::Observed(observed) => {
                self.text(observed.status.as_deref());
                self.text(observed.last_updated_at.as_deref());
            }
            Change::Task(event) => self.task(event),
            Change::Operation(event) => self.operation(event),
        }
        if self.0.len() > BODY_BYTES_MAX {
            self.0.truncate(before);
        }
    }

    fn task(&mut self, event: &task::Event) {
        match event {
            task::Event::Asked { key, question } => {
                self.text(Some(&key.0));
                self.word(question.kind.word());
            }
            task::Event::AnswerTaken { key }
            | task::Event::AnswerSettled { key }
            | task::Event::Withdrawn { key } => self.text(Some(&key.0)),
            task::Event::Said { message } => self.text(Some(message)),
            task::Event::CancelWished { at } => self.number(at.0),
            task::Event::Ended { at, ending } => {
                let ending = EndingColumns::of(ending);
                self.number(at.0);
                self.word(ending.kind.word());
                self.text(ending.text);
            }
        }
    }

    fn operation(&mut self, event: &operation::Event) {
        match event {
            operation::Event::Dispatched { at } => self.number(at.0),
            operation::Event::Accepted { upstream } => self.text(Some(&upstream.task_id)),
            operation::Event::Settled { outcome } => self.outcome(*outcome),
            operation::Event::Doubted { doubt } => self.word(doubt.word()),
        }
    }

    fn outcome(&mut self, outcome: Outcome) {
        self.word(outcome.word());
    }

    fn word(&mut self, word: &str) {
        self.0.push(' ');
        self.0.push_str(word);
    }

    fn number(&mut self, number: i64) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, " {number}");
    }

    /// A text that is not ours: on one line, and cut.
    fn text(&mut self, text: Option<&str>) {
        let Some(text) = text else { return };
        self.0.push(' ');
        let end = self.0.len() + TEXT_BYTES_MAX;
        for char in text.chars().map(|char| if char.is_control() { ' ' } else { char }) {
            if self.0.len() + char.len_utf8() > end {
                break;
            }
            self.0.push(char);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use taskgate_core::task::{Ending, Event, Question, QuestionKey, QuestionKind};
    use taskgate_core::time::UnixMillis;

    use super::*;

    #[test]
    fn r6_5_of_a_question_only_key_and_class_are_logged() {
        let question = Question {
            kind: QuestionKind::Form,
            params: Bytes::from_static(b"{\"message\":\"your salary?\"}"),
            back_key: Some("k".into()),
        };
        let row = EventRow::of(&[Change::Task(Event::Asked { key: QuestionKey("in-1".into()), question })]);
        assert_eq!(row, EventRow { kind: EventKind::Asked, body: "asked in-1 form".into() });
    }

    #[test]
    fn r5_5_results_are_not_logged_and_the_weightiest_change_names_the_event() {
        let result = Bytes::from_static(b"{\"content\":[\"secret\"]}");
        let ending = Ending::Returned { result, is_error: false };
        let row = EventRow::of(&[
            Change::Task(Event::Ended { at: UnixMillis(7), ending }),
            Change::Operation(operation::Event::Settled { outcome: Outcome::NoneExpected }),
        ]);
        assert_eq!(row.kind, EventKind::Ended);
        assert_eq!(row.body, "ended 7 returned\nsettled none_expected");
    }

    #[test]
    fn r5_5_a_body_is_bounded_and_each_change_keeps_to_its_line() {
        let said = Change::Task(Event::Said { message: "é\n".repeat(5_000) });
        let row = EventRow::of(&vec![said; 9]);
        assert!(row.body.len() <= BODY_BYTES_MAX, "{}", row.body.len());
        assert_eq!(row.body.lines().count(), 3);
        assert!(row.body.lines().all(|line| line.starts_with("said é é")));
    }
}
