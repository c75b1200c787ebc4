//! What must be remembered, and what a store promises about it.
//!
//! A [`Store`] takes whole commands: each is one atomic, durable step, and nothing is half done when it fails. When
//! a command's future resolves with `Ok`, its rows are on disk (R3.3). The crates that implement it are twins, and
//! [`conformance`] tells all of them the same story.
//!
//! - [`record`]: what is kept of a task with its operation, and of a session
//! - [`summary`]: a record without its payloads
//! - [`ledger`]: operations as they are read, whether their task is kept or not
//! - [`codec`]: how the SQL twins put that into columns and the log
//! - [`law`]: what no store lets happen to a record, whoever asks
//! - [`breakdown`]: whether a store has broken for good
//! - [`memory`]: the twin that keeps everything in memory, for tests and simulations

pub mod breakdown;
pub mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod law;
pub mod ledger;
pub mod memory;
pub mod record;
pub mod summary;

use std::sync::Arc;

use async_trait::async_trait;
use taskgate_core::id::{OperationId, Principal, ServerName, TaskId};
use taskgate_core::operation;
use taskgate_core::time::UnixMillis;

use crate::breakdown::Breakdown;
use crate::ledger::{After, Busy, Happening, Held, LedgerEntry, Which};
use crate::record::{Change, Record, Session};
use crate::summary::Summary;

