//! What happened, as one row of the log of evidence (R5.5).
//!
//! A row says what and when, in at most [`BODY_BYTES_MAX`] bytes: one line per change, its word first. Payloads,
//! people's answers and what questions ask are never part of it; of a question only key and class are (R6.5).

use std::fmt::Write;

use taskgate_core::id::OperationId;
use taskgate_core::operation::{self, Evidence, Inquiry, Operation, Stage, Text};
use taskgate_core::task::{self, State};
use taskgate_core::time::UnixMillis;

use crate::codec::columns::EndingColumns;
use crate::codec::{Code, codes};
use crate::ledger::Happening;
use crate::record::{Change, Observed, Record};

/// The size of the largest body. Notes 2.2.
pub const BODY_BYTES_MAX: usize = 1024;

/// The size of the largest text of somebody else in a body: three of them always fit.
const TEXT_BYTES_MAX: usize = operation::TEXT_BYTES_MAX;

/// What kind of thing happened, by rising weight: the weightiest change names the event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventKind {
    /// The back's task was read.
    Observed,
    /// Something to be remembered was noted.
    Noted,
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
    /// The last attempt's exchange was proved over.
    Closed,
    /// A look-up decided nothing.
    Probed,
    /// The system of record is asked from here on.
    Reconciling,
    /// A person has seen that sources disagree.
    Acknowledged,
    /// A person is to decide.
    HandedOff,
    /// An attempt was made durable, to be sent.
    Dispatched,
    /// Nothing certain can be said of the operation.
    Doubted,
    /// The attempts so far did nothing for certain.
    Cleared,
    /// The operation is closed.
    Settled,
    /// Two sources say opposite things.
    Contradicted,
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
    [EventKind::Noted] 13 "noted"
    [EventKind::Closed] 14 "closed"
    [EventKind::Probed] 15 "probed"
    [EventKind::Reconciling] 16 "reconciling"
    [EventKind::Acknowledged] 17 "acknowledged"
    [EventKind::HandedOff] 18 "handed_off"
    [EventKind::Cleared] 19 "cleared"
    [EventKind::Contradicted] 20 "contradicted"
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
                operation::Event::Closed { .. } => EventKind::Closed,
                operation::Event::Reconciling { .. } => EventKind::Reconciling,
                operation::Event::Probed { .. } => EventKind::Probed,
                operation::Event::HandedOff { .. } => EventKind::HandedOff,
                operation::Event::Contradicted { .. } => EventKind::Contradicted,
                operation::Event::Acknowledged { .. } => EventKind::Acknowledged,
                operation::Event::Cleared { .. } => EventKind::Cleared,
                operation::Event::Noted { .. } => EventKind::Noted,
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

    /// The row as it is read, one line each.
    #[must_use]
    pub fn happening(self, version: u64, at: UnixMillis) -> Happening {
        Happening { version, at, kind: self.kind, lines: self.body.lines().map(str::to_owned).collect() }
    }

    /// The first row of `record`: that it was made, and what had happened to it by then; and whose key it took over.
    #[must_use]
    pub fn creation(record: &Record, key_of: Option<&OperationId>) -> EventRow {
        EventRow::of(&creation(record, key_of))
    }
}

