//! One frame is one call, however often it comes.

use std::sync::Arc;

use futures_util::future::join_all;
use taskgate_core::time::{Millis, UnixMillis};

use super::Factory;
use super::sample::{CREATED, EXPIRES, dispatch, frame, record, stranger, succeed, tell};
use crate::record::{Frame, Key, Record};
use crate::{Created, Join, Store};

const NOW: UnixMillis = UnixMillis(CREATED.0 + 10);

fn framed(text: &str, frame: Frame) -> Record {
    let mut record = record(text);
    record.call.frame = Some(frame);
    record
}

async fn created(store: &impl Store, record: &Record, join: Join) -> Created {
    store.create(Arc::new(record.clone()), join).await.expect("a frame is refused nothing")
}

async fn assert_again(store: &impl Store, record: &Record, join: Join, first: &Record) {
    match created(store, record, join).await {
        Created::Joined(joined) => assert_eq!(*joined, *first),
        other @ (Created::New | Created::Known(_)) => panic!("it is not the same call: {other:?}"),
    }
    assert_eq!(store.load(&record.principal, &record.id).await.expect("readable"), None);
}

/// Whatever else it says, and whatever became of it.
pub async fn r3_3_a_frame_that_comes_again_is_the_call_that_it_was(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = framed("first", frame(1));
    assert!(matches!(created(&store, &first, Join::Never).await, Created::New));
    for join in [Join::Never, Join::SameCall, Join::SameKey] {
        assert_again(&store, &framed("again", frame(1)), join, &first).await;
    }
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let over = tell(&store, &sent, NOW, succeed()).await;
    store.fetched(&over.principal, &over.id, NOW).await.expect("writable");
    let fetched = Record { fetched: Some(NOW), ..over };
    let mut other = framed("again", frame(1));
    other.call.digest = [8; 32];
    other.call.tool = "move".into();
    assert_again(&store, &other, Join::SameCall, &fetched).await;
    let store = factory.reopen(store).await;
    assert_again(&store, &other, Join::Never, &fetched).await;
}

/// So that a key which stands for another request does not refuse it.
pub async fn r3_3_a_frame_is_looked_at_before_a_key(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = framed("first", frame(1));
    assert!(matches!(created(&store, &first, Join::Never).await, Created::New));
    let mut keyed = framed("keyed", frame(2));
    keyed.call.key = Some(Key::of_caller("k"));
    assert!(matches!(created(&store, &keyed, Join::SameKey).await, Created::New));
    let mut again = framed("again", frame(1));
    again.call.key = Some(Key::of_caller("k"));
    again.call.digest = [8; 32];
    assert_again(&store, &again, Join::SameKey, &first).await;
}

/// Neither another message, nor another pipe's, nor another principal's.
pub async fn r3_3_another_frame_is_another_call(factory: &impl Factory) {
    let store = factory.fresh().await;
    let mut of_stranger = framed("of-stranger", frame(1));
    of_stranger.principal = stranger();
    let elsewhere = Frame { attachment: [2; 16], sequence: 1 };
    for new in [
        framed("first", frame(1)),
        framed("next", frame(2)),
        framed("last", frame(u64::MAX)),
        framed("elsewhere", elsewhere),
        of_stranger,
        record("none"),
        record("none-either"),
    ] {
        assert!(matches!(created(&store, &new, Join::Never).await, Created::New), "{:?}", new.id);
    }
}

/// However they race.
pub async fn inv_16_of_many_at_once_by_one_frame_one_is_new(factory: &impl Factory) {
    let store = factory.fresh().await;
    let racers: Vec<_> = (0..16).map(|n| framed(&format!("racer-{n:02}"), frame(7))).collect();
    let outcomes = join_all(racers.iter().map(|racer| created(&store, racer, Join::Never))).await;
    let new = outcomes.iter().filter(|outcome| matches!(outcome, Created::New)).count();
    assert_eq!(new, 1);
}

/// The frame stays with the ledger: a call that was made is not made again (R4.8).
pub async fn r4_8_a_frame_whose_task_was_purged_is_not_carried_out_again(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = framed("first", frame(1));
    assert!(matches!(created(&store, &first, Join::Never).await, Created::New));
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    tell(&store, &sent, NOW, succeed()).await;
    assert_eq!(store.purge(EXPIRES + Millis(1), 10).await.expect("writable"), 1);
    let again = created(&store, &framed("again", frame(1)), Join::Never).await;
    assert!(matches!(again, Created::Known(ref known) if known.task == first.id), "{again:?}");
}
