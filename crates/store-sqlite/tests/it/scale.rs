//! That finished tasks cost the others nothing.

use rusqlite::Connection;
use taskgate_store::Store;
use taskgate_store::conformance::sample::{ids, put, record};
use taskgate_store_sqlite::SqliteStore;

/// Many finished tasks, by SQL: writing them one by one would take as long as all other tests.
fn finish_many(database: &Connection, count: usize) {
    database
        .execute_batch(&format!(
            "CREATE TEMP TABLE numbers AS WITH RECURSIVE n(n) AS
                (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count}) SELECT n FROM n;
            INSERT INTO task (principal, task_id, version, phase, operation_id, front, server, tool, digest, offers,
                asking, created_ms, ttl_ms, linger_ms, max_ms, deadline_ms, updated_ms, state, ending, ended_ms,
                expires_ms, keys_issued, questions)
            SELECT 'somebody', printf('m-%08d', n), 1, 2, printf('op-%08d', n), 2, 'files', 'copy', randomblob(32),
                '', 0, n, 1, 1, 1, 1, 1, 2, 0, 1, n, 0, 0 FROM numbers;"
        ))
        .unwrap();
}

#[tokio::test]
async fn r5_3_recovery_does_not_read_what_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    drop(SqliteStore::open(&path).unwrap());
    let database = Connection::open(&path).unwrap();
    finish_many(&database, 100_000);
    drop(database);
    let store = SqliteStore::open(&path).unwrap();
    for text in ["a", "z"] {
        put(&store, &record(text)).await;
    }
    assert_eq!(ids(&store.unfinished(None, 10).await.unwrap()), ["a", "z"]);
    drop(store);
    let database = Connection::open(&path).unwrap();
    // The number of steps that SQLite takes is the same on every machine.
    let mut statement =
        database.prepare("SELECT task_id FROM task t WHERE t.phase = 0 ORDER BY t.task_id").unwrap();
    assert_eq!(statement.query_map([], |row| row.get::<_, String>(0)).unwrap().count(), 2);
    let steps = statement.get_status(rusqlite::StatementStatus::VmStep);
    assert!(steps < 100, "{steps} steps");
}
