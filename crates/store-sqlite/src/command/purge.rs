//! Expired tasks go, and their evidence stays (R4.8, INV-30).

use rusqlite::Connection;
use taskgate_core::time::UnixMillis;
use taskgate_seeded::Bug;

use super::Command;
use crate::fault::Problem;
use crate::row::at_most;

pub(crate) struct Purge {
    pub(crate) now: UnixMillis,
    pub(crate) limit: usize,
}

/// What is unfinished is not in the index, and the trigger would not let it go.
pub(crate) const EXPIRED: &str = "SELECT principal, task_id FROM task
    WHERE phase > 0 AND expires_ms < ?1 ORDER BY expires_ms, task_id, principal LIMIT ?2";

/// With [`Bug::PurgeOpen`]: of what is over, whatever its operation is at.
const EXPIRED_OPEN: &str = "SELECT principal, task_id FROM task
    WHERE expires_ms < ?1 ORDER BY expires_ms, task_id, principal LIMIT ?2";

const DELETE: [&str; 3] = [
    "DELETE FROM payload WHERE principal = ?1 AND task_id = ?2",
    "DELETE FROM input_request WHERE principal = ?1 AND task_id = ?2",
    "DELETE FROM task WHERE principal = ?1 AND task_id = ?2",
];

impl Command for Purge {
    type Outcome = usize;

    const DOING: &'static str = "delete expired tasks";

    fn run(&self, database: &Connection) -> Result<usize, Problem> {
        let expired: Vec<(String, String)> = database
            .prepare_cached(if taskgate_seeded::is(Bug::PurgeOpen) { EXPIRED_OPEN } else { EXPIRED })?
            .query_map((self.now.0, at_most(self.limit)), |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (principal, task) in &expired {
            if taskgate_seeded::is(Bug::KeyExpires) {
                let forget = "DELETE FROM idempotency WHERE principal = ?1 AND task_id = ?2";
                database.execute(forget, (principal, task))?;
            }
            for sql in DELETE {
                database.prepare_cached(sql)?.execute((principal, task))?;
            }
        }
        Ok(expired.len())
    }
}
