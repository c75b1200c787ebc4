//! The store on SQLite: one writer thread with group commit, readers inline (notes 0.4).
//!
//! - [`SqliteStore`]: the twin
//! - `open`: from a path to a checked database that nobody else has open
//! - `migrate`: numbered steps from an empty file to the present schema
//! - `writer`: many commands, one commit
//! - `command`: what each command writes
//! - `reader`: reads on the calling thread
//! - `row`: from rows to records
//! - `fault`: what SQLite's errors mean for us

mod command;
mod fault;
mod health;
mod migrate;
mod open;
#[cfg(test)]
mod plans;
mod reader;
mod row;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use taskgate_core::id::{OperationId, Principal, TaskId};
use taskgate_core::operation;
use taskgate_core::time::UnixMillis;
use taskgate_store::breakdown::Breakdown;
use taskgate_store::ledger::{After, Busy, Happening, Held, LedgerEntry, Which};
use taskgate_store::record::{Change, Record, Session};
use taskgate_store::summary::Summary;
use taskgate_store::{
    AppendError, CreateError, Created, Error, Join, Retired, Retirement, Store, Unfetched, Whose,
};

use crate::command::{
    Append, Appended, Create, CreatedOr, Earlier, EndSession, ExpireSessions, Fetched, Purge, PutSession,
    Retire, Settle,
};
use crate::health::Health;
use crate::reader::Readers;
use crate::writer::Writer;

/// What an operator may choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The largest that the file may grow, to the page of 4 KiB. Above it the store answers [`Error::Full`] until
    /// something was purged. `None`: as far as the disk goes.
    pub bytes_max: Option<u64>,
}

/// A store in one file, which this process has for itself.
pub struct SqliteStore {
    path: PathBuf,
    secret: [u8; 32],
    health: Arc<Health>,
    readers: Readers,
    writer: Writer,
}

impl SqliteStore {
    /// Opens the store at `path`, and makes it if there is none: folder 0700, file 0600.
    ///
    /// It blocks, for milliseconds as a rule and for as long as it takes to check the file after an unclean end.
    ///
    /// # Errors
    /// The words of each [`Error`] say what to do.
    pub fn open(path: &Path) -> Result<SqliteStore, Error> {
        SqliteStore::open_with(path, Options::default())
    }

    /// As [`SqliteStore::open`], with a choice.
    ///
    /// # Errors
    /// As there.
    pub fn open_with(path: &Path, options: Options) -> Result<SqliteStore, Error> {
        let opened = open::open(path, options)?;
        let health = Arc::new(Health::new(opened.place.clone()));
        let readers = Readers::new(opened.path.clone(), Arc::clone(&health));
        let writer = Writer::start(opened.database, opened.lock, Arc::clone(&health))?;
        Ok(SqliteStore { path: opened.path, secret: opened.secret, health, readers, writer })
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, record: Arc<Record>, join: Join) -> Result<Created, CreateError> {
        self.writer.run(Create { record, join }).await?.into()
    }

    async fn earlier(&self, record: Arc<Record>, join: Join) -> Result<Option<Created>, CreateError> {
        let create = Create { record, join };
        match self.readers.read("look for an earlier call", |database| create.earlier(database))? {
            Earlier::Nothing { .. } => Ok(None),
            Earlier::Call(found) => Result::from(found).map(Some),
        }
    }

    async fn append(&self, record: Arc<Record>, changes: Vec<Change>) -> Result<(), AppendError> {
        let expected = record.version.saturating_sub(1);
        match self.writer.run(Append { record, changes }).await? {
            Appended::Done => Ok(()),
            Appended::Conflict { found } => Err(AppendError::Conflict { expected, found }),
            Appended::KeyGiven { to } => Err(AppendError::KeyGiven { to }),
        }
    }

    async fn load(&self, principal: &Principal, id: &TaskId) -> Result<Option<Record>, Error> {
        self.readers.read("read a task", |database| row::load(database, principal, id))
    }

    async fn fetched(&self, principal: &Principal, id: &TaskId, at: UnixMillis) -> Result<(), Error> {
        self.writer.run(Fetched { principal: principal.clone(), id: id.clone(), at }).await
    }