/// Everything that a new record says has happened, so that the log adds up to the row (INV-04); and that its key was that
/// of another operation before, if it was.
#[must_use]
pub fn creation(record: &Record, key_of: Option<&OperationId>) -> Vec<Change> {
    let mut changes = vec![Change::Created];
    if let Some(earlier) = key_of {
        let text = format!("its key was given free by {earlier}, which certainly did nothing");
        changes.push(Change::Operation(operation::Event::Noted { text: Text::new(&text) }));
    }
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
            let evidence = Evidence::None;
            changes.push(Change::Operation(operation::Event::Settled { outcome: *outcome, evidence }));
        }
        Stage::Unknown(doubt) => {
            changes.push(Change::Operation(operation::Event::Doubted { doubt: *doubt }));
        }
    }
    if let Some(at) = record.operation.closed_at {
        changes.push(Change::Operation(operation::Event::Closed { at }));
    }
    match record.operation.inquiry {
        Inquiry::Idle => {}
        Inquiry::Reconciling { since, next, .. } => {
            changes.push(Change::Operation(operation::Event::Reconciling { since, next }));
        }
        Inquiry::Person { since, why } => {
            changes.push(Change::Operation(operation::Event::HandedOff { at: since, why, note: None }));
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
            operation::Event::Settled { outcome, evidence } => {
                self.word(outcome.word());
                self.evidence(evidence);
            }
            operation::Event::Doubted { doubt } => self.word(doubt.word()),
            operation::Event::Closed { at } => self.number(at.0),
            operation::Event::Reconciling { since, next } => {
                self.number(since.0);
                self.number(next.0);
            }
            operation::Event::Probed { finding, what, next } => {
                self.word(finding.word());
                self.number(next.0);
                self.text(Some(what.as_str()));
            }
            operation::Event::HandedOff { at, why, note } => {
                self.number(at.0);
                self.word(why.word());
                self.text(note.as_ref().map(Text::as_str));
            }
            operation::Event::Contradicted { held, told, evidence } => {
                self.word(held.word());
                self.word(told.word());
                self.evidence(evidence);
            }
            operation::Event::Acknowledged { name, reason } => self.person(name, reason),
            operation::Event::Cleared { finding, what } => {
                self.word(finding.word());
                self.text(Some(what.as_str()));
            }
            operation::Event::Noted { text } => self.text(Some(text.as_str())),
        }
    }

    /// What says so, its word first; nothing where nothing needs to, and in rows of before there was evidence.
    fn evidence(&mut self, evidence: &Evidence) {
        match evidence {
            Evidence::None => {}
            Evidence::Answer(word) => {
                self.word("answer");
                self.word(word.word());
            }
            Evidence::NeverSent => self.word("never_sent"),
            Evidence::Receipt { reference } => {
                self.word("receipt");
                self.text(Some(reference.as_str()));
            }
            Evidence::Probe { finding, what } => {
                self.word("probe");
                self.word(finding.word());
                self.text(Some(what.as_str()));
            }
            Evidence::Silence { tries } => {
                self.word("silence");
                self.number(i64::from(*tries));
            }
            Evidence::Person { name, reason } => {
                self.word("person");
                self.person(name, reason);
            }
        }
    }

    /// Name and reason, with a colon in between that the name has not.
    fn person(&mut self, name: &Text, reason: &Text) {
        self.text(Some(&name.as_str().replace(':', " ")));
        self.0.push(':');
        self.text(Some(reason.as_str()));
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
    use taskgate_core::operation::{Doubt, Finding, HandOff, Outcome, Standing, Verdict, Word};
    use taskgate_core::task::{Ending, Event, Question, QuestionKey, QuestionKind};

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
            Change::Operation(operation::Event::Settled {
                outcome: Outcome::NoneExpected,
                evidence: Evidence::None,
            }),
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

    #[test]
    fn r4_1_every_event_of_an_operation_says_what_and_by_what_evidence() {
        let at = UnixMillis(7);
        let text = Text::new;
        let (what, reference) = (text("no payment p-1"), text("tx-1"));
        let finding = Finding::NotApplied(Standing::Open);
        let (name, reason) = (text("Ann: ops"), text("the bank's page: paid"));
        let settled = |outcome, evidence| operation::Event::Settled { outcome, evidence };
        let events = [
            settled(Outcome::Reported(Verdict::Applied), Evidence::Answer(Word::Success)),
            settled(Outcome::Confirmed(Verdict::NotApplied), Evidence::NeverSent),
            settled(Outcome::Confirmed(Verdict::Applied), Evidence::Receipt { reference: reference.clone() }),
            settled(
                Outcome::Confirmed(Verdict::Applied),
                Evidence::Probe { finding: Finding::Applied, what: what.clone() },
            ),
            settled(Outcome::Assumed, Evidence::Silence { tries: 3 }),
            settled(
                Outcome::Attested(Verdict::Applied),
                Evidence::Person { name: name.clone(), reason: reason.clone() },
            ),
            operation::Event::Doubted { doubt: Doubt::AnswerLost },
            operation::Event::Closed { at },
            operation::Event::Reconciling { since: at, next: UnixMillis(9) },
            operation::Event::Probed { finding, what: what.clone(), next: at },
            operation::Event::HandedOff { at, why: HandOff::BudgetSpent, note: None },
            operation::Event::HandedOff { at, why: HandOff::RuleFailed, note: Some(text("no such member")) },
            operation::Event::Contradicted {
                held: Outcome::Reported(Verdict::NotApplied),
                told: Verdict::Applied,
                evidence: Evidence::Receipt { reference },
            },
            operation::Event::Acknowledged { name, reason },
            operation::Event::Cleared { finding: Finding::NotApplied(Standing::Fenced), what },
            operation::Event::Noted { text: text("the receipt rule failed") },
        ];
        let lines: Vec<_> =
            events.into_iter().map(|event| EventRow::of(&[Change::Operation(event)]).body).collect();
        assert_eq!(
            lines,
            [
                "settled reported_applied answer success",
                "settled confirmed_not_applied never_sent",
                "settled confirmed_applied receipt tx-1",
                "settled confirmed_applied probe applied no payment p-1",
                "settled assumed_not_applied silence 3",
                "settled attested_applied person Ann  ops: the bank's page: paid",
                "doubted answer_lost",
                "closed 7",
                "reconciling 7 9",
                "probed not_applied_open 7 no payment p-1",
                "handed_off 7 budget_spent",
                "handed_off 7 rule_failed no such member",
                "contradicted reported_not_applied applied receipt tx-1",
                "acknowledged Ann  ops: the bank's page: paid",
                "cleared not_applied_fenced no payment p-1",
                "noted the receipt rule failed",
            ]
        );
    }
}
