//! How much time and how many tries each kind of exchange has (R5.4).

use crate::time::{Millis, UnixMillis};

/// The kinds of exchange that have a budget of their own. Spending one never draws on another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Purpose {
    /// Connecting, and creating a task upstream.
    Create,
    /// Reading the status of a known upstream task.
    StatusRead,
    /// Fetching the result after a terminal status.
    Result,
    /// Asking the system of record what became of an effect.
    Reconcile,
}

impl Purpose {
    /// The word for it in errors and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Purpose::Create => "create",
            Purpose::StatusRead => "status read",
            Purpose::Result => "result retrieval",
            Purpose::Reconcile => "reconciliation",
        }
    }

    /// The first pause between two tries, and the longest: what is asked for a day is asked less often than what a
    /// client waits for.
    fn pauses(self) -> (u64, u64) {
        match self {
            Purpose::Create | Purpose::StatusRead | Purpose::Result => (250, 15_000),
            Purpose::Reconcile => (1_000, 300_000),
        }
    }
}

/// What may be spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// From the first try on.
    pub time: Millis,
    /// Tries, the first included.
    pub attempts: u32,
}

/// A budget that has been spent, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {} budget is spent after {attempts} tries in {elapsed:?}", purpose.as_str())]
pub struct Exhausted {
    /// Which one.
    pub purpose: Purpose,
    /// Tries made.
    pub attempts: u32,
    /// Time since the first.
    pub elapsed: Millis,
}

/// One budget in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    purpose: Purpose,
    allowance: Allowance,
    first: Option<UnixMillis>,
    attempts: u32,
}

impl Budget {
    /// An untouched budget.
    #[must_use]
    pub fn new(purpose: Purpose, allowance: Allowance) -> Budget {
        Budget { purpose, allowance, first: None, attempts: 0 }
    }

    /// A budget of which `attempts` tries are spent since `first`: what survives a restart is kept with the operation.
    #[must_use]
    pub fn resumed(purpose: Purpose, allowance: Allowance, first: UnixMillis, attempts: u32) -> Budget {
        Budget { purpose, allowance, first: Some(first), attempts }
    }

    /// Counts a try at `now`.
    ///
    /// # Errors
    /// [`Exhausted`] if the tries or the time are gone; the try must then not be made.
    pub fn spend(&mut self, now: UnixMillis) -> Result<(), Exhausted> {
        let elapsed = now.since(*self.first.get_or_insert(now));
        if self.attempts >= self.allowance.attempts || elapsed > self.allowance.time {
            return Err(Exhausted { purpose: self.purpose, attempts: self.attempts, elapsed });
        }
        self.attempts += 1;
        Ok(())
    }

    /// Forgets what was spent: a try succeeded.
    pub fn refill(&mut self) {
        self.first = None;
        self.attempts = 0;
    }

    /// How long to wait before the next try: doubling from 250 ms to 15 s (for reconciliation from 1 s to 5 min), a
    /// little more by `jitter`.
    #[must_use]
    pub fn backoff(&self, jitter: u32) -> Millis {
        let (first, longest) = self.purpose.pauses();
        let base = first.saturating_mul(1 << self.attempts.saturating_sub(1).min(20)).min(longest);
        Millis(base + base * u64::from(jitter % 256) / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Allowance = Allowance { time: Millis(1000), attempts: 3 };

    #[test]
    fn r5_4_attempts_run_out_and_the_error_names_the_budget() {
        let mut budget = Budget::new(Purpose::StatusRead, THREE);
        for _ in 0..3 {
            assert_eq!(budget.spend(UnixMillis(5)), Ok(()));
        }
        let spent = budget.spend(UnixMillis(6)).unwrap_err();
        assert_eq!(spent.purpose, Purpose::StatusRead);
        assert_eq!(alloc::format!("{spent}"), "the status read budget is spent after 3 tries in 1ms");
    }

    #[test]
    fn r5_4_time_runs_out_and_success_refills() {
        let mut budget = Budget::new(Purpose::Create, THREE);
        assert_eq!(budget.spend(UnixMillis(0)), Ok(()));
        assert!(budget.spend(UnixMillis(1001)).is_err());
        budget.refill();
        assert_eq!(budget.spend(UnixMillis(1002)), Ok(()));
    }

    #[test]
    fn r5_4_spending_one_budget_leaves_another_alone() {
        let mut read = Budget::new(Purpose::StatusRead, Allowance { time: Millis(10), attempts: 1 });
        let mut result = Budget::new(Purpose::Result, THREE);
        assert_eq!(read.spend(UnixMillis(0)), Ok(()));
        assert!(read.spend(UnixMillis(0)).is_err());
        assert_eq!(result.spend(UnixMillis(0)), Ok(()));
    }

    #[test]
    fn r5_4_a_budget_goes_on_after_a_restart_where_it_was() {
        let mut budget = Budget::resumed(Purpose::Reconcile, THREE, UnixMillis(0), 2);
        assert_eq!(budget.spend(UnixMillis(1_000)), Ok(()));
        let spent = budget.spend(UnixMillis(1_000)).unwrap_err();
        assert_eq!(alloc::format!("{spent}"), "the reconciliation budget is spent after 3 tries in 1000ms");
        assert!(
            Budget::resumed(Purpose::Reconcile, THREE, UnixMillis(0), 0).spend(UnixMillis(1_001)).is_err()
        );
    }

    #[test]
    fn r5_1_pauses_double_up_to_a_bound_of_their_own() {
        let pause = |purpose, attempts| Budget::resumed(purpose, THREE, UnixMillis(0), attempts).backoff(0);
        assert_eq!(pause(Purpose::StatusRead, 1), Millis(250));
        assert_eq!(pause(Purpose::StatusRead, 40), Millis(15_000));
        assert_eq!(pause(Purpose::Reconcile, 1), Millis(1_000));
        assert_eq!(pause(Purpose::Reconcile, 2), Millis(2_000));
        assert_eq!(pause(Purpose::Reconcile, u32::MAX), Millis(300_000));
    }
}