    async fn unfetched(&self, principal: &Principal, now: UnixMillis) -> Result<Unfetched, Error> {
        self.readers.read("count tasks", |database| row::unfetched(database, principal, now))
    }

    async fn list(
        &self,
        whose: Whose<'_>,
        after: Option<(UnixMillis, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Summary>, Error> {
        self.readers.read("list tasks", |database| row::list(database, whose, after, limit))
    }

    async fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<Summary>, Error> {
        self.readers.read("read unfinished tasks", |database| row::unfinished(database, after, limit))
    }

    async fn purge(&self, now: UnixMillis, limit: usize) -> Result<usize, Error> {
        self.writer.run(Purge { now, limit }).await
    }

    async fn operation(&self, id: &OperationId) -> Result<Option<LedgerEntry>, Error> {
        self.readers.read("read an operation", |database| row::operation_by_id(database, id))
    }

    async fn operations(
        &self,
        which: Which,
        after: Option<After>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, Error> {
        self.readers
            .read("list operations", |database| row::operations(database, which, after.as_ref(), limit))
    }

    async fn key_given_to(&self, entry: &LedgerEntry) -> Result<Option<OperationId>, Error> {
        self.readers.read("read a key", |database| command::given_to(database, entry))
    }

    async fn history(&self, id: &OperationId) -> Result<Vec<Happening>, Error> {
        self.readers.read("read a history", |database| row::history(database, id))
    }

    async fn ahead_of(&self, record: &Record) -> Result<Option<Busy>, Error> {
        self.readers.read("look for open operations", |database| row::ahead_of(database, record))
    }

    async fn held(&self) -> Result<Vec<Held>, Error> {
        self.readers.read("read the workflows that are held", row::held)
    }

    async fn settle(&self, entry: LedgerEntry, changes: Vec<operation::Event>) -> Result<(), AppendError> {
        let expected = entry.version.saturating_sub(1);
        match self.writer.run(Settle { entry, changes }).await? {
            Appended::Done => Ok(()),
            Appended::Conflict { found } => Err(AppendError::Conflict { expected, found }),
            Appended::KeyGiven { to } => Err(AppendError::KeyGiven { to }),
        }
    }

    async fn retire(
        &self,
        before: UnixMillis,
        below: &OperationId,
        after: Option<&Retired>,
        limit: usize,
    ) -> Result<Retirement, Error> {
        let page = self.readers.read("look for old evidence", |database| {
            row::retirable(database, before, below, after, limit)
        })?;
        let row::Retirable { named, next } = page;
        // Most of what is old may be what must stay.
        let deleted = if named.is_empty() { 0 } else { self.writer.run(Retire { before, named }).await? };
        Ok(Retirement { deleted, next })
    }

    async fn put_session(&self, session: Session) -> Result<(), Error> {
        self.writer.run(PutSession(session)).await
    }

    async fn session(&self, key: &str) -> Result<Option<Session>, Error> {
        self.readers.read("read a session", |database| row::session(database, key))
    }

    async fn end_session(&self, key: &str) -> Result<bool, Error> {
        self.writer.run(EndSession(key.to_owned())).await
    }

    async fn expire_sessions(&self, before: UnixMillis, keep: usize) -> Result<Vec<String>, Error> {
        self.writer.run(ExpireSessions { before, keep }).await
    }

    fn secret(&self) -> [u8; 32] {
        self.secret
    }

    fn breakdown(&self) -> &Breakdown {
        self.health.breakdown()
    }

    async fn close(&self) {
        self.health.close();
        self.readers.close();
        self.writer.close().await;
    }
}

impl From<CreatedOr> for Result<Created, CreateError> {
    fn from(outcome: CreatedOr) -> Result<Created, CreateError> {
        match outcome {
            CreatedOr::Created(created) => Ok(created),
            CreatedOr::KeyReused => Err(CreateError::KeyReused),
            CreatedOr::KeyElsewhere => Err(CreateError::KeyElsewhere),
            CreatedOr::ObjectBusy(busy) => Err(CreateError::ObjectBusy(busy)),
        }
    }
}

impl fmt::Debug for SqliteStore {
    /// Not the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for SqliteStore {
    /// Waits as [`Store::close`] does, on the thread: what was taken is on disk, and the file is free again.
    fn drop(&mut self) {
        self.health.close();
        self.readers.close();
        self.writer.join();
    }
}
