//! Where wall-clock time comes from.

use std::time::{SystemTime, UNIX_EPOCH};

use taskgate_core::time::UnixMillis;

/// Tells the time that records are stamped with.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> UnixMillis;
}

/// The machine's clock; the one place that reads it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one real clock")]
    fn now(&self) -> UnixMillis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
