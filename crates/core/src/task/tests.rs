use alloc::string::ToString;
use core::fmt::Write;

use super::*;

fn question(text: &'static str) -> Question {
    Question { kind: QuestionKind::Form, params: Bytes::from_static(text.as_bytes()), back_key: None }
}

fn lifetime() -> Lifetime {
    Lifetime { created: UnixMillis(1_000), ttl: Millis(500), linger: Millis(100), max: Millis(5_000) }
}

fn key(text: &str) -> QuestionKey {
    QuestionKey(text.to_string())
}

fn after(events: &[Event]) -> Task {
    let mut task = Task::new(lifetime());
    for event in events {
        task.apply(event).unwrap();
    }
    task
}

fn asked() -> Event {
    Event::Asked { key: key("in-1"), question: question("{\"q\":1}") }
}

fn ended(ending: Ending) -> Event {
    Event::Ended { at: UnixMillis(2_000), ending }
}

fn returned(is_error: bool) -> Ending {
    Ending::Returned { result: Bytes::from_static(b"{}"), is_error }
}

fn states() -> Vec<(&'static str, Task)> {
    vec![
        ("working", after(&[])),
        ("working, cancel wished", after(&[Event::CancelWished { at: UnixMillis(1_500) }])),
        ("working, in-1 being answered", after(&[asked(), Event::AnswerTaken { key: key("in-1") }])),
        ("input_required", after(&[asked()])),
        ("over: returned", after(&[ended(returned(false))])),
        ("over: returned an error", after(&[ended(returned(true))])),
        ("over: raised", after(&[ended(Ending::Raised { error: Bytes::from_static(b"{}") })])),
        ("over: cancelled", after(&[ended(Ending::Cancelled)])),
        ("over: faulted", after(&[ended(Ending::Faulted(Fault::DeadlinePassed))])),
    ]
}

fn commands() -> Vec<Command> {
    vec![
        Command::Ask(question("{\"q\":2}")),
        Command::TakeAnswer(key("in-1")),
        Command::TakeAnswer(key("in-9")),
        Command::SettleAnswer(key("in-1")),
        Command::Withdraw(key("in-1")),
        Command::Say("half done".to_string()),
        Command::Cancel(CancelRule::Promise),
        Command::Cancel(CancelRule::Wish),
        Command::End(returned(false)),
        Command::End(Ending::Faulted(Fault::DeadlinePassed)),
    ]
}

/// Every state against every command, for review (R3.1).
#[test]
fn r3_1_every_state_against_every_command() {
    let mut table = String::new();
    for (name, task) in states() {
        writeln!(table, "## {name}").unwrap();
        for command in commands() {
            let decided = task.decide(UnixMillis(3_000), command.clone());
            write!(table, "{command:?}\n    ").unwrap();
            match decided {
                Ok(events) => {
                    let mut next = task.clone();
                    for event in &events {
                        next.apply(event).unwrap();
                    }
                    writeln!(table, "{events:?}\n    -> {}", word(&next.state)).unwrap();
                }
                Err(refusal) => writeln!(table, "refused: {refusal}").unwrap(),
            }
        }
    }
    insta::assert_snapshot!(table);
}

fn word(state: &State) -> &'static str {
    match state {
        State::Working => "working",
        State::InputRequired(_) => "input_required",
        State::Over { .. } => "over",
    }
}

#[test]
fn r3_1_an_event_that_cannot_follow_is_refused_as_damage() {
    let mut over = after(&[ended(Ending::Cancelled)]);
    assert_eq!(over.apply(&asked()), Err(Corrupt::EventAfterEnd));
    let mut fresh = after(&[]);
    assert_eq!(fresh.apply(&Event::AnswerTaken { key: key("in-1") }), Err(Corrupt::QuestionPhase));
    assert_eq!(fresh.apply(&Event::AnswerSettled { key: key("in-1") }), Err(Corrupt::QuestionPhase));
    assert_eq!(fresh.apply(&Event::Withdrawn { key: key("in-1") }), Err(Corrupt::QuestionPhase));
    let mut twice = after(&[asked()]);
    assert_eq!(twice.apply(&asked()), Err(Corrupt::QuestionPhase));
}

#[test]
fn b_092_g_012_keys_are_never_used_again() {
    let mut task = after(&[asked(), Event::Withdrawn { key: key("in-1") }]);
    let events = task.decide(UnixMillis(0), Command::Ask(question("{}"))).unwrap();
    assert!(matches!(&events[..], [Event::Asked { key, .. }] if key.0 == "in-2"));
    task.apply(&events[0]).unwrap();
    assert_eq!(task.keys_issued, 2);
}

#[test]
fn r3_6_running_work_never_expires_and_the_lifetime_shown_only_grows() {
    let task = after(&[]);
    assert_eq!(task.expires(), None);
    assert_eq!(task.ttl(UnixMillis(1_000)), Millis(500));
    assert_eq!(task.ttl(UnixMillis(1_450)), Millis(550));
    assert_eq!(task.ttl(UnixMillis(900_000)), Millis(5_000));
}

#[test]
fn b_163_g_023_a_record_stays_as_long_as_was_shown() {
    let early = after(&[Event::Ended { at: UnixMillis(1_010), ending: Ending::Cancelled }]);
    assert_eq!(early.expires(), Some(UnixMillis(1_500)));
    let late = after(&[Event::Ended { at: UnixMillis(3_000), ending: Ending::Cancelled }]);
    assert_eq!(late.expires(), Some(UnixMillis(3_100)));
    assert_eq!(late.ttl(UnixMillis(9_000)), Millis(2_100));
}
