//! Operations: read, listed, settled after their task is gone, and gone themselves at last.

use std::sync::Arc;

use taskgate_core::id::{OperationId, WorkflowName};
use taskgate_core::operation::{self, Event, Finding, HandOff, Inquiry, Outcome, Stage, Standing, Verdict};
use taskgate_core::time::{Millis, UnixMillis};

use super::Factory;
use super::sample::{
    CREATED, EXPIRES, Told, attest, dispatch, fail, hand_off, intent, lose, probed, put, receive, reconcile,
    record, retire, somebody, stranger, succeed, tell,
};
use crate::ledger::{Held, LedgerEntry, Which};
use crate::record::{Conflict, Intent, Key, KeyScope, Record};
use crate::{AppendError, CreateError, Created, Error, Join, Store};

const NOW: UnixMillis = UnixMillis(CREATED.0 + 10);
const AFTER: UnixMillis = UnixMillis(EXPIRES.0 + 1);

async fn create(store: &impl Store, record: &Record) -> Result<Created, CreateError> {
    store.create(Arc::new(record.clone()), Join::SameKey).await
}

async fn read(store: &impl Store, record: &Record) -> Option<LedgerEntry> {
    store.operation(&record.operation_id).await.expect("readable")
}

async fn listed(store: &impl Store, which: Which) -> Vec<String> {
    let mut seen = vec![];
    for size in 1..=4 {
        seen.clear();
        let mut after = None;
        loop {
            let page = store.operations(which, after, size).await.expect("readable");
            seen.extend(page.iter().map(|entry| entry.id.0.clone()));
            match page.last() {
                Some(last) => after = Some(last.after()),
                None => break,
            }
        }
        let whole = store.operations(which, None, 100).await.expect("readable");
        let whole: Vec<_> = whole.into_iter().map(|entry| entry.id.0).collect();
        assert_eq!(seen, whole, "{which:?} in pages of {size}");
    }
    seen
}

/// Tells an operation whose task is gone.
async fn settle(
    store: &impl Store,
    entry: &LedgerEntry,
    now: UnixMillis,
    told: Told,
) -> Result<LedgerEntry, AppendError> {
    let Told::Operation(command) = told else { panic!("its task is gone") };
    let mut next = entry.clone();
    let events = next.operation.decide(now, command).expect("the tests keep to the stages");
    events.iter().for_each(|event| next.operation.apply(event));
    next.version += 1;
    next.updated = now;
    store.settle(next.clone(), events).await.map(|()| next)
}

/// With what its workflow made of it and what is known of it, while its task is kept and after that.
pub async fn r4_1_an_operation_is_read_with_all_that_is_recorded(factory: &impl Factory) {
    let store = factory.fresh().await;
    let mut first = record("one");
    first.call.key = Some(Key { text: "k".into(), scope: KeyScope::Tenant });
    first.call.intent = Some(intent("pay", Some("invoice-1")));
    put(&store, &first).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let over = tell(&store, &sent, NOW + Millis(1), [succeed(), vec![receive("tx-1")]].concat()).await;
    assert_eq!(over.operation.stage, Stage::Settled(Outcome::Confirmed(Verdict::Applied)));
    assert_eq!(read(&store, &over).await, Some(LedgerEntry::of(&over)));
    assert_eq!(store.purge(AFTER, 9).await.expect("writable"), 1);
    let store = factory.reopen(store).await;
    let alone = LedgerEntry { kept: None, ..LedgerEntry::of(&over) };
    assert_eq!(read(&store, &over).await, Some(alone.clone()));
    assert_eq!(alone.operation.receipt.as_ref().map(operation::Text::as_str), Some("tx-1"));
    assert_eq!(store.operation(&OperationId("op-none".into())).await.expect("readable"), None);
    // Whosever it is.
    let mut theirs = record("theirs");
    theirs.principal = stranger();
    put(&store, &theirs).await;
    assert_eq!(read(&store, &theirs).await, Some(LedgerEntry::of(&theirs)));
}

