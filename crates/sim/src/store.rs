//! The store in memory, with a disk that takes its time, fails, does what it says it could not, and stops in the middle.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskgate_core::id::{OperationId, Principal, TaskId};
use taskgate_core::operation;
use taskgate_core::time::UnixMillis;
use taskgate_power::Random;
use taskgate_store::breakdown::Breakdown;
use taskgate_store::ledger::{After, Busy, Happening, Held, LedgerEntry, Which};
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::{Change, Record, Session};
use taskgate_store::{AppendError, CreateError, Created, Error, Join, Store, Unfetched, Whose};

use crate::tally::Tally;

/// Every version of every task that is on disk, by the task's id, as it came there, and what was deleted. It is shared by
/// all lives.
#[derive(Debug, Default)]
pub struct History {
    versions: Mutex<BTreeMap<String, Vec<Arc<Record>>>>,
    graves: Mutex<Vec<Grave>>,
    retired: Mutex<Vec<Retired>>,
    /// Whether the disk may say that it could not, though it could.
    is_doubtful: bool,
    /// How many of the next reads fail.
    unreadable: AtomicU32,
}

/// A task that was purged.
#[derive(Clone, Debug)]
pub struct Grave {
    /// As it was.
    pub record: Record,
    /// The time by which it had to be expired.
    pub now: UnixMillis,
}

/// An operation whose evidence was deleted.
#[derive(Clone, Debug)]
pub struct Retired {
    /// As it was.
    pub entry: LedgerEntry,
    /// The time since which it had not changed.
    pub before: UnixMillis,
}

impl History {
    /// That of a disk which may answer a write by an error though it was done (INV-45), and cannot be read for a while then.
    #[must_use]
    pub fn doubtful() -> History {
        History { is_doubtful: true, ..History::default() }
    }

    /// What was purged, in order.
    #[must_use]
    pub fn graves(&self) -> Vec<Grave> {
        self.graves.lock().clone()
    }

    /// What was retired, in order.
    #[must_use]
    pub fn retired(&self) -> Vec<Retired> {
        self.retired.lock().clone()
    }
}

impl Deref for History {
    type Target = Mutex<BTreeMap<String, Vec<Arc<Record>>>>;

    fn deref(&self) -> &Self::Target {
        &self.versions
    }
}

/// What becomes of a write.
enum Fate {
    Done,
    Refused,
    /// Done, and the answer is an error.
    Doubtful,
}

/// The store of one life: [`MemoryStore`], whose every command takes a while. One write in forty is refused, or is done and
/// said to have failed, if the [`History`] is doubtful. A write that is under way when the process dies is done or not, and
/// nobody hears which.
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

fn failed() -> Error {
    Error::Backend { doing: "commit", source: Box::from("the disk is in trouble") }
}

/// Whether a command was refused because another process has the store.
trait Fault {
    fn is_of_another_owner(&self) -> bool;
}

impl Fault for Error {
    fn is_of_another_owner(&self) -> bool {
        matches!(self, Error::InUse { .. })
    }
}

impl Fault for CreateError {
    fn is_of_another_owner(&self) -> bool {
        matches!(self, CreateError::Store(Error::InUse { .. }))
    }
}

impl Fault for AppendError {
    fn is_of_another_owner(&self) -> bool {
        matches!(self, AppendError::Store(Error::InUse { .. }))
    }
}

/// More records than a simulation makes.
const ALL: usize = 1 << 16;

impl SlowStore {
    async fn write<T, E: From<Error> + Fault>(
        &self,
        what: &'static str,
        write: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let (before, after, fate) = {
            let mut random = self.random.lock();
            let (before, after) = (random.below(15) as u64, random.below(15) as u64);
            let fate = match (random.one_in(40), self.history.is_doubtful) {
                (false, _) => Fate::Done,
                (true, true) if random.one_in(2) => {
                    // Sometimes for longer than callers wait.
                    let reads = if random.one_in(3) { 4 + random.below(12) } else { random.below(3) };
                    self.history.unreadable.store(reads as u32, Ordering::SeqCst);
                    Fate::Doubtful
                }
                (true, _) => Fate::Refused,
            };
            (before, after, fate)
        };
        tokio::time::sleep(Duration::from_millis(before)).await;
        if let Fate::Refused = fate {
            self.tally.count("a write refused");
            return Err(Error::Full { place: "the disk".to_owned() }.into());
        }
        let done = write.await.inspect_err(|error: &E| {
            if error.is_of_another_owner() {
                self.tally.count("a stopped process that was refused");
            }
        });
        tokio::time::sleep(Duration::from_millis(after)).await;
        match fate {
            Fate::Done | Fate::Refused => done,
            Fate::Doubtful => {
                if done.is_ok() {
                    self.tally.count(format!("a {what} that was done and said to have failed"));
                }
                Err(failed().into())
            }
        }
    }

    async fn read<T>(&self, read: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let before = self.random.lock().below(4) as u64;
        tokio::time::sleep(Duration::from_millis(before)).await;
        let unreadable = &self.history.unreadable;
        if unreadable.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.tally.count("a read that failed");
            return Err(failed());
        }
        read.await
    }

    fn note(&self, record: &Arc<Record>) {
        self.history.versions.lock().entry(record.id.expose().to_owned()).or_default().push(record.clone());
    }
}

#[async_trait]
impl Store for SlowStore {
    async fn create(&self, record: Arc<Record>, join: Join) -> Result<Created, CreateError> {
        self.write("create", async {
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
        self.write("change", async {
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
        self.write("note of a fetch", self.store.fetched(principal, id, at)).await
    }
    async fn unfetched(&self, principal: &Principal, now: UnixMillis) -> Result<Unfetched, Error> {
        self.read(self.store.unfetched(principal, now)).await
    }
    async fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<Record>, Error> {
        self.read(self.store.unfinished(after, limit)).await
    }
    async fn purge(&self, now: UnixMillis, limit: usize) -> Result<usize, Error> {
        self.write("purge", async {
            let kept = || self.store.list(Whose::Everyone, None, ALL);
            let before = kept().await?;
            let purged = self.store.purge(now, limit).await?;
            let after = kept().await?;
            let is_gone = |record: &Record| !after.iter().any(|kept| kept.id == record.id);
            let gone = before.into_iter().filter(is_gone);
            self.history.graves.lock().extend(gone.map(|record| Grave { record, now }));
            Ok(purged)
        })
        .await
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
    async fn held(&self) -> Result<Vec<Held>, Error> {
        self.read(self.store.held()).await
    }
    async fn settle(&self, entry: LedgerEntry, changes: Vec<operation::Event>) -> Result<(), AppendError> {
        self.write("settle", self.store.settle(entry, changes)).await
    }
    async fn retire(&self, before: UnixMillis, below: &OperationId, limit: usize) -> Result<usize, Error> {
        self.write("retire", async {
            let kept = || self.store.operations(Which::All, None, ALL);
            let known = kept().await?;
            let retired = self.store.retire(before, below, limit).await?;
            let left = kept().await?;
            let is_gone = |entry: &LedgerEntry| !left.iter().any(|kept| kept.id == entry.id);
            let gone = known.into_iter().filter(is_gone);
            self.history.retired.lock().extend(gone.map(|entry| Retired { entry, before }));
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
