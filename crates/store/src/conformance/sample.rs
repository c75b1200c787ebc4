//! Records to play with, moved along by the core's own decisions.

use std::sync::Arc;

use bytes::Bytes;
use taskgate_core::gate::Asking;
use taskgate_core::id::{OperationId, Principal, ServerName, TaskId, WorkflowName};
use taskgate_core::operation::{
    self, Attestation, Doubt, Effect, Finding, HandOff, Operation, Probed, Receipt, Replay, Standing, Text,
    Upstream, Verdict, Word,
};
use taskgate_core::task::{self, Ending, Lifetime, Question, QuestionKind, Task};
use taskgate_core::time::{Millis, UnixMillis};

use crate::record::{Call, Change, Conflict, Frame, Front, Intent, Key, Object, Observed, Record, Session};
use crate::summary::Summary;
use crate::{Created, Join, Store};

/// When samples are made, if nothing else is said.
pub const CREATED: UnixMillis = UnixMillis(1_000_000);

/// When samples expire that end at once: [`CREATED`] and their time to live.
pub const EXPIRES: UnixMillis = UnixMillis(1_000_000 + 60_000);

/// What a record is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// To its task.
    Task(task::Command),
    /// To its operation.
    Operation(operation::Command),
    /// What was seen upstream.
    Observed(Observed),
}

/// A task id.
///
/// # Panics
/// If `text` cannot be one.
#[must_use]
pub fn id(text: &str) -> TaskId {
    TaskId::parse(text).expect("the tests choose ids that are ids")
}

/// Somebody.
#[must_use]
pub fn somebody() -> Principal {
    Principal::stored("somebody".into())
}

/// Somebody else.
#[must_use]
pub fn stranger() -> Principal {
    Principal::stored("stranger".into())
}

/// The server of samples.
#[must_use]
pub fn server() -> ServerName {
    ServerName("files".into())
}

