//! Wall-clock time over several lives of a gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use taskgate_core::time::UnixMillis;
use taskgate_engine::clock::Clock;
use tokio::time::Instant;

/// An hour, in milliseconds: how far a clock is put forward or back (INV-48).
pub const HOUR: i64 = 3_600_000;

/// When every simulation begins.
const BEGINNING: i64 = 1_800_000_000_000;

/// Wall-clock time: what the lives before took, what this one has, and the jumps.
#[derive(Debug)]
pub struct SimClock {
    start: Instant,
    before: AtomicI64,
    jumped: Arc<AtomicI64>,
}

impl SimClock {
    /// The clock of a life that begins now, on the runtime that this is called on. `before` is what had passed until
    /// then, in milliseconds; `jumped` by how much the clock was put forward so far, and may be changed at any time.
    #[must_use]
    pub fn new(before: i64, jumped: Arc<AtomicI64>) -> SimClock {
        SimClock { start: Instant::now(), before: AtomicI64::new(before), jumped }
    }

    /// What has passed over all lives until now, in milliseconds; no jump counts.
    #[must_use]
    pub fn passed(&self) -> i64 {
        let mine = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX / 2);
        self.before.load(Ordering::SeqCst) + mine
    }

    /// So many milliseconds went by in which this life was not run.
    pub fn slept(&self, millis: i64) {
        self.before.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> UnixMillis {
        let passed = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX / 2);
        UnixMillis(
            BEGINNING + self.before.load(Ordering::SeqCst) + passed + self.jumped.load(Ordering::SeqCst),
        )
    }
}
