//! What the tables of evidence say, and that they stay.

use rusqlite::Connection;
use taskgate_core::operation::{self, Effect, Operation, Replay};
use taskgate_core::task::{self, QuestionKey, QuestionKind};
use taskgate_core::time::Millis;
use taskgate_store::Store;
use taskgate_store::conformance::sample::{
    CREATED, EXPIRES, Told, accept, all_shapes, ask, dispatch, put, record, succeed, tell,
};
use taskgate_store::record::Key;
use taskgate_store_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::whole::assert_whole;

fn store() -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("taskgate.db")).unwrap();
    (folder, store)
}

fn texts(store: &SqliteStore, sql: &str) -> Vec<String> {
    let database = Connection::open(store.path()).unwrap();
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn r4_5_each_attempt_leaves_a_row() {
    let (_folder, store) = store();
    let mut now = record("one");
    now.operation = Operation::new(Effect::Consequential, Replay::Natural);
    put(&store, &now).await;
    for told in [
        dispatch(),
        // The first was given up: after a crash it is sent again.
        dispatch(),
        accept("up-1"),
        Told::Operation(operation::Command::Lose(operation::Doubt::UpstreamLost)),
        dispatch(),
        Told::Operation(operation::Command::Hear(operation::Word::Success)),
    ] {
        now = tell(&store, &now, now.updated + Millis(10), vec![told]).await;
    }
    let rows =
        "SELECT attempt || ' ' || (dispatched_ms - 1000000) || ' ' || (ended_ms - 1000000) || ' ' || class
        FROM op_attempt ORDER BY attempt";
    assert_eq!(texts(&store, rows), ["1 10 20 1", "2 20 40 1", "3 50 60 2"]);
}

#[tokio::test]
async fn r4_5_an_operation_that_never_left_has_no_attempt() {
    let (_folder, store) = store();
    let new = record("one");
    put(&store, &new).await;
    tell(&store, &new, CREATED, vec![Told::Operation(operation::Command::NeverSent)]).await;
    assert_eq!(texts(&store, "SELECT CAST(stage AS TEXT) FROM operation"), ["3"]);
    assert_eq!(texts(&store, "SELECT operation_id FROM op_attempt"), Vec::<String>::new());
}

#[tokio::test]
async fn r6_5_no_answer_and_no_payload_is_in_the_log_or_stays_with_a_closed_question() {
    let (_folder, store) = store();
    let new = record("one");
    put(&store, &new).await;
    let sent = tell(&store, &new, CREATED, vec![dispatch(), ask(QuestionKind::Form, Some("back"))]).await;
    let take = Told::Task(task::Command::TakeAnswer(QuestionKey("in-1".into())));
    let taken = tell(&store, &sent, CREATED, vec![take]).await;
    let settle = Told::Task(task::Command::SettleAnswer(QuestionKey("in-1".into())));
    let settled = tell(&store, &taken, CREATED, vec![settle]).await;
    tell(&store, &settled, CREATED, succeed()).await;
    assert_eq!(
        texts(&store, "SELECT body FROM task_event ORDER BY version"),
        [
            "created",
            "dispatched 1000000\nasked in-1 form",
            "answer_taken in-1",
            "answer_settled in-1",
            "settled reported_applied answer success\nended 1000000 returned",
        ]
    );
    let question = "SELECT key || ' ' || phase || ' ' || kind || ' ' || (params IS NULL) FROM input_request";
    assert_eq!(texts(&store, question), ["in-1 2 0 1"]);
}

#[tokio::test]
async fn r4_8_a_purge_takes_the_protocol_record_and_leaves_the_evidence() {
    let (_folder, store) = store();
    let mut new = record("one");
    new.call.key = Some(Key::of_caller("k"));
    put(&store, &new).await;
    let sent = tell(&store, &new, CREATED, vec![dispatch(), ask(QuestionKind::Form, None)]).await;
    tell(&store, &sent, CREATED, succeed()).await;
    assert_eq!(store.purge(EXPIRES + Millis(1), 10).await.unwrap(), 1);
    let count = |table: &str| texts(&store, &format!("SELECT CAST(count(*) AS TEXT) FROM {table}")).remove(0);
    for table in ["task", "payload", "input_request"] {
        assert_eq!(count(table), "0", "{table}");
    }
    for (table, rows) in [("operation", "1"), ("op_attempt", "1"), ("task_event", "3"), ("idempotency", "1")]
    {
        assert_eq!(count(table), rows, "{table}");
    }
    // The ledger says by itself what was called.
    assert_eq!(texts(&store, "SELECT server || '/' || tool FROM operation"), ["files/copy"]);
}

#[tokio::test]
async fn inv_04_whatever_a_record_begins_as_the_log_adds_up_to_it() {
    let (_folder, store) = store();
    for shape in all_shapes() {
        put(&store, &shape).await;
    }
    assert_whole(&Connection::open(store.path()).unwrap());
}
