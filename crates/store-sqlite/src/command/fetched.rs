//! That a client was given a result.

use rusqlite::Connection;
use taskgate_core::id::{Principal, TaskId};
use taskgate_core::time::UnixMillis;
use taskgate_store::codec::UNRESOLVED;

use super::Command;
use crate::fault::Problem;

pub(crate) struct Fetched {
    pub(crate) principal: Principal,
    pub(crate) id: TaskId,
    pub(crate) at: UnixMillis,
}

/// Once it was told, only doubt keeps a record open for the same call.
pub(crate) const FETCHED: &str = "UPDATE task SET fetched_ms = ?3, takes_same_call = takes_same_call & ?4
    WHERE principal = ?1 AND task_id = ?2 AND state = 2 AND fetched_ms IS NULL";

impl Command for Fetched {
    type Outcome = ();

    const DOING: &'static str = "note that a result was fetched";

    fn run(&self, database: &Connection) -> Result<(), Problem> {
        let whose = (self.principal.as_str(), self.id.expose(), self.at.0, UNRESOLVED);
        database.prepare_cached(FETCHED)?.execute(whose)?;
        Ok(())
    }
}
