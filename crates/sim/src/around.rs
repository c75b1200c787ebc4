//! The store in memory, and what lies between it and who uses it.

use std::sync::Arc;

use async_trait::async_trait;
use taskgate_core::id::{OperationId, Principal, TaskId};
use taskgate_core::operation;
use taskgate_core::time::UnixMillis;
use taskgate_store::breakdown::Breakdown;
use taskgate_store::ledger::{After, Busy, Happening, Held, LedgerEntry, Which};
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::{Change, Record, Session};
use taskgate_store::summary::Summary;
use taskgate_store::{AppendError, CreateError, Created, Error, Join, Retirement, Store, Unfetched, Whose};

/// What becomes of commands on their way to a store, and of its answers on theirs.
pub trait Way: Send + Sync + 'static {
    /// One that writes; `what`, in words.
    fn write<T: Send, E: Failed>(
        &self,
        what: &'static str,
        write: impl Future<Output = Result<T, E>> + Send,
    ) -> impl Future<Output = Result<T, E>> + Send;

    /// One that reads.
    fn read<T: Send>(
        &self,
        read: impl Future<Output = Result<T, Error>> + Send,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        read
    }

    /// Hears what came of it in the store.
    fn hears(&self, _: Done) {}
}

/// What came of a command.
pub enum Done {
    /// A version is on disk.
    Version(Arc<Record>),
    /// These were purged, as expired by `now`.
    Purged {
        /// As they were.
        gone: Vec<Summary>,
        /// The time by which they had to be expired.
        now: UnixMillis,
    },
    /// The evidence of these was deleted.
    Retired {
        /// As they were.
        gone: Vec<LedgerEntry>,
        /// The time since which they had not changed.
        before: UnixMillis,
    },
    /// That this one's result was fetched could not be noted.
    Unnoted(TaskId),
}

/// The error of a write.
pub trait Failed: From<Error> + Send {
    /// Whether it is that another process has the store.
    fn is_of_another_owner(&self) -> bool;
}

impl Failed for Error {
    fn is_of_another_owner(&self) -> bool {
        matches!(self, Error::InUse { .. })
    }
}

impl Failed for CreateError {
    fn is_of_another_owner(&self) -> bool {
        matches!(self, CreateError::Store(Error::InUse { .. }))
    }
}

impl Failed for AppendError {
    fn is_of_another_owner(&self) -> bool {
        matches!(self, AppendError::Store(Error::InUse { .. }))
    }
}

/// More records than a test makes.
const ALL: usize = 1 << 16;

/// [`MemoryStore`], with a [`Way`] before it. Sessions take none.
pub struct Around<W> {
    /// What is on disk. Hand each life its own [`MemoryStore::reopen`].
    pub store: MemoryStore,
    /// The way there.
    pub way: W,
}

