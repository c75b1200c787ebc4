//! Joining an earlier call instead of carrying out another.

use std::sync::Arc;

use futures_util::future::join_all;
use taskgate_core::id::ServerName;
use taskgate_core::operation::{self, Attestation, Text, Verdict};
use taskgate_core::time::{Millis, UnixMillis};

use super::Factory;
use super::sample::{
    CREATED, EXPIRES, Told, dispatch, fail, frame, lose, put, record, stranger, succeed, tell,
};
use crate::record::{Front, Key, Record};
use crate::{CreateError, Created, Join, Store};

const NOW: UnixMillis = UnixMillis(CREATED.0 + 10);

fn keyed(id: &str, key: &str) -> Record {
    let mut record = record(id);
    record.call.key = Some(Key::of_caller(key));
    record
}

async fn create(store: &impl Store, record: &Record, join: Join) -> Result<Created, CreateError> {
    store.create(Arc::new(record.clone()), join).await
}

async fn fetched(store: &impl Store, record: &Record) {
    store.fetched(&record.principal, &record.id, NOW).await.expect("writable");
}

async fn assert_new(store: &impl Store, record: &Record, join: Join) {
    let created = create(store, record, join).await;
    assert!(matches!(created, Ok(Created::New)), "{created:?}");
}

async fn assert_joins(store: &impl Store, record: &Record, join: Join, earlier: &Record) {
    match create(store, record, join).await {
        Ok(Created::Joined(joined)) => assert_eq!(*joined, *earlier),
        other => panic!("did not join: {other:?}"),
    }
    let written = store.load(&record.principal, &record.id).await.expect("readable");
    assert_eq!(written, None, "a call that joins writes nothing");
}

/// And gives the record as it is now.
pub async fn r4_6_a_key_joins_whether_finished_or_not(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = keyed("first", "k");
    assert_new(&store, &first, Join::SameKey).await;
    assert_joins(&store, &keyed("second", "k"), Join::SameKey, &first).await;

    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    assert_joins(&store, &keyed("second", "k"), Join::SameKey, &sent).await;

    let over = tell(&store, &sent, NOW, succeed()).await;
    assert_joins(&store, &keyed("second", "k"), Join::SameKey, &over).await;

    // A key holds whatever the caller asks for.
    assert_joins(&store, &keyed("second", "k"), Join::Never, &over).await;
    assert_joins(&store, &keyed("second", "k"), Join::SameCall, &over).await;

    let store = factory.reopen(store).await;
    assert_joins(&store, &keyed("second", "k"), Join::SameKey, &over).await;
}

/// Finished or not, and nothing is written.
pub async fn r4_6_a_key_with_another_request_is_refused(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = keyed("first", "k");
    assert_new(&store, &first, Join::SameKey).await;
    let mut other = keyed("second", "k");
    other.call.digest = [8; 32];
    let refused = create(&store, &other, Join::SameKey).await;
    assert!(matches!(refused, Err(CreateError::KeyReused)), "{refused:?}");
    assert_eq!(store.load(&other.principal, &other.id).await.expect("readable"), None);
    other.call.key = Some(Key::of_caller("another"));
    assert_new(&store, &other, Join::SameKey).await;
}

/// The same key elsewhere is another key.
pub async fn r4_6_a_key_counts_within_principal_server_and_tool(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = keyed("first", "k");
    assert_new(&store, &first, Join::SameKey).await;

    let mut of_stranger = keyed("second", "k");
    of_stranger.principal = stranger();
    assert_new(&store, &of_stranger, Join::SameKey).await;

    let mut elsewhere = keyed("third", "k");
    elsewhere.call.server = ServerName("mail".into());
    assert_new(&store, &elsewhere, Join::SameKey).await;

    let mut other_tool = keyed("fourth", "k");
    other_tool.call.tool = "move".into();
    assert_new(&store, &other_tool, Join::SameKey).await;

    let mut again = keyed("fifth", "k");
    again.principal = stranger();
    assert_joins(&store, &again, Join::SameKey, &of_stranger).await;
}

/// However they race.
pub async fn inv_16_of_many_at_once_under_one_key_one_is_new(factory: &impl Factory) {
    let store = factory.fresh().await;
    let racers: Vec<_> = (0..16).map(|n| keyed(&format!("racer-{n:02}"), "k")).collect();
    let outcomes = join_all(racers.iter().map(|racer| create(&store, racer, Join::SameKey))).await;
    let mut winner = None;
    let mut joined = vec![];
    for (racer, outcome) in racers.iter().zip(outcomes) {
        match outcome.expect("one request under one key") {
            Created::New => assert_eq!(winner.replace(racer), None, "one is new"),
            Created::Joined(record) => joined.push(*record),
            Created::Known(known) => panic!("its task is kept: {known:?}"),
        }
    }
    assert_eq!(joined.len(), 15);
    assert!(joined.iter().all(|record| Some(record) == winner));
}

/// And no longer.
pub async fn design_3_the_same_unkeyed_call_joins_while_it_is_unfinished_or_unknown(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("first");
    assert_new(&store, &first, Join::SameCall).await;
    assert_joins(&store, &record("again"), Join::SameCall, &first).await;

    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    assert_joins(&store, &record("again"), Join::SameCall, &sent).await;

    let over = tell(&store, &sent, NOW, succeed()).await;
    assert_eq!(over.phase(), crate::record::Phase::Finished);
    fetched(&store, &over).await;
    let second = record("second");
    assert_new(&store, &second, Join::SameCall).await;

    let sent = tell(&store, &second, NOW, vec![dispatch()]).await;
    let lost = tell(&store, &sent, NOW, lose()).await;
    assert_joins(&store, &record("again"), Join::SameCall, &lost).await;
    let store = factory.reopen(store).await;
    assert_joins(&store, &record("again"), Join::SameCall, &lost).await;

    // A client that holds a task is not told of another one.
    assert_new(&store, &record("third"), Join::Never).await;
}

