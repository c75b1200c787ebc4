//! Where unpredictable bytes come from, and the ids made of them.

use data_encoding::BASE32_DNSSEC;
use taskgate_core::id::{OperationId, TaskId};
use taskgate_core::time::UnixMillis;

/// A source of unpredictable bytes.
pub trait Random: Send + Sync + 'static {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);

    /// 32 bits, for jitter.
    fn jitter(&self) -> u32 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }
}

/// The operating system's; the one place that asks it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "this is the one real source")]
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness ids could be guessed: there is nothing safe left to do.
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}

/// Makes a task id: 6 bytes of time, for locality in the store, and 128 random bits (A-097, B-070), in 36 characters
/// of lower-case base32.
pub fn task_id(random: &dyn Random, now: UnixMillis) -> TaskId {
    TaskId::parse(&format!("t{}", stamped(random, now))).expect("base32 is within the alphabet of ids")
}

/// Makes an operation id.
pub fn operation_id(random: &dyn Random, now: UnixMillis) -> OperationId {
    OperationId(format!("op-{}", stamped(random, now)))
}

/// The smallest id that an operation of that moment can have.
pub fn first_operation_id(at: UnixMillis) -> OperationId {
    OperationId(format!("op-{}", BASE32_DNSSEC.encode(&time_first(at))))
}

fn stamped(random: &dyn Random, now: UnixMillis) -> String {
    let mut bytes = time_first(now);
    random.fill(&mut bytes[6..]);
    BASE32_DNSSEC.encode(&bytes)
}

/// 6 bytes of time, for locality in the store and so that ids grow with it, and room for 16 more.
fn time_first(at: UnixMillis) -> [u8; 22] {
    let mut bytes = [0; 22];
    bytes[..6].copy_from_slice(&at.0.max(0).to_be_bytes()[2..]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r4_8_the_first_id_of_a_moment_parts_what_is_older_from_what_is_not() {
        for at in [1, 1_000, 1_800_000_000_000] {
            let first = first_operation_id(UnixMillis(at));
            assert!(operation_id(&SystemRandom, UnixMillis(at - 1)) < first);
            assert!(operation_id(&SystemRandom, UnixMillis(at)) >= first);
        }
        assert!(first_operation_id(UnixMillis(-5)) <= operation_id(&SystemRandom, UnixMillis(0)));
    }

    #[test]
    fn x_010_task_ids_are_plain_and_ordered_by_time() {
        let early = task_id(&SystemRandom, UnixMillis(1));
        let late = task_id(&SystemRandom, UnixMillis(1 << 40));
        assert_eq!(early.expose().len(), 37);
        assert!(early < late);
    }

    #[test]
    fn a_035_a_097_b_070_ids_of_one_moment_share_nothing_but_the_moment() {
        let ids: Vec<Vec<u8>> = (0..1_000)
            .map(|_| {
                let id = task_id(&SystemRandom, UnixMillis(7));
                BASE32_DNSSEC.decode(&id.expose().as_bytes()[1..]).unwrap()
            })
            .collect();
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert!(ids.iter().all(|id| id.len() == 22 && id[..6] == ids[0][..6]));
        // Each of the 128 bits behind the time is set in about half of them.
        for bit in 0..128 {
            let set = ids.iter().filter(|id| id[6 + bit / 8] >> (bit % 8) & 1 == 1).count();
            assert!((300..=700).contains(&set), "bit {bit} is set in {set} of 1000");
        }
    }
}