/// Of the task too, for as long as the operation is kept.
pub async fn r4_1_a_history_says_what_happened_and_by_what_evidence(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let asking = tell(&store, &sent, NOW + Millis(1), [lose(), vec![reconcile()]].concat()).await;
    let handed = tell(&store, &asking, NOW + Millis(2), vec![hand_off(HandOff::BudgetSpent)]).await;
    assert_eq!(store.purge(AFTER, 9).await.expect("writable"), 1);
    let alone = read(&store, &handed).await.expect("it is kept");
    settle(&store, &alone, NOW + Millis(3), attest(Verdict::Applied)).await.expect("it is the next version");
    let history = store.history(&first.operation_id).await.expect("readable");
    let lines: Vec<_> = history
        .iter()
        .map(|it| format!("{} @{} {:?}: {}", it.version, it.at.0 - NOW.0, it.kind, it.lines.join("; ")))
        .collect();
    assert_eq!(
        lines,
        [
            "1 @-10 Created: created",
            "2 @0 Dispatched: dispatched 1000010",
            "3 @1 Ended: doubted answer_lost; ended 1000011 outcome_unknown the connection broke; reconciling 1000011 1000021",
            "4 @2 HandedOff: handed_off 1000012 budget_spent",
            "5 @3 Settled: settled attested_applied person Ann: asked the bank",
        ]
    );
    assert_eq!(store.history(&OperationId("op-none".into())).await.expect("readable"), []);
}

/// In their orders, page by page, of all principals.
pub async fn r4_7_operations_are_listed_by_what_is_known_of_them(factory: &impl Factory) {
    let store = factory.fresh().await;
    let negative = || probed(Finding::NotApplied(Standing::Open));
    let cases = [
        ("a", 0, vec![vec![dispatch()], succeed()]),
        ("b", 5, vec![vec![dispatch()], [lose(), vec![reconcile()]].concat()]),
        ("c", 0, vec![]),
        ("d", 9, vec![vec![dispatch()], [lose(), vec![hand_off(HandOff::NoRule)]].concat()]),
        ("e", 1, vec![vec![dispatch()], [lose(), vec![reconcile()]].concat()]),
        ("f", 3, vec![vec![dispatch()], [fail(), vec![hand_off(HandOff::NoRule)]].concat()]),
        ("g", 0, vec![vec![dispatch()]]),
        (
            "h",
            7,
            vec![
                vec![dispatch()],
                [lose(), vec![reconcile(), negative(), hand_off(HandOff::BudgetSpent)]].concat(),
            ],
        ),
        ("i", 0, vec![vec![dispatch()], lose()]),
    ];
    for (index, (text, later, steps)) in cases.into_iter().enumerate() {
        let mut now = record(text);
        if index % 2 == 1 {
            now.principal = stranger();
        }
        put(&store, &now).await;
        for told in steps {
            now = tell(&store, &now, NOW + Millis(later), told).await;
        }
    }
    for _ in 0..2 {
        let ids = |letters: &str| letters.chars().map(|letter| format!("op-{letter}")).collect::<Vec<_>>();
        assert_eq!(listed(&store, Which::All).await, ids("ihgfedcba"));
        assert_eq!(listed(&store, Which::Open).await, ids("ihgfedcb"));
        assert_eq!(listed(&store, Which::Unknown).await, ids("ifedb"));
        assert_eq!(listed(&store, Which::Reconciling).await, ids("eb"));
        assert_eq!(listed(&store, Which::Waiting).await, ids("fhd"));
        // All the same without the tasks that may go.
        store.purge(AFTER + Millis::hours(9), 99).await.expect("writable");
    }
}

/// Under its version, once, and by the law.
pub async fn r4_8_an_operation_is_settled_after_its_task_is_gone(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let lost = tell(&store, &sent, NOW, [lose(), vec![hand_off(HandOff::NoRule)]].concat()).await;
    let kept = read(&store, &lost).await.expect("it is kept");
    // As long as the task is kept, its own versions are the operation's.
    let refused = settle(&store, &kept, NOW, attest(Verdict::Applied)).await;
    assert!(matches!(refused, Err(AppendError::Conflict { expected: 3, found: None })), "{refused:?}");
    assert_eq!(store.purge(AFTER, 9).await.expect("writable"), 1);
    let alone = read(&store, &lost).await.expect("it is kept");
    let stale = LedgerEntry { version: 2, ..alone.clone() };
    let refused = settle(&store, &stale, NOW, attest(Verdict::Applied)).await;
    assert!(matches!(refused, Err(AppendError::Conflict { expected: 2, found: Some(3) })), "{refused:?}");
    let attested = settle(&store, &alone, AFTER, attest(Verdict::NotApplied)).await.expect("it is the next");
    assert_eq!(attested.operation.inquiry, Inquiry::Idle);
    let again = settle(&store, &alone, AFTER, attest(Verdict::Applied)).await;
    assert!(matches!(again, Err(AppendError::Conflict { .. })), "{again:?}");
    let store = factory.reopen(store).await;
    assert_eq!(read(&store, &lost).await, Some(attested.clone()));
    assert_eq!(listed(&store, Which::Waiting).await, Vec::<String>::new());
    // A person's word gives way to what is confirmed only (design 7).
    let mut weaker = LedgerEntry { version: attested.version + 1, ..attested.clone() };
    weaker.operation.stage = Stage::Settled(Outcome::Reported(Verdict::Applied));
    let refused = store.settle(weaker, vec![]).await;
    assert!(matches!(refused, Err(AppendError::Store(Error::Backend { .. }))), "{refused:?}");
    let confirmed = settle(&store, &attested, AFTER, receive("tx-1")).await.expect("it is the next");
    assert_eq!(read(&store, &lost).await, Some(confirmed));
    let mut unknown = LedgerEntry { id: OperationId("op-none".into()), ..attested };
    unknown.version = 9;
    let refused = store.settle(unknown, vec![Event::Closed { at: NOW }]).await;
    assert!(matches!(refused, Err(AppendError::Conflict { found: None, .. })), "{refused:?}");
}

