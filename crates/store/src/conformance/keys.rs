//! Keys that are given free, since it is certain that nothing was done, and those that are not (R4.6).

use std::sync::Arc;

use futures_util::future::join_all;
use taskgate_core::id::OperationId;
use taskgate_core::operation::{
    Command, Doubt, Event, Finding, HandOff, Inquiry, Outcome, Receipt, Stage, Standing, Text, Verdict, Word,
};
use taskgate_core::task::{Ending, Fault};
use taskgate_core::time::{Millis, UnixMillis};

use super::Factory;
use super::sample::{
    CREATED, EXPIRES, Told, accept, advance, attest, close, correct, dispatch, end, fail, frame, hand_off,
    intent, lose, probed, receive, reconcile, record, retire, stranger, succeed, tell,
};
use crate::record::{Change, Conflict, Key, KeyScope, Record};
use crate::{AppendError, CreateError, Created, Join, Store};

const NOW: UnixMillis = UnixMillis(CREATED.0 + 10);
const AFTER: UnixMillis = UnixMillis(EXPIRES.0 + 1);

fn keyed(text: &str) -> Record {
    let mut record = record(text);
    record.call.key = Some(Key { text: "order-1".into(), scope: KeyScope::Tenant });
    record.call.intent = Some(intent("pay", None));
    record
}

fn other_request(text: &str) -> Record {
    let mut record = keyed(text);
    record.call.digest = [8; 32];
    record
}

/// Creates, and finds that looking first says the same.
async fn create(store: &impl Store, record: &Record) -> Result<Created, CreateError> {
    let record = Arc::new(record.clone());
    let looked = store.earlier(record.clone(), Join::SameKey).await;
    let created = store.create(record, Join::SameKey).await;
    let (looked_as, created_as) = (format!("{looked:?}"), format!("{created:?}"));
    match created {
        Ok(Created::New) => assert!(matches!(looked, Ok(None)), "{looked_as}"),
        Ok(_) => assert_eq!(looked_as, created_as.replacen("Ok(", "Ok(Some(", 1) + ")"),
        Err(CreateError::ObjectBusy(_)) => assert!(matches!(looked, Ok(None)), "{looked_as}"),
        Err(_) => assert_eq!(looked_as, created_as),
    }
    created
}

async fn assert_new(store: &impl Store, record: &Record) {
    let created = create(store, record).await;
    assert!(matches!(created, Ok(Created::New)), "{}: {created:?}", record.id.expose());
}

/// An operation that is told `told`.
async fn put(store: &impl Store, first: &Record, told: Vec<Told>) -> Record {
    assert_new(store, first).await;
    if told.is_empty() { first.clone() } else { tell(store, first, NOW, told).await }
}

fn operation(command: Command) -> Told {
    Told::Operation(command)
}

fn never_sent() -> Vec<Told> {
    vec![operation(Command::NeverSent), end(Ending::Faulted(Fault::NeverSent("its server is down".into())))]
}

fn after(first: Vec<Told>, then: Vec<Told>) -> Vec<Told> {
    [vec![dispatch()], first, then].concat()
}

fn surely_undone() -> Vec<(&'static str, Vec<Told>)> {
    let fenced = probed(Finding::NotApplied(Standing::Fenced));
    let settled = probed(Finding::NotApplied(Standing::Settled));
    let receipt = Receipt { reference: Text::new("void-1"), verdict: Verdict::NotApplied };
    vec![
        ("cancelled-unsent", vec![operation(Command::NeverSent), end(Ending::Cancelled)]),
        ("never-sent", after(vec![], never_sent())),
        ("fenced", after(lose(), vec![reconcile(), fenced])),
        ("settled", after(lose(), vec![close(), reconcile(), settled])),
        ("receipt", after(lose(), vec![operation(Command::Receive(receipt))])),
        ("attested", after(lose(), vec![attest(Verdict::NotApplied)])),
        ("attested-error", after(fail(), vec![attest(Verdict::NotApplied)])),
    ]
}