#[async_trait]
impl<W: Way> Store for Around<W> {
    async fn create(&self, record: Arc<Record>, join: Join) -> Result<Created, CreateError> {
        self.way
            .write("create", async {
                let created = self.store.create(record.clone(), join).await?;
                if matches!(created, Created::New) {
                    self.way.hears(Done::Version(record));
                }
                Ok(created)
            })
            .await
    }
    async fn earlier(&self, record: Arc<Record>, join: Join) -> Result<Option<Created>, CreateError> {
        let earlier = self.store.earlier(record, join).await;
        self.way.read(async { Ok(()) }).await?;
        earlier
    }
    async fn key_given_to(&self, entry: &LedgerEntry) -> Result<Option<OperationId>, Error> {
        self.way.read(self.store.key_given_to(entry)).await
    }
    async fn append(&self, record: Arc<Record>, changes: Vec<Change>) -> Result<(), AppendError> {
        self.way
            .write("change", async {
                self.store.append(record.clone(), changes).await?;
                self.way.hears(Done::Version(record));
                Ok(())
            })
            .await
    }
    async fn load(&self, principal: &Principal, id: &TaskId) -> Result<Option<Record>, Error> {
        self.way.read(self.store.load(principal, id)).await
    }
    async fn list(
        &self,
        whose: Whose<'_>,
        after: Option<(UnixMillis, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Summary>, Error> {
        self.way.read(self.store.list(whose, after, limit)).await
    }
    async fn fetched(&self, principal: &Principal, id: &TaskId, at: UnixMillis) -> Result<(), Error> {
        let noted = self.way.write("note of a fetch", self.store.fetched(principal, id, at)).await;
        if noted.is_err() {
            self.way.hears(Done::Unnoted(id.clone()));
        }
        noted
    }
    async fn unfetched(&self, principal: &Principal, now: UnixMillis) -> Result<Unfetched, Error> {
        self.way.read(self.store.unfetched(principal, now)).await
    }
    async fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<Summary>, Error> {
        self.way.read(self.store.unfinished(after, limit)).await
    }
    async fn purge(&self, now: UnixMillis, limit: usize) -> Result<usize, Error> {
        self.way
            .write("purge", async {
                let kept = || self.store.list(Whose::Everyone, None, ALL);
                let before = kept().await?;
                let purged = self.store.purge(now, limit).await?;
                let after = kept().await?;
                let is_gone = |known: &Summary| !after.iter().any(|kept| kept.id() == known.id());
                let gone = before.into_iter().filter(is_gone).collect();
                self.way.hears(Done::Purged { gone, now });
                Ok(purged)
            })
            .await
    }
    async fn operation(&self, id: &OperationId) -> Result<Option<LedgerEntry>, Error> {
        self.way.read(self.store.operation(id)).await
    }
    async fn operations(
        &self,
        which: Which,
        after: Option<After>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, Error> {
        self.way.read(self.store.operations(which, after, limit)).await
    }
    async fn history(&self, id: &OperationId) -> Result<Vec<Happening>, Error> {
        self.way.read(self.store.history(id)).await
    }
    async fn ahead_of(&self, record: &Record) -> Result<Option<Busy>, Error> {
        self.way.read(self.store.ahead_of(record)).await
    }
    async fn held(&self) -> Result<Vec<Held>, Error> {
        self.way.read(self.store.held()).await
    }
    async fn settle(&self, entry: LedgerEntry, changes: Vec<operation::Event>) -> Result<(), AppendError> {
        self.way.write("settle", self.store.settle(entry, changes)).await
    }
    async fn retire(
        &self,
        before: UnixMillis,
        below: &OperationId,
        after: Option<&taskgate_store::Retired>,
        limit: usize,
    ) -> Result<Retirement, Error> {
        self.way
            .write("retire", async {
                let kept = || self.store.operations(Which::All, None, ALL);
                let known = kept().await?;
                let retired = self.store.retire(before, below, after, limit).await?;
                let left = kept().await?;
                let is_gone = |entry: &LedgerEntry| !left.iter().any(|kept| kept.id == entry.id);
                let gone = known.into_iter().filter(is_gone).collect();
                self.way.hears(Done::Retired { gone, before });
                Ok(retired)
            })
            .await
    }
    async fn put_session(&self, session: Session) -> Result<(), Error> {
        self.store.put_session(session).await
    }
    async fn session(&self, key: &str) -> Result<Option<Session>, Error> {
        self.store.session(key).await
    }
    async fn end_session(&self, key: &str) -> Result<bool, Error> {
        self.store.end_session(key).await
    }
    async fn expire_sessions(&self, before: UnixMillis, keep: usize) -> Result<Vec<String>, Error> {
        self.store.expire_sessions(before, keep).await
    }
    fn secret(&self) -> [u8; 32] {
        self.store.secret()
    }
    fn breakdown(&self) -> &Breakdown {
        self.store.breakdown()
    }
    async fn close(&self) {}
}
