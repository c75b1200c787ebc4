//! One life of the gateway: a runtime, an engine on it, and its clients.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_engine::Engine;
use taskgate_engine::engine::{Parts, Submitted};
use taskgate_sim::{Around, Flows, HOUR, Ids, Line, Random, Servers, SimClock, SlowDisk};
use taskgate_store::law;
use taskgate_store::ledger::Which;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::client::Client;
use crate::person;
use crate::sim::{CLIENTS, Sim, World, limits};
use crate::wish::Told;

/// What a life is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Clients call, until it ends.
    Clients,
    /// The same, until everything is over and settled.
    ToTheEnd,
    /// Long after: everything has expired, and clients call once more.
    NextDays,
    /// Longer after: old evidence goes.
    NextYear,
}

/// One life. What it had in memory goes with it.
pub(crate) struct Life {
    // Before the runtime: it is dropped first.
    everything: Option<Pin<Box<dyn Future<Output = ()>>>>,
    runtime: Runtime,
    clock: Arc<SimClock>,
    world: Arc<World>,
    purpose: Purpose,
    play: Arc<Play>,
}

/// What a life leaves behind for the simulation.
#[derive(Default)]
struct Play {
    engine: Mutex<Option<Arc<Engine>>>,
    has_failed: AtomicBool,
    broken: Mutex<Option<String>>,
}

impl Play {
    fn broke(&self, words: String) {
        self.broken.lock().get_or_insert(words);
    }
}

impl Life {
    pub(crate) fn begin(sim: &mut Sim, purpose: Purpose) -> Life {
        let seed = sim.random.any();
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let world = sim.world.clone();
        let clock = {
            let _inside = runtime.enter();
            Arc::new(SimClock::new(sim.passed, world.jumped.clone()))
        };
        *world.clock.lock() = Some(clock.clone());
        let way = SlowDisk {
            random: world.disk.clone(),
            history: world.history.clone(),
            tally: world.tally.clone(),
        };
        let store = Around { store: world.store.reopen(), way };
        let engine = Engine::new(Parts {
            store: Arc::new(store),
            backs: Arc::new(Servers(world.server.clone())),
            clock: clock.clone(),
            random: Arc::new(Ids::new(seed)),
            limits: limits(),
            rules: Arc::new(Flows),
            web: world.post.clone(),
        });
        let play = Arc::new(Play::default());
        let jump = sim.random.one_in(4).then(|| (sim.random.below(2_000) as u64, sim.random.one_in(2)));
        let living = live(engine, world.clone(), play.clone(), purpose, seed);
        let jumping = {
            let world = world.clone();
            async move {
                if let Some((after, forward)) = jump
                    && purpose != Purpose::NextDays
                    && purpose != Purpose::NextYear
                {
                    sleep(Duration::from_millis(after)).await;
                    world.tally.count("a clock that jumped under way");
                    world.jump(forward);
                }
            }
        };
        let everything = Box::pin(async move {
            tokio::join!(living, jumping);
        });
        Life { everything: Some(everything), runtime, clock, world, purpose, play }
    }

    /// Lets so much time pass. Whether it came up.
    pub(crate) fn run(&mut self, millis: u64) -> Result<bool, String> {
        if let Some(everything) = &mut self.everything {
            let done = self.runtime.block_on(async {
                timeout(Duration::from_millis(millis), everything.as_mut()).await.is_ok()
            });
            if done {
                self.everything = None;
            } else if self.purpose != Purpose::Clients && millis >= HOUR as u64 {
                self.play.broke(self.left_open());
            }
        }
        let words = self.play.broken.lock().take();
        words.map_or(Ok(!self.play.has_failed.load(Ordering::SeqCst)), Err)
    }

    fn left_open(&self) -> String {
        let history = self.world.history.lock();
        let open: Vec<_> = history
            .values()
            .filter_map(|versions| versions.last())
            .filter(|record| record.task.ending().is_none() || record.operation.is_active())
            .map(|record| (&record.task.state, &record.operation, record.task.cancel_wished_at))
            .collect();
        let live = self.play.engine.lock().as_ref().map_or(0, |engine| engine.live());
        format!("INV-02: after hours {live} tasks live; these are not over: {open:#?}")
    }

    /// An end in good order.
    pub(crate) fn shut_down(&mut self, patience: u64) {
        self.everything = None;
        let engine = self.play.engine.lock().clone();
        if let Some(engine) = engine {
            self.runtime.block_on(async { engine.shutdown(Duration::from_millis(patience)).await });
        }
    }

    /// It is stopped where it is. Its clients go away.
    pub(crate) fn stop(&mut self) {
        self.everything = None;
    }

