//! A disk that takes its time, fails, does what it says it could not, and stops in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_core::time::UnixMillis;
use taskgate_power::Random;
use taskgate_store::Error;
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::record::Record;
use taskgate_store::summary::Summary;

use crate::around::{Done, Failed, Way};
use crate::tally::Tally;

/// Every version of every task that is on disk, by the task's id, as it came there, and what was deleted. It is shared by
/// all lives.
#[derive(Debug, Default)]
pub struct History {
    versions: Mutex<BTreeMap<String, Vec<Arc<Record>>>>,
    graves: Mutex<Vec<Grave>>,
    retired: Mutex<Vec<Retired>>,
    unnoted: Mutex<BTreeSet<String>>,
    /// Whether the disk may say that it could not, though it could.
    is_doubtful: bool,
    /// How many of the next reads fail.
    unreadable: AtomicU32,
}

/// A task that was purged.
#[derive(Clone, Debug)]
pub struct Grave {
    /// As it was.
    pub task: Summary,
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

    /// Whether the disk refused to note that a result was fetched, by the task's id: it is offered again, which is allowed.
    #[must_use]
    pub fn could_not_note(&self, id: &str) -> bool {
        self.unnoted.lock().contains(id)
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

/// The disk of one life: every command takes a while. One write in forty is refused, or is done and said to have failed, if
/// the [`History`] is doubtful. A write that is under way when the process dies is done or not, and nobody hears which.
pub struct SlowDisk {
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

impl Way for SlowDisk {
    async fn write<T: Send, E: Failed>(
        &self,
        what: &'static str,
        write: impl Future<Output = Result<T, E>> + Send,
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

    async fn read<T: Send>(&self, read: impl Future<Output = Result<T, Error>> + Send) -> Result<T, Error> {
        let before = self.random.lock().below(4) as u64;
        tokio::time::sleep(Duration::from_millis(before)).await;
        let unreadable = &self.history.unreadable;
        if unreadable.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.tally.count("a read that failed");
            return Err(failed());
        }
        read.await
    }

    fn hears(&self, done: Done) {
        match done {
            Done::Version(record) => {
                let mut versions = self.history.versions.lock();
                versions.entry(record.id.expose().to_owned()).or_default().push(record);
            }
            Done::Purged { gone, now } => {
                self.history.graves.lock().extend(gone.into_iter().map(|task| Grave { task, now }));
            }
            Done::Retired { gone, before } => {
                self.history.retired.lock().extend(gone.into_iter().map(|entry| Retired { entry, before }));
            }
            Done::Unnoted(id) => {
                self.history.unnoted.lock().insert(id.expose().to_owned());
            }
        }
    }
}
