//! Ids and jitter, by a seed.

use parking_lot::Mutex;
use taskgate_engine::ids;
use taskgate_power::Random;

/// The randomness of one life. No two lives may have the same seed: ids would repeat.
#[derive(Debug)]
pub struct Ids(Mutex<Random>);

impl Ids {
    /// That of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Ids {
        Ids(Mutex::new(Random::new(seed)))
    }
}

impl ids::Random for Ids {
    fn fill(&self, bytes: &mut [u8]) {
        let mut random = self.0.lock();
        bytes.fill_with(|| random.any() as u8);
    }
}