/// With its key and its frame: what comes under them afterwards is new.
pub async fn r4_8_old_evidence_goes_and_what_is_open_stays(factory: &impl Factory) {
    let store = factory.fresh().await;
    let below = OperationId("op-x".into());
    let far = AFTER + Millis::hours(9_000);
    let mut done = record("done");
    done.call.key = Some(Key { text: "k".into(), scope: KeyScope::Tenant });
    done.call.intent = Some(intent("pay", None));
    done.call.frame = Some(super::sample::frame(1));
    put(&store, &done).await;
    let sent = tell(&store, &done, NOW, vec![dispatch()]).await;
    tell(&store, &sent, NOW, succeed()).await;
    for (text, told) in [
        ("lost", lose()),
        ("failed", fail()),
        ("waits", [lose(), vec![hand_off(HandOff::NoRule)]].concat()),
        (
            "assumed",
            [
                lose(),
                vec![
                    reconcile(),
                    probed(Finding::NotApplied(Standing::Open)),
                    hand_off(HandOff::BudgetSpent),
                ],
            ]
            .concat(),
        ),
        ("young", succeed()),
        ("x-large", succeed()),
    ] {
        let first = record(text);
        put(&store, &first).await;
        let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
        let at = if text == "young" { far } else { NOW };
        tell(&store, &sent, at, told).await;
    }
    assert_eq!(retire(&store, far, &below).await, 0, "tasks are kept");
    assert_eq!(store.purge(AFTER + Millis::hours(1), 99).await.expect("writable"), 7);
    assert_eq!(retire(&store, NOW, &below).await, 0);
    // One after the other is looked at, and what may not go is left behind.
    let mut after = None;
    let mut seen = vec![];
    loop {
        let looked = store.retire(far, &below, after.as_ref(), 1).await.expect("writable");
        seen.push(looked.deleted);
        after = looked.next;
        let Some((_, last)) = &after else { break };
        assert!(*last < below, "{last} is too young");
    }
    assert_eq!(seen, [0, 1, 1, 0, 0], "assumed, done, failed, lost, waits");
    assert_eq!(retire(&store, far, &below).await, 0);
    assert_eq!(
        listed(&store, Which::All).await,
        ["op-young", "op-x-large", "op-waits", "op-lost", "op-assumed"]
    );
    assert_eq!(store.history(&done.operation_id).await.expect("readable"), []);
    let again =
        Record { id: super::sample::id("again"), operation_id: OperationId("op-again".into()), ..done };
    assert!(matches!(create(&store, &again).await, Ok(Created::New)));
}

fn keyed(text: &str, key: &str, scope: KeyScope, workflow: &str) -> Record {
    let mut record = record(text);
    record.call.key = Some(Key { text: key.into(), scope });
    record.call.intent = Some(intent(workflow, None));
    record
}

/// And to the first, it is joined as any key; the stranger is shown nothing.
pub async fn r4_6_a_business_key_counts_for_all_principals(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = keyed("first", "invoice-1", KeyScope::Tenant, "pay");
    assert!(matches!(create(&store, &first).await, Ok(Created::New)));
    let again = keyed("again", "invoice-1", KeyScope::Tenant, "pay");
    assert!(matches!(create(&store, &again).await, Ok(Created::Joined(joined)) if *joined == first));
    let mut other = again.clone();
    other.call.digest = [8; 32];
    assert!(matches!(create(&store, &other).await, Err(CreateError::KeyReused)));
    for mut theirs in [again, other] {
        theirs.principal = stranger();
        assert!(matches!(create(&store, &theirs).await, Err(CreateError::KeyElsewhere)));
    }
    // A key that a caller gave is the caller's.
    let mine = keyed("mine", "invoice-1", KeyScope::Caller, "pay");
    assert!(matches!(create(&store, &mine).await, Ok(Created::New)));
    let theirs = Record { principal: stranger(), ..keyed("theirs", "invoice-1", KeyScope::Caller, "pay") };
    assert!(matches!(create(&store, &theirs).await, Ok(Created::New)));
}

