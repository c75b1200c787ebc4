use taskgate_core::operation::{Effect, Finding, HandOff, Outcome, Standing, Verdict, Word};

use super::*;

const PLACE: Place<'static> = Place { table: "task", row: "abcdefgh" };

fn lifetime() -> Lifetime {
    Lifetime { created: UnixMillis(5), ttl: Millis(10), linger: Millis(20), max: Millis(30) }
}

fn owned(columns: TaskColumns<&str>) -> TaskColumns<String> {
    TaskColumns {
        state: columns.state,
        ending: columns.ending,
        ending_text: columns.ending_text.map(str::to_owned),
        ended_ms: columns.ended_ms,
        cancel_wished_ms: columns.cancel_wished_ms,
        message: columns.message.map(str::to_owned),
        keys_issued: columns.keys_issued,
        created_ms: columns.created_ms,
        ttl_ms: columns.ttl_ms,
        linger_ms: columns.linger_ms,
        max_ms: columns.max_ms,
        expires_ms: columns.expires_ms,
    }
}

fn owned_operation(columns: OperationColumns<&str>) -> OperationColumns<String> {
    OperationColumns {
        effect: columns.effect,
        replay: columns.replay,
        replay_window_ms: columns.replay_window_ms,
        stage: columns.stage,
        attempts: columns.attempts,
        first_dispatched_ms: columns.first_dispatched_ms,
        dispatched_ms: columns.dispatched_ms,
        upstream_task: columns.upstream_task.map(str::to_owned),
        upstream_session: columns.upstream_session.map(str::to_owned),
        outcome: columns.outcome,
        doubt: columns.doubt,
        cleared: columns.cleared,
        closed_ms: columns.closed_ms,
        inquiry: columns.inquiry,
        inquiry_since_ms: columns.inquiry_since_ms,
        inquiry_tries: columns.inquiry_tries,
        inquiry_next_ms: columns.inquiry_next_ms,
        inquiry_last: columns.inquiry_last,
        inquiry_why: columns.inquiry_why,
        receipt: columns.receipt.map(str::to_owned),
    }
}

#[test]
fn inv_06_every_ending_survives_its_columns() {
    let bytes = Bytes::from_static(b"{}");
    let text = || String::from("why");
    for ending in [
        Ending::Cancelled,
        Ending::Returned { result: bytes.clone(), is_error: false },
        Ending::Returned { result: bytes.clone(), is_error: true },
        Ending::Raised { error: bytes.clone() },
        Ending::Faulted(Fault::NeverSent(text())),
        Ending::Faulted(Fault::OutcomeUnknown(text())),
        Ending::Faulted(Fault::DeadlinePassed),
        Ending::Faulted(Fault::UpstreamLost),
        Ending::Faulted(Fault::UpstreamFault(text())),
        Ending::Faulted(Fault::NoAnswer(text())),
        Ending::Faulted(Fault::BudgetSpent(text())),
        Ending::Faulted(Fault::Found(Found::Applied)),
        Ending::Faulted(Fault::Found(Found::NotApplied)),
        Ending::Faulted(Fault::Found(Found::AssumedNotApplied)),
    ] {
        let mut task = Task::new(lifetime());
        task.state = State::Over { ending: ending.clone(), at: UnixMillis(9) };
        let payload = EndingColumns::of(&ending).payload.cloned();
        let back = owned(TaskColumns::of(&task)).task(PLACE, vec![], payload).unwrap();
        assert_eq!(back, task);
    }
}

#[test]
fn r4_5_every_stage_survives_its_columns() {
    let at = UnixMillis(7);
    let upstream = Upstream { task_id: "up".into(), session: Some("s".into()) };
    for stage in [
        Stage::Prepared,
        Stage::Dispatched { at },
        Stage::Observing { at, upstream },
        Stage::Settled(Outcome::Reported(Verdict::NotApplied)),
        Stage::Unknown(Doubt::PeerError),
    ] {
        for replay in [Replay::Never, Replay::Natural, Replay::Keyed { window: Millis(8) }] {
            let mut operation = Operation::new(Effect::Reversible, replay);
            operation.stage = stage.clone();
            operation.attempts = 2;
            operation.first_dispatched_at = Some(UnixMillis(3));
            let back = owned_operation(OperationColumns::of(&operation)).operation(PLACE).unwrap();
            assert_eq!(back, operation);
        }
    }
}

