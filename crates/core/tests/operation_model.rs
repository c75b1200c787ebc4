//! Random lives of an operation: whatever it is told, and in whatever order, some things never happen.

use proptest::prelude::*;
use taskgate_core::operation::{
    Attestation, Command, Doubt, Effect, Event, Finding, HandOff, Inquiry, Operation, Outcome, Probed,
    Receipt, Replay, Stage, Standing, Text, Upstream, Verdict, Word,
};
use taskgate_core::time::{Millis, UnixMillis};

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![Just(Verdict::Applied), Just(Verdict::NotApplied)]
}

fn standing() -> impl Strategy<Value = Standing> {
    prop_oneof![Just(Standing::Fenced), Just(Standing::Settled), Just(Standing::Open)]
}

fn finding() -> impl Strategy<Value = Finding> {
    prop_oneof![
        Just(Finding::Applied),
        standing().prop_map(Finding::NotApplied),
        Just(Finding::Unclear),
        Just(Finding::Failed)
    ]
}

fn why() -> impl Strategy<Value = HandOff> {
    prop_oneof![
        Just(HandOff::NoRule),
        Just(HandOff::BudgetSpent),
        Just(HandOff::Assumed),
        Just(HandOff::RuleFailed),
        Just(HandOff::Wished)
    ]
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![Just(Word::Success), Just(Word::ToolError), Just(Word::NotUnderstood), Just(Word::OtherError)]
}

fn doubt() -> impl Strategy<Value = Doubt> {
    prop_oneof![Just(Doubt::AnswerLost), Just(Doubt::DeadlinePassed), Just(Doubt::UpstreamLost)]
}

fn command() -> impl Strategy<Value = Command> {
    let text = || Text::new("so it says");
    prop_oneof![
        3 => Just(Command::Dispatch),
        1 => Just(Command::Accept(Upstream { task_id: "up-1".into(), session: None })),
        2 => word().prop_map(Command::Hear),
        1 => Just(Command::NeverSent),
        3 => doubt().prop_map(Command::Lose),
        2 => Just(Command::Close),
        1 => verdict().prop_map(move |verdict| Command::Receive(Receipt { reference: text(), verdict })),
        3 => (0_u64..50).prop_map(|first| Command::Reconcile { first: Millis(first) }),
        4 => (finding(), 0_u64..50).prop_map(move |(finding, again)| {
            Command::Probed(Probed { finding, what: text(), again: Millis(again) })
        }),
        2 => why().prop_map(|why| Command::HandOff { why, note: None }),
        1 => verdict().prop_map(move |verdict| {
            Command::Attest(Attestation { verdict, name: text(), reason: text() })
        }),
        1 => verdict().prop_map(move |verdict| {
            Command::Correct(Attestation { verdict, name: text(), reason: text() })
        }),
        1 => standing().prop_map(move |standing| Command::Clear { standing, what: text() }),
        1 => Just(Command::Note(text())),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let effect = prop_oneof![Just(Effect::ReadOnly), Just(Effect::Reversible), Just(Effect::Consequential)];
    let replay = prop_oneof![
        3 => Just(Replay::Never),
        1 => Just(Replay::Natural),
        1 => (1_u64..400).prop_map(|window| Replay::Keyed { window: Millis(window) }),
    ];
    (effect, replay).prop_map(|(effect, replay)| Operation::new(effect, replay))
}

fn rank(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::NoneExpected => 0,
        Outcome::Assumed => 1,
        Outcome::Reported(_) => 2,
        Outcome::Attested(_) => 3,
        Outcome::Confirmed(_) => 4,
    }
}

/// What must hold of every step, as a reason why it does not.
fn broken(before: &Operation, event: &Event, after: &Operation, at: UnixMillis) -> Option<&'static str> {
    if let (Stage::Settled(held), Stage::Settled(now)) = (&before.stage, &after.stage) {
        let is_confirmed = matches!(held, Outcome::Confirmed(_));
        if is_confirmed && held != now {
            return Some("confirmed changed");
        }
        if rank(*now) < rank(*held) {
            return Some("a stronger outcome gave way to a weaker one");
        }
    } else if let Stage::Settled(_) = before.stage {
        return Some("what was settled is open again");
    }
    if let Event::Dispatched { .. } = event {
        let is_allowed = before.stage == Stage::Prepared || before.may_resend(at);
        if !is_allowed {
            return Some("sent without permission");
        }
    }
    if let Stage::Settled(Outcome::Confirmed(Verdict::NotApplied)) = after.stage
        && before.stage != after.stage
        && before.closed_at.is_none()
    {
        let proved = format!("{event:?}");
        if !["NeverSent", "Fenced", "Receipt"].iter().any(|proof| proved.contains(proof)) {
            return Some("a look-up alone confirmed that nothing happened");
        }
    }
    let is_allowed = match (&after.inquiry, &after.stage) {
        (Inquiry::Idle, _) => true,
        (_, Stage::Unknown(_) | Stage::Settled(Outcome::Reported(_) | Outcome::Assumed)) => true,
        (Inquiry::Person { why: HandOff::Contradiction, .. }, Stage::Settled(outcome)) => {
            *outcome != Outcome::NoneExpected
        }
        (Inquiry::Reconciling { .. } | Inquiry::Person { .. }, _) => false,
    };
    if !is_allowed {
        return Some("something is asked after that needs no asking");
    }
    if after.effect == Effect::ReadOnly
        && matches!(
            after.stage,
            Stage::Unknown(_) | Stage::Settled(Outcome::Reported(_) | Outcome::Confirmed(_))
        )
    {
        return Some("a read-only call has an effect");
    }
    (after.cleared > after.attempts).then_some("more was cleared than was sent")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// `confirmed` never changes, no outcome gives way to a weaker one, nothing is sent without permission (INV-12), a
    /// negative look-up alone confirms nothing (notes 3.4), and only what may be is asked after.
    #[test]
    fn r4_3_r4_5_inv_12_whatever_an_operation_is_told(
        mut operation in operation(),
        commands in prop::collection::vec((command(), 0_u64..60), 1..40),
    ) {
        let first = operation.clone();
        let mut log = Vec::new();
        let mut now = UnixMillis(1_000);
        for (command, pause) in commands {
            now = now + Millis(pause);
            let Ok(events) = operation.decide(now, command.clone()) else { continue };
            for event in events {
                let before = operation.clone();
                operation.apply(&event);
                let broken = broken(&before, &event, &operation, now);
                prop_assert_eq!(broken, None, "{:?} by {:?}: {:?}", before, command, event);
                log.push(event);
            }
        }
        // The log adds up to the state (INV-04).
        let mut folded = first;
        log.iter().for_each(|event| folded.apply(event));
        prop_assert_eq!(folded, operation);
    }

    /// What an operation refuses leaves no event, and asking twice decides the same.
    #[test]
    fn r4_2_deciding_changes_nothing(
        mut operation in operation(),
        commands in prop::collection::vec(command(), 1..30),
    ) {
        let now = UnixMillis(1_000);
        for command in commands {
            let before = operation.clone();
            let events = operation.decide(now, command.clone());
            prop_assert_eq!(&before, &operation);
            prop_assert_eq!(&events, &operation.decide(now, command));
            events.into_iter().flatten().for_each(|event| operation.apply(&event));
        }
    }
}
