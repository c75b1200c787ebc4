//! H4: the whole engine in simulated time, by seeds (notes 3.3).
//!
//! Each seed is a few lives of one gateway. In each a new engine recovers over what the store kept, clients call, wait,
//! cancel and come back, and at some moment the process is gone with all that it had under way. The server and the
//! line to it outlive it: what was sent may still arrive. The store takes its time, refuses, and stops in the middle
//! of a write. The wall clock jumps by an hour either way. In the end the server's own books are held against the
//! ledger.
//!
//! Left out: fronts and transports, which tests with real processes play; SQLite, whose disk has its own test.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::gate::Asking;
use taskgate_core::id::{Principal, ServerName, TaskId};
use taskgate_core::operation::{Effect, Outcome, Replay, Stage, Verdict};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{CancelRule, Ending};
use taskgate_core::time::Millis;
use taskgate_engine::Engine;
use taskgate_engine::engine::{NewCall, Parts, SubmitError, Submitted};
use taskgate_engine::limits::Limits;
use taskgate_engine::rules::NoRules;
use taskgate_sim::{HOUR, History, Ids, Line, Random, Server, Servers, SimClock, SlowStore, Tally};
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::{Call, Front, Key, Record};
use taskgate_store::{Join, law};
use tokio::time::Instant;

const CLIENTS: usize = 3;
const CALLS: usize = 3;

/// What a client wants done, and what it knows of it. It survives the gateway.
struct Wish {
    who: Principal,
    name: String,
    effect: Effect,
    replay: Replay,
    id: Option<TaskId>,
    /// Those that gave its key free before.
    earlier: Vec<TaskId>,
    /// The newest version that it saw, and the ending, once there was one.
    version: u64,
    ending: Option<Ending>,
}

impl Wish {
    fn call(&self) -> NewCall {
        NewCall {
            principal: self.who.clone(),
            front: Front::B,
            call: Call {
                server: ServerName("s".to_owned()),
                tool: "t".to_owned(),
                params: Bytes::from(self.name.clone().into_bytes()),
                digest: [self.name.len() as u8; 32],
                key: Some(Key::of_caller(self.name.clone())),
                intent: None,
                offers: String::new(),
                asking: Asking::Held,
                frame: None,
            },
            effect: self.effect,
            replay: self.replay,
            ttl: Some(Millis::hours(48)),
            join: Join::SameKey,
        }
    }

    /// A client looks: nothing goes back, and what is over stays as it is (INV-03, INV-05).
    fn see(&mut self, record: &Record) -> Result<(), String> {
        if record.version < self.version {
            return Err(format!(
                "INV-05: {} went from version {} to {}",
                self.name, self.version, record.version
            ));
        }
        self.version = record.version;
        match (&self.ending, record.task.ending()) {
            (Some(ending), found) if found != Some(ending) => {
                Err(format!("INV-03: {} ended as {ending:?} and is {found:?}", self.name))
            }
            (_, found) => {
                self.ending = found.cloned();
                Ok(())
            }
        }
    }
}

type Wishes = Arc<Mutex<Vec<Wish>>>;

struct Sim {
    random: Random,
    store: MemoryStore,
    disk: Arc<Mutex<Random>>,
    history: Arc<History>,
    server: Arc<Server>,
    wishes: Wishes,
    jumped: Arc<AtomicI64>,
    passed: i64,
    tally: Arc<Tally>,
}

fn limits() -> Limits {
    Limits { running_max: 4, deadline: Millis::hours(30), cancel_grace: Millis::secs(2), ..Limits::default() }
}