/// Whatever its tool and server.
pub async fn r4_6_a_workflow_bounds_a_key(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = keyed("first", "k", KeyScope::Caller, "pay");
    assert!(matches!(create(&store, &first).await, Ok(Created::New)));
    let mut by_another_tool = keyed("again", "k", KeyScope::Caller, "pay");
    by_another_tool.call.tool = "transfer".into();
    assert!(
        matches!(create(&store, &by_another_tool).await, Ok(Created::Joined(joined)) if *joined == first)
    );
    let elsewhere = keyed("elsewhere", "k", KeyScope::Caller, "refund");
    assert!(matches!(create(&store, &elsewhere).await, Ok(Created::New)));
    let mut without = record("without");
    without.call.key = Some(Key::of_caller("k"));
    assert!(matches!(create(&store, &without).await, Ok(Created::New)));
}

fn on(text: &str, object: &str, conflict: Conflict) -> Record {
    let mut record = record(text);
    let mut intent = intent("pay", Some(object));
    if let Intent { object: Some(object), .. } = &mut intent {
        object.conflict = conflict;
    }
    record.call.intent = Some(intent);
    record
}

/// Until it is settled, whosever it is.
pub async fn design_7_a_second_open_operation_on_an_object_is_refused(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = on("first", "invoice-1", Conflict::Refuse);
    assert!(matches!(create(&store, &first).await, Ok(Created::New)));
    let second = on("second", "invoice-1", Conflict::Refuse);
    let theirs = Record { principal: stranger(), ..on("theirs", "invoice-1", Conflict::Refuse) };
    let mut now = first.clone();
    for told in [vec![dispatch()], [lose(), vec![hand_off(HandOff::NoRule)]].concat()] {
        match create(&store, &second).await {
            Err(CreateError::ObjectBusy(busy)) => {
                assert_eq!((busy.operation, busy.since), (Some(first.operation_id.clone()), CREATED));
            }
            other => panic!("it was not refused: {other:?}"),
        }
        match create(&store, &theirs).await {
            Err(CreateError::ObjectBusy(busy)) => assert_eq!(busy.operation, None),
            other => panic!("it was not refused: {other:?}"),
        }
        now = tell(&store, &now, NOW, told).await;
    }
    assert_eq!(store.purge(AFTER, 9).await.expect("writable"), 1);
    assert!(matches!(create(&store, &second).await, Err(CreateError::ObjectBusy(_))));
    // Another object, another workflow, and one that does not mind.
    let elsewhere = on("elsewhere", "invoice-2", Conflict::Refuse);
    assert!(matches!(create(&store, &elsewhere).await, Ok(Created::New)));
    let mut other = on("other", "invoice-1", Conflict::Refuse);
    other.call.intent.as_mut().expect("it has one").workflow.0 = "refund".into();
    assert!(matches!(create(&store, &other).await, Ok(Created::New)));
    let alone = read(&store, &now).await.expect("it is kept");
    settle(&store, &alone, AFTER, attest(Verdict::NotApplied)).await.expect("it is the next");
    assert!(matches!(create(&store, &second).await, Ok(Created::New)));
    let careless = on("careless", "invoice-1", Conflict::Allow);
    assert!(matches!(create(&store, &careless).await, Ok(Created::New)));
}

