//! The next version of an operation whose task was purged, and its end when its evidence need not be kept any longer.

use rusqlite::Connection;
use taskgate_core::operation;
use taskgate_core::time::UnixMillis;
use taskgate_store::Retired;
use taskgate_store::codec::KeyColumns;
use taskgate_store::codec::event::EventRow;
use taskgate_store::law;
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::record::Change;

use super::append::log;
use super::{Appended, Command, keys, operation as ledger};
use crate::fault::Problem;
use crate::row;

pub(crate) struct Settle {
    pub(crate) entry: LedgerEntry,
    pub(crate) changes: Vec<operation::Event>,
}

pub(crate) struct Retire {
    pub(crate) before: UnixMillis,
    /// What may go, as far as a reader saw a moment ago.
    pub(crate) named: Vec<Retired>,
}

/// The operation last: its row says which the others are.
const DELETE: [&str; 3] = [
    "DELETE FROM task_event WHERE principal = ?1 AND task_id = ?3 AND ?2 IS NOT NULL",
    "DELETE FROM op_attempt WHERE principal = ?1 AND operation_id = ?2 AND ?3 IS NOT NULL",
    "DELETE FROM operation WHERE principal = ?1 AND operation_id = ?2 AND task_id = ?3",
];

impl Command for Settle {
    type Outcome = Appended;

    const DOING: &'static str = "append to an operation";

    fn run(&self, database: &Connection) -> Result<Appended, Problem> {
        let new = &self.entry;
        let Some(old) = row::entry(database, &new.principal, &new.id.0)? else {
            return Ok(Appended::Conflict { found: None });
        };
        if old.kept.is_some() {
            return Ok(Appended::Conflict { found: None });
        }
        if new.version < 2 || old.version.checked_add(1) != Some(new.version) {
            return Ok(Appended::Conflict { found: Some(old.version) });
        }
        law::outcome(&old.operation, &new.operation).map_err(|breach| breach.refused(Self::DOING))?;
        if law::overturns(&old.operation, &new.operation)
            && let Some(to) = keys::given_to(database, &old)?
        {
            return Ok(Appended::KeyGiven { to });
        }
        ledger::update(database, new.principal.as_str(), &new.id.0, new.updated, &new.operation)?;
        let changes: Vec<_> = self.changes.iter().cloned().map(Change::Operation).collect();
        log(database, &old.principal, &old.task, new.version, new.updated, &EventRow::of(&changes))?;
        Ok(Appended::Done)
    }
}

impl Command for Retire {
    type Outcome = usize;

    const DOING: &'static str = "delete old evidence";

    fn run(&self, database: &Connection) -> Result<usize, Problem> {
        let mut deleted = 0;
        for (principal, id) in &self.named {
            let found = row::entry(database, principal, &id.0)?;
            // Somebody may have looked into it meanwhile.
            let Some(entry) = found.filter(|entry| entry.may_retire() && entry.updated < self.before) else {
                continue;
            };
            if let Some(scope) = KeyColumns::of_entry(&entry)
                && keys::given_to(database, &entry)?.is_none()
            {
                keys::forget(database, &scope)?;
            }
            for sql in DELETE {
                database.prepare_cached(sql)?.execute((
                    entry.principal.as_str(),
                    &entry.id.0,
                    entry.task.expose(),
                ))?;
            }
            deleted += 1;
        }
        Ok(deleted)
    }
}

#[cfg(test)]
mod tests;
