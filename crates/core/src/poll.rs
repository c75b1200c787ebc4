//! When to look again, on both sides (R5.1).

use crate::time::{Millis, UnixMillis};

/// The rhythm of looking, from the project's limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rhythm {
    /// Never sooner than this.
    pub floor: Millis,
    /// Without a peer's hint, never later than this.
    pub ceiling: Millis,
}

impl Rhythm {
    /// 0.5 s rising to 15 s: about 30 looks at a task of ten minutes, and never more than a quarter of its age late.
    pub const DEFAULT: Rhythm = Rhythm { floor: Millis(500), ceiling: Millis(15_000) };

    fn by_age(&self, age: Millis) -> u64 {
        (age.0 / 4).clamp(self.floor.0, self.ceiling.0)
    }

    /// When to read an upstream task's status next.
    ///
    /// The peer's `hint` is a minimum that we keep (A-048, B-083); without one the gap is a quarter of the age.
    /// Up to 15 % is added by `jitter`, so that tasks which started together do not stay together. `None` when the
    /// next look would fall at or after `deadline`: there is nothing more to wait for.
    #[must_use]
    pub fn next_look(
        &self,
        now: UnixMillis,
        started: UnixMillis,
        hint: Option<Millis>,
        deadline: UnixMillis,
        jitter: u32,
    ) -> Option<UnixMillis> {
        // A hint below a twentieth of a second is a peer's slip, not a wish to be read without pause.
        let gap = hint.map_or_else(|| self.by_age(now.since(started)), |hint| hint.0.max(50));
        let spread = gap.saturating_mul(u64::from(jitter % 1024)) * 15 / 102_400;
        let at = now + Millis(gap.saturating_add(spread));
        (at < deadline).then_some(at)
    }

    /// The poll interval that we tell a client: growing with the task's age, spread by ±15 % per task, so that
    /// pollers do not return all at once after a restart.
    #[must_use]
    pub fn hint(&self, now: UnixMillis, created: UnixMillis, spread: u32) -> Millis {
        let gap = self.by_age(now.since(created));
        Millis((gap * (850 + u64::from(spread % 301)) / 1000).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAR: UnixMillis = UnixMillis(i64::MAX);

    proptest! {
        #[test]
        fn a_048_the_gap_is_never_below_the_peers_hint(hint in 0_u64..1_000_000, jitter: u32, now in 0_i64..1 << 40) {
            let at = Rhythm::DEFAULT
                .next_look(UnixMillis(now), UnixMillis(0), Some(Millis(hint)), FAR, jitter)
                .unwrap();
            prop_assert!(at.since(UnixMillis(now)).0 >= hint);
            prop_assert!(at.since(UnixMillis(now)).0 <= hint.max(50) * 115 / 100 + 1);
        }

        #[test]
        fn r5_1_without_a_hint_the_gap_stays_in_bounds(age in 0_i64..1 << 40, jitter: u32) {
            let gap = Rhythm::DEFAULT
                .next_look(UnixMillis(age), UnixMillis(0), None, FAR, jitter)
                .unwrap()
                .since(UnixMillis(age));
            prop_assert!((500..=17_250).contains(&gap.0));
        }

        #[test]
        fn b_162_the_hint_we_give_is_positive_and_bounded(age in 0_i64..1 << 40, spread: u32) {
            let hint = Rhythm::DEFAULT.hint(UnixMillis(age), UnixMillis(0), spread).0;
            prop_assert!((425..=17_250).contains(&hint));
        }
    }

    #[test]
    fn r5_1_looking_stops_at_the_deadline() {
        assert_eq!(
            Rhythm::DEFAULT.next_look(UnixMillis(1000), UnixMillis(0), None, UnixMillis(1400), 0),
            None
        );
    }
}