/// One after the other, in the order in which they were made; what is under way or unknown comes before all of them.
pub async fn design_7_operations_on_an_object_wait_for_one_another(factory: &impl Factory) {
    let store = factory.fresh().await;
    let ahead = async |record: &Record| {
        let found = store.ahead_of(record).await.expect("readable");
        found.map(|busy| busy.operation.expect("it is somebody's own").0)
    };
    let first = on("first", "invoice-1", Conflict::Queue);
    assert!(matches!(create(&store, &first).await, Ok(Created::New)));
    let mut second = on("second", "invoice-1", Conflict::Queue);
    second.task.lifetime.created = CREATED + Millis(1);
    assert!(matches!(create(&store, &second).await, Ok(Created::New)));
    assert_eq!(ahead(&first).await, None);
    assert_eq!(ahead(&second).await, Some("op-first".into()));
    // What is to be sent at once cannot wait.
    let mut hasty = on("hasty", "invoice-1", Conflict::Queue);
    hasty.operation.apply(&Event::Dispatched { at: NOW });
    assert!(matches!(create(&store, &hasty).await, Err(CreateError::ObjectBusy(_))));
    // A clock that went back lets nobody overtake what is under way.
    let sent = tell(&store, &second, NOW, vec![dispatch()]).await;
    assert_eq!(ahead(&first).await, Some("op-second".into()));
    let lost = tell(&store, &sent, NOW, [lose(), vec![hand_off(HandOff::NoRule)]].concat()).await;
    assert_eq!(ahead(&first).await, Some("op-second".into()));
    let store = &store;
    tell(store, &lost, NOW, vec![attest(Verdict::NotApplied)]).await;
    assert_eq!(store.ahead_of(&first).await.expect("readable"), None);
    assert_eq!(store.ahead_of(&record("none")).await.expect("readable"), None);
    let theirs = Record { principal: stranger(), ..on("theirs", "invoice-1", Conflict::Queue) };
    assert!(matches!(create(store, &theirs).await, Ok(Created::New)));
    let busy = store.ahead_of(&theirs).await.expect("readable").expect("the first is before it");
    assert_eq!((busy.operation, first.principal), (None, somebody()));
}

/// Its request may still arrive: until that is confirmed, or a person decides, its object is its own (notes 3.4).
pub async fn design_7_what_is_assumed_keeps_its_object(factory: &impl Factory) {
    for decided in [attest(Verdict::NotApplied), attest(Verdict::Applied), receive("tx-1")] {
        let store = factory.fresh().await;
        let first = on("first", "invoice-1", Conflict::Refuse);
        assert!(matches!(create(&store, &first).await, Ok(Created::New)));
        let second = on("second", "invoice-1", Conflict::Queue);
        assert!(matches!(create(&store, &second).await, Ok(Created::New)));
        let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
        let silence =
            vec![reconcile(), probed(Finding::NotApplied(Standing::Open)), hand_off(HandOff::BudgetSpent)];
        let assumed = tell(&store, &sent, NOW, [lose(), silence].concat()).await;
        assert_eq!(assumed.operation.stage, Stage::Settled(Outcome::Assumed));
        let third = on("third", "invoice-1", Conflict::Refuse);
        for _ in 0..2 {
            let busy = store.ahead_of(&second).await.expect("readable").expect("the first is open");
            assert_eq!(busy.operation, Some(first.operation_id.clone()));
            assert!(matches!(create(&store, &third).await, Err(CreateError::ObjectBusy(_))));
            // The same without its task.
            store.purge(AFTER, 9).await.expect("writable");
        }
        let alone = read(&store, &assumed).await.expect("it is kept");
        settle(&store, &alone, AFTER, decided).await.expect("it is the next");
        assert_eq!(store.ahead_of(&second).await.expect("readable"), None);
    }
}

/// By what they are found under, also once their tasks are gone; and no longer when nothing of them is left.
pub async fn r4_6_what_a_workflow_s_name_leads_to_is_known(factory: &impl Factory) {
    let store = factory.fresh().await;
    assert_eq!(store.held().await.expect("readable"), []);
    put(&store, &record("none")).await;
    let mut keyed = keyed("keyed", "k-1", KeyScope::Caller, "pay");
    keyed.call.tool = "pay_now".into();
    put(&store, &keyed).await;
    let mut tenant = self::keyed("tenant", "k-1", KeyScope::Tenant, "pay");
    tenant.principal = stranger();
    put(&store, &tenant).await;
    let unkeyed = on("unkeyed", "invoice-1", Conflict::Allow);
    put(&store, &unkeyed).await;
    let mut done = record("done");
    done.call.intent = Some(intent("gone", None));
    put(&store, &done).await;
    for first in [&keyed, &tenant, &done] {
        let sent = tell(&store, first, NOW, vec![dispatch()]).await;
        tell(&store, &sent, NOW, succeed()).await;
    }
    let sent = tell(&store, &unkeyed, NOW, vec![dispatch()]).await;
    tell(&store, &sent, NOW, [lose(), vec![hand_off(HandOff::NoRule)]].concat()).await;
    let server = unkeyed.call.server.clone();
    let tools = [unkeyed.call.tool.clone(), "pay_now".to_owned()];
    let expected = Held {
        workflow: WorkflowName("pay".into()),
        tools: tools.into_iter().map(|tool| (server.clone(), tool)).collect(),
        open: 1,
        keys: 2,
    };
    for _ in 0..2 {
        assert_eq!(store.held().await.expect("readable"), std::slice::from_ref(&expected));
        store.purge(AFTER, 99).await.expect("writable");
    }
}