impl Sim {
    fn new(seed: u64, tally: &Arc<Tally>) -> Sim {
        let mut random = Random::new(seed);
        let survival = if random.one_in(3) { Survival::Survives } else { Survival::DiedWithUs };
        let mut wishes = vec![];
        for client in 0..CLIENTS {
            for number in 0..CALLS {
                let (effect, replay) = match random.below(6) {
                    0 => (Effect::ReadOnly, Replay::Never),
                    1 => (Effect::Consequential, Replay::Natural),
                    2 => (Effect::Consequential, Replay::Keyed { window: Millis::hours(12) }),
                    _ => (Effect::Consequential, Replay::Never),
                };
                let who = Principal::stored(format!("client-{client}"));
                let name = format!("c{client}n{number}");
                wishes.push(Wish {
                    who,
                    name,
                    effect,
                    replay,
                    id: None,
                    earlier: Vec::new(),
                    version: 0,
                    ending: None,
                });
            }
        }
        Sim {
            server: Server::new(random.any(), survival, tally.clone()),
            disk: Arc::new(Mutex::new(Random::new(random.any()))),
            random,
            store: MemoryStore::new(),
            history: Arc::default(),
            wishes: Arc::new(Mutex::new(wishes)),
            jumped: Arc::default(),
            passed: 0,
            tally: tally.clone(),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        let lives = 1 + self.random.below(4);
        for life in 0..lives {
            let is_last = life + 1 == lives;
            let millis = if is_last { 200_000 } else { 1 + self.random.below(4_000) as u64 };
            // A gateway that could not recover is started again.
            while !self.live(millis, is_last)? && is_last {}
            if !is_last {
                self.tally.count("a crash");
                // Nobody is there for a while; what is under way arrives meanwhile, or later.
                let away = self.random.below(200) as u64;
                self.server.pass(away);
                self.passed += away as i64 * 10;
                if self.random.one_in(3) {
                    self.jump();
                }
            }
        }
        self.server.pass(2_000);
        self.judge()
    }

    fn jump(&mut self) {
        let hour = if self.random.one_in(2) { HOUR } else { -HOUR };
        self.tally.count(if hour > 0 { "a clock put forward" } else { "a clock put back" });
        self.jumped.fetch_add(hour, Ordering::SeqCst);
    }

    /// One life of the gateway: everything that it had in memory goes with its runtime. Whether it came up.
    fn live(&mut self, millis: u64, is_last: bool) -> Result<bool, String> {
        let seed = self.random.any();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let jumps = self.random.one_in(4).then(|| self.random.below(2_000) as u64);
        let hour = if self.random.one_in(2) { HOUR } else { -HOUR };
        let broken: Arc<Mutex<Option<String>>> = Arc::default();
        let has_failed = AtomicBool::new(false);
        let passed = runtime.block_on(async {
            let start = Instant::now();
            let clock = Arc::new(SimClock::new(self.passed, self.jumped.clone()));
            let engine = || {
                let store = SlowStore {
                    store: self.store.reopen(),
                    random: self.disk.clone(),
                    history: self.history.clone(),
                    tally: self.tally.clone(),
                };
                Engine::new(Parts {
                    store: Arc::new(store),
                    backs: Arc::new(Servers(self.server.clone())),
                    clock: clock.clone(),
                    random: Arc::new(Ids::new(seed)),
                    limits: limits(),
                    rules: Arc::new(NoRules),
                    web: Arc::new(taskgate_engine::web::NoWeb),
                })
            };
            tokio::spawn(self.server.clone().run());
            let live = Arc::new(Mutex::new(None::<Arc<Engine>>));
            let has_failed = &has_failed;
            let clients = async {
                // The store may refuse; then the gateway does not start, and somebody starts it again.
                let engine = engine();
                if engine.recover().await.is_err() {
                    self.tally.count("a recovery that failed");
                    has_failed.store(true, Ordering::SeqCst);
                    return;
                }
                *live.lock() = Some(engine.clone());
                let house = engine.clone();
                tokio::spawn(async move { house.keep_house().await });
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|client| {
                        let random = Random::new(seed ^ (client as u64 + 1));
                        let client = Client {
                            engine: engine.clone(),
                            server: self.server.clone(),
                            history: self.history.clone(),
                            wishes: self.wishes.clone(),
                            random,
                            tally: self.tally.clone(),
                            is_last,
                        };
                        let broken = broken.clone();
                        let who = client_name(&client, seed);
                        tokio::spawn(async move {
                            if let Err(words) = client.run(who).await {
                                broken.lock().get_or_insert(words);
                            }
                        })
                    })
                    .collect();
                for client in clients {
                    client.await.unwrap();
                }
                // What was cancelled by a promise is still being found out.
                while is_last && engine.live() > 0 {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            let jump = async {
                if let Some(after) = jumps {
                    tokio::time::sleep(Duration::from_millis(after)).await;
                    self.tally.count("a clock that jumped under way");
                    self.jumped.fetch_add(hour, Ordering::SeqCst);
                }
            };
            let everything = async { tokio::join!(clients, jump) };
            let is_done = tokio::time::timeout(Duration::from_millis(millis), everything).await.is_ok();
            if is_last && !is_done {
                let history = self.history.lock();
                let open = history
                    .values()
                    .filter_map(|versions| versions.last())
                    .filter(|record| record.task.ending().is_none() || record.operation.is_active());
                let open: Vec<_> = open
                    .map(|record| (&record.task.state, &record.operation, record.task.cancel_wished_at))
                    .collect();
                let words = format!(
                    "INV-02: after 200 s, {} tasks live, these are not over: {open:#?}",
                    live.lock().as_ref().map_or(0, |engine| engine.live())
                );
                broken.lock().get_or_insert(words);
            }
            start.elapsed()
        });
        self.passed += i64::try_from(passed.as_millis()).unwrap();
        drop(runtime);
        let words = broken.lock().take();
        words.map_or(Ok(!has_failed.into_inner()), Err)
    }

    /// The server's books against the ledger.
    fn judge(&self) -> Result<(), String> {
        if !self.server.is_quiet() {
            return Err("the server is still at work; the simulation is too short".to_owned());
        }
        let history = self.history.lock();
        for wish in self.wishes.lock().iter() {
            let Some(id) = &wish.id else { return Err(format!("{} was never taken", wish.name)) };
            let Some(versions) = history.get(id.expose()) else {
                return Err(format!("INV-01: {} was given an id that is not on disk", wish.name));
            };
            let entry = self.server.entry(&wish.name);
            for (index, record) in versions.iter().enumerate() {
                if record.version != index as u64 + 1 {
                    return Err(format!(
                        "INV-04: {} has version {} as number {}",
                        wish.name,
                        record.version,
                        index + 1
                    ));
                }
            }
            let endings =
                versions.windows(2).filter(|pair| pair[0].task.ending() != pair[1].task.ending()).count();
            let Some(last) = versions.last() else { return Err("no version".to_owned()) };
            if last.task.ending().is_none() || endings > 1 {
                return Err(format!("INV-06: {} has {endings} endings", wish.name));
            }
            let once = wish.effect == Effect::Consequential && wish.replay == Replay::Never;
            if once && (entry.requests > 1 || entry.effects > 1 || last.operation.attempts > 1) {
                return Err(format!("INV-11, INV-12: {} {entry:?}, {:?}", wish.name, last.operation));
            }
            if matches!(wish.replay, Replay::Keyed { .. }) && entry.effects > 1 {
                return Err(format!("INV-11: {} was done {} times under its key", wish.name, entry.effects));
            }
            let attempts = |id: &TaskId| {
                let last = history.get(id.expose()).and_then(|versions| versions.last());
                last.map_or(0, |last| last.operation.attempts)
            };
            if entry.requests > last.operation.attempts + wish.earlier.iter().map(attempts).sum::<u32>() {
                return Err(format!(
                    "INV-10: {} came {} times: {:?}",
                    wish.name, entry.requests, last.operation
                ));
            }
            match &last.operation.stage {
                Stage::Settled(Outcome::Confirmed(Verdict::NotApplied)) if entry.effects > 0 => {
                    return Err(format!("INV-13: {} is confirmed not applied: {entry:?}", wish.name));
                }
                Stage::Settled(Outcome::Reported(Verdict::Applied)) if entry.effects == 0 => {
                    return Err(format!("INV-13: {} is reported applied: {entry:?}", wish.name));
                }
                Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } => {
                    return Err(format!(
                        "INV-14: {} is over and its operation {:?}",
                        wish.name, last.operation
                    ));
                }
                Stage::Settled(outcome) => self.tally.count(format!("outcome {outcome:?}")),
                Stage::Unknown(doubt) => self.tally.count(format!("unknown {doubt:?}")),
            }
            let kind = match last.task.ending() {
                Some(Ending::Cancelled) => "cancelled",
                Some(Ending::Returned { .. }) => "returned",
                Some(Ending::Raised { .. }) => "raised",
                Some(Ending::Faulted(_)) => "faulted",
                None => "not over",
            };
            self.tally.count(format!("ending {kind}"));
        }
        Ok(())
    }

    /// Everything that became durable, for comparing two plays of one seed.
    fn told(&self) -> BTreeMap<String, Vec<String>> {
        let of = |records: &Vec<Arc<Record>>| records.iter().map(|record| format!("{record:?}")).collect();
        self.history.lock().iter().map(|(id, records)| (id.clone(), of(records))).collect()
    }
}

fn client_name(client: &Client, seed: u64) -> Principal {
    for number in 0..CLIENTS {
        let mut twin = Random::new(seed ^ (number as u64 + 1));
        if twin.any() == client.random.clone().any() {
            return Principal::stored(format!("client-{number}"));
        }
    }
    unreachable!("it was made from one of these")
}

struct Client {
    engine: Arc<Engine>,
    server: Arc<Server>,
    history: Arc<History>,
    wishes: Wishes,
    random: Random,
    tally: Arc<Tally>,
    is_last: bool,
}

impl Client {
    /// Gets everything done that it wants, one after the other.
    async fn run(mut self, who: Principal) -> Result<(), String> {
        let mine: Vec<usize> = {
            let wishes = self.wishes.lock();
            (0..wishes.len()).filter(|index| wishes[*index].who == who).collect()
        };
        for index in mine {
            tokio::time::sleep(Duration::from_millis(self.random.below(400) as u64)).await;
            self.submit(index).await?;
            self.cancel(index).await?;
            self.wait(index).await?;
        }
        Ok(())
    }

