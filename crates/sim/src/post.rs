//! The webhook of those who decide.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskgate_core::id::OperationId;
use taskgate_engine::rules::{Hidden, Webhook};
use taskgate_engine::web::{Notice, Web, WebAnswer};
use taskgate_power::Random;

use crate::tally::Tally;

/// Takes notices, of which it fails to take some. It outlives every life of the gateway.
#[derive(Debug)]
pub struct Post {
    random: Mutex<Random>,
    told: Mutex<BTreeSet<OperationId>>,
    tally: Arc<Tally>,
}

impl Post {
    /// One that fails as `seed` has it.
    #[must_use]
    pub fn new(seed: u64, tally: Arc<Tally>) -> Post {
        Post { random: Mutex::new(Random::new(seed)), told: Mutex::default(), tally }
    }

    /// Whether it acknowledged that this operation waits for a person.
    #[must_use]
    pub fn knows(&self, operation: &OperationId) -> bool {
        self.told.lock().contains(operation)
    }
}

#[async_trait]
impl Web for Post {
    async fn get(&self, _: &str, _: &[(String, Hidden)], _: Duration, _: usize) -> Result<WebAnswer, String> {
        Err("nothing is asked over HTTP".to_owned())
    }

    async fn notify(&self, _: &Webhook, notice: &Notice, _: Duration) -> Result<(), String> {
        let took = 10 + self.random.lock().below(200) as u64;
        tokio::time::sleep(Duration::from_millis(took)).await;
        if self.random.lock().one_in(3) {
            return Err("it answered HTTP 503".to_owned());
        }
        self.tally.count("a person who was told");
        self.told.lock().insert(notice.operation.clone());
        Ok(())
    }
}
