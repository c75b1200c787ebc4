//! The task machine against a naive second implementation, over random commands (R3.1, G-009).
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect fails")]

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use taskgate_core::task::{
    CancelRule, Command, Ending, Event, Fault, Lifetime, Question, QuestionKey, QuestionKind, State, Task,
};
use taskgate_core::time::{Millis, UnixMillis};

/// What a person with a pencil would keep: two sets of numbers, and whether it is over.
#[derive(Clone, Debug, Default)]
struct Naive {
    issued: u32,
    asked: BTreeSet<u32>,
    answering: BTreeSet<u32>,
    over: Option<&'static str>,
    wished: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Ask,
    Take(u32),
    Settle(u32),
    Withdraw(u32),
    Say(u8),
    Promise,
    Wish,
    End(&'static str),
}

struct Machine;

impl ReferenceStateMachine for Machine {
    type State = Naive;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Naive> {
        Just(Naive::default()).boxed()
    }

    fn transitions(_: &Naive) -> BoxedStrategy<Step> {
        // Ends are rare, so that there is a life before them; commands after the end come often enough all the same.
        prop_oneof![
            6 => Just(Step::Ask),
            6 => (1_u32..6).prop_map(Step::Take),
            4 => (1_u32..6).prop_map(Step::Settle),
            3 => (1_u32..6).prop_map(Step::Withdraw),
            3 => (0_u8..3).prop_map(Step::Say),
            1 => Just(Step::Promise),
            2 => Just(Step::Wish),
            1 => prop_oneof![Just("returned"), Just("raised"), Just("faulted")].prop_map(Step::End),
        ]
        .boxed()
    }

    fn apply(mut state: Naive, step: &Step) -> Naive {
        if state.over.is_some() {
            return state;
        }
        match step {
            Step::Ask => {
                state.issued += 1;
                state.asked.insert(state.issued);
            }
            Step::Take(n) => {
                if state.asked.remove(n) {
                    state.answering.insert(*n);
                }
            }
            Step::Settle(n) => {
                state.answering.remove(n);
            }
            Step::Withdraw(n) => {
                state.asked.remove(n);
                state.answering.remove(n);
            }
            Step::Say(_) => {}
            Step::Wish => state.wished = true,
            Step::Promise => state = Naive { over: Some("cancelled"), ..state },
            Step::End(how) => state = Naive { over: Some(how), ..state },
        }
        if state.over.is_some() {
            state.asked.clear();
            state.answering.clear();
        }
        state
    }
}

/// The real machine with its log.
struct Real {
    task: Task,
    log: Vec<Event>,
    now: i64,
}

fn fresh() -> Task {
    let span = Millis(10_000);
    Task::new(Lifetime { created: UnixMillis(0), ttl: span, linger: Millis(1_000), max: Millis(100_000) })
}

fn command(step: &Step) -> Command {
    let key = |n: &u32| QuestionKey(format!("in-{n}"));
    match step {
        Step::Ask => Command::Ask(Question {
            kind: QuestionKind::Form,
            params: Bytes::from_static(b"{}"),
            back_key: None,
        }),
        Step::Take(n) => Command::TakeAnswer(key(n)),
        Step::Settle(n) => Command::SettleAnswer(key(n)),
        Step::Withdraw(n) => Command::Withdraw(key(n)),
        Step::Say(n) => Command::Say(format!("{n}")),
        Step::Promise => Command::Cancel(CancelRule::Promise),
        Step::Wish => Command::Cancel(CancelRule::Wish),
        Step::End("returned") => {
            Command::End(Ending::Returned { result: Bytes::from_static(b"{}"), is_error: false })
        }
        Step::End("raised") => Command::End(Ending::Raised { error: Bytes::from_static(b"{}") }),
        Step::End(_) => Command::End(Ending::Faulted(Fault::DeadlinePassed)),
    }
}

fn word(ending: &Ending) -> &'static str {
    match ending {
        Ending::Cancelled => "cancelled",
        Ending::Returned { .. } => "returned",
        Ending::Raised { .. } => "raised",
        Ending::Faulted(_) => "faulted",
    }
}

impl StateMachineTest for Real {
    type SystemUnderTest = Real;
    type Reference = Machine;

    fn init_test(_: &Naive) -> Real {
        Real { task: fresh(), log: vec![], now: 0 }
    }

    fn apply(mut real: Real, _: &Naive, step: Step) -> Real {
        real.now += 7;
        let before = real.task.clone();
        match real.task.decide(UnixMillis(real.now), command(&step)) {
            Ok(events) => {
                for event in events {
                    real.task.apply(&event).unwrap();
                    real.log.push(event);
                }
            }
            Err(_) => assert_eq!(before, real.task, "a refusal changes nothing"),
        }
        if let State::Over { .. } = before.state {
            assert_eq!(before, real.task, "what is over stays as it is (A-043)");
        }
        assert!(
            real.task.ttl(UnixMillis(real.now)) >= before.ttl(UnixMillis(real.now - 7)),
            "a lifetime only grows"
        );
        real
    }

    fn check_invariants(real: &Real, naive: &Naive) {
        assert_eq!(real.task.ending().map(word), naive.over);
        let numbers = |keys: Vec<&QuestionKey>| -> BTreeSet<u32> {
            keys.iter().map(|key| key.0.trim_start_matches("in-").parse().unwrap()).collect()
        };
        let asked =
            real.task.outstanding().map(|asked| asked.questions().keys().collect()).unwrap_or_default();
        assert_eq!(numbers(asked), naive.asked);
        assert_eq!(numbers(real.task.answering.keys().collect()), naive.answering);
        assert_eq!(real.task.keys_issued, naive.issued);
        assert_eq!(real.task.cancel_wished_at.is_some(), naive.wished);
        let mut folded = fresh();
        for event in &real.log {
            folded.apply(event).unwrap();
        }
        assert_eq!(folded, real.task, "the log folds to the record (INV-04)");
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_042_a_043_b_072_g_009_the_machine_agrees_with_a_naive_model(sequential 1..60 => Real);
}