    /// It goes on for so long, without its clients.
    pub(crate) fn go_on(&mut self, millis: u64) {
        self.runtime.block_on(async { sleep(Duration::from_millis(millis)).await });
    }

    /// Time that passed while it was stopped.
    pub(crate) fn slept(&self, millis: i64) {
        self.clock.slept(millis);
    }

    /// What has passed over all lives, in milliseconds.
    pub(crate) fn passed(&self) -> i64 {
        let _inside = self.runtime.enter();
        self.clock.passed()
    }
}

async fn live(engine: Arc<Engine>, world: Arc<World>, play: Arc<Play>, purpose: Purpose, seed: u64) {
    tokio::spawn(world.server.clone().run());
    // The store may refuse; then the gateway does not start, and somebody starts it again.
    if engine.recover().await.is_err() {
        world.tally.count("a recovery that failed");
        play.has_failed.store(true, Ordering::SeqCst);
        return;
    }
    *play.engine.lock() = Some(engine.clone());
    let (house, asking) = (engine.clone(), engine.clone());
    tokio::spawn(async move { house.keep_house().await });
    tokio::spawn(async move { asking.reconcile().await });
    let told = match purpose {
        Purpose::Clients | Purpose::ToTheEnd => {
            let deciding = person::decide(engine.clone(), world.clone(), Random::new(seed));
            let calling = call(&engine, &world, purpose == Purpose::ToTheEnd, seed);
            tokio::select! {
                biased;
                () = deciding => Ok(()),
                told = calling => told,
            }
        }
        Purpose::NextDays => come_back(&engine, &world).await,
        Purpose::NextYear => {
            sleep(Duration::from_secs(100)).await;
            Ok(())
        }
    };
    if let Err(words) = told {
        play.broke(words);
    }
}

async fn call(engine: &Arc<Engine>, world: &Arc<World>, is_last: bool, seed: u64) -> Result<(), String> {
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let random = Random::new(seed ^ (number as u64 + 1));
        let client = Client { engine: engine.clone(), world: world.clone(), number, random, is_last };
        clients.spawn(client.run());
    }
    while let Some(told) = clients.join_next().await {
        told.unwrap()?;
    }
    // What was cancelled by a promise is still being found out; so are effects, and people decide.
    if !is_last {
        return Ok(());
    }
    loop {
        let is_done = engine.live() == 0
            && nothing_left(engine, Which::Reconciling).await
            && nothing_left(engine, Which::Waiting).await
            && world.server.is_quiet();
        if is_done {
            return Ok(());
        }
        sleep(Duration::from_secs(5)).await;
    }
}

async fn nothing_left(engine: &Arc<Engine>, which: Which) -> bool {
    engine.operations(which, None, 1).await.is_ok_and(|left| left.is_empty())
}

/// Everything has expired and is purged. Whoever calls again is told what is known, and nothing is carried out (INV-30).
async fn come_back(engine: &Arc<Engine>, world: &Arc<World>) -> Result<(), String> {
    sleep(Duration::from_secs(100)).await;
    let before = world.server.books();
    let wishes = world.wishes.lock().len();
    for index in 0..wishes {
        let (id, by, who) = {
            let wishes = world.wishes.lock();
            (wishes[index].id.clone(), wishes[index].by, wishes[index].who())
        };
        let Some(id) = id else { continue };
        loop {
            match engine.find(&who, &id).await {
                Ok(None) => break,
                Ok(Some(handle)) => {
                    let record = handle.record();
                    return Err(format!("INV-30: {:?} is still there: {record:#?}", world.now()));
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
        let is_free = by == Told::Key && world.entry(&id).as_ref().is_some_and(law::gives_key_free);
        if by == Told::Nothing {
            continue;
        }
        loop {
            let new = world.wishes.lock()[index].call();
            if is_free {
                // It certainly did nothing, and whoever calls now is the first.
                match engine.earlier(&new).await {
                    Ok(None) => break,
                    Ok(Some(other)) => return Err(format!("R4.6: a key is not free: {other:?}")),
                    Err(_) => continue,
                }
            }
            match engine.submit(new, Arc::new(Line(world.server.clone()))).await {
                Ok(Submitted::Known(entry)) if entry.task == id => {
                    world.tally.count("a late duplicate that was told what is known");
                    break;
                }
                Ok(other) => return Err(format!("INV-30: a late duplicate was taken: {other:?}")),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }
    sleep(Duration::from_secs(100)).await;
    let is_same = world
        .server
        .books()
        .iter()
        .all(|(name, entry)| before.get(name).is_some_and(|before| before.requests == entry.requests));
    if is_same { Ok(()) } else { Err("INV-30: a late duplicate was sent".to_owned()) }
}
