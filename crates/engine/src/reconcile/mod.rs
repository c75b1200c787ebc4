//! The operations whose system of record is being asked: who has to look after which, and when.
//!
//! An operation comes here by [`Reconciler::wake`]: when its inquiry begins or a person wants it asked now, in the same
//! moment in which that is on disk. After a restart all of them do that are being asked after.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use taskgate_core::id::OperationId;
use tokio::sync::Notify;

/// What waits to be looked after.
#[derive(Debug, Default)]
pub(crate) struct Reconciler {
    woken: Mutex<BTreeSet<OperationId>>,
    changed: Notify,
}

impl Reconciler {
    /// The inquiry of an operation began, or its next look-up is due sooner.
    pub(crate) fn wake(&self, id: &OperationId) {
        self.woken.lock().insert(id.clone());
        self.changed.notify_one();
    }
}