/// Whatever differs makes it another call.
pub async fn design_3_the_same_unkeyed_call_joins_within_principal_server_tool_and_digest_only(
    factory: &impl Factory,
) {
    let store = factory.fresh().await;
    assert_new(&store, &record("first"), Join::SameCall).await;

    let mut of_stranger = record("second");
    of_stranger.principal = stranger();
    assert_new(&store, &of_stranger, Join::SameCall).await;

    let mut elsewhere = record("third");
    elsewhere.call.server = ServerName("mail".into());
    assert_new(&store, &elsewhere, Join::SameCall).await;

    let mut other_tool = record("fourth");
    other_tool.call.tool = "move".into();
    assert_new(&store, &other_tool, Join::SameCall).await;

    let mut other_digest = record("fifth");
    other_digest.call.digest = [8; 32];
    assert_new(&store, &other_digest, Join::SameCall).await;
}

/// A key says that this call is not that one.
pub async fn design_3_an_unkeyed_call_joins_no_keyed_one(factory: &impl Factory) {
    let store = factory.fresh().await;
    assert_new(&store, &keyed("keyed", "k"), Join::SameKey).await;
    let unkeyed = record("unkeyed");
    assert_new(&store, &unkeyed, Join::SameCall).await;
    assert_new(&store, &keyed("other-key", "l"), Join::SameKey).await;
    assert_joins(&store, &record("again"), Join::SameCall, &unkeyed).await;
}

/// Equal times are told apart by id.
pub async fn design_3_of_several_the_first_made_is_joined(factory: &impl Factory) {
    let store = factory.fresh().await;
    let mut later = record("a-later");
    later.task.lifetime.created = CREATED + Millis(1);
    put(&store, &later).await;
    put(&store, &record("c")).await;
    let first = record("b");
    put(&store, &first).await;
    assert_joins(&store, &record("again"), Join::SameCall, &first).await;
}

/// Its operation is open all the same; who called can be told nothing of it (R4.8).
pub async fn design_3_a_purged_task_is_not_joined(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("first");
    assert_new(&store, &first, Join::SameCall).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    tell(&store, &sent, NOW, lose()).await;
    assert_eq!(store.purge(EXPIRES + Millis(1), 10).await.expect("writable"), 1);
    assert_new(&store, &record("second"), Join::SameCall).await;
}

/// The effect is unknown, but the caller was given an answer; a lost answer is none.
pub async fn design_3_a_call_after_a_tool_s_own_error_is_a_new_one(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("first");
    assert_new(&store, &first, Join::SameCall).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let over = tell(&store, &sent, NOW, fail()).await;
    assert_eq!(over.phase(), crate::record::Phase::Doubtful);
    fetched(&store, &over).await;
    let second = record("second");
    assert_new(&store, &second, Join::SameCall).await;
    assert_joins(&store, &record("again"), Join::SameCall, &second).await;
}

/// It was made, its answer was lost, and it was found out after the caller had gone: called again, it is told, not made twice.
/// One that is known not to have been made is a reason to call again.
pub async fn design_3_an_effect_that_was_found_out_after_a_lost_answer_is_joined(factory: &impl Factory) {
    for (verdict, joins) in [(Verdict::Applied, true), (Verdict::NotApplied, false)] {
        let store = factory.fresh().await;
        let first = record("first");
        assert_new(&store, &first, Join::SameCall).await;
        let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
        let lost = tell(&store, &sent, NOW, lose()).await;
        let word = Attestation { verdict, name: Text::new("ada"), reason: Text::new("seen in the books") };
        let attest = Told::Operation(operation::Command::Attest(word));
        let found = tell(&store, &lost, NOW, vec![attest]).await;
        assert_eq!(found.phase(), crate::record::Phase::Finished);
        if joins {
            assert_joins(&store, &record("again"), Join::SameCall, &found).await;
        } else {
            assert_new(&store, &record("again"), Join::SameCall).await;
        }
    }
}

/// Whether it is good or bad, until somebody is given it. Of a client that holds a task nobody asks.
pub async fn design_3_a_result_that_nobody_fetched_is_joined(factory: &impl Factory) {
    let store = factory.fresh().await;
    let results = [(1, true, succeed()), (2, true, fail()), (3, false, succeed()), (4, false, fail())];
    for (sequence, is_framed, told) in results {
        let mut first = record(&format!("first-{sequence}"));
        first.call.frame = is_framed.then(|| frame(sequence));
        assert_new(&store, &first, Join::SameCall).await;
        let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
        let over = tell(&store, &sent, NOW, told).await;
        let mut again = record(&format!("again-{sequence}"));
        assert_joins(&store, &again, Join::SameCall, &over).await;
        again.call.frame = Some(frame(10 + sequence));
        assert_joins(&store, &again, Join::SameCall, &over).await;
        fetched(&store, &over).await;
    }
    let mut with_task = record("with-task");
    with_task.front = Front::A;
    assert_new(&store, &with_task, Join::Never).await;
    let sent = tell(&store, &with_task, NOW, vec![dispatch()]).await;
    tell(&store, &sent, NOW, succeed()).await;
    // Doubt stays doubt, fetched or not.
    let first = record("first");
    assert_new(&store, &first, Join::SameCall).await;
    let sent = tell(&store, &first, NOW, vec![dispatch()]).await;
    let lost = tell(&store, &sent, NOW, lose()).await;
    fetched(&store, &lost).await;
    let lost = Record { fetched: Some(NOW), ..lost };
    assert_joins(&store, &record("again"), Join::SameCall, &lost).await;
}
