//! One seed: the lives, and the judge.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_core::recovery::Survival;
use taskgate_core::task::CancelRule;
use taskgate_core::time::Millis;
use taskgate_engine::Engine;
use taskgate_engine::engine::Parts;
use taskgate_engine::limits::Limits;
use taskgate_engine::rules::NoRules;
use taskgate_engine::web::NoWeb;
use taskgate_gateway::{Gateway, GatewayConfig};
use taskgate_sim::{Around, HOUR, History, Ids, Random, SimClock, SlowDisk, Tally};
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::Record;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::book::Book;
use crate::client::Client;
use crate::line::{Lines, policy};
use crate::mind::{Front, Mind};
use crate::person;
use crate::server::Server;
use crate::world::{Life, Part, World, wish_of};

/// The longest that the last life may take, until everything has come to its end: what nobody knows of waits for an answer
/// until its deadline.
const LONGEST: u64 = 25 * 3_600_000;

/// Longer than any task is kept, in milliseconds.
const LATER: i64 = 62 * HOUR;

pub(crate) struct Sim {
    pub(crate) random: Random,
    pub(crate) store: MemoryStore,
    pub(crate) disk: Arc<Mutex<Random>>,
    pub(crate) history: Arc<History>,
    pub(crate) server: Arc<Server>,
    pub(crate) world: Arc<World>,
    pub(crate) passed: i64,
    pub(crate) running_max: usize,
}

fn limits(running_max: usize) -> Limits {
    Limits {
        running_max,
        ttl: Millis::hours(30),
        ttl_max_shared: Millis::hours(60),
        deadline: Millis::hours(20),
        deadline_shared: Millis::hours(20),
        cancel_grace: Millis::secs(2),
        ..Limits::default()
    }
}

impl Sim {
    pub(crate) fn new(seed: u64, tally: &Arc<Tally>) -> Sim {
        let mut random = Random::new(seed);
        let survival = if random.one_in(2) { Survival::Survives } else { Survival::DiedWithUs };
        let piped = [Front::Plain, [Front::A, Front::B][random.below(2)]];
        let fronts = piped.into_iter().zip([true; 2]);
        let fronts = fronts.chain([Front::Plain, Front::A, Front::B].into_iter().zip([false; 3]));
        let minds = fronts
            .enumerate()
            .map(|(number, (front, is_piped))| {
                Arc::new(Mutex::new(Mind::new(number, front, is_piped, &mut random)))
            })
            .collect();
        let running_max = [1, 2, 6][random.below(3)];
        let server = Server::new(random.any(), survival, tally.clone());
        let history: Arc<History> = Arc::default();
        let world = World {
            tally: tally.clone(),
            server: server.clone(),
            history: history.clone(),
            broken: Arc::default(),
            book: Mutex::new(Book::default()),
            minds,
            said: Mutex::default(),
            jumped: Arc::new(AtomicI64::new(0)),
            tokens: AtomicU64::new(0),
            undone: Mutex::default(),
            misled: Mutex::default(),
        };
        Sim {
            running_max,
            server,
            disk: Arc::new(Mutex::new(Random::new(random.any()))),
            random,
            store: MemoryStore::new(),
            history,
            world: Arc::new(world),
            passed: 0,
        }
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.world.said.lock().clone()
    }

    pub(crate) fn count(&self, what: &str) {
        self.world.tally.count(what);
    }

