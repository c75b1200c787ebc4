//! Moving records along.

use std::sync::Arc;

use bytes::Bytes;
use taskgate_core::gate::Asking;
use taskgate_core::id::OperationId;
use taskgate_core::operation::{self, Effect, Operation, Outcome, Replay, Stage, Verdict};
use taskgate_core::task::{self, CancelRule, Ending, QuestionKey, QuestionKind, State};
use taskgate_core::time::{Millis, UnixMillis};

use super::Factory;
use super::sample::{
    CREATED, Told, accept, advance, ask, assert_kept, dispatch, lose, put, record, stranger, succeed, tell,
};
use crate::record::{Front, Key, Observed, Record};
use crate::{AppendError, Error, Store};

const NOW: UnixMillis = UnixMillis(CREATED.0 + 10);

async fn assert_breach(store: &impl Store, record: Record) {
    let refused = store.append(Arc::new(record), vec![]).await;
    assert!(matches!(refused, Err(AppendError::Store(Error::Backend { .. }))), "{refused:?}");
}

fn key(text: &str) -> QuestionKey {
    QuestionKey(text.into())
}

/// A version that is not the next one is refused, and names the one that is there.
pub async fn inv_04_versions_follow_without_a_gap(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    for (version, expects) in [(0, 0), (1, 0), (3, 2), (9, 8)] {
        let mut wrong = first.clone();
        wrong.version = version;
        match store.append(Arc::new(wrong), vec![]).await {
            Err(AppendError::Conflict { expected, found }) => {
                assert_eq!((expected, found), (expects, Some(1)));
            }
            other => panic!("version {version} was not refused: {other:?}"),
        }
    }
    let second = tell(&store, &first, NOW, vec![dispatch()]).await;
    let third = tell(&store, &second, NOW, vec![accept("up")]).await;
    assert_kept(&store, &third).await;
}

/// Of two that build on the same version, the second is told so.
pub async fn inv_15_a_stale_append_changes_nothing(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let (stale, changes) = advance(&first, NOW, vec![Told::Task(task::Command::Say("late".into()))]);
    match store.append(Arc::new(stale), changes).await {
        Err(AppendError::Conflict { expected: 1, found: Some(2) }) => {}
        other => panic!("a stale append was not refused: {other:?}"),
    }
    assert_kept(&store, &sent).await;
}

/// Foreign and absent are the same.
pub async fn inv_25_an_append_by_a_stranger_finds_nothing(factory: &impl Factory) {
    let store = factory.fresh().await;
    let mine = record("mine");
    put(&store, &mine).await;
    let (mut theirs, changes) = advance(&mine, NOW, vec![dispatch()]);
    theirs.principal = stranger();
    let absent = advance(&record("absent"), NOW, vec![dispatch()]).0;
    for record in [theirs, absent] {
        match store.append(Arc::new(record), changes.clone()).await {
            Err(AppendError::Conflict { expected: 1, found: None }) => {}
            other => panic!("it was found: {other:?}"),
        }
    }
    assert_kept(&store, &mine).await;
}

/// Whatever it is that would change.
pub async fn inv_03_a_task_that_is_over_stays_as_it_is(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let over = tell(&store, &sent, NOW, succeed()).await;
    let result = Bytes::from_static(b"{}");
    let changes: [fn(&mut task::Task, Bytes); 7] = [
        |task, _| task.state = State::Working,
        |task, _| task.state = State::Over { ending: Ending::Cancelled, at: NOW },
        |task, result| {
            task.state = State::Over { ending: Ending::Returned { result, is_error: false }, at: NOW };
        },
        |task, _| {
            if let State::Over { at, .. } = &mut task.state {
                *at = NOW + Millis(1);
            }
        },
        |task, _| task.message = Some("later".into()),
        |task, _| task.cancel_wished_at = Some(NOW),
        |task, _| task.keys_issued += 1,
    ];
    for change in changes {
        let mut next = over.clone();
        next.version += 1;
        change(&mut next.task, result.clone());
        assert_breach(&store, next).await;
    }
    assert_kept(&store, &over).await;
}

/// Though the record would stay as it is.
pub async fn inv_06_the_log_has_one_terminal_event(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let (over, changes) = advance(&sent, NOW, lose());
    store.append(Arc::new(over.clone()), changes.clone()).await.expect("the version is the next one");
    let mut again = over.clone();
    again.version += 1;
    let refused = store.append(Arc::new(again), changes).await;
    assert!(matches!(refused, Err(AppendError::Store(Error::Backend { .. }))), "{refused:?}");
    assert_kept(&store, &over).await;
}

/// In dialect A a cancelled task stays cancelled, and the effect is known elsewhere.
pub async fn r4_7_an_outcome_may_come_after_the_end(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let cancel = Told::Task(task::Command::Cancel(CancelRule::Promise));
    let cancelled = tell(&store, &sent, NOW, vec![cancel]).await;
    assert_kept(&store, &cancelled).await;
    let heard = Told::Operation(operation::Command::Hear(operation::Word::Success));
    let settled = tell(&store, &cancelled, NOW + Millis(1), vec![heard]).await;
    assert_eq!(settled.operation.stage, Stage::Settled(Outcome::Reported(Verdict::Applied)));
    assert_kept(&store, &settled).await;
}

