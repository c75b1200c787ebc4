//! What is kept in memory: every unfinished task, and lately finished ones for the next read.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_core::id::{Principal, TaskId};
use taskgate_core::task::Ending;
use tokio::sync::Notify;

use crate::handle::Live;

const SHARDS: usize = 64;

/// A finished result above this is read from the store again instead of being kept.
const CACHED_BYTES_MAX: usize = 64 * 1024;

/// All tasks in memory.
pub(crate) struct Registry {
    shards: Vec<Mutex<HashMap<TaskId, Arc<Live>>>>,
    hasher: RandomState,
    finished: Mutex<VecDeque<TaskId>>,
    finished_max: usize,
    counts: Mutex<HashMap<Principal, usize>>,
    /// Wakes those who know of a task that is not here yet.
    pub(crate) inserted: Notify,
}

impl Registry {
    pub(crate) fn new(finished_max: usize) -> Registry {
        Registry {
            shards: (0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect(),
            hasher: RandomState::new(),
            finished: Mutex::new(VecDeque::new()),
            finished_max,
            counts: Mutex::new(HashMap::new()),
            inserted: Notify::new(),
        }
    }

    fn shard(&self, id: &TaskId) -> &Mutex<HashMap<TaskId, Arc<Live>>> {
        let hash = self.hasher.hash_one(id);
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)]
    }

    pub(crate) fn get(&self, id: &TaskId) -> Option<Arc<Live>> {
        self.shard(id).lock().get(id).cloned()
    }

    pub(crate) fn insert(&self, live: &Arc<Live>) {
        let id = live.record().id.clone();
        self.shard(&id).lock().insert(id, live.clone());
        self.inserted.notify_waiters();
    }

    /// Counts one more unfinished task; `false` if that would be more than `max`.
    pub(crate) fn admit(&self, principal: &Principal, max: usize) -> bool {
        let mut counts = self.counts.lock();
        let count = counts.entry(principal.clone()).or_default();
        if *count >= max {
            return false;
        }
        *count += 1;
        true
    }

    /// Counts one less.
    pub(crate) fn discharge(&self, principal: &Principal) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(principal) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(principal);
            }
        }
    }

    /// How many are counted.
    pub(crate) fn count(&self) -> usize {
        self.counts.lock().values().sum()
    }

    /// A task is finished and nothing drives it: keep it for the next read, and let the oldest such one go. More than
    /// one may find that out at once; the first counts.
    pub(crate) fn retire(&self, live: &Arc<Live>) {
        if live.retire() {
            return;
        }
        let record = live.record();
        self.discharge(&record.principal);
        let bytes = match record.task.ending() {
            Some(Ending::Returned { result, .. }) => result.len(),
            Some(Ending::Raised { error }) => error.len(),
            Some(Ending::Cancelled | Ending::Faulted(_)) | None => 0,
        };
        if bytes > CACHED_BYTES_MAX {
            self.shard(&record.id).lock().remove(&record.id);
            return;
        }
        let out = {
            let mut finished = self.finished.lock();
            finished.push_back(record.id.clone());
            if finished.len() > self.finished_max { finished.pop_front() } else { None }
        };
        if let Some(id) = out {
            let mut shard = self.shard(&id).lock();
            // One that something is done about again stays.
            if shard.get(&id).is_some_and(|live| live.is_retired()) {
                shard.remove(&id);
            }
        }
    }
}
