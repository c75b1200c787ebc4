//! What recovery finds.

use taskgate_core::task;

use super::Factory;
use super::sample::{CREATED, Told, accept, dispatch, id, ids, lose, put, record, stranger, succeed, tell};
use crate::Store;
use crate::summary::Summary;

/// At each stage, with the task over and not.
pub async fn r5_3_recovery_finds_what_is_not_finished_and_nothing_else(factory: &impl Factory) {
    let store = factory.fresh().await;
    let cancel = || Told::Task(task::Command::Cancel(task::CancelRule::Promise));
    let lost = || {
        Told::Operation(taskgate_core::operation::Command::Lose(taskgate_core::operation::Doubt::AnswerLost))
    };
    let cases = [
        ("a-prepared", vec![], true),
        ("b-dispatched", vec![vec![dispatch()]], true),
        ("c-observing", vec![vec![dispatch()], vec![accept("up")]], true),
        ("d-cancelled", vec![vec![dispatch()], vec![cancel()]], true),
        ("e-doubted", vec![vec![dispatch()], vec![lost()]], true),
        ("f-succeeded", vec![vec![dispatch()], succeed()], false),
        ("g-lost", vec![vec![dispatch()], lose()], false),
        ("h-cancelled-lost", vec![vec![dispatch()], vec![cancel()], vec![lost()]], false),
    ];
    let mut expected = vec![];
    for (text, steps, is_unfinished) in cases {
        let mut now = record(text);
        put(&store, &now).await;
        for told in steps {
            now = tell(&store, &now, CREATED, told).await;
        }
        if is_unfinished {
            expected.push(Summary::of(now));
        }
    }
    assert_eq!(store.unfinished(None, 100).await.expect("readable"), expected);
    let store = factory.reopen(store).await;
    assert_eq!(store.unfinished(None, 100).await.expect("readable"), expected);
}

/// Of all principals.
pub async fn r5_3_recovery_reads_page_by_page_in_the_order_of_ids(factory: &impl Factory) {
    let store = factory.fresh().await;
    for (index, text) in ["m", "b", "z", "a", "q"].into_iter().enumerate() {
        let mut record = record(text);
        if index % 2 == 0 {
            record.principal = stranger();
        }
        put(&store, &record).await;
    }
    let first = store.unfinished(None, 2).await.expect("readable");
    assert_eq!(ids(&first), ["a", "b"]);
    let second = store.unfinished(Some(id("b")), 2).await.expect("readable");
    assert_eq!(ids(&second), ["m", "q"]);
    let third = store.unfinished(Some(id("q")), 2).await.expect("readable");
    assert_eq!(ids(&third), ["z"]);
    assert_eq!(store.unfinished(Some(id("z")), 2).await.expect("readable"), []);
}