#[test]
fn r3_3_what_we_never_write_is_corrupt_and_not_guessed() {
    let task = Task::new(lifetime());
    let mut columns = owned(TaskColumns::of(&task));
    columns.state = 9;
    assert!(matches!(columns.task(PLACE, vec![], None), Err(Error::Corrupt { column: "state", .. })));

    let mut columns = owned(TaskColumns::of(&task));
    columns.state = StateKind::InputRequired.code();
    assert!(matches!(columns.task(PLACE, vec![], None), Err(Error::Corrupt { column: "state", .. })));

    let mut columns = owned(TaskColumns::of(&task));
    columns.state = StateKind::Over.code();
    columns.ended_ms = Some(1);
    columns.ending = Some(EndingKind::Returned.code());
    assert!(matches!(columns.task(PLACE, vec![], None), Err(Error::Corrupt { column: "ending", .. })));

    let operation = Operation::new(Effect::ReadOnly, Replay::Never);
    let mut columns = owned_operation(OperationColumns::of(&operation));
    columns.attempts = -1;
    assert!(matches!(columns.operation(PLACE), Err(Error::Corrupt { column: "attempts", .. })));
}

#[test]
fn r4_5_an_attempt_is_classed_by_what_closed_it() {
    let settled = |outcome, evidence| Change::Operation(operation::Event::Settled { outcome, evidence });
    let doubted = |doubt| Change::Operation(operation::Event::Doubted { doubt });
    let confirmed = Outcome::Confirmed(Verdict::NotApplied);
    let none = Outcome::NoneExpected;
    let probe =
        Evidence::Probe { finding: Finding::NotApplied(Standing::Settled), what: operation::Text::default() };

    for (changes, class) in [
        (vec![Change::Created], None),
        (vec![settled(confirmed, Evidence::NeverSent)], Some(AttemptClass::NotSent)),
        (vec![settled(confirmed, probe)], None),
        (vec![doubted(Doubt::AnswerLost)], Some(AttemptClass::NoReply)),
        (vec![doubted(Doubt::ToolError)], Some(AttemptClass::Replied)),
        (vec![settled(none, Evidence::None)], Some(AttemptClass::NoReply)),
        (vec![settled(none, Evidence::Answer(Word::Success))], Some(AttemptClass::Replied)),
        (vec![settled(none, Evidence::NeverSent)], Some(AttemptClass::NotSent)),
    ] {
        assert_eq!(AttemptClass::of(&changes), class, "{changes:?}");
    }
}

#[test]
fn r4_5_every_inquiry_survives_its_columns() {
    let (since, next) = (UnixMillis(7), UnixMillis(9));
    let last = Some(Finding::NotApplied(Standing::Open));
    for inquiry in [
        Inquiry::Idle,
        Inquiry::Reconciling { since, tries: 0, next, last: None },
        Inquiry::Reconciling { since, tries: 3, next, last },
        Inquiry::Person { since, why: HandOff::Contradiction },
    ] {
        for closed_at in [None, Some(UnixMillis(5))] {
            let stage = Stage::Settled(Outcome::Assumed);
            let mut operation = Operation::new(Effect::Reversible, Replay::Never);
            let receipt = closed_at.map(|_| operation::Text::new("tx-1"));
            operation =
                Operation { stage, attempts: 2, cleared: 1, closed_at, inquiry, receipt, ..operation };
            let back = owned_operation(OperationColumns::of(&operation)).operation(PLACE).unwrap();
            assert_eq!(back, operation);
        }
    }
    let mut columns =
        owned_operation(OperationColumns::of(&Operation::new(Effect::Reversible, Replay::Never)));
    columns.inquiry = InquiryKind::Person.code();
    assert!(matches!(
        columns.operation(PLACE),
        Err(Error::Corrupt { column: "inquiry_why" | "inquiry_since_ms", .. })
    ));
}
