//! The store in memory, with a disk that takes its time, fails, and stops in the middle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskgate_core::id::{OperationId, Principal, TaskId};
use taskgate_core::operation;
use taskgate_core::time::UnixMillis;
use taskgate_power::Random;
use taskgate_store::ledger::{After, Busy, Happening, LedgerEntry, Which};
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::{Change, Record, Session};
use taskgate_store::{AppendError, CreateError, Created, Error, Join, Store, Unfetched, Whose};

use crate::tally::Tally;

/// Every version of every task that is on disk, by the task's id, as it came there.
pub type History = Mutex<BTreeMap<String, Vec<Arc<Record>>>>;

/// The store of one life: [`MemoryStore`], whose every command takes a while. One write in forty is refused. A write that
/// is under way when the process dies is done or not, and nobody hears which.
pub struct SlowStore {
    /// What is on disk. Hand each life its own [`MemoryStore::reopen`].
    pub store: MemoryStore,
    /// What the disk does next; shared by all lives.
    pub random: Arc<Mutex<Random>>,
    /// Where every version is noted that came onto the disk.
    pub history: Arc<History>,
    /// Where refusals are counted.
    pub tally: Arc<Tally>,
}

impl SlowStore {
    async fn write<T, E: From<Error>>(&self, write: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let (before, after, fails) = {
            let mut random = self.random.lock();
            (random.below(15) as u64, random.below(15) as u64, random.one_in(40))
        };
        tokio::time::sleep(Duration::from_millis(before)).await;
        if fails {
            self.tally.count("a write refused");
            return Err(Error::Full { place: "the disk".to_owned() }.into());
        }
        let done = write.await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        done
    }

    async fn read<T>(&self, read: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let before = self.random.lock().below(4) as u64;
        tokio::time::sleep(Duration::from_millis(before)).await;
        read.await
    }

    fn note(&self, record: &Arc<Record>) {
        self.history.lock().entry(record.id.expose().to_owned()).or_default().push(record.clone());
    }
}

#[async_trait]
impl Store for SlowStore {
    async fn create(&self, record: Arc<Record>, join: Join) -> Result<Created, CreateError> {
        self.write(async {
            let created = self.store.create(record.clone(), join).await?;
            if matches!(created, Created::New) {
                self.note(&record);
            }
            Ok(created)
        })
        .await
    }
    async fn earlier(&self, record: Arc<Record>, join: Join) -> Result<Option<Created>, CreateError> {
        let earlier = self.store.earlier(record, join).await;
        self.read(async { Ok(()) }).await?;
        earlier
    }
    async fn key_given_to(&self, entry: &LedgerEntry) -> Result<Option<OperationId>, Error> {
        self.read(self.store.key_given_to(entry)).await
    }
    async fn append(&self, record: Arc<Record>, changes: Vec<Change>) -> Result<(), AppendError> {
        self.write(async {
            self.store.append(record.clone(), changes).await?;
            self.note(&record);
            Ok(())
        })
        .await
    }
    async fn load(&self, principal: &Principal, id: &TaskId) -> Result<Option<Record>, Error> {
        self.read(self.store.load(principal, id)).await
    }
    async fn list(
        &self,
        whose: Whose<'_>,
        after: Option<(UnixMillis, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Record>, Error> {
        self.read(self.store.list(whose, after, limit)).await
    }
    async fn fetched(&self, principal: &Principal, id: &TaskId, at: UnixMillis) -> Result<(), Error> {
        self.write(self.store.fetched(principal, id, at)).await
    }
    async fn unfetched(&self, principal: &Principal, now: UnixMillis) -> Result<Unfetched, Error> {
        self.read(self.store.unfetched(principal, now)).await
    }
    async fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<Record>, Error> {
        self.read(self.store.unfinished(after, limit)).await
    }
    async fn purge(&self, now: UnixMillis, limit: usize) -> Result<usize, Error> {
        self.write(self.store.purge(now, limit)).await
    }
    async fn operation(&self, id: &OperationId) -> Result<Option<LedgerEntry>, Error> {
        self.read(self.store.operation(id)).await
    }
    async fn operations(
        &self,
        which: Which,
        after: Option<After>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, Error> {
        self.read(self.store.operations(which, after, limit)).await
    }
    async fn history(&self, id: &OperationId) -> Result<Vec<Happening>, Error> {
        self.read(self.store.history(id)).await
    }
    async fn ahead_of(&self, record: &Record) -> Result<Option<Busy>, Error> {
        self.read(self.store.ahead_of(record)).await
    }
    async fn settle(&self, entry: LedgerEntry, changes: Vec<operation::Event>) -> Result<(), AppendError> {
        self.write(self.store.settle(entry, changes)).await
    }
    async fn retire(&self, before: UnixMillis, below: &OperationId, limit: usize) -> Result<usize, Error> {
        self.write(self.store.retire(before, below, limit)).await
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
    async fn close(&self) {}
}
