//! What goes, and what stays.

use std::sync::Arc;

use taskgate_core::operation::HandOff;
use taskgate_core::task::{self, QuestionKind};
use taskgate_core::time::{Millis, UnixMillis};

use super::Factory;
use super::sample::{
    CREATED, EXPIRES, Told, ask, assert_kept, dispatch, hand_off, id, ids, lose, put, reconcile, record,
    server, somebody, succeed, tell,
};
use crate::record::{Key, Phase, Record};
use crate::summary::Summary;
use crate::{CreateError, Created, Error, Join, Store, Whose};

const AFTER: UnixMillis = UnixMillis(EXPIRES.0 + 1);

async fn finished(store: &impl Store, new: &Record) -> Record {
    put(store, new).await;
    let sent = tell(store, new, CREATED, vec![dispatch(), ask(QuestionKind::Form, None)]).await;
    tell(store, &sent, CREATED, succeed()).await
}

/// Running work never goes (R3.6).
pub async fn inv_30_nothing_goes_before_it_expires(factory: &impl Factory) {
    let store = factory.fresh().await;
    let over = finished(&store, &record("over")).await;
    put(&store, &record("running")).await;
    assert_eq!(over.task.expires(), Some(EXPIRES));
    assert_eq!(store.purge(EXPIRES, 10).await.expect("writable"), 0);
    assert_kept(&store, &over).await;
    assert_eq!(store.purge(AFTER, 10).await.expect("writable"), 1);
    assert_eq!(store.load(&somebody(), &id("over")).await.expect("readable"), None);
    assert_eq!(store.purge(UnixMillis(i64::MAX), 10).await.expect("writable"), 0);
    assert_kept(&store, &record("running")).await;
    let left = store.list(Whose::Server(&somebody(), &server()), None, 10).await.expect("readable");
    assert_eq!(ids(&left), ["running"]);
}

/// Until its outcome is there.
pub async fn inv_30_an_open_operation_keeps_its_task(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, CREATED, vec![dispatch()]).await;
    let cancel = Told::Task(task::Command::Cancel(task::CancelRule::Promise));
    let cancelled = tell(&store, &sent, CREATED, vec![cancel]).await;
    assert_eq!(store.purge(AFTER, 10).await.expect("writable"), 0);
    assert_kept(&store, &cancelled).await;
    let heard = taskgate_core::operation::Command::Hear(taskgate_core::operation::Word::Success);
    tell(&store, &cancelled, CREATED, vec![Told::Operation(heard)]).await;
    assert_eq!(store.purge(AFTER, 10).await.expect("writable"), 1);
}

/// Its key stands for that operation for as long as the operation is kept (R4.6).
pub async fn inv_30_a_late_duplicate_after_a_purge_is_not_carried_out(factory: &impl Factory) {
    let store = factory.fresh().await;
    let mut first = record("first");
    first.call.key = Some(Key::of_caller("k"));
    finished(&store, &first).await;
    assert_eq!(store.purge(AFTER, 10).await.expect("writable"), 1);
    let store = factory.reopen(store).await;

    let mut late = record("late");
    late.call.key = Some(Key::of_caller("k"));
    let joined = store.create(Arc::new(late.clone()), Join::SameKey).await;
    assert!(matches!(joined, Ok(Created::Known(ref known)) if known.task == first.id), "{joined:?}");
    assert_eq!(store.load(&somebody(), &late.id).await.expect("readable"), None);

    late.call.digest = [8; 32];
    let refused = store.create(Arc::new(late), Join::SameKey).await;
    assert!(matches!(refused, Err(CreateError::KeyReused)), "{refused:?}");
}

/// So that a batch never stalls the writer.
pub async fn inv_30_the_first_expired_go_first_and_the_limit_holds(factory: &impl Factory) {
    let store = factory.fresh().await;
    for (text, later) in [("a", 3), ("b", 1), ("c", 2), ("d", 1)] {
        let mut new = record(text);
        new.task.lifetime.created = CREATED + Millis(later);
        finished(&store, &new).await;
    }
    let now = AFTER + Millis(10);
    assert_eq!(store.purge(now, 0).await.expect("writable"), 0);
    assert_eq!(store.purge(now, 1).await.expect("writable"), 1);
    assert_eq!(store.load(&somebody(), &id("b")).await.expect("readable"), None);
    assert_eq!(store.purge(now, 2).await.expect("writable"), 2);
    let left = store.list(Whose::Server(&somebody(), &server()), None, 10).await.expect("readable");
    assert_eq!(ids(&left), ["a"]);
    assert_eq!(store.purge(now, 2).await.expect("writable"), 1);
    assert_eq!(store.purge(now, 2).await.expect("writable"), 0);
}

/// The evidence still speaks of them.
pub async fn inv_30_the_ids_of_a_purged_task_stay_used(factory: &impl Factory) {
    let store = factory.fresh().await;
    finished(&store, &record("one")).await;
    assert_eq!(store.purge(AFTER, 10).await.expect("writable"), 1);
    let refused = store.create(Arc::new(record("one")), Join::Never).await;
    assert!(matches!(refused, Err(CreateError::Store(Error::Backend { .. }))), "{refused:?}");
    assert_eq!(store.load(&somebody(), &id("one")).await.expect("readable"), None);
}

/// Until it is known, or a person is to decide: then the ledger goes on without the task.
pub async fn inv_30_an_operation_that_is_asked_after_keeps_its_task(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, CREATED, vec![dispatch()]).await;
    let asking = tell(&store, &sent, CREATED, [lose(), vec![reconcile()]].concat()).await;
    assert_eq!(asking.phase(), Phase::Unfinished);
    assert_eq!(store.purge(AFTER, 10).await.expect("writable"), 0);
    assert_kept(&store, &asking).await;
    assert_eq!(store.unfinished(None, 9).await.expect("readable"), vec![Summary::of(asking.clone())]);
    let handed = tell(&store, &asking, CREATED, vec![hand_off(HandOff::BudgetSpent)]).await;
    assert_eq!(handed.phase(), Phase::Doubtful);
    assert_eq!(store.unfinished(None, 9).await.expect("readable"), vec![]);
    assert_eq!(store.purge(AFTER, 10).await.expect("writable"), 1);
}

/// The ledger goes on without the task.
pub async fn r4_8_an_unknown_outcome_does_not_keep_the_task(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, CREATED, vec![dispatch()]).await;
    tell(&store, &sent, CREATED, lose()).await;
    assert_eq!(store.purge(AFTER, 10).await.expect("writable"), 1);
    assert_eq!(store.load(&somebody(), &id("one")).await.expect("readable"), None);
}