/// With the same request and with another, while its task is kept and after that, also from one restart to the next.
pub async fn r4_6_a_key_is_given_free_when_it_is_certain_that_nothing_was_done(factory: &impl Factory) {
    for (name, told) in surely_undone() {
        for (is_purged, is_other) in [(false, false), (false, true), (true, false), (true, true)] {
            let store = factory.fresh().await;
            let first = put(&store, &keyed(name), told.clone()).await;
            if is_purged {
                assert_eq!(store.purge(AFTER, 9).await.expect("writable"), 1, "{name}");
            }
            let store = factory.reopen(store).await;
            let second = if is_other { other_request("second") } else { keyed("second") };
            assert_new(&store, &second).await;
            // Now it is the second one's, as any key.
            let third = create(&store, &Record { id: super::sample::id("third"), ..second.clone() }).await;
            assert!(matches!(third, Ok(Created::Joined(joined)) if *joined == second), "{name}");
            let store = factory.reopen(store).await;
            let first = store.operation(&first.operation_id).await.expect("readable").expect("it stays");
            assert_eq!(first.key, second.call.key, "the first one's record says what its key was");
            let given = store.key_given_to(&first).await.expect("readable");
            assert_eq!(given.as_ref(), Some(&second.operation_id), "{name}");
            let second = store.operation(&second.operation_id).await.expect("readable").expect("it is there");
            assert_eq!(store.key_given_to(&second).await.expect("readable"), None);
            let history = store.history(&second.id).await.expect("readable");
            let note = format!("noted its key was given free by {}, which certainly did nothing", first.id);
            assert!(history[0].lines.contains(&note), "{history:?}");
        }
    }
}

/// Nobody is certain, or it was done, or sources disagree, or somebody still waits for it.
pub async fn r4_6_no_other_operation_gives_its_key_free(factory: &impl Factory) {
    let not_understood = vec![
        operation(Command::Hear(Word::NotUnderstood)),
        end(Ending::Raised { error: bytes::Bytes::from_static(b"{\"code\":-32602,\"message\":\"no\"}") }),
    ];
    let open = probed(Finding::NotApplied(Standing::Open));
    let fenced = || vec![reconcile(), probed(Finding::NotApplied(Standing::Fenced))];
    let lost = || vec![operation(Command::Lose(Doubt::AnswerLost))];
    let cases = [
        ("prepared", vec![]),
        ("dispatched", vec![dispatch()]),
        ("observing", vec![dispatch(), accept("up-1")]),
        ("unknown", after(lose(), vec![])),
        ("tool-error", after(fail(), vec![])),
        ("waits", after(lose(), vec![hand_off(HandOff::NoRule)])),
        ("asked", after(lose(), vec![reconcile(), open.clone()])),
        ("assumed", after(lose(), vec![reconcile(), open, hand_off(HandOff::BudgetSpent)])),
        ("reported-undone", after(not_understood, vec![])),
        ("reported", after(succeed(), vec![])),
        ("attested", after(lose(), vec![attest(Verdict::Applied)])),
        ("confirmed", after(lose(), vec![receive("tx-1")])),
        ("disputed", after(lose(), [fenced(), vec![operation(Command::Hear(Word::Success))]].concat())),
        ("working", after(lost(), fenced())),
    ];
    for (name, told) in cases {
        let store = factory.fresh().await;
        let first = put(&store, &keyed(name), told).await;
        for is_purged in [false, true] {
            if is_purged && store.purge(AFTER, 9).await.expect("writable") == 0 {
                continue;
            }
            let again = create(&store, &keyed("again")).await;
            let is_first = match &again {
                Ok(Created::Joined(joined)) => **joined == first,
                Ok(Created::Known(known)) => known.id == first.operation_id,
                Ok(Created::New) | Err(_) => false,
            };
            assert!(is_first, "{name}: {again:?}");
            let other = create(&store, &other_request("other")).await;
            assert!(matches!(other, Err(CreateError::KeyReused)), "{name}: {other:?}");
            let theirs = create(&store, &Record { principal: stranger(), ..keyed("theirs") }).await;
            assert!(matches!(theirs, Err(CreateError::KeyElsewhere)), "{name}: {theirs:?}");
        }
    }
}

/// It is a read, so nothing was done; but while its answer is kept, that is the answer.
pub async fn r4_6_a_read_keeps_its_key_as_long_as_its_answer(factory: &impl Factory) {
    let store = factory.fresh().await;
    let mut first = keyed("first");
    first.operation.effect = taskgate_core::operation::Effect::ReadOnly;
    let first = put(&store, &first, after(succeed(), vec![])).await;
    let again = create(&store, &keyed("again")).await;
    assert!(matches!(again, Ok(Created::Joined(joined)) if *joined == first));
    assert_eq!(store.purge(AFTER, 9).await.expect("writable"), 1);
    let mut second = keyed("second");
    second.operation.effect = taskgate_core::operation::Effect::ReadOnly;
    let lost = [
        operation(Command::Lose(Doubt::AnswerLost)),
        end(Ending::Faulted(Fault::UpstreamFault("the connection broke".into()))),
    ];
    put(&store, &second, after(lost.into(), vec![])).await;
    assert_new(&store, &keyed("third")).await;
}

