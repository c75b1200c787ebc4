//! What callers hold of a task, and the engine's own view of it while it lives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::task::{CancelRule, QuestionKey};
use taskgate_seeded::Bug;
use taskgate_store::record::Record;
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::audit;
use crate::back::Reply;
use crate::newest::Newest;
use crate::written::InDoubt;

/// What a call says while it runs. Nothing depends on it.
#[derive(Clone, Debug)]
pub enum Signal {
    /// The `params` object of `notifications/progress`, without its token.
    Progress(Bytes),
    /// The `params` object of a `notifications/message`.
    Log(Bytes),
    /// A URL was agreed to, and the back has stopped listing it: what was to be done there is done.
    Visited(QuestionKey),
}

/// How many signals a slow reader may fall behind before it misses some. Every watched task has room for so many, and
/// nothing depends on an old one once there is a newer.
const SIGNALS_KEPT: usize = 4;

/// A task that somebody watches. Any number of handles share one observer of the back (G-010).
#[derive(Clone, Debug)]
pub struct Handle {
    live: Arc<Live>,
    /// Of how many publications it knows.
    seen: u64,
}

impl Handle {
    pub(crate) fn new(live: Arc<Live>) -> Handle {
        // Subscribed before the first read, so that no change falls between the two (INV-35).
        let seen = live.newest.count();
        Handle { live, seen }
    }

    /// The newest version.
    #[must_use]
    pub fn record(&self) -> Arc<Record> {
        self.live.record()
    }

    /// Waits for a version newer than the last one this method or [`Handle::record`]'s first call could see.
    /// Pends for ever once nothing can change any more.
    pub async fn changed(&mut self) -> Arc<Record> {
        let (seen, record) = self.live.newest.after(self.seen).await;
        self.seen = seen;
        record
    }

    /// Waits until the task is over.
    pub async fn over(&mut self) -> Arc<Record> {
        loop {
            let (seen, record) = self.live.newest.now();
            self.seen = seen;
            if record.task.ending().is_some() {
                return record;
            }
            if taskgate_seeded::is(Bug::LookBeforeListen) {
                tokio::task::yield_now().await;
                self.seen = self.live.newest.count();
            }
            self.live.newest.after(self.seen).await;
        }
    }

    /// Progress and log messages from now on.
    #[must_use]
    pub fn signals(&self) -> broadcast::Receiver<Signal> {
        let mut slot = self.live.signals.lock();
        slot.get_or_insert_with(|| broadcast::channel(SIGNALS_KEPT).0).subscribe()
    }
}

/// A task in memory.
#[derive(Debug)]
pub(crate) struct Live {
    /// The newest version that is on disk.
    newest: Newest,
    /// Held while a decision is made and appended, so that decisions follow one another. What is in it may be the newest
    /// version on disk: see `written`.
    pub(crate) turn: tokio::sync::Mutex<Option<InDoubt>>,
    /// Whether there is something in it.
    in_doubt: AtomicBool,
    /// Made when somebody listens.
    signals: Mutex<Option<broadcast::Sender<Signal>>>,
    /// Where replies to parked requests go.
    pub(crate) parked: Mutex<BTreeMap<QuestionKey, oneshot::Sender<Reply>>>,
    /// To the driver; `None` once nothing drives the task any more.
    driver: Mutex<Option<mpsc::UnboundedSender<Order>>>,
    /// Whether it counts as finished.
    retired: AtomicBool,
}

/// What a client's wish asks of the driver.
#[derive(Debug)]
pub(crate) enum Order {
    /// A cancellation was recorded.
    Cancel(CancelRule),
    /// An answer was taken; it goes to the back, and the sender hears when it has.
    Forward { key: QuestionKey, reply: Reply, settled: oneshot::Sender<()> },
}

impl Live {
    pub(crate) fn new(record: Arc<Record>) -> Live {
        Live {
            newest: Newest::new(record),
            turn: tokio::sync::Mutex::new(None),
            in_doubt: AtomicBool::new(false),
            signals: Mutex::new(None),
            parked: Mutex::new(BTreeMap::new()),
            driver: Mutex::new(None),
            retired: AtomicBool::new(false),
        }
    }

    pub(crate) fn record(&self) -> Arc<Record> {
        self.newest.now().1
    }

    /// Shows a version that is on disk.
    pub(crate) fn publish(&self, record: Arc<Record>) {
        let before = self.newest.publish(record.clone());
        if before.task.ending().is_none() && record.task.ending().is_some() {
            audit::ended(&record);
        }
    }

    /// Puts right what is kept beside the task's own versions; nobody is woken.
    pub(crate) fn amend(&self, record: Arc<Record>) {
        self.newest.amend(record);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(sender) = &*self.signals.lock() {
            // Nobody listening is nothing to mind.
            let _ = sender.send(signal);
        }
    }

    /// Opens the way to a driver that is about to run.
    pub(crate) fn drive(&self) -> mpsc::UnboundedReceiver<Order> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.driver.lock() = Some(sender);
        receiver
    }

    pub(crate) fn undriven(&self) {
        *self.driver.lock() = None;
        self.parked.lock().clear();
    }

    /// Marks it as finished; whether it was before.
    pub(crate) fn retire(&self) -> bool {
        self.retired.swap(true, Ordering::Relaxed)
    }

    /// Something is done about it again; whether it counted as finished.
    pub(crate) fn revive(&self) -> bool {
        self.retired.swap(false, Ordering::Relaxed)
    }

    /// Whether it counts as finished.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    pub(crate) fn set_in_doubt(&self, is_in_doubt: bool) {
        self.in_doubt.store(is_in_doubt, Ordering::Relaxed);
    }

    /// Whether nobody knows what its newest version is.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// Whether a driver holds an exchange for it.
    pub(crate) fn is_driven(&self) -> bool {
        self.driver.lock().is_some()
    }

    /// Tells the driver; whether there is one.
    pub(crate) fn order(&self, order: Order) -> bool {
        self.driver.lock().as_ref().is_some_and(|driver| driver.send(order).is_ok())
    }
}