/// A new record of somebody's, unkeyed and consequential, prepared and not yet sent.
#[must_use]
pub fn record(text: &str) -> Record {
    let lifetime =
        Lifetime { created: CREATED, ttl: Millis(60_000), linger: Millis(1_000), max: Millis(600_000) };
    Record {
        id: id(text),
        principal: somebody(),
        version: 1,
        front: Front::Plain,
        call: Call {
            server: server(),
            tool: "copy".into(),
            params: Bytes::from_static(br#"{"name":"copy","arguments":{"from":"a","to":"b"}}"#),
            digest: [7; 32],
            key: None,
            intent: None,
            offers: "elicitation.form".into(),
            asking: Asking::Held,
            frame: None,
        },
        task: Task::new(lifetime),
        operation_id: OperationId(format!("op-{text}")),
        operation: Operation::new(Effect::Consequential, Replay::Never),
        deadline: CREATED + Millis::hours(1),
        updated: CREATED,
        observed: Observed::default(),
        fetched: None,
    }
}

/// The record that follows `record` when all of `told` is done at `now`, and what changed.
///
/// # Panics
/// If the core refuses.
#[must_use]
pub fn advance(record: &Record, now: UnixMillis, told: Vec<Told>) -> (Record, Vec<Change>) {
    let mut next = record.clone();
    let mut changes = vec![];
    next.version += 1;
    next.updated = now;
    for one in told {
        match one {
            Told::Task(command) => {
                for event in next.task.decide(now, command).expect("the tests ask for what is allowed") {
                    next.task.apply(&event).expect("what was decided can be applied");
                    changes.push(Change::Task(event));
                }
            }
            Told::Operation(command) => {
                for event in next.operation.decide(now, command).expect("the tests keep to the stages") {
                    next.operation.apply(&event);
                    changes.push(Change::Operation(event));
                }
            }
            Told::Observed(observed) => {
                next.observed = observed.clone();
                changes.push(Change::Observed(observed));
            }
        }
    }
    (next, changes)
}

/// As [`advance`], and written.
///
/// # Panics
/// If the store does not take it.
pub async fn tell(store: &impl Store, record: &Record, now: UnixMillis, told: Vec<Told>) -> Record {
    let (next, changes) = advance(record, now, told);
    store.append(Arc::new(next.clone()), changes).await.expect("the version is the next one");
    next
}

/// Writes a new record that joins nothing.
///
/// # Panics
/// If the store does not take it.
pub async fn put(store: &impl Store, record: &Record) {
    let created = store.create(Arc::new(record.clone()), Join::Never).await.expect("it is new");
    assert!(matches!(created, Created::New), "{created:?}");
}

/// Reads `record` back, and finds it the same.
///
/// # Panics
/// If it is not.
pub async fn assert_kept(store: &impl Store, record: &Record) {
    let kept = store.load(&record.principal, &record.id).await.expect("the store can be read");
    assert_eq!(kept.as_ref(), Some(record));
}

/// It is about to be sent.
#[must_use]
pub fn dispatch() -> Told {
    Told::Operation(operation::Command::Dispatch)
}

/// The back made a task.
#[must_use]
pub fn accept(task_id: &str) -> Told {
    let upstream = Upstream { task_id: task_id.into(), session: Some("session-1".into()) };
    Told::Operation(operation::Command::Accept(upstream))
}

/// The back answered with success: what that means for the operation and for the task.
#[must_use]
pub fn succeed() -> Vec<Told> {
    let result = Bytes::from_static(br#"{"content":[{"type":"text","text":"done"}]}"#);
    vec![
        Told::Operation(operation::Command::Hear(Word::Success)),
        end(Ending::Returned { result, is_error: false }),
    ]
}

/// The back answered that the tool failed, which leaves the effect unknown.
#[must_use]
pub fn fail() -> Vec<Told> {
    let result = Bytes::from_static(br#"{"content":[],"isError":true}"#);
    vec![
        Told::Operation(operation::Command::Hear(Word::ToolError)),
        end(Ending::Returned { result, is_error: true }),
    ]
}

/// A frame of the one pipe there is.
#[must_use]
pub fn frame(sequence: u64) -> Frame {
    Frame { attachment: *b"a pipe of theirs", sequence }
}

/// The answer was lost: the task ends and the operation stays unknown.
#[must_use]
pub fn lose() -> Vec<Told> {
    vec![
        Told::Operation(operation::Command::Lose(Doubt::AnswerLost)),
        end(Ending::Faulted(task::Fault::OutcomeUnknown("the connection broke".into()))),
    ]
}

/// The task ends.
#[must_use]
pub fn end(ending: Ending) -> Told {
    Told::Task(task::Command::End(ending))
}

/// The back asks.
#[must_use]
pub fn ask(kind: QuestionKind, back_key: Option<&str>) -> Told {
    let params = Bytes::from_static(br#"{"message":"which one?"}"#);
    Told::Task(task::Command::Ask(Question { kind, params, back_key: back_key.map(Into::into) }))
}

/// Records in every state and at every stage, with every kind of ending, as new ones.
#[must_use]
pub fn all_shapes() -> Vec<Record> {
    let now = CREATED + Millis(5);
    let payload = Bytes::from_static(b"{\"bytes\":\"\\u0000\xc3\xa9\"}");
    let start = |effect, replay| {
        let mut record = record("shape");
        record.operation = Operation::new(effect, replay);
        record
    };
    let sent = |told: Vec<Told>| {
        let record = start(Effect::Consequential, Replay::Keyed { window: Millis(9_000) });
        let (sent, _) = advance(&record, now, vec![dispatch()]);
        advance(&sent, now + Millis(1), told).0
    };
    let over = |ending| sent(vec![end(ending), Told::Operation(operation::Command::Hear(Word::Success))]);
    let text = || String::from("words");
    let mut shapes = vec![
        start(Effect::ReadOnly, Replay::Never),
        start(Effect::Reversible, Replay::Natural),
        sent(vec![]),
        sent(vec![accept("up-1")]),
        sent(vec![Told::Task(task::Command::Say("half way".into()))]),
        sent(vec![Told::Task(task::Command::Cancel(task::CancelRule::Wish))]),
        sent(vec![ask(QuestionKind::Form, None), ask(QuestionKind::Url, Some("k"))]),
        sent(vec![
            ask(QuestionKind::Sampling, None),
            ask(QuestionKind::Roots, None),
            Told::Task(task::Command::TakeAnswer(task::QuestionKey("in-1".into()))),
        ]),
        sent(vec![Told::Observed(Observed {
            status: Some("working".into()),
            last_updated_at: Some("2026-01-01T00:00:00Z".into()),
            next_look: Some(now),
        })]),
        over(Ending::Cancelled),
        over(Ending::Returned { result: payload.clone(), is_error: false }),
        over(Ending::Returned { result: Bytes::new(), is_error: true }),
        over(Ending::Raised { error: payload }),
        over(Ending::Faulted(task::Fault::NeverSent(text()))),
        over(Ending::Faulted(task::Fault::OutcomeUnknown(text()))),
        over(Ending::Faulted(task::Fault::DeadlinePassed)),
        over(Ending::Faulted(task::Fault::UpstreamLost)),
        over(Ending::Faulted(task::Fault::UpstreamFault(text()))),
        over(Ending::Faulted(task::Fault::NoAnswer(text()))),
        over(Ending::Faulted(task::Fault::BudgetSpent(String::new()))),
        over(Ending::Faulted(task::Fault::Found(task::Found::Applied))),
        over(Ending::Faulted(task::Fault::Found(task::Found::NotApplied))),
        over(Ending::Faulted(task::Fault::Found(task::Found::AssumedNotApplied))),
        sent(lose()),
        sent(fail()),
        sent([lose(), vec![close(), reconcile()]].concat()),
        sent([lose(), vec![hand_off(HandOff::NoRule)]].concat()),
        sent([lose(), vec![reconcile(), probed(Finding::NotApplied(Standing::Open))]].concat()),
        sent(
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
        sent([lose(), vec![attest(Verdict::Applied)]].concat()),
        sent([succeed(), vec![receive("tx-1")]].concat()),
    ];
    for (index, record) in shapes.iter_mut().enumerate() {
        record.id = id(&format!("shape-{index:02}"));
        record.operation_id = OperationId(format!("op-shape-{index:02}"));
        record.version = 1;
        record.front = [Front::A, Front::B, Front::Plain][index % 3];
        record.call.asking = [Asking::Held, Asking::Augmented, Asking::Directed][index % 3];
        record.call.key = (index % 2 == 1).then(|| Key::of_caller(format!("key-{index}")));
        record.call.intent = (index % 4 > 0).then(|| intent("pay", (index % 4 > 1).then_some("invoice-1")));
        record.call.frame = (index % 3 > 0).then(|| frame(u64::MAX - index as u64));
    }
    shapes
}

/// What a workflow makes of a call.
#[must_use]
pub fn intent(workflow: &str, object: Option<&str>) -> Intent {
    let object = object.map(|name| Object {
        name: name.into(),
        version: Some("v1".into()),
        conflict: Conflict::Allow,
    });
    Intent { workflow: WorkflowName(workflow.into()), object, effect: Some("pays an invoice".into()) }
}

/// The last attempt's exchange is over.
#[must_use]
pub fn close() -> Told {
    Told::Operation(operation::Command::Close)
}

/// The system of record is asked, first after 10 ms.
#[must_use]
pub fn reconcile() -> Told {
    Told::Operation(operation::Command::Reconcile { first: Millis(10) })
}

/// A look-up was made; the next is due 20 ms later.
#[must_use]
pub fn probed(finding: Finding) -> Told {
    let probed = Probed { finding, what: Text::new("it says so"), again: Millis(20) };
    Told::Operation(operation::Command::Probed(probed))
}

/// A person is to decide.
#[must_use]
pub fn hand_off(why: HandOff) -> Told {
    Told::Operation(operation::Command::HandOff { why, note: None })
}

/// A person decides.
#[must_use]
pub fn attest(verdict: Verdict) -> Told {
    let attestation = Attestation { verdict, name: Text::new("Ann"), reason: Text::new("asked the bank") };
    Told::Operation(operation::Command::Attest(attestation))
}

/// A person says something else than a person said before.
#[must_use]
pub fn correct(verdict: Verdict) -> Told {
    let attestation =
        Attestation { verdict, name: Text::new("Bob"), reason: Text::new("that was another one") };
    Told::Operation(operation::Command::Correct(attestation))
}

/// A receipt says that the effect was made.
#[must_use]
pub fn receive(reference: &str) -> Told {
    let receipt = Receipt { reference: Text::new(reference), verdict: Verdict::Applied };
    Told::Operation(operation::Command::Receive(receipt))
}

/// A session of somebody's.
#[must_use]
pub fn session(key: &str, seen: UnixMillis) -> Session {
    Session {
        key: key.into(),
        principal: somebody(),
        server: server(),
        version: "2025-11-25".into(),
        offers: "roots".into(),
        client_info: r#"{"name":"tester","version":"1"}"#.into(),
        log_level: None,
        created: CREATED,
        seen,
    }
}

/// The ids of what was listed, for comparing pages.
#[must_use]
pub fn ids(listed: &[Summary]) -> Vec<&str> {
    listed.iter().map(|summary| summary.id().expose()).collect()
}

/// Retires all that may go, a page of two after the other; how many went.
///
/// # Panics
/// If the store cannot.
pub async fn retire(store: &impl Store, before: UnixMillis, below: &OperationId) -> usize {
    let (mut after, mut deleted) = (None, 0);
    loop {
        let page = store.retire(before, below, after.as_ref(), 2).await.expect("writable");
        deleted += page.deleted;
        after = page.next;
        if after.is_none() {
            return deleted;
        }
    }
}