/// A durable home for records.
///
/// An error says that something went wrong, and not that nothing was done: whoever must know reads the record again (notes
/// 2.7). That answers it, since a command which has been answered, also by an error, changes nothing any more.
///
/// # Source
/// notes 0.6, 2.4; R3.3, INV-01, INV-03, INV-04, INV-16, INV-25, INV-30, INV-45
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Writes a new record with its operation, its idempotency row and its first event, in one commit.
    ///
    /// The record must be at version 1, and its ids must never have been used by this principal: the caller draws
    /// them at random, unique across principals. If `join` finds an operation that this call must not repeat,
    /// nothing is written and that one's record is handed back. Before that, a frame that is stored already is the
    /// same call sent again, whatever else the record and `join` say (R3.3, design 4). A call with a key is always
    /// held to its key, whatever `join` says.
    ///
    /// A key that its operation [gives free](law::gives_key_free) is no more than a key that nobody used: the new record takes
    /// it over in the same commit, with the same request or another, and for a business key whoever asks. Its first event
    /// says from which operation.
    ///
    /// # Errors
    /// [`CreateError::KeyReused`] if the key stands for another request (R4.6). A key's scope is (principal, workflow, key),
    /// or (principal, server, tool, key) for a tool without a workflow. One of [`KeyScope::Tenant`] counts for all
    /// principals: [`CreateError::KeyElsewhere`] if it is another's, with the same request or not.
    ///
    /// [`CreateError::ObjectBusy`] if another operation on the same object is open, and this one may not be carried out
    /// beside it. One that is to queue is taken if it is prepared; see [`Store::ahead_of`].
    ///
    /// [`KeyScope::Tenant`]: crate::record::KeyScope::Tenant
    async fn create(&self, record: Arc<Record>, join: Join) -> Result<Created, CreateError>;

    /// What a [`Store::create`] of this record would find now instead of writing it; `None` if it would be a new one, or be
    /// refused for its object. For answering a call that was made before without the means to carry it out.
    ///
    /// # Errors
    /// As those of [`Store::create`] that come of its key.
    async fn earlier(&self, record: Arc<Record>, join: Join) -> Result<Option<Created>, CreateError>;

    /// Replaces the record that is at version `record.version - 1` by `record`, and logs `changes` as the one event
    /// of that version.
    ///
    /// What was fixed at creation stays as it was whatever `record` says: its ids, principal, front and call, the
    /// task's lifetime, the operation's effect and replay. So does what [`Store::fetched`] wrote.
    ///
    /// # Errors
    /// [`AppendError::Conflict`] if the stored version is another: reload, then decide again. [`AppendError::KeyGiven`] if
    /// the change [overturns](law::overturns) what its key was given free for: have it say that a person is told. An
    /// [`Error::Backend`] if the change breaks the [`law`], which only a defect of ours can ask for.
    async fn append(&self, record: Arc<Record>, changes: Vec<Change>) -> Result<(), AppendError>;

    /// Reads one record. `None` alike for an id that is unknown, purged or another principal's (R6.1).
    async fn load(&self, principal: &Principal, id: &TaskId) -> Result<Option<Record>, Error>;

    /// Notes that a client was given the final result of a task, at `at`. The first time counts. It is no version and
    /// no event. Nothing happens if the task is not over, unknown or gone.
    async fn fetched(&self, principal: &Principal, id: &TaskId, at: UnixMillis) -> Result<(), Error>;

    /// Counts what a principal's clients may still want to hear of: see [`Unfetched`]. What expired by `now` is not
    /// counted.
    async fn unfetched(&self, principal: &Principal, now: UnixMillis) -> Result<Unfetched, Error>;

    /// Reads tasks without their payloads (R5.5), newest first, from behind `after` on.
    ///
    /// The order is (created, id), both falling, so that pages neither repeat nor skip.
    async fn list(
        &self,
        whose: Whose<'_>,
        after: Option<(UnixMillis, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Summary>, Error>;

    /// Reads the records that are not finished, without their payloads, in the order of their ids, from behind `after` on: the task is not
    /// over, or its operation is prepared, dispatched or observed. Recovery asks for them.
    async fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<Summary>, Error>;

    /// Deletes up to `limit` tasks that expired before `now`, the first expired first: the protocol record, its
    /// questions and payloads. Its operation, events and idempotency row stay (R4.8). A task whose operation is
    /// prepared, dispatched, observed or being asked after is never deleted (INV-30).
    ///
    /// # Shape
    /// The number of tasks deleted; less than `limit` means that there are no more.
    async fn purge(&self, now: UnixMillis, limit: usize) -> Result<usize, Error>;

    /// Reads one operation, whether its task is kept or not: for the person at this machine, never for a caller (R6.1).
    /// It takes a step for each principal that there is.
    async fn operation(&self, id: &OperationId) -> Result<Option<LedgerEntry>, Error>;

    /// Reads operations from behind `after` on, in the order of [`Which`]: for the person at this machine.
    async fn operations(
        &self,
        which: Which,
        after: Option<After>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, Error>;

    /// The operation that the key of `entry` stands for now, if that is another: it was given free, and taken over since.
    async fn key_given_to(&self, entry: &LedgerEntry) -> Result<Option<OperationId>, Error>;

    /// Reads all that happened to an operation and its task, first things first. Empty for an unknown one.
    async fn history(&self, id: &OperationId) -> Result<Vec<Happening>, Error>;

    /// The operation that the one of `record`, which is prepared, has to wait for: another on the same object that is
    /// under way, unknown or only assumed not to have been done, or one that is prepared and was made before it. `None` if it is its turn.
    async fn ahead_of(&self, record: &Record) -> Result<Option<Busy>, Error>;

    /// The workflows of which something is held that their names lead to: operations that are not done with, or keys. In the
    /// order of their names. It costs a step for each principal and workflow, and reads what is open.
    async fn held(&self) -> Result<Vec<Held>, Error>;

    /// Appends to an operation whose task was purged: replaces what is known of it, if it is at version
    /// `entry.version - 1`, and logs `changes` as the one event of the new version.
    ///
    /// # Errors
    /// [`AppendError::Conflict`] if the version is another, or the task is still kept: then it is for
    /// [`Store::append`]. [`AppendError::KeyGiven`] as there. An [`Error::Backend`] if the change breaks the [`law`].
    async fn settle(&self, entry: LedgerEntry, changes: Vec<operation::Event>) -> Result<(), AppendError>;

    /// Looks at `limit` operations whose id is smaller than `below`, from behind `after` on, in the order of (principal, id),
    /// and deletes those whose evidence need not be kept any longer ([`LedgerEntry::may_retire`]) and that were last
    /// changed before `before`, with their history, keys and frames. Ids grow with time, so that what is younger costs
    /// nothing. What it looks at and leaves costs other commands nothing either, however much of it there is.
    async fn retire(
        &self,
        before: UnixMillis,
        below: &OperationId,
        after: Option<&Retired>,
        limit: usize,
    ) -> Result<Retirement, Error>;

    /// Writes a session, new or changed.
    async fn put_session(&self, session: Session) -> Result<(), Error>;

    /// Reads a session by its key.
    async fn session(&self, key: &str) -> Result<Option<Session>, Error>;

    /// Deletes a session; whether there was one.
    async fn end_session(&self, key: &str) -> Result<bool, Error>;

    /// Deletes sessions last seen before `before`, and the longest unseen ones above `keep`. The keys of those deleted,
    /// in no order.
    async fn expire_sessions(&self, before: UnixMillis, keep: usize) -> Result<Vec<String>, Error>;

    /// 32 random bytes made when the store was, for sealing what clients carry for us (G-013).
    fn secret(&self) -> [u8; 32];

    /// Whether it has broken for good. Whoever decides by it must stop then: it answers everything by the same error.
    fn breakdown(&self) -> &Breakdown;

    /// Takes no more commands and waits until those taken are on disk.
    async fn close(&self);
}

/// Whose tasks are listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose<'a> {
    /// One principal's on one server.
    Server(&'a Principal, &'a ServerName),
    /// One principal's, whatever server they went to.
    Principal(&'a Principal),
    /// All there are: for the person at this machine, never for a caller (R6.1).
    Everyone,
}

/// What a principal's clients may still want to hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unfetched {
    /// Tasks that are not over.
    pub running: u64,
    /// Tasks that are over with a result that no client was given: [`Record::is_unfetched`].
    pub ended: u64,
}

/// A place in the order of [`Store::retire`]: ids are unique for each principal.
pub type Retired = (Principal, OperationId);

/// What one [`Store::retire`] did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Retirement {
    /// How many operations it deleted.
    pub deleted: usize,
    /// The last one that it looked at; `None` if there are no more.
    pub next: Option<Retired>,
}

