//! The last fence: whoever writes into the file, these rules hold (notes 2.4).

use rusqlite::Connection;
use taskgate_core::operation::{self, HandOff, Verdict};
use taskgate_core::task::QuestionKind;
use taskgate_store::Store;
use taskgate_store::conformance::sample::{
    CREATED, Told, ask, attest, dispatch, frame, hand_off, intent, lose, put, record, succeed, tell,
};
use taskgate_store::record::Key;
use taskgate_store_sqlite::SqliteStore;

/// One task that is over and fetched, one that came by a frame and was not fetched, one that is confirmed, one that asks, one with a key.
async fn database() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    let store = SqliteStore::open(&path).unwrap();
    let over = record("over");
    put(&store, &over).await;
    let over = tell(&store, &over, CREATED, vec![dispatch()]).await;
    tell(&store, &over, CREATED, succeed()).await;
    store.fetched(&over.principal, &over.id, CREATED).await.unwrap();
    let mut framed = record("framed");
    framed.call.frame = Some(frame(1));
    put(&store, &framed).await;
    let framed = tell(&store, &framed, CREATED, vec![dispatch()]).await;
    tell(&store, &framed, CREATED, succeed()).await;
    let confirmed = record("confirmed");
    put(&store, &confirmed).await;
    tell(&store, &confirmed, CREATED, vec![Told::Operation(operation::Command::NeverSent)]).await;
    let asking = record("asking");
    put(&store, &asking).await;
    tell(&store, &asking, CREATED, vec![dispatch(), ask(QuestionKind::Form, None)]).await;
    let mut keyed = record("keyed");
    keyed.call.key = Some(Key::of_caller("k"));
    put(&store, &keyed).await;
    for (text, told) in [("waits", hand_off(HandOff::NoRule)), ("attested", attest(Verdict::Applied))] {
        let mut new = record(text);
        new.call.intent = Some(intent("pay", Some("invoice-1")));
        put(&store, &new).await;
        let sent = tell(&store, &new, CREATED, vec![dispatch()]).await;
        tell(&store, &sent, CREATED, [lose(), vec![told]].concat()).await;
    }
    drop(store);
    (folder, Connection::open(&path).unwrap())
}

