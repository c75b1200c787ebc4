//! The task alone: every order of questions, answers, withdrawals, cancellations and endings.

use std::collections::BTreeSet;

use bytes::Bytes;
use stateright::{Checker, Model, Property};
use taskgate_core::task::{
    CancelRule, Command, Ending, Event, Fault, Lifetime, Question, QuestionKey, QuestionKind, Task,
};
use taskgate_core::time::{Millis, UnixMillis};

/// A task, and what its clients and its server remember of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Told {
    task: Task,
    /// Keys that were ever shown.
    shown: BTreeSet<QuestionKey>,
    /// Keys whose answer was taken.
    taken: BTreeSet<QuestionKey>,
    /// Keys that are closed: answered and settled, withdrawn, or left behind at the end.
    closed: BTreeSet<QuestionKey>,
    ends: u8,
    ended: Option<Ending>,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Questions;

const MOST: u32 = 3;

fn key(n: u32) -> QuestionKey {
    QuestionKey(format!("in-{n}"))
}

impl Model for Questions {
    type State = Told;
    type Action = Command;

    fn init_states(&self) -> Vec<Told> {
        let lifetime = Lifetime { created: UnixMillis(0), ttl: Millis(1), linger: Millis(1), max: Millis(9) };
        vec![Told {
            task: Task::new(lifetime),
            shown: BTreeSet::new(),
            taken: BTreeSet::new(),
            closed: BTreeSet::new(),
            ends: 0,
            ended: None,
            broken: None,
        }]
    }

    fn actions(&self, told: &Told, actions: &mut Vec<Command>) {
        if told.broken.is_some() {
            return;
        }
        if told.task.keys_issued < MOST {
            let question = Question { kind: QuestionKind::Form, params: Bytes::new(), back_key: None };
            actions.push(Command::Ask(question));
        }
        // Keys that were never given out are tried, too.
        for n in 1..=MOST + 1 {
            actions.extend([
                Command::TakeAnswer(key(n)),
                Command::SettleAnswer(key(n)),
                Command::Withdraw(key(n)),
            ]);
        }
        actions.extend([Command::Cancel(CancelRule::Promise), Command::Cancel(CancelRule::Wish)]);
        actions.extend([
            Command::End(Ending::Returned { result: Bytes::new(), is_error: false }),
            Command::End(Ending::Faulted(Fault::DeadlinePassed)),
            Command::Say("half way".into()),
        ]);
    }

    fn next_state(&self, last: &Told, command: Command) -> Option<Told> {
        let mut told = last.clone();
        let events = last.task.decide(UnixMillis(1), command).ok()?;
        for event in events {
            if told.task.apply(&event).is_err() {
                told.broken = Some("a decided event cannot be folded");
            }
            match event {
                Event::Asked { key, .. } => {
                    if !told.shown.insert(key) {
                        told.broken = Some("a key was given out twice");
                    }
                }
                Event::AnswerTaken { key } => {
                    if told.closed.contains(&key) || !told.shown.contains(&key) || !told.taken.insert(key) {
                        told.broken = Some("an answer was taken twice, or to no open question");
                    }
                }
                Event::AnswerSettled { key } => {
                    if !told.taken.contains(&key) || !told.closed.insert(key) {
                        told.broken = Some("an answer was settled that was not taken");
                    }
                }
                Event::Withdrawn { key } => {
                    if !told.closed.insert(key) {
                        told.broken = Some("a question was withdrawn that was closed");
                    }
                }
                Event::Ended { ending, .. } => {
                    told.ends += 1;
                    told.ended.get_or_insert(ending);
                }
                Event::Said { .. } | Event::CancelWished { .. } => {}
            }
            if last.ended.is_some() {
                told.broken = Some("something happened after the end");
            }
        }
        Some(told)
    }

    fn properties(&self) -> Vec<Property<Questions>> {
        vec![
            Property::always("INV-20", |_, told: &Told| told.broken.is_none()),
            Property::always("INV-06: one ending", |_, told: &Told| {
                told.ends <= 1 && told.ended.as_ref() == told.task.ending()
            }),
            Property::always("nothing is open after the end", |_, told: &Told| {
                told.ended.is_none() || (told.task.outstanding().is_none() && told.task.answering.is_empty())
            }),
            Property::sometimes("all asked, taken and closed", |_, told: &Told| {
                told.closed.len() == MOST as usize && told.taken.len() == MOST as usize
            }),
            Property::sometimes("cancelled while it waits", |_, told: &Told| {
                told.ended == Some(Ending::Cancelled) && told.shown.len() > told.taken.len()
            }),
            Property::sometimes("wished and returned", |_, told: &Told| {
                told.task.cancel_wished_at.is_some() && matches!(told.ended, Some(Ending::Returned { .. }))
            }),
        ]
    }
}

#[test]
fn h1_inv_03_inv_06_inv_20_an_answer_is_taken_once_and_an_ending_stays() {
    let checker = Questions.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}
