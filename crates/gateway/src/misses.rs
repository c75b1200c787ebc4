//! How fast one caller may ask about tasks that are not its own. Ids cannot be guessed; this keeps it from being
//! tried.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_core::id::Principal;
use tokio::time::Instant;

/// Misses that cost nothing: a client that comes back with a list of what has expired meanwhile.
const FREE: u32 = 100;

/// How long each further one takes.
const EACH: Duration = Duration::from_millis(50);

/// The longest that one is made to wait.
const MOST: Duration = Duration::from_secs(5);

/// Callers that are remembered; those whose misses are forgiven go first.
const CALLERS_MAX: usize = 10_000;

/// The misses of all callers.
#[derive(Debug, Default)]
pub(crate) struct Misses {
    /// When each caller's misses will be forgiven.
    until: Mutex<HashMap<Principal, Instant>>,
}

impl Misses {
    /// Waits as long as one more miss of this caller costs. Answers to what is found never wait.
    pub(crate) async fn one_more(&self, principal: &Principal) {
        let wait = self.charge(principal, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn charge(&self, principal: &Principal, now: Instant) -> Duration {
        let mut until = self.until.lock();
        if until.len() >= CALLERS_MAX {
            until.retain(|_, forgiven| *forgiven > now);
        }
        let forgiven = until.entry(principal.clone()).or_insert(now);
        let free = EACH * FREE;
        *forgiven = (*forgiven).max(now).min(now + free + MOST) + EACH;
        forgiven.saturating_duration_since(now).saturating_sub(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_098_a_burst_of_bad_ids_is_slowed_down_for_its_caller_alone() {
        let misses = Misses::default();
        let (me, other) = (Principal::local(), Principal::anonymous());
        let now = Instant::now();
        for _ in 0..FREE {
            assert_eq!(misses.charge(&me, now), Duration::ZERO);
        }
        for nth in 1..=20 {
            assert_eq!(misses.charge(&me, now), EACH * nth);
        }
        assert_eq!(misses.charge(&other, now), Duration::ZERO);
        // Many at once wait no longer than the most, and a pause forgives.
        let longest = (0..1_000).map(|_| misses.charge(&me, now)).max();
        assert_eq!(longest, Some(MOST + EACH));
        let later = now + EACH * FREE + MOST + EACH;
        assert_eq!(misses.charge(&me, later), Duration::ZERO);
    }
}
