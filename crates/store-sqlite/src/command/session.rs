//! Sessions.

use rusqlite::{Connection, params};
use taskgate_core::time::UnixMillis;
use taskgate_store::record::Session;

use super::Command;
use crate::fault::Problem;
use crate::row::at_most;

pub(crate) struct PutSession(pub(crate) Session);

pub(crate) struct EndSession(pub(crate) String);

pub(crate) struct ExpireSessions {
    pub(crate) before: UnixMillis,
    pub(crate) keep: usize,
}

const PUT: &str = "INSERT OR REPLACE INTO session (
        key, principal, server, version, offers, client_info, log_level, created_ms, seen_ms
    ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

const END: &str = "DELETE FROM session WHERE key = ?1";

const EXPIRE: &str = "DELETE FROM session WHERE seen_ms < ?1 RETURNING key";

/// Of those seen at the same time, the first key goes first.
const CROP: &str = "DELETE FROM session WHERE key IN (
        SELECT key FROM session ORDER BY seen_ms DESC, key DESC LIMIT -1 OFFSET ?1
    ) RETURNING key";

impl Command for PutSession {
    type Outcome = ();

    const DOING: &'static str = "write a session";

    fn run(&self, database: &Connection) -> Result<(), Problem> {
        let session = &self.0;
        database.prepare_cached(PUT)?.execute(params![
            session.key,
            session.principal.as_str(),
            session.server.0,
            session.version,
            session.offers,
            session.client_info,
            session.log_level,
            session.created.0,
            session.seen.0,
        ])?;
        Ok(())
    }
}

impl Command for EndSession {
    type Outcome = bool;

    const DOING: &'static str = "end a session";

    fn run(&self, database: &Connection) -> Result<bool, Problem> {
        Ok(database.prepare_cached(END)?.execute([&self.0])? > 0)
    }
}

impl Command for ExpireSessions {
    type Outcome = Vec<String>;

    const DOING: &'static str = "expire sessions";

    fn run(&self, database: &Connection) -> Result<Vec<String>, Problem> {
        let mut gone = Vec::new();
        for (delete, by) in [(EXPIRE, self.before.0), (CROP, at_most(self.keep))] {
            let mut delete = database.prepare_cached(delete)?;
            for key in delete.query_map([by], |row| row.get(0))? {
                gone.push(key?);
            }
        }
        Ok(gone)
    }
}
