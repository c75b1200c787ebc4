//! A wall clock that is set, and time that has to have passed (INV-48, notes 3.4).

use std::collections::HashMap;

use parking_lot::Mutex;
use taskgate_core::id::OperationId;
use taskgate_core::time::UnixMillis;
use tokio::time::Instant;

/// How far the wall clock ran ahead of the time that really passed. A clock that is put forward must not make an attempt
/// look as if its time to arrive were over. Time in which the machine slept counts as a step too, since nothing
/// arrived in it.
#[derive(Debug)]
pub(crate) struct Steps {
    wall: UnixMillis,
    start: Instant,
    /// The step at the moment in which an attempt was proved over. Of an earlier process nothing is known: its steps
    /// are in its own times.
    closed: Mutex<HashMap<OperationId, i64>>,
}

impl Steps {
    /// Counted from here on.
    pub(crate) fn new(now: UnixMillis) -> Steps {
        Steps { wall: now, start: Instant::now(), closed: Mutex::default() }
    }

    /// What the clock was put forward since the start, in milliseconds; less than 0 if it was put back.
    fn step(&self, now: UnixMillis) -> i64 {
        let passed = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        now.0.saturating_sub(self.wall.0).saturating_sub(passed)
    }

    /// The attempts of an operation are proved over.
    pub(crate) fn close(&self, id: &OperationId, now: UnixMillis) {
        self.closed.lock().insert(id.clone(), self.step(now));
    }

    /// An operation is not asked after any more.
    pub(super) fn forget(&self, id: &OperationId) {
        self.closed.lock().remove(id);
    }

    /// `now` without what the clock was put forward since the attempts of `id` were proved over.
    pub(super) fn since_closed(&self, id: &OperationId, now: UnixMillis) -> UnixMillis {
        let before = self.closed.lock().get(id).copied().unwrap_or(0);
        let forward = self.step(now).saturating_sub(before).max(0);
        UnixMillis(now.0.saturating_sub(forward))
    }
}