    async fn submit(&mut self, index: usize) -> Result<(), String> {
        loop {
            let (new, known) = {
                let wishes = self.wishes.lock();
                (wishes[index].call(), wishes[index].id.clone())
            };
            // Now and then a client asks again for what it has, as one that lost the answer would (INV-16).
            if known.is_some() && !self.random.one_in(3) {
                return Ok(());
            }
            let line = Arc::new(Line(self.server.clone()));
            let handle = match self.engine.submit(new, line).await {
                Ok(Submitted::Started(handle)) => {
                    if let Some(known) = &known {
                        self.was_given_free(index, known)?;
                    }
                    handle
                }
                Ok(Submitted::Joined(handle) | Submitted::Again(handle)) => {
                    self.tally.count("a call joined");
                    handle
                }
                Ok(Submitted::Known(_)) => {
                    return Err("INV-48: a task was purged before its time".to_owned());
                }
                Err(SubmitError::Store(_)) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
                Err(error) => return Err(error.to_string()),
            };
            let record = handle.record();
            let is_free =
                |wishes: &[Wish]| known.as_ref().is_some_and(|it| wishes[index].earlier.contains(it));
            if known.as_ref().is_some_and(|known| *known != record.id) && !is_free(&self.wishes.lock()) {
                return Err("INV-16: one key, two tasks".to_owned());
            }
            let mut wishes = self.wishes.lock();
            wishes[index].id = Some(record.id.clone());
            return wishes[index].see(&record);
        }
    }