/// It blocks its order for nobody; and whose it was is not shown to whoever has it next.
pub async fn r4_6_a_business_key_is_given_free_for_everybody(factory: &impl Factory) {
    let store = factory.fresh().await;
    put(&store, &keyed("first"), never_sent()).await;
    let theirs = Record { principal: stranger(), ..other_request("theirs") };
    assert_new(&store, &theirs).await;
    let mine = create(&store, &keyed("mine")).await;
    assert!(matches!(mine, Err(CreateError::KeyElsewhere)), "{mine:?}");
    tell(&store, &theirs, NOW, never_sent()).await;
    assert_new(&store, &keyed("mine")).await;
}

/// However they race.
pub async fn inv_16_of_many_at_once_under_a_key_given_free_one_is_new(factory: &impl Factory) {
    let store = factory.fresh().await;
    put(&store, &keyed("first"), never_sent()).await;
    let racers: Vec<_> = (0..16).map(|n| Arc::new(keyed(&format!("racer-{n:02}")))).collect();
    let creates = racers.iter().map(|racer| store.create(racer.clone(), Join::SameKey));
    let outcomes = join_all(creates).await;
    let news = outcomes.iter().filter(|outcome| matches!(outcome, Ok(Created::New))).count();
    let joined = outcomes.iter().filter(|outcome| matches!(outcome, Ok(Created::Joined(_)))).count();
    assert_eq!((news, joined), (1, 15));
}

/// A frame comes before every rule: that message is that call, whoever has its key now.
pub async fn r3_3_a_frame_still_leads_to_a_call_that_gave_its_key_free(factory: &impl Factory) {
    let store = factory.fresh().await;
    let mut first = keyed("first");
    first.call.frame = Some(frame(1));
    let first = put(&store, &first, never_sent()).await;
    let mut second = keyed("second");
    second.call.frame = Some(frame(2));
    assert_new(&store, &second).await;
    for (number, earlier) in [(1, &first), (2, &second)] {
        let mut again = keyed("again");
        again.call.frame = Some(frame(number));
        let found = create(&store, &again).await;
        assert!(matches!(found, Ok(Created::Joined(joined)) if *joined == *earlier));
    }
}

/// Nothing is written then, its key neither.
pub async fn design_7_a_key_given_free_stays_so_when_its_object_is_busy(factory: &impl Factory) {
    let on = |text: &str| {
        let mut record = keyed(text);
        let mut intent = intent("pay", Some("invoice-1"));
        if let Some(object) = &mut intent.object {
            object.conflict = Conflict::Refuse;
        }
        record.call.intent = Some(intent);
        record
    };
    let store = factory.fresh().await;
    let first = put(&store, &on("first"), never_sent()).await;
    let mut beside = on("beside");
    beside.call.key = None;
    assert_new(&store, &beside).await;
    let busy = create(&store, &on("busy")).await;
    assert!(matches!(busy, Err(CreateError::ObjectBusy(_))), "{busy:?}");
    let entry = store.operation(&first.operation_id).await.expect("readable").expect("it is there");
    assert_eq!(store.key_given_to(&entry).await.expect("readable"), None);
    tell(&store, &beside, NOW, never_sent()).await;
    assert_new(&store, &on("second")).await;
}

