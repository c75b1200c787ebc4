use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

use super::*;

const NOW: UnixMillis = UnixMillis(1_500);

fn upstream() -> Upstream {
    Upstream { task_id: "up-1".to_string(), session: None }
}

fn text(text: &str) -> Text {
    Text::new(text)
}

fn told(operation: &Operation, command: Command) -> String {
    match operation.decide(NOW, command) {
        Ok(events) => format!("{events:?}"),
        Err(OutOfStage) => "refused".to_string(),
    }
}

fn after(mut operation: Operation, now: UnixMillis, command: Command) -> Operation {
    for event in operation.decide(now, command).unwrap() {
        operation.apply(&event);
    }
    operation
}

/// Every stage against every command about sending and hearing, for each way that an effect may be repeated.
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
        Command::Close,
        Command::Repeat,
    ];
    for (name, effect, replay) in kinds {
        for stage in &stages {
            writeln!(table, "## {name}: {stage:?}").unwrap();
            for command in &commands {
                let attempts = u32::from(*stage != Stage::Prepared);
                let operation = Operation {
                    stage: stage.clone(),
                    attempts,
                    first_dispatched_at: (attempts > 0).then_some(UnixMillis(1_000)),
                    ..Operation::new(effect, replay)
                };
                writeln!(table, "{command:?}: {}", told(&operation, command.clone())).unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}

/// Every inquiry that there can be, with the outcomes that can have it.
fn inquired() -> Vec<(Stage, Inquiry)> {
    let since = UnixMillis(1_100);
    let asking = |last: Option<Finding>| Inquiry::Reconciling {
        since,
        tries: u32::from(last.is_some()),
        next: UnixMillis(1_400),
        last,
    };
    let inquiries = [
        Inquiry::Idle,
        asking(None),
        asking(Some(Finding::NotApplied(Standing::Open))),
        asking(Some(Finding::Failed)),
        Inquiry::Person { since, why: HandOff::BudgetSpent },
        Inquiry::Person { since, why: HandOff::Contradiction },
    ];
    let mut all = vec![
        (Stage::Prepared, Inquiry::Idle),
        (Stage::Dispatched { at: UnixMillis(1_000) }, Inquiry::Idle),
        (Stage::Observing { at: UnixMillis(1_000), upstream: upstream() }, Inquiry::Idle),
        (Stage::Settled(Outcome::NoneExpected), Inquiry::Idle),
    ];
    for stage in [
        Stage::Unknown(Doubt::AnswerLost),
        Stage::Settled(Outcome::Reported(Verdict::Applied)),
        Stage::Settled(Outcome::Reported(Verdict::NotApplied)),
        Stage::Settled(Outcome::Assumed),
    ] {
        all.extend(inquiries.map(|inquiry| (stage.clone(), inquiry)));
    }
    for stage in [
        Stage::Settled(Outcome::Attested(Verdict::Applied)),
        Stage::Settled(Outcome::Attested(Verdict::NotApplied)),
        Stage::Settled(Outcome::Confirmed(Verdict::Applied)),
        Stage::Settled(Outcome::Confirmed(Verdict::NotApplied)),
    ] {
        all.push((stage.clone(), Inquiry::Idle));
        all.push((stage, Inquiry::Person { since, why: HandOff::Contradiction }));
    }
    all
}

fn learnings() -> Vec<Command> {
    let probed = |finding| Command::Probed(Probed { finding, what: text("said so"), again: Millis(50) });
    let attest = |verdict| {
        Command::Attest(Attestation { verdict, name: text("Ann"), reason: text("saw the bank's page") })
    };
    let correct = |verdict| {
        Command::Correct(Attestation { verdict, name: text("Bob"), reason: text("that was another payment") })
    };
    let hand_off = |why| Command::HandOff { why, note: None };
    let clear = |standing| Command::Clear { standing, what: text("said so") };
    vec![
        Command::Hear(Word::Success),
        Command::Hear(Word::ToolError),
        Command::Hear(Word::NotUnderstood),
        Command::Receive(Receipt { reference: text("tx-1"), verdict: Verdict::Applied }),
        Command::Receive(Receipt { reference: text("tx-1"), verdict: Verdict::NotApplied }),
        Command::Reconcile { first: Millis(10) },
        probed(Finding::Applied),
        probed(Finding::NotApplied(Standing::Fenced)),
        probed(Finding::NotApplied(Standing::Settled)),
        probed(Finding::NotApplied(Standing::Open)),
        probed(Finding::Unclear),
        probed(Finding::Failed),
        hand_off(HandOff::NoRule),
        hand_off(HandOff::BudgetSpent),
        hand_off(HandOff::Assumed),
        hand_off(HandOff::Contradiction),
        attest(Verdict::Applied),
        attest(Verdict::NotApplied),
        correct(Verdict::Applied),
        correct(Verdict::NotApplied),
        clear(Standing::Fenced),
        clear(Standing::Settled),
        clear(Standing::Open),
    ]
}

fn asked_after(stage: &Stage, inquiry: Inquiry, closed_at: Option<UnixMillis>) -> Operation {
    let attempts = u32::from(*stage != Stage::Prepared);
    Operation {
        stage: stage.clone(),
        inquiry,
        attempts,
        closed_at,
        first_dispatched_at: (attempts > 0).then_some(UnixMillis(1_000)),
        ..Operation::new(Effect::Consequential, Replay::Never)
    }
}

/// Every outcome and inquiry against every command by which more is learned. The exchange of the last attempt is proved
/// over.
#[test]
fn r4_3_every_outcome_against_every_way_to_learn_more() {
    let mut table = String::new();
    for (stage, inquiry) in inquired() {
        writeln!(table, "## {stage:?}, {inquiry:?}").unwrap();
        for command in learnings() {
            let operation = asked_after(&stage, inquiry, Some(UnixMillis(1_200)));
            writeln!(table, "{command:?}: {}", told(&operation, command.clone())).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn r4_5_a_negative_look_up_confirms_nothing_while_the_old_exchange_may_go_on() {
    for (stage, inquiry) in inquired() {
        for command in learnings() {
            let proved = told(&asked_after(&stage, inquiry, Some(UnixMillis(1_200))), command.clone());
            let unproved = told(&asked_after(&stage, inquiry, None), command.clone());
            let is_settled = matches!(
                &command,
                Command::Probed(Probed { finding: Finding::NotApplied(Standing::Settled), .. })
                    | Command::Clear { standing: Standing::Settled, .. }
            );
            if is_settled {
                assert!(
                    !unproved.contains("Confirmed(NotApplied), evidence") && !unproved.contains("Cleared")
                );
            } else {
                assert_eq!(proved, unproved, "{stage:?} {inquiry:?} {command:?}");
            }
        }
    }
}

#[test]
fn r4_5_settling_counts_from_the_proof_that_the_exchange_is_over() {
    let lost = Operation {
        stage: Stage::Unknown(Doubt::AnswerLost),
        attempts: 1,
        ..Operation::new(Effect::Consequential, Replay::Never)
    };
    let settle = Some(Millis(100));
    assert_eq!(lost.standing(UnixMillis(9_000), settle), Standing::Open);
    let closed = after(lost, UnixMillis(1_000), Command::Close);
    assert_eq!(closed.standing(UnixMillis(1_099), settle), Standing::Open);
    assert_eq!(closed.standing(UnixMillis(1_100), settle), Standing::Settled);
    assert_eq!(closed.standing(UnixMillis(1_100), None), Standing::Open);
    // A clock that went back proves nothing, however short the time to settle.
    assert_eq!(closed.standing(UnixMillis(999), Some(Millis(0))), Standing::Open);
    let again = after(Operation { replay: Replay::Natural, ..closed }, UnixMillis(1_200), Command::Dispatch);
    assert_eq!(again.standing(UnixMillis(9_000), settle), Standing::Open);
}

#[test]
fn inv_12_a_keyed_resend_ends_with_the_window() {
    let operation = Operation::new(Effect::Consequential, Replay::Keyed { window: Millis(1_000) });
    let operation = after(operation, UnixMillis(0), Command::Dispatch);
    assert!(operation.decide(UnixMillis(999), Command::Dispatch).is_ok());
    assert_eq!(operation.decide(UnixMillis(1_000), Command::Dispatch), Err(OutOfStage));
}

#[test]
fn r4_5_a_second_attempt_that_never_left_proves_nothing_about_the_first() {
    let mut operation = Operation::new(Effect::Consequential, Replay::Natural);
    for _ in 0..2 {
        operation = after(operation, UnixMillis(0), Command::Dispatch);
    }
    assert_eq!(
        operation.decide(UnixMillis(1), Command::NeverSent),
        Ok(vec![Event::Doubted { doubt: Doubt::AnswerLost }])
    );
}

#[test]
fn r4_5_a_second_attempt_that_is_not_understood_proves_nothing_about_the_first() {
    let mut operation = Operation::new(Effect::Consequential, Replay::Natural);
    for _ in 0..2 {
        operation = after(operation, UnixMillis(0), Command::Dispatch);
    }
    assert_eq!(
        operation.decide(UnixMillis(1), Command::Hear(Word::NotUnderstood)),
        Ok(vec![Event::Doubted { doubt: Doubt::PeerError }])
    );
    operation.stage = Stage::Settled(Outcome::Assumed);
    assert_eq!(operation.decide(UnixMillis(1), Command::Hear(Word::NotUnderstood)), Err(OutOfStage));
}

#[test]
fn inv_12_what_is_cleared_may_be_sent_once_more_and_then_only_that_attempt_counts() {
    let operation = Operation::new(Effect::Consequential, Replay::Never);
    let mut operation = after(operation, UnixMillis(0), Command::Dispatch);
    operation = after(operation, UnixMillis(1), Command::Lose(Doubt::AnswerLost));
    assert_eq!(operation.decide(UnixMillis(2), Command::Dispatch), Err(OutOfStage));
    operation =
        after(operation, UnixMillis(2), Command::Clear { standing: Standing::Fenced, what: text("no tx-1") });
    assert_eq!((&operation.stage, operation.cleared), (&Stage::Prepared, 1));
    operation = after(operation, UnixMillis(3), Command::Dispatch);
    assert_eq!(operation.decide(UnixMillis(4), Command::Dispatch), Err(OutOfStage));
    operation = after(operation, UnixMillis(4), Command::NeverSent);
    assert_eq!(operation.stage, Stage::Settled(Outcome::Confirmed(Verdict::NotApplied)));
}

#[test]
fn r5_4_asking_again_keeps_the_budget_and_a_person_can_grant_a_new_one() {
    let lost = Operation {
        stage: Stage::Unknown(Doubt::AnswerLost),
        attempts: 1,
        ..Operation::new(Effect::Consequential, Replay::Never)
    };
    let mut operation = after(lost, UnixMillis(10), Command::Reconcile { first: Millis(5) });
    let failed = Probed { finding: Finding::Failed, what: text("503"), again: Millis(20) };
    operation = after(operation, UnixMillis(15), Command::Probed(failed));
    let last = Some(Finding::Failed);
    let asking = Inquiry::Reconciling { since: UnixMillis(10), tries: 1, next: UnixMillis(35), last };
    assert_eq!(operation.inquiry, asking);
    operation = after(operation, UnixMillis(20), Command::Reconcile { first: Millis(0) });
    let sooner = Inquiry::Reconciling { since: UnixMillis(10), tries: 1, next: UnixMillis(20), last };
    assert_eq!(operation.inquiry, sooner);
    operation = after(operation, UnixMillis(25), Command::HandOff { why: HandOff::BudgetSpent, note: None });
    assert_eq!(
        operation.inquiry,
        Inquiry::Person { since: UnixMillis(25), why: HandOff::BudgetSpent },
        "nothing was found, so nothing is assumed"
    );
    operation = after(operation, UnixMillis(30), Command::Reconcile { first: Millis(0) });
    let anew = Inquiry::Reconciling { since: UnixMillis(30), tries: 0, next: UnixMillis(30), last: None };
    assert_eq!(operation.inquiry, anew);
}

#[test]
fn r5_5_texts_of_others_are_on_one_line_and_bounded() {
    let long = Text::new(&"é\n".repeat(500));
    assert!(long.as_str().len() <= TEXT_BYTES_MAX && long.as_str().len() > TEXT_BYTES_MAX - 4);
    assert!(long.as_str().starts_with("é é"));
    assert_eq!(Text::new("  a\u{7}b\r\n ").as_str(), "a b");
    assert!(Text::new("\n").is_empty());
}

/// Which operations are certain to have done nothing: what gives a key free (R4.6).
#[test]
fn r4_6_only_what_certainly_did_nothing_gives_its_key_free() {
    let mut undone = String::new();
    for (stage, inquiry) in inquired() {
        if asked_after(&stage, inquiry, None).is_surely_undone() {
            writeln!(undone, "{stage:?}, {inquiry:?}").unwrap();
        }
    }
    assert_eq!(undone, "Settled(Attested(NotApplied)), Idle\nSettled(Confirmed(NotApplied)), Idle\n");
}

/// Which operations keep their object from others (design 7).
#[test]
fn design_7_what_is_only_assumed_keeps_its_object() {
    let mut open = String::new();
    for (stage, inquiry) in inquired() {
        let operation = asked_after(&stage, inquiry, None);
        if operation.is_open() && matches!(operation.stage, Stage::Settled(_)) {
            writeln!(open, "{stage:?}").unwrap();
        }
    }
    assert!(open.lines().all(|line| line == "Settled(Assumed)") && !open.is_empty(), "{open}");
}
