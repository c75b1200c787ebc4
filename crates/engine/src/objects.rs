//! Operations that wait until another one on their object is settled (design 7).

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_core::id::WorkflowName;
use taskgate_core::operation::{Command as Do, Stage};
use taskgate_core::task::Fault;
use taskgate_store::record::{Conflict, Intent, Record};

use crate::engine::Engine;
use crate::handle::Live;
use crate::slots::Waiting;

/// What an operation acts on: the workflow, and the object's name in it.
type Key = (WorkflowName, String);

/// Those that wait, in the order in which they came.
#[derive(Default)]
pub(crate) struct Objects {
    waiting: Mutex<BTreeMap<Key, Vec<Waiting>>>,
    /// Held while it is decided whose turn it is, so that no two decide on the same.
    turn: tokio::sync::Mutex<()>,
}

/// Whether this record may have to wait for another operation on its object.
pub(crate) fn queues(record: &Record) -> bool {
    let object = record.call.intent.as_ref().and_then(|intent| intent.object.as_ref());
    object.is_some_and(|object| object.conflict == Conflict::Queue)
}

fn key(intent: &Intent) -> Option<Key> {
    intent.object.as_ref().map(|object| (intent.workflow.clone(), object.name.clone()))
}

impl Objects {
    fn add(&self, key: Key, waiting: Waiting) {
        self.waiting.lock().entry(key).or_default().push(waiting);
    }

    fn take(&self, key: &Key) -> Vec<Waiting> {
        self.waiting.lock().remove(key).unwrap_or_default()
    }

    fn keys(&self) -> Vec<Key> {
        self.waiting.lock().keys().cloned().collect()
    }

    fn lives(&self) -> Vec<Arc<Live>> {
        self.waiting.lock().values().flatten().map(|waiting| waiting.live.clone()).collect()
    }
}

impl Engine {
    /// Has a prepared operation wait for its turn on its object, which may be now.
    pub(crate) fn wait_for_object(self: &Arc<Self>, waiting: Waiting) {
        let record = waiting.live.record();
        let Some(key) = record.call.intent.as_ref().and_then(key) else { return };
        self.objects.add(key, waiting);
        self.freed(record.call.intent.as_ref());
    }

    /// An operation on this object is settled, or one came to wait for it: somebody's turn may have come.
    pub(crate) fn freed(self: &Arc<Self>, intent: Option<&Intent>) {
        let Some(key) = intent.and_then(key) else { return };
        if self.objects.waiting.lock().contains_key(&key) {
            let engine = self.clone();
            self.drivers.spawn(async move { engine.next_on(&key).await });
        }
    }

    /// Lets the one go whose turn it is. The store knows: it has those of before a restart, and those of other servers.
    async fn next_on(self: &Arc<Self>, key: &Key) {
        let _turn = self.objects.turn.lock().await;
        for waiting in self.objects.take(key) {
            let record = waiting.live.record();
            if record.operation.stage != Stage::Prepared {
                // It was cancelled, or given up.
                continue;
            }
            match self.parts.store.ahead_of(&record).await {
                Ok(None) => {
                    let (lane, running_max) = self.parts.limits.lane(&record.call);
                    self.turns(self.slots.queue(&lane, waiting, false, running_max));
                }
                Ok(Some(_)) => self.objects.add(key.clone(), waiting),
                Err(error) => {
                    tracing::warn!(task = ?record.id, %error, "could not see whose turn it is on an object");
                    self.objects.add(key.clone(), waiting);
                }
            }
        }
    }

    /// Gives up what waited longer than calls may wait to be begun, and looks once more whose turn it is: an operation may
    /// have been settled while the store could not be read.
    pub(crate) async fn tend_objects(self: &Arc<Self>) {
        let now = self.parts.clock.now();
        for live in self.objects.lives() {
            let record = live.record();
            let waited = now.since(record.task.lifetime.created);
            if record.operation.stage != Stage::Prepared || waited <= self.parts.limits.start_by {
                continue;
            }
            let why = "another operation on the same object was not settled in time".to_owned();
            match self.close(&live, Do::NeverSent, Fault::NeverSent(why), false).await {
                Ok(()) => self.keep(&live),
                Err(error) => tracing::warn!(task = ?record.id, %error, "could not give a waiting call up"),
            }
        }
        for key in self.objects.keys() {
            self.next_on(&key).await;
        }
    }
}
