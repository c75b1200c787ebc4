//! What each command writes.

mod append;
mod create;
mod fetched;
mod keys;
mod operation;
mod purge;
mod questions;
mod session;
mod settle;

use rusqlite::Connection;

use crate::fault::Problem;

#[cfg(test)]
pub(crate) use self::{
    append::FIND,
    create::{FIND_FRAME, FIND_SAME_CALL},
    fetched::FETCHED,
    keys::FIND_KEY,
    purge::EXPIRED,
};
pub(crate) use append::{Append, Appended};
pub(crate) use create::{Create, CreatedOr, Earlier};
pub(crate) use fetched::Fetched;
pub(crate) use keys::given_to;
pub(crate) use purge::Purge;
pub(crate) use session::{EndSession, ExpireSessions, PutSession};
pub(crate) use settle::{Retire, Settle};

/// One whole command. It runs on the writer's connection, inside a transaction that others share.
pub(crate) trait Command: Send + 'static {
    /// What it came to.
    type Outcome: Send;

    /// What it does, for errors: `could not …`.
    const DOING: &'static str;

    /// Writes what there is to write. What it refuses is an outcome, and then nothing was written; an error rolls
    /// back what was. It may be run again after a rollback.
    fn run(&self, database: &Connection) -> Result<Self::Outcome, Problem>;
}