    /// Only what certainly did nothing may give its key to another (R4.6).
    fn was_given_free(&self, index: usize, known: &TaskId) -> Result<(), String> {
        let history = self.history.lock();
        let last = history.get(known.expose()).and_then(|versions| versions.last());
        let last = last.ok_or("INV-01: a client was given an id that is not on disk")?;
        if !law::gives_key_free(&LedgerEntry::of(last)) {
            return Err(format!("INV-16: a key that was taken began anew: {:?}", last.operation));
        }
        self.tally.count("a key given free and taken again");
        let mut wishes = self.wishes.lock();
        let wish = &mut wishes[index];
        wish.earlier.push(known.clone());
        (wish.id, wish.version, wish.ending) = (None, 0, None);
        Ok(())
    }

    async fn cancel(&mut self, index: usize) -> Result<(), String> {
        if !self.random.one_in(6) {
            return Ok(());
        }
        let rule = if self.random.one_in(2) { CancelRule::Promise } else { CancelRule::Wish };
        let (who, id) = self.who_and_id(index);
        tokio::time::sleep(Duration::from_millis(self.random.below(600) as u64)).await;
        if let Ok(Some(record)) = self.engine.cancel(&who, &id, rule).await {
            self.tally.count(format!("a cancel: {rule:?}"));
            self.wishes.lock()[index].see(&record)?;
        }
        Ok(())
    }