/// Which earlier call a new one joins instead of being carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    /// None: an unkeyed call whose client holds a task.
    Never,
    /// An unkeyed call that is the same to the byte of its digest, of the same principal, server and tool, as long
    /// as [`Record::takes_same_call`] and its task is still kept (design 3). It joins unkeyed calls only, and of
    /// several the first made.
    SameCall,
    /// The call under the same idempotency key, finished or not (R4.6), unless that gives its key free.
    SameKey,
}

/// What became of a create command.
#[derive(Clone, Debug)]
pub enum Created {
    /// The record is durable.
    New,
    /// The call is one that exists already: its record, and nothing was written.
    Joined(Box<Record>),
    /// As above, and its task was purged: what the ledger knows of it.
    Known(Box<LedgerEntry>),
}

/// Why nothing was created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The same key came with another request (R4.6).
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The key is a business key, and another principal used it (design 7).
    #[error("the business key was used by somebody else")]
    KeyElsewhere,
    /// Another operation on the same object is open (design 7).
    #[error("another operation on the same object is open")]
    ObjectBusy(Busy),
    /// The store could not.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another writer got there first.
    #[error("the record is at version {found:?}, not {expected}")]
    Conflict {
        /// The version that the command builds on.
        expected: u64,
        /// The stored one; `None` if the record is gone.
        found: Option<u64>,
    },
    /// The operation was held not to have been done, its key was given to another for that, and now it is to have been done
    /// after all: that may be two effects under one key, and a person must be told in the same change.
    #[error("the operation's key was given to {to}, so a person must be told of the change")]
    KeyGiven {
        /// The operation that has the key now.
        to: OperationId,
    },
    /// The store could not.
    #[error(transparent)]
    Store(#[from] Error),
}

/// What is wrong with the store. The words say what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No space is left.
    #[error("the disk that holds {place} is full; free some space and try again")]
    Full {
        /// The file.
        place: String,
    },
    /// It cannot be written.
    #[error("{place} cannot be written; make the file and its folder writable for this user")]
    ReadOnly {
        /// The file.
        place: String,
    },
    /// It cannot be opened at all.
    #[error("could not open {place}: {reason}")]
    Open {
        /// The file.
        place: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Another process has it.
    #[error("{place} is in use by another taskgate process; stop that one or give this one another file")]
    InUse {
        /// The file.
        place: String,
    },
    /// It was written by a newer taskgate.
    #[error(
        "{place} has schema version {found}, and this taskgate knows versions up to {known}; use a newer taskgate, or give it another file"
    )]
    Newer {
        /// The file.
        place: String,
        /// Its schema version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The file is damaged as a database.
    #[error("{place} is damaged ({detail}); restore it from a backup, or move it away to begin anew")]
    Damaged {
        /// The file.
        place: String,
        /// What the check found.
        detail: String,
    },
    /// A row holds what we never write.
    #[error("{table}.{column} of row {row} holds a value that taskgate never writes")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row's key, shortened.
        row: String,
    },
    /// A write or a sync failed half way: see [`Breakdown`].
    #[error(
        "{place} failed ({reason}), and it is not certain what is on disk; restart taskgate, which reads what was kept"
    )]
    Broken {
        /// The file.
        place: String,
        /// What failed.
        reason: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Anything else the database said.
    #[error("could not {doing}")]
    Backend {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
