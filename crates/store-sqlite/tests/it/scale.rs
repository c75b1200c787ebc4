//! That finished tasks cost the others nothing, and that payloads cost nobody anything who does not ask for them.

use bytes::Bytes;
use rusqlite::Connection;
use taskgate_core::operation::{self, Doubt};
use taskgate_core::task::Ending;
use taskgate_store::conformance::sample::{
    CREATED, Told, dispatch, end, id, ids, put, reconcile, record, somebody, tell,
};
use taskgate_store::{Store, Whose};
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

/// Bytes that this thread has read so far, from files in the cache too.
#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Reads run on the thread that asks.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn r5_5_lists_and_walks_read_no_payloads() {
    const TASKS: u64 = 40;
    const PAYLOAD: usize = 256 << 10;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("taskgate.db")).unwrap();
    let payload = || Bytes::from(vec![b'x'; PAYLOAD]);
    for number in 0..TASKS {
        let mut first = record(&format!("task-{number:02}"));
        first.call.params = payload();
        put(&store, &first).await;
        let sent = tell(&store, &first, CREATED, vec![dispatch()]).await;
        let lost = Told::Operation(operation::Command::Lose(Doubt::AnswerLost));
        let ending = match number % 3 {
            0 => Ending::Returned { result: payload(), is_error: false },
            1 => Ending::Returned { result: payload(), is_error: true },
            _ => Ending::Raised { error: payload() },
        };
        tell(&store, &sent, CREATED, vec![lost, end(ending), reconcile()]).await;
    }
    // What a connection reads at first is not of interest.
    store.load(&somebody(), &id("no-task")).await.unwrap();

    let before = bytes_read();
    assert_eq!(store.list(Whose::Everyone, None, 99).await.unwrap().len() as u64, TASKS);
    assert_eq!(store.unfinished(None, 99).await.unwrap().len() as u64, TASKS);
    let listed = bytes_read() - before;
    for number in 0..TASKS {
        store.load(&somebody(), &id(&format!("task-{number:02}"))).await.unwrap().unwrap();
    }
    let loaded = bytes_read() - before - listed;
    assert!(loaded > TASKS * PAYLOAD as u64 * 3 / 2, "the whole records are {loaded} bytes");
    // Two pages of 4 KiB for each task and list, and some of the indexes.
    assert!(listed < TASKS * 4 * 4096 + (64 << 10), "{listed} bytes for lists, {loaded} for all of it");
}