    async fn wait(&mut self, index: usize) -> Result<(), String> {
        let (who, id) = self.who_and_id(index);
        let mut handle = loop {
            match self.engine.find(&who, &id).await {
                Ok(Some(handle)) => break handle,
                Ok(None) => return Err("INV-01, INV-48: an id that a client was given is unknown".to_owned()),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        self.wishes.lock()[index].see(&handle.record())?;
        let over = tokio::time::timeout(Duration::from_secs(190), handle.over()).await;
        let Ok(record) = over else {
            return Err(format!("INV-35, INV-02: nobody was woken: {:?}", handle.record().operation));
        };
        if self.is_last {
            self.tally.count("a task waited for to its end");
        }
        self.wishes.lock()[index].see(&record)
    }

    fn who_and_id(&self, index: usize) -> (Principal, TaskId) {
        let wishes = self.wishes.lock();
        (wishes[index].who.clone(), wishes[index].id.clone().unwrap())
    }
}

/// What the person at the terminal chose.
#[expect(clippy::disallowed_methods, reason = "a test has no other way to be told")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

const SEEN: &[&str] = &[
    "a call joined",
    "a cancel: Promise",
    "a cancel: Wish",
    "a clock put back",
    "a clock put forward",
    "a clock that jumped under way",
    "a connection refused",
    "a crash",
    "a failed status read",
    "a key given free and taken again",
    "a key that the server knew",
    "a late request",
    "a request lost",
    "a write refused",
    "an answer lost",
    "ending cancelled",
    "ending faulted",
    "ending raised",
    "ending returned",
    "outcome Confirmed(NotApplied)",
    "outcome NoneExpected",
    "outcome Reported(Applied)",
    "outcome Reported(NotApplied)",
    "refused by the server",
    "unknown AnswerLost",
    "unknown Cancelled",
    "unknown ToolError",
];

#[test]
fn h4_inv_01_to_inv_06_inv_10_to_inv_14_inv_16_inv_35_inv_48_hold_for_every_seed() {
    let tally = Arc::new(Tally::default());
    let only = number("TASKGATE_SEED");
    let seeds = number("TASKGATE_SEEDS").unwrap_or(1_500);
    for seed in only.map_or(0..seeds, |only| only..only + 1) {
        if let Err(words) = Sim::new(seed, &tally).play() {
            panic!(
                "seed {seed}: {words}\nagain: TASKGATE_SEED={seed} cargo test -p taskgate-engine --test sim -- --nocapture"
            );
        }
    }
    println!("{:#?}", tally.all());
    if only.is_none() {
        let seen = tally.all();
        let missing: Vec<_> = SEEN.iter().filter(|what| !seen.contains_key(**what)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}");
    }
}

#[test]
fn h4_a_seed_plays_the_same_again() {
    for seed in 0..20 {
        let tally = Arc::new(Tally::default());
        let told = || {
            let mut sim = Sim::new(seed, &tally);
            sim.play().unwrap();
            sim.told()
        };
        assert_eq!(told(), told(), "seed {seed}");
    }
}
