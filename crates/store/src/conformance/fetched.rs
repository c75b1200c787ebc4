//! Whether a client was given a result, and who may still want one.

use std::sync::Arc;

use taskgate_core::operation;
use taskgate_core::task::{self, CancelRule};
use taskgate_core::time::{Millis, UnixMillis};

use super::Factory;
use super::sample::{
    CREATED, EXPIRES, Told, all_shapes, assert_kept, dispatch, fail, frame, id, lose, put, record, somebody,
    stranger, succeed, tell,
};
use crate::record::{Front, Key, Record};
use crate::{Created, Join, Store, Unfetched};

const NOW: UnixMillis = UnixMillis(CREATED.0 + 10);

fn framed(text: &str, sequence: u64) -> Record {
    let mut record = record(text);
    record.call.frame = Some(frame(sequence));
    record
}

async fn fetched(store: &impl Store, record: &Record, at: UnixMillis) {
    store.fetched(&record.principal, &record.id, at).await.expect("writable");
}

async fn unfetched(store: &impl Store, now: UnixMillis) -> (u64, u64) {
    let Unfetched { running, ended } = store.unfetched(&somebody(), now).await.expect("readable");
    (running, ended)
}

/// And is neither a version nor for an append to change.
pub async fn design_3_the_first_fetch_counts(factory: &impl Factory) {
    let store = factory.fresh().await;
    // A new record has none, whatever it says.
    let new = framed("one", 1);
    let forged = Record { fetched: Some(NOW), ..new.clone() };
    assert!(matches!(store.create(Arc::new(forged), Join::Never).await, Ok(Created::New)));
    assert_kept(&store, &new).await;
    // Nor can a client have been given what is not there.
    fetched(&store, &new, NOW).await;
    assert_kept(&store, &new).await;

    let sent = tell(&store, &new, NOW, vec![dispatch()]).await;
    let over = tell(&store, &sent, NOW, vec![Told::Task(task::Command::Cancel(CancelRule::Promise))]).await;
    fetched(&store, &over, NOW + Millis(1)).await;
    fetched(&store, &over, NOW + Millis(2)).await;
    let mut now = Record { fetched: Some(NOW + Millis(1)), ..over.clone() };
    assert_kept(&store, &now).await;

    // The word on the effect comes late, on a record that knows of no fetch.
    let heard = Told::Operation(operation::Command::Hear(operation::Word::Success));
    let settled = tell(&store, &over, NOW, vec![heard]).await;
    now = Record { fetched: now.fetched, ..settled };
    assert_kept(&store, &now).await;
    let store = factory.reopen(store).await;
    assert_kept(&store, &now).await;
}

/// And says so to nobody (R6.1).
pub async fn r6_1_a_fetch_of_what_is_unknown_or_foreign_changes_nothing(factory: &impl Factory) {
    let store = factory.fresh().await;
    let new = framed("mine", 1);
    put(&store, &new).await;
    let sent = tell(&store, &new, NOW, vec![dispatch()]).await;
    let over = tell(&store, &sent, NOW, succeed()).await;
    store.fetched(&stranger(), &over.id, NOW).await.expect("no error");
    store.fetched(&somebody(), &id("nobody-s"), NOW).await.expect("no error");
    assert_kept(&store, &over).await;
    assert_eq!(store.purge(EXPIRES + Millis(1), 10).await.expect("writable"), 1);
    fetched(&store, &over, NOW).await;
    assert_eq!(store.load(&somebody(), &over.id).await.expect("readable"), None);
}

/// Of one principal, until they expire.
pub async fn design_3_what_runs_and_what_nobody_fetched_is_counted(factory: &impl Factory) {
    let store = factory.fresh().await;
    assert_eq!(unfetched(&store, NOW).await, (0, 0));
    let mut theirs = framed("theirs", 1);
    theirs.principal = stranger();
    put(&store, &theirs).await;
    // One runs, whatever brought it; one was promised to be cancelled, and only its operation is open.
    put(&store, &record("runs")).await;
    put(&store, &framed("cancelled", 2)).await;
    let cancelled = tell(&store, &framed("cancelled", 2), NOW, vec![dispatch()]).await;
    tell(&store, &cancelled, NOW, vec![Told::Task(task::Command::Cancel(CancelRule::Promise))]).await;
    assert_eq!(unfetched(&store, NOW).await, (1, 0));

    let mut results = vec![];
    for (text, sequence, told) in [
        ("good", Some(3), succeed()),
        ("bad", Some(4), fail()),
        ("lost", Some(5), lose()),
        ("no-frame", None, succeed()),
    ] {
        let mut new = record(text);
        new.call.frame = sequence.map(frame);
        new.front = if sequence.is_some() { Front::Plain } else { Front::A };
        new.call.key = (text == "good").then(|| Key::of_caller("k"));
        put(&store, &new).await;
        let sent = tell(&store, &new, NOW, vec![dispatch()]).await;
        results.push(tell(&store, &sent, NOW, told).await);
    }
    assert_eq!(unfetched(&store, NOW).await, (1, 2));
    assert_eq!(unfetched(&store, UnixMillis(EXPIRES.0 - 1)).await, (1, 2));
    assert_eq!(unfetched(&store, EXPIRES).await, (1, 0));
    fetched(&store, &results[1], NOW).await;
    assert_eq!(unfetched(&store, NOW).await, (1, 1));
    let store = factory.reopen(store).await;
    assert_eq!(unfetched(&store, NOW).await, (1, 1));
    fetched(&store, &results[0], NOW).await;
    assert_eq!(unfetched(&store, NOW).await, (1, 0));
}

/// In whatever state it is made, whatever brought it, before the fetch and after.
pub async fn inv_50_every_store_joins_what_the_record_says(factory: &impl Factory) {
    let mut joined = 0;
    for (index, shape) in all_shapes().into_iter().enumerate() {
        for (front, by_frame) in
            [Front::Plain, Front::A].into_iter().flat_map(|front| [(front, false), (front, true)])
        {
            let store = factory.fresh().await;
            let mut first = shape.clone();
            first.front = front;
            first.call.key = None;
            first.call.frame = by_frame.then(|| frame(1));
            put(&store, &first).await;
            for is_fetched in [false, true] {
                if is_fetched {
                    fetched(&store, &first, NOW).await;
                    first.fetched = first.task.ending().map(|_| NOW);
                }
                assert_eq!(
                    store.load(&first.principal, &first.id).await.expect("readable").as_ref(),
                    Some(&first)
                );
                let again = record(&format!("again-{is_fetched}"));
                let created = store.create(Arc::new(again.clone()), Join::SameCall).await;
                match created.expect("nothing is wrong with it") {
                    Created::New => assert!(!first.takes_same_call(), "shape {index}: {first:?}"),
                    Created::Joined(earlier) => {
                        assert!(first.takes_same_call(), "shape {index}: {first:?}");
                        assert_eq!(*earlier, first);
                        joined += 1;
                        continue;
                    }
                    Created::Known(known) => panic!("its task is kept: {known:?}"),
                }
                // So that it is not joined itself.
                let sent = tell(&store, &again, NOW, vec![dispatch()]).await;
                let over = tell(&store, &sent, NOW, succeed()).await;
                fetched(&store, &over, NOW).await;
            }
        }
    }
    assert!(joined > 20, "{joined} joins test too little");
}
