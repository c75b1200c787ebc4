//! The limits that the engine keeps, and their first values.

use taskgate_core::budget::Allowance;
use taskgate_core::poll::Rhythm;
use taskgate_core::time::Millis;

/// What the engine keeps to. The configuration's reference page gives each one's reason.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Lifetime of a handle whose client asked for none.
    pub ttl: Millis,
    /// Longest lifetime of a handle.
    pub ttl_max: Millis,
    /// Longest lifetime of a handle for callers that cannot be told apart (R6.2).
    pub ttl_max_shared: Millis,
    /// How long a result stays after the end, at least.
    pub linger: Millis,
    /// How long work may take.
    pub deadline: Millis,
    /// How long work may take for callers that cannot be told apart.
    pub deadline_shared: Millis,
    /// How long after its creation a call that was never sent may still be begun.
    pub start_by: Millis,
    /// How long to listen for an answer after a cancellation was passed on.
    pub cancel_grace: Millis,
    /// Unfinished tasks of one principal.
    pub live_max: usize,
    /// Unfinished tasks of all callers that cannot be told apart, together.
    pub live_max_shared: usize,
    /// Calls sent to one server and not yet answered.
    pub running_max: usize,
    /// Calls waiting for their turn at one server.
    pub queue_max: usize,
    /// How often to look.
    pub rhythm: Rhythm,
    /// For connecting and creating.
    pub create: Allowance,
    /// For failing status reads in a row.
    pub status_read: Allowance,
    /// For fetching a result once there is one.
    pub result: Allowance,
    /// Finished records kept in memory for the next read.
    pub finished_cached: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            ttl: Millis::hours(24),
            ttl_max: Millis::days(7),
            ttl_max_shared: Millis::hours(1),
            linger: Millis::hours(1),
            deadline: Millis::hours(24),
            deadline_shared: Millis::hours(1),
            start_by: Millis::mins(10),
            cancel_grace: Millis::secs(5),
            live_max: 1_000,
            live_max_shared: 10_000,
            running_max: 64,
            queue_max: 10_000,
            rhythm: Rhythm::DEFAULT,
            create: Allowance { time: Millis::secs(30), attempts: 5 },
            status_read: Allowance { time: Millis::mins(10), attempts: 60 },
            result: Allowance { time: Millis::secs(60), attempts: 10 },
            finished_cached: 4_096,
        }
    }
}