/// A person was wrong, and the key is another's by now: the change is taken only if a person is told of it, and the other one
/// notices nothing.
pub async fn r4_6_two_effects_under_one_key_are_never_passed_over(factory: &impl Factory) {
    for (told, outcome) in [
        (receive("tx-1"), Outcome::Confirmed(Verdict::Applied)),
        (probed(Finding::Applied), Outcome::Confirmed(Verdict::Applied)),
        (correct(Verdict::Applied), Outcome::Attested(Verdict::Applied)),
    ] {
        for is_purged in [false, true] {
            let store = factory.fresh().await;
            let first = put(&store, &keyed("first"), after(lose(), vec![attest(Verdict::NotApplied)])).await;
            if is_purged {
                assert_eq!(store.purge(AFTER, 9).await.expect("writable"), 1);
            }
            let second = keyed("second");
            assert_new(&store, &second).await;

            let (mut next, mut changes) = advance(&first, NOW, vec![told.clone()]);
            assert_eq!(next.operation.stage, Stage::Settled(outcome));
            let refused = write(&store, is_purged, &next, &changes).await;
            assert!(
                matches!(&refused, Err(AppendError::KeyGiven { to }) if *to == second.operation_id),
                "{refused:?}"
            );
            let entry = store.operation(&first.operation_id).await.expect("readable").expect("it is there");
            assert_eq!(entry.operation, first.operation, "nothing was written");

            let note = Some(Text::new("its key was given to op-second"));
            let why = HandOff::Contradiction;
            let told = next.operation.decide(NOW, Command::HandOff { why, note }).expect("whatever is held");
            told.iter().for_each(|event| next.operation.apply(event));
            changes.extend(told.into_iter().map(Change::Operation));
            write(&store, is_purged, &next, &changes).await.expect("a person is told");
            let entry = store.operation(&first.operation_id).await.expect("readable").expect("it is there");
            assert_eq!(entry.operation.stage, Stage::Settled(outcome));
            assert_eq!(entry.operation.inquiry, Inquiry::Person { since: NOW, why });
            let again = create(&store, &keyed("again")).await;
            assert!(matches!(again, Ok(Created::Joined(joined)) if *joined == second), "undisturbed");

            // Who has seen it says so, and that is that.
            let first = next.clone();
            let (seen, changes) = advance(&first, NOW, vec![attest(Verdict::Applied)]);
            assert!(matches!(
                changes[..],
                [Change::Operation(Event::Acknowledged { .. } | Event::Settled { .. })]
            ));
            write(&store, is_purged, &seen, &changes).await.expect("it is said once");
        }
    }
}

/// A person says that nothing was done, takes that back, and says it again: its key went to another the first time, and is
/// that one's for good.
pub async fn r4_6_a_word_said_again_takes_no_key_from_another(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = put(&store, &keyed("first"), after(lose(), vec![attest(Verdict::NotApplied)])).await;
    let second = keyed("second");
    assert_new(&store, &second).await;
    let taken_back = || vec![correct(Verdict::Applied), hand_off(HandOff::Contradiction)];
    let said_again = || vec![correct(Verdict::NotApplied)];
    let mut first = first;
    for told in [taken_back(), said_again(), taken_back(), said_again()] {
        first = tell(&store, &first, NOW, told).await;
        let again = create(&store, &keyed("again")).await;
        assert!(matches!(again, Ok(Created::Joined(joined)) if *joined == second), "undisturbed: {first:?}");
    }
    assert!(first.operation.is_surely_undone(), "{:?}", first.operation);
    let entry = store.operation(&first.operation_id).await.expect("readable").expect("it is there");
    assert_eq!(store.key_given_to(&entry).await.expect("readable"), Some(second.operation_id));
}

/// To the task, or to what is left of it.
async fn write(
    store: &impl Store,
    is_purged: bool,
    next: &Record,
    changes: &[Change],
) -> Result<(), AppendError> {
    if !is_purged {
        return store.append(Arc::new(next.clone()), changes.to_vec()).await;
    }
    let events = changes.iter().map(|change| match change {
        Change::Operation(event) => event.clone(),
        Change::Created | Change::Task(_) | Change::Observed(_) => panic!("its task is gone"),
    });
    let mut entry = store.operation(&next.operation_id).await.expect("readable").expect("it is there");
    entry.operation = next.operation.clone();
    entry.version = next.version;
    entry.updated = next.updated;
    store.settle(entry, events.collect()).await
}

/// Its key is another's by then, and stays that one's.
pub async fn r4_8_an_operation_that_gave_its_key_free_goes_without_it(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = put(&store, &keyed("first"), never_sent()).await;
    let second = put(&store, &keyed("second"), after(succeed(), vec![])).await;
    assert_eq!(store.purge(AFTER, 9).await.expect("writable"), 2);
    let far = AFTER + Millis::hours(9_000);
    let below = OperationId("op-g".into());
    assert_eq!(retire(&store, far, &below).await, 1);
    assert!(store.operation(&first.operation_id).await.expect("readable").is_none());
    let again = create(&store, &keyed("again")).await;
    assert!(matches!(again, Ok(Created::Known(known)) if known.id == second.operation_id));
    assert_eq!(retire(&store, far, &OperationId("op-z".into())).await, 1);
    assert_new(&store, &keyed("third")).await;
}