/// Not even to another certainty.
pub async fn design_7_a_confirmed_outcome_stays(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let never = Told::Operation(operation::Command::NeverSent);
    let confirmed = tell(&store, &sent, NOW, vec![never]).await;
    assert_eq!(confirmed.operation.stage, Stage::Settled(Outcome::Confirmed(Verdict::NotApplied)));
    for stage in [
        Stage::Settled(Outcome::Confirmed(Verdict::Applied)),
        Stage::Settled(Outcome::Reported(Verdict::NotApplied)),
        Stage::Dispatched { at: NOW },
    ] {
        let mut next = confirmed.clone();
        next.version += 1;
        next.operation.stage = stage;
        assert_breach(&store, next).await;
    }
    assert_kept(&store, &confirmed).await;
}

/// Asked, on its way, settled, void; several at once, and what stays open when others close.
pub async fn r6_5_questions_are_kept_with_their_phase(factory: &impl Factory) {
    let store = factory.fresh().await;
    let mut now = record("one");
    put(&store, &now).await;
    for told in [
        vec![dispatch()],
        vec![ask(QuestionKind::Form, None)],
        vec![ask(QuestionKind::Url, Some("back-1")), ask(QuestionKind::Roots, None)],
        vec![Told::Task(task::Command::TakeAnswer(key("in-2")))],
        vec![Told::Task(task::Command::Withdraw(key("in-1")))],
        vec![Told::Task(task::Command::SettleAnswer(key("in-2")))],
        vec![ask(QuestionKind::Sampling, None), Told::Task(task::Command::TakeAnswer(key("in-4")))],
        succeed(),
    ] {
        now = tell(&store, &now, NOW, told).await;
        assert_kept(&store, &now).await;
    }
    let store = factory.reopen(store).await;
    assert_kept(&store, &now).await;
}

/// Neither to asked, nor to open, nor under a new meaning.
pub async fn inv_20_a_question_never_goes_back(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let asked = tell(&store, &sent, NOW, vec![ask(QuestionKind::Form, None)]).await;
    let take = Told::Task(task::Command::TakeAnswer(key("in-1")));
    let answering = tell(&store, &asked, NOW, vec![take]).await;

    let mut back = answering.clone();
    back.version += 1;
    back.task = asked.task.clone();
    assert_breach(&store, back).await;

    let settle = Told::Task(task::Command::SettleAnswer(key("in-1")));
    let settled = tell(&store, &answering, NOW, vec![settle]).await;
    for task in [asked.task, answering.task] {
        let mut back = settled.clone();
        back.version += 1;
        back.task = task;
        assert_breach(&store, back).await;
    }
    assert_kept(&store, &settled).await;
}

/// Sent, accepted, lost, sent again, heard.
pub async fn r4_5_every_step_of_an_operation_is_kept(factory: &impl Factory) {
    let store = factory.fresh().await;
    let mut now = record("one");
    now.operation = Operation::new(Effect::Consequential, Replay::Natural);
    put(&store, &now).await;
    let lost = operation::Command::Lose(operation::Doubt::UpstreamLost);
    let heard = operation::Command::Hear(operation::Word::Success);
    for told in [
        dispatch(),
        dispatch(),
        accept("up-1"),
        Told::Operation(lost),
        dispatch(),
        accept("up-2"),
        Told::Operation(heard),
    ] {
        now = tell(&store, &now, now.updated + Millis(1), vec![told]).await;
        assert_kept(&store, &now).await;
    }
    assert_eq!(now.operation.attempts, 3);
}

/// Status, time and next look come and go.
pub async fn r3_5_what_was_seen_upstream_is_kept(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let seen = Observed {
        status: Some("working".into()),
        last_updated_at: Some("yesterday".into()),
        next_look: Some(NOW + Millis(7)),
    };
    let second = tell(&store, &first, NOW, vec![Told::Observed(seen)]).await;
    assert_kept(&store, &second).await;
    let third = tell(&store, &second, NOW, vec![Told::Observed(Observed::default())]).await;
    assert_kept(&store, &third).await;
}

/// An append moves a record along; it does not make another of it.
pub async fn r3_6_what_was_fixed_at_creation_stays(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let (honest, changes) = advance(&first, NOW, vec![dispatch()]);
    let mut other = honest.clone();
    other.front = Front::A;
    other.call.tool = "remove".into();
    other.call.params = Bytes::from_static(b"{}");
    other.call.digest = [9; 32];
    other.call.key = Some(Key::of_caller("k"));
    other.call.asking = Asking::Directed;
    other.operation_id = OperationId("op-other".into());
    other.task.lifetime.ttl = Millis(1);
    other.operation.effect = Effect::ReadOnly;
    other.operation.replay = Replay::Natural;
    store.append(Arc::new(other), changes).await.expect("the version is the next one");
    assert_kept(&store, &honest).await;
    let over = tell(&store, &honest, NOW, lose()).await;
    assert_kept(&store, &over).await;
}
