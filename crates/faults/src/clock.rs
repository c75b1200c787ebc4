//! What time it is: books and clients write it down, so that what they say can be put in one order.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, by this machine's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one clock of the parts, which are no part of taskgate"
)]
pub(crate) fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or_default()
}