    pub(crate) fn play(&mut self) -> Result<(), String> {
        let lives = 1 + self.random.below(4);
        for life in 0..lives {
            let part = if life + 1 == lives { Part::Last } else { Part::Broken };
            let is_last = part == Part::Last;
            let most = [3_000, 20_000, 60_000][self.random.below(3)];
            let millis = if is_last { LONGEST } else { 1 + self.random.below(most) as u64 };
            // A gateway that could not recover is started again.
            while !self.live(millis, part)? && is_last {}
            if !is_last {
                // Nobody is there for a while; what is under way arrives meanwhile, or later.
                self.away(2_000);
                if self.random.one_in(3) {
                    self.jump();
                }
            }
        }
        self.server.pass(200_000);
        self.judge()?;
        if self.random.one_in(3) {
            self.count("days pass");
            let before = self.sent();
            self.passed += LATER;
            while !self.live(LONGEST, Part::After)? {}
            self.server.pass(200_000);
            self.judge()?;
            for ((name, sent, effects), (_, later, _)) in before.into_iter().zip(self.sent()) {
                // What is known to have done nothing holds its key no longer.
                if later > sent && effects > 0 && !self.world.misled.lock().contains(&name) {
                    return Err(format!("INV-30: {name} was sent once more"));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn away(&mut self, most: usize) {
        let away = self.random.below(most) as u64;
        self.server.pass(away);
        self.passed += away as i64;
    }

    pub(crate) fn jump(&mut self) {
        let hour = if self.random.one_in(2) { HOUR } else { -HOUR };
        self.count(if hour > 0 { "a clock put forward" } else { "a clock put back" });
        self.world.jumped.fetch_add(hour, Ordering::SeqCst);
    }

    /// One life of the gateway: everything that it had in memory goes with its runtime. Whether it came up.
    pub(crate) fn live(&mut self, millis: u64, part: Part) -> Result<bool, String> {
        let is_last = part != Part::Broken;
        let seed = self.random.any();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let jumps = self.random.one_in(4).then(|| self.random.below(2_000) as u64);
        let hour = if self.random.one_in(2) { HOUR } else { -HOUR };
        let goes_well = self.random.one_in(3);
        let (has_come_up, passed) = runtime.block_on(async {
            let start = Instant::now();
            let clock = Arc::new(SimClock::new(self.passed, self.world.jumped.clone()));
            let lines = Arc::new(Lines {
                server: self.server.clone(),
                history: self.history.clone(),
                broken: self.world.broken.clone(),
                notices: broadcast::channel(16).0,
            });
            let way = SlowDisk {
                random: self.disk.clone(),
                history: self.history.clone(),
                tally: self.world.tally.clone(),
            };
            let store = Around { store: self.store.reopen(), way };
            let engine = Engine::new(Parts {
                store: Arc::new(store),
                backs: lines.clone(),
                clock: clock.clone(),
                random: Arc::new(Ids::new(seed)),
                limits: limits(self.running_max),
                rules: Arc::new(NoRules),
                web: Arc::new(NoWeb),
            });
            tokio::spawn(self.server.clone().run());
            if engine.recover().await.is_err() {
                self.count("a recovery that failed");
                return (false, start.elapsed());
            }
            let house = engine.clone();
            tokio::spawn(async move { house.keep_house().await });
            let gateway = Gateway::over(engine.clone(), lines, GatewayConfig::new(vec![policy()]));
            let shutdown = CancellationToken::new();
            let before = self.passed;
            let life = Life { world: self.world.clone(), gateway, clock, shutdown, part, before, start };
            let life = Arc::new(life);
            let clients: Vec<_> =
                self.world.minds.iter().map(|mind| tokio::spawn(Client::start(&life, mind).run())).collect();
            let everything = async {
                for client in clients {
                    client.await.unwrap();
                }
                // What was cancelled by a promise is still being found out.
                let mut pause = Duration::from_millis(100);
                while is_last && engine.live() > 0 {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(60));
                }
            };
            let jump = async {
                if let Some(after) = jumps {
                    tokio::time::sleep(Duration::from_millis(after)).await;
                    self.count("a clock that jumped under way");
                    self.world.jumped.fetch_add(hour, Ordering::SeqCst);
                }
            };
            let everything = async {
                tokio::select! {
                    biased;
                    () = self.world.broken.happens() => {}
                    _ = async { tokio::join!(everything, jump) } => {}
                    () = self.tidy(&engine), if is_last => {}
                    () = person::decide(&self.world, &engine, seed), if part == Part::Last => {}
                }
            };
            let is_done = tokio::time::timeout(Duration::from_millis(millis), everything).await.is_ok();
            if is_last && !is_done {
                let history = self.history.lock();
                let open: Vec<_> = history
                    .values()
                    .filter_map(|versions| versions.last())
                    .filter(|record| record.task.ending().is_none() || record.operation.is_active())
                    .map(|record| (&record.id, &record.call.params, &record.task.state, &record.operation))
                    .collect();
                let words = format!("INV-02, INV-35: after a day {} tasks live: {open:?}", engine.live());
                self.world.broken.say(words);
            }
            if !is_last {
                if goes_well {
                    self.count("an end in good order");
                    life.shutdown.cancel();
                    engine.shutdown(Duration::from_secs(3)).await;
                } else {
                    self.count("a crash");
                }
            }
            (true, start.elapsed())
        });
        self.passed += i64::try_from(passed.as_millis()).unwrap();
        drop(runtime);
        match self.world.broken.words() {
            Some(words) => Err(words),
            None => Ok(has_come_up),
        }
    }

    /// A person cancels what no client knows of: its id was lost on the way, and it may wait for an answer, and others for
    /// its place.
    pub(crate) async fn tidy(&self, engine: &Arc<Engine>) {
        loop {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let unknown: Vec<Arc<Record>> = {
                let (history, book) = (self.history.lock(), self.world.book.lock());
                let newest = history.values().filter_map(|versions| versions.last());
                let unknown = newest.filter(|record| !book.tasks.contains_key(record.id.expose()));
                unknown.filter(|record| record.task.ending().is_none()).cloned().collect()
            };
            for record in unknown {
                self.count("a task that nobody knew of");
                // What was cancelled is joined no more once it is known what it did.
                self.world.may_be_done_again(&wish_of(&record));
                let _ = engine.cancel(&record.principal, &record.id, CancelRule::Wish).await;
            }
        }
    }

    /// What was sent of each call, and what was done.
    pub(crate) fn sent(&self) -> Vec<(String, u32, u32)> {
        let minds = self.world.minds.iter();
        let names = minds
            .flat_map(|mind| mind.lock().wishes.iter().map(|wish| wish.name.clone()).collect::<Vec<_>>());
        let entries = names.map(|name| (self.server.entry(&name), name));
        entries.map(|(entry, name)| (name, entry.sent, entry.effects)).collect()
    }
}
