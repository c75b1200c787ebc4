//! When the write-ahead log goes into the file.
//!
//! The writer itself does it, when nothing waits, or else when the log has grown long (notes 2.11): a second
//! connection gains nothing, and one alone stays clear of the race that older versions had. The log keeps its size,
//! because a file that grows costs up to twice the time.

use rusqlite::Connection;

/// Pages from which on an idle moment is used: as many as SQLite's own default.
const IDLE_PAGES: i64 = 1_000;

/// Pages from which on nobody is asked.
const FORCED_PAGES: i64 = 4_000;

/// The log is measured once in so many commands.
const MEASURED_EACH: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Log {
    unmeasured: usize,
    pages: i64,
}

impl Log {
    /// Counts commands that go into the log.
    pub(super) fn count(&mut self, commands: usize) {
        self.unmeasured += commands;
    }

    /// Moves the log into the file if it is time. A disk without space for it leaves the log as it is, complete.
    pub(super) fn tend(&mut self, database: &Connection, is_idle: bool) -> rusqlite::Result<()> {
        if self.unmeasured >= MEASURED_EACH {
            self.unmeasured = 0;
            self.pages = ask(database, "PRAGMA wal_checkpoint(NOOP)")?;
        }
        if self.pages >= FORCED_PAGES || (is_idle && self.pages >= IDLE_PAGES) {
            self.pages = 0;
            ask(database, "PRAGMA wal_checkpoint(PASSIVE)").inspect_err(|error| {
                tracing::warn!(%error, "the log could not be moved into the file");
            })?;
        }
        Ok(())
    }
}

/// How many pages of the log are not in the file.
fn ask(database: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    database.prepare_cached(pragma)?.query_row([], |row| {
        let (log, moved): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(log - moved)
    })
}