#[tokio::test]
async fn inv_03_inv_04_inv_20_inv_30_no_statement_breaks_the_law() {
    let (_folder, database) = database().await;
    for (what, sql) in [
        ("a gap", "UPDATE task SET version = version + 2 WHERE task_id = 'asking'"),
        ("a version back", "UPDATE task SET version = version - 1 WHERE task_id = 'asking'"),
        ("no new version", "UPDATE task SET message = 'x' WHERE task_id = 'asking'"),
        (
            "another principal",
            "UPDATE task SET version = version + 1, principal = 'x' WHERE task_id = 'asking'",
        ),
        ("another lifetime", "UPDATE task SET version = version + 1, ttl_ms = 1 WHERE task_id = 'asking'"),
        (
            "a resurrection",
            "UPDATE task SET version = version + 1, state = 0, ending = NULL, ended_ms = NULL,
                expires_ms = NULL, phase = 0 WHERE task_id = 'over'",
        ),
        ("another ending", "UPDATE task SET version = version + 1, ending = 0 WHERE task_id = 'over'"),
        (
            "a later end",
            "UPDATE task SET version = version + 1, ended_ms = ended_ms + 1 WHERE task_id = 'over'",
        ),
        ("a longer life", "UPDATE task SET version = version + 1, expires_ms = 9 WHERE task_id = 'over'"),
        (
            "an end without an ending",
            "UPDATE task SET version = version + 1, state = 2 WHERE task_id = 'asking'",
        ),
        ("a question gone", "UPDATE task SET version = version + 1, questions = 0 WHERE task_id = 'asking'"),
        (
            "finished while working",
            "UPDATE task SET version = version + 1, phase = 2 WHERE task_id = 'asking'",
        ),
        ("an unfinished task deleted", "DELETE FROM task WHERE task_id = 'asking'"),
        ("a second fetch", "UPDATE task SET fetched_ms = 9 WHERE task_id = 'over'"),
        ("a fetch taken back", "UPDATE task SET fetched_ms = NULL WHERE task_id = 'over'"),
        ("a fetch of what is not over", "UPDATE task SET fetched_ms = 9 WHERE task_id = 'asking'"),
        ("more than a fetch", "UPDATE task SET fetched_ms = 9, takes_same_call = 0, message = 'x' WHERE task_id = 'framed'"),
        ("unfetched after a fetch", "UPDATE task SET takes_same_call = 2 WHERE task_id = 'over'"),
        ("unfetched before the end", "UPDATE task SET takes_same_call = 3 WHERE task_id = 'asking'"),
        ("another frame", "UPDATE operation SET frame = zeroblob(24) WHERE task_id = 'framed'"),
        (
            "a frame used twice",
            "INSERT INTO operation (principal, operation_id, task_id, server, tool, digest, created_ms, updated_ms,
                effect, replay, stage, attempts, frame)
            SELECT principal, 'second', task_id, server, tool, digest, created_ms, updated_ms, effect, replay, 0, 0,
                frame FROM operation WHERE task_id = 'framed'",
        ),
        ("a frame of another length", "INSERT INTO operation (principal, operation_id, task_id, server, tool, digest,
                created_ms, updated_ms, effect, replay, stage, attempts, frame)
            VALUES ('p', 'o', 't', 's', 't', zeroblob(32), 0, 0, 0, 0, 0, 0, zeroblob(23))"),
        ("another result", "UPDATE payload SET bytes = x'00' WHERE task_id = 'over'"),
        ("a second result", "INSERT INTO payload SELECT principal, task_id, part, x'00' FROM payload"),
        ("a question asked again", "UPDATE input_request SET phase = 0"),
        ("another class of question", "UPDATE input_request SET phase = 1, kind = 1"),
        ("a confirmed outcome changed", "UPDATE operation SET outcome = 3 WHERE task_id = 'confirmed'"),
        (
            "a confirmed outcome doubted",
            "UPDATE operation SET stage = 4, outcome = NULL, doubt = 0 WHERE task_id = 'confirmed'",
        ),
        ("another effect", "UPDATE operation SET effect = 0"),
        ("an attested outcome reported", "UPDATE operation SET outcome = 1 WHERE task_id = 'attested'"),
        (
            "an attested outcome doubted",
            "UPDATE operation SET stage = 4, outcome = NULL, doubt = 0 WHERE task_id = 'attested'",
        ),
        (
            "a confirmed outcome asked after",
            "UPDATE operation SET inquiry = 2, inquiry_since_ms = 1, inquiry_why = 1 WHERE task_id = 'confirmed'",
        ),
        (
            "an operation under way asked after",
            "UPDATE operation SET inquiry = 2, inquiry_since_ms = 1, inquiry_why = 3 WHERE task_id = 'asking'",
        ),
        ("waiting for no reason", "UPDATE operation SET inquiry_why = NULL WHERE task_id = 'waits'"),
        ("another object", "UPDATE operation SET object = 'invoice-2' WHERE task_id = 'waits'"),
        ("another key", "UPDATE operation SET key = 'l' WHERE task_id = 'keyed'"),
        ("more cleared than sent", "UPDATE operation SET cleared = 2 WHERE task_id = 'waits'"),
        ("an operation deleted that waits for a person", "DELETE FROM operation WHERE task_id = 'waits'"),
        ("an operation deleted whose task is kept", "DELETE FROM operation WHERE task_id = 'attested'"),
        ("an outcome without its stage", "UPDATE operation SET outcome = 1 WHERE task_id = 'asking'"),
        ("a stage that is none", "UPDATE operation SET stage = 9 WHERE task_id = 'asking'"),
        ("the log rewritten", "UPDATE task_event SET body = 'x'"),
        ("a second event of a version", "INSERT INTO task_event SELECT * FROM task_event"),
        ("an attempt rewritten", "UPDATE op_attempt SET class = 0"),
        ("a key moved", "UPDATE idempotency SET task_id = 'over'"),
        ("a second store", "INSERT INTO meta VALUES (2, randomblob(16), 1, randomblob(32))"),
        ("a text for a number", "UPDATE task SET version = 'x' WHERE task_id = 'asking'"),
        (
            "a body too long",
            "INSERT INTO task_event VALUES ('somebody', 'asking', 9, 0, 0, printf('%1025s', ''))",
        ),
    ] {
        let refused = database.execute(sql, []);
        assert!(refused.is_err(), "{what} was possible");
        let code = refused.unwrap_err().sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::ConstraintViolation), "{what}");
    }
    // And what the law allows can be done.
    database
        .execute("UPDATE task SET version = version + 1, message = 'x' WHERE task_id = 'asking'", [])
        .unwrap();
    database
        .execute("UPDATE task SET version = version + 1, updated_ms = 9 WHERE task_id = 'over'", [])
        .unwrap();
    database.execute("DELETE FROM task WHERE task_id = 'over'", []).unwrap();
    database.execute("DELETE FROM operation WHERE task_id = 'over'", []).unwrap();
    database.execute("UPDATE operation SET outcome = 3 WHERE task_id = 'attested'", []).unwrap();
    database
        .execute("UPDATE task SET fetched_ms = 9, takes_same_call = 0 WHERE task_id = 'framed'", [])
        .unwrap();
}
