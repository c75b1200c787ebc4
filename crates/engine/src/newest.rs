//! The newest version of a record, and who waits for the next one.
//!
//! Waiters are woken in the order in which they began to wait. tokio's `watch` chooses at random, and then a simulation
//! cannot play the same again.

use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_store::record::Record;
use tokio::sync::Notify;

/// What is shown of one task.
#[derive(Debug)]
pub(crate) struct Newest {
    /// How many versions were published, and the last one.
    shown: Mutex<(u64, Arc<Record>)>,
    published: Notify,
}

impl Newest {
    pub(crate) fn new(record: Arc<Record>) -> Newest {
        Newest { shown: Mutex::new((0, record)), published: Notify::new() }
    }

    /// How many versions were published, and the last one.
    pub(crate) fn now(&self) -> (u64, Arc<Record>) {
        self.shown.lock().clone()
    }

    pub(crate) fn count(&self) -> u64 {
        self.shown.lock().0
    }

    /// Waits until more than `seen` versions were published.
    pub(crate) async fn after(&self, seen: u64) -> (u64, Arc<Record>) {
        loop {
            // It counts as waiting from here on, so that no publication falls between the look and the wait (INV-35).
            let published = self.published.notified();
            let now = self.now();
            if now.0 != seen {
                return now;
            }
            published.await;
        }
    }

    /// Shows a new version, and returns the one before.
    pub(crate) fn publish(&self, record: Arc<Record>) -> Arc<Record> {
        let before = {
            let mut shown = self.shown.lock();
            shown.0 += 1;
            std::mem::replace(&mut shown.1, record)
        };
        self.published.notify_waiters();
        before
    }

    /// Shows a version in the place of the last one; nobody is woken.
    pub(crate) fn amend(&self, record: Arc<Record>) {
        self.shown.lock().1 = record;
    }
}
