//! One thread that writes, many that wait.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::row::Row;

/// Inserts in one commit, after the first.
const BATCH_MAX: usize = 256;

const QUEUE_MAX: usize = 1024;

struct Insert {
    id: String,
    done: oneshot::Sender<bool>,
}

/// The waiting side.
#[derive(Debug)]
pub(crate) struct Committer {
    queue: mpsc::Sender<Insert>,
    next: AtomicU64,
}

impl Committer {
    /// Makes the file and starts the writer, which ends when the last committer is gone.
    pub(crate) fn start(path: &Path, row: Row) -> Result<Committer> {
        let database = Connection::open(path)?;
        let mode: String = database.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        ensure!(mode == "wal", "no write-ahead log here");
        database.pragma_update(None, "synchronous", "full")?;
        database.execute_batch(
            "CREATE TABLE bare (id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT, WITHOUT ROWID",
        )?;
        let (queue, inserts) = mpsc::channel(QUEUE_MAX);
        let text = "x".repeat(row.bytes());
        thread::Builder::new().name("bare-writer".into()).spawn(move || {
            // What it failed at, its clients notice.
            let _ = write(&database, &text, inserts);
        })?;
        Ok(Committer { queue, next: AtomicU64::new(0) })
    }

    /// Resolves when one more row is on disk.
    pub(crate) async fn insert(&self) -> Result<()> {
        let (done, wait) = oneshot::channel();
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        // Ids of the gateway's begin with the time, so they grow as these do.
        self.queue.send(Insert { id: format!("{n:032}"), done }).await.ok().context("the writer is gone")?;
        ensure!(wait.await.context("the writer failed")?, "not one row was inserted");
        Ok(())
    }
}

fn write(database: &Connection, text: &str, mut inserts: mpsc::Receiver<Insert>) -> Result<()> {
    let mut batch = Vec::with_capacity(BATCH_MAX + 1);
    let mut answers = Vec::with_capacity(BATCH_MAX + 1);
    while let Some(first) = inserts.blocking_recv() {
        batch.push(first);
        while batch.len() <= BATCH_MAX
            && let Ok(insert) = inserts.try_recv()
        {
            batch.push(insert);
        }
        database.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for Insert { id, done } in batch.drain(..) {
            let count = database
                .prepare_cached("INSERT INTO bare (id, text) VALUES (?1, ?2)")?
                .execute((id, text))?;
            answers.push((done, count == 1));
        }
        database.prepare_cached("COMMIT")?.execute([])?;
        for (done, is_one) in answers.drain(..) {
            // The client may have stopped waiting.
            let _ = done.send(is_one);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_insert_is_a_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bare.db");
        let committer = Committer::start(&path, Row::Raw).unwrap();
        for _ in 0..10 {
            committer.insert().await.unwrap();
        }
        let database = Connection::open(&path).unwrap();
        let count: i64 = database.query_row("SELECT count(*) FROM bare", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 10);
    }
}
