//! The person who decides what nothing else can. They look into the server's books, once nothing moves any more.

use std::sync::Arc;
use std::time::Duration;

use taskgate_core::operation::{Attestation, Text, Verdict};
use taskgate_engine::Engine;
use taskgate_sim::Random;
use taskgate_store::ledger::Which;
use tokio::time::sleep;

use crate::sim::World;

pub(crate) async fn decide(engine: Arc<Engine>, world: Arc<World>, mut random: Random) {
    loop {
        sleep(Duration::from_secs(20)).await;
        let Ok(waiting) = engine.operations(Which::Waiting, None, 100).await else { continue };
        for entry in waiting {
            if random.one_in(4) {
                continue;
            }
            if random.one_in(4) && engine.reconcile_now(&entry.id).await.is_ok() {
                world.tally.count("a person who has it asked again");
                continue;
            }
            let Some(name) = world.name_of(&entry.task) else { continue };
            if !world.server.is_done_with(&name) {
                continue;
            }
            let was_made = world.server.entry(&name).effects > 0;
            let attestation = Attestation {
                verdict: if was_made { Verdict::Applied } else { Verdict::NotApplied },
                name: Text::new("ann"),
                reason: Text::new("it is in the books, or not"),
            };
            if engine.attest(&entry.id, attestation).await.is_ok() {
                world.tally.count("a person's word");
            }
        }
    }
}
