//! The person who decides what nobody else can tell. They look into the server's books once nothing moves any more, are wrong
//! now and then, and take that back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taskgate_core::id::OperationId;
use taskgate_core::operation::{Attestation, Stage, Text, Verdict};
use taskgate_engine::Engine;
use taskgate_sim::Random;
use taskgate_store::ledger::{LedgerEntry, Which};
use tokio::time::{Instant, sleep};

use crate::world::{World, wish_of};

/// How long it takes until they see that they were wrong; somebody may have called again by then.
const TAKES: Duration = Duration::from_secs(200);

fn opposite(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Applied => Verdict::NotApplied,
        Verdict::NotApplied => Verdict::Applied,
    }
}

fn word(verdict: Verdict) -> Attestation {
    Attestation { verdict, name: Text::new("ann"), reason: Text::new("it is in the books, or not") }
}

/// Goes through the list again and again, and never ends.
pub(crate) async fn decide(world: &Arc<World>, engine: &Arc<Engine>, seed: u64) {
    let mut person =
        Person { world, engine, random: Random::new(seed), wrong: BTreeMap::new(), since: BTreeMap::new() };
    loop {
        sleep(Duration::from_secs(20 + person.random.below(60) as u64)).await;
        person.take_back().await;
        for which in [Which::Waiting, Which::Unknown] {
            let Ok(list) = engine.operations(which, None, 100).await else { continue };
            for entry in list {
                person.about(&entry).await;
            }
        }
    }
}

struct Person<'p> {
    world: &'p World,
    engine: &'p Arc<Engine>,
    random: Random,
    /// What they said and is not so, by what it should have been.
    wrong: BTreeMap<OperationId, Verdict>,
    since: BTreeMap<OperationId, Instant>,
}

impl Person<'_> {
    async fn about(&mut self, entry: &LedgerEntry) {
        let Some(name) = self.name(entry) else { return };
        if self.wrong.contains_key(&entry.id)
            || self.random.one_in(3)
            || !self.world.server.is_done_with(&name)
        {
            return;
        }
        let truth = self.truth(entry, &name);
        // Only where there is a key would two effects be more than bad luck.
        let is_wrong = entry.key.is_some() && self.random.one_in(3);
        let said = if is_wrong { opposite(truth) } else { truth };
        if is_wrong {
            self.world.tally.count("a wrong word of a person");
            if said == Verdict::NotApplied {
                // Whoever calls again under the key has it done twice.
                self.world.is_misled(&name);
            }
        }
        if self.engine.attest(&entry.id, word(said)).await.is_ok() {
            self.world.say(format!("a person of {name}: {said:?}; in truth {truth:?}"));
            self.world.tally.count(format!("a person's word: {said:?}"));
            if said == Verdict::NotApplied {
                self.world.undone.lock().insert(name);
            }
            if is_wrong {
                self.wrong.insert(entry.id.clone(), truth);
                self.since.insert(entry.id.clone(), Instant::now());
            }
        }
    }

    /// It was done by this operation if there are more effects than the others of its name are known to have made.
    fn truth(&self, entry: &LedgerEntry, name: &str) -> Verdict {
        let history = self.world.history.lock();
        let others = history.values().filter_map(|versions| versions.last()).filter(|record| {
            let verdict = match (self.wrong.get(&record.operation_id), &record.operation.stage) {
                (Some(truth), _) => Some(*truth),
                (None, Stage::Settled(outcome)) => outcome.verdict(),
                (
                    None,
                    Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Unknown(_),
                ) => None,
            };
            record.id != entry.task && wish_of(record) == name && verdict == Some(Verdict::Applied)
        });
        let effects = self.world.server.entry(name).effects as usize;
        if others.count() < effects { Verdict::Applied } else { Verdict::NotApplied }
    }

    fn name(&self, entry: &LedgerEntry) -> Option<String> {
        let history = self.world.history.lock();
        history.get(entry.task.expose())?.last().map(|record| wish_of(record))
    }

    async fn take_back(&mut self) {
        for (id, truth) in self.wrong.clone() {
            let is_seen = self.since.get(&id).is_some_and(|since| since.elapsed() > TAKES);
            if is_seen && self.engine.correct(&id, word(truth)).await.is_ok() {
                self.world.say(format!("a person of {}: {truth:?} after all", id.0));
                self.world.tally.count(format!("a word corrected: {truth:?}"));
                self.wrong.remove(&id);
            }
        }
    }
}
