//! A seed: several lives of one gateway, the night after them, and the year.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::FutureExt;
use parking_lot::Mutex;
use taskgate_core::id::TaskId;
use taskgate_core::recovery::Survival;
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_engine::clock::Clock;
use taskgate_engine::limits::Limits;
use taskgate_sim::{Flow, HOUR, History, Post, Random, Server, SimClock, Tally};
use taskgate_store::ledger::{LedgerEntry, Which};
use taskgate_store::memory::MemoryStore;
use taskgate_store::{Store, law};

use crate::client::Answers;
use crate::life::{Life, Purpose};
use crate::wish::{Told, Wish};

pub(crate) const CLIENTS: usize = 3;
const CALLS: usize = 3;

/// Everything that outlives a life of the gateway.
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) disk: Arc<Mutex<Random>>,
    pub(crate) history: Arc<History>,
    pub(crate) server: Arc<Server>,
    pub(crate) post: Arc<Post>,
    pub(crate) wishes: Mutex<Vec<Wish>>,
    pub(crate) answers: Answers,
    pub(crate) jumped: Arc<AtomicI64>,
    /// The clock of whoever lives.
    pub(crate) clock: Mutex<Option<Arc<SimClock>>>,
    pub(crate) tally: Arc<Tally>,
}

impl World {
    pub(crate) fn now(&self) -> UnixMillis {
        self.clock.lock().as_ref().map(|clock| clock.now()).unwrap_or_default()
    }

    /// Whether the newest version of this task says that its time is over, or was when it was purged: the clock may have
    /// been put back since.
    pub(crate) fn is_expired(&self, id: &TaskId) -> bool {
        if self.history.graves().iter().any(|grave| grave.task.id() == id) {
            return true;
        }
        let history = self.history.lock();
        let newest = history.get(id.expose()).and_then(|versions| versions.last());
        newest.and_then(|record| record.task.expires()).is_some_and(|expires| expires <= self.now())
    }

    /// The wall clock jumps by an hour. It is never off by more than that.
    pub(crate) fn jump(&self, forward: bool) {
        let jumped = match self.jumped.load(Ordering::SeqCst) {
            0 if forward => HOUR,
            0 => -HOUR,
            _ => 0,
        };
        let before = self.jumped.swap(jumped, Ordering::SeqCst);
        self.tally.count(if jumped > before { "a clock put forward" } else { "a clock put back" });
    }

    /// What the ledger has of a task.
    pub(crate) fn entry(&self, id: &TaskId) -> Option<LedgerEntry> {
        // The store in memory answers at once.
        let entries = self.store.operations(Which::All, None, 1_000).now_or_never()?.ok()?;
        entries.into_iter().find(|entry| entry.task == *id)
    }

    /// Another task has the key of this wish's: that may be only if it was certain that the first did nothing (INV-16, R4.6).
    pub(crate) fn given_free(&self, wish: &mut Wish) -> Result<(), String> {
        let entry = wish.id.as_ref().and_then(|id| self.entry(id));
        let is_free = wish.by == Told::Key && entry.as_ref().is_some_and(law::gives_key_free);
        if !is_free {
            return Err(format!("INV-16: one key or frame, two tasks: {}, {entry:#?}", wish.name()));
        }
        self.tally.count("a key given free and taken again");
        wish.begin_anew();
        Ok(())
    }

    /// By which name the server knows the call of this task.
    pub(crate) fn name_of(&self, id: &TaskId) -> Option<String> {
        let history = self.history.lock();
        let first = history.get(id.expose())?.first()?;
        Some(String::from_utf8_lossy(&first.call.params).into_owned())
    }
}

pub(crate) fn limits() -> Limits {
    Limits {
        running_max: 4,
        deadline: Millis::hours(30),
        linger: Millis::secs(10),
        cancel_grace: Millis::secs(2),
        ..Limits::default()
    }
}

pub(crate) struct Sim {
    pub(crate) random: Random,
    pub(crate) world: Arc<World>,
    /// What has passed so far, in milliseconds.
    pub(crate) passed: i64,
}

impl Sim {
    pub(crate) fn new(seed: u64, tally: &Arc<Tally>) -> Sim {
        let mut random = Random::new(seed);
        let survival = if random.one_in(3) { Survival::Survives } else { Survival::DiedWithUs };
        let favourite = Flow::ALL[random.below(Flow::ALL.len())];
        let wishes = (0..CLIENTS * CALLS)
            .map(|index| Wish::new(&mut random, index / CALLS, index % CALLS, favourite))
            .collect();
        let world = World {
            store: MemoryStore::new(),
            disk: Arc::new(Mutex::new(Random::new(random.any()))),
            history: Arc::new(History::doubtful()),
            server: Server::new(random.any(), survival, tally.clone()),
            post: Arc::new(Post::new(random.any(), tally.clone())),
            wishes: Mutex::new(wishes),
            answers: Answers::default(),
            jumped: Arc::default(),
            clock: Mutex::new(None),
            tally: tally.clone(),
        };
        Sim { random, world: Arc::new(world), passed: 0 }
    }

    pub(crate) fn play(&mut self) -> Result<(), String> {
        let lives = 1 + self.random.below(4);
        // One that was stopped, and may go on when another has taken over.
        let mut stopped: Option<(Life, i64)> = None;
        for life in 0..lives {
            let is_last = life + 1 == lives;
            loop {
                let purpose = if is_last { Purpose::ToTheEnd } else { Purpose::Clients };
                let mut life = Life::begin(self, purpose);
                if let Some((old, since)) = stopped.take() {
                    self.take_over(&mut life, old, since)?;
                }
                let millis = if is_last { 6 * HOUR as u64 } else { 1 + self.random.below(4_000) as u64 };
                let came_up = life.run(millis)?;
                self.passed = life.passed();
                if !is_last {
                    stopped = self.end(life);
                    break;
                }
                // A gateway that could not recover is started again.
                if came_up {
                    break;
                }
            }
        }
        self.world.server.pass(20_000);
        self.judge()?;
        self.later(51 * HOUR, Purpose::NextDays)?;
        self.later(401 * 24 * HOUR, Purpose::NextYear)
    }

    /// The end of a life: nothing of it goes on, or it is stopped in the middle of everything.
    fn end(&mut self, mut life: Life) -> Option<(Life, i64)> {
        let tally = &self.world.tally;
        let mut stopped = None;
        match self.random.below(6) {
            0 => {
                tally.count("a shutdown");
                life.shut_down(self.random.below(3_000) as u64);
                self.passed = life.passed();
            }
            1 => {
                tally.count("a process that was stopped");
                life.stop();
                stopped = Some((life, self.passed));
            }
            _ => tally.count("a crash"),
        }
        // Nobody is there for a while; what is under way arrives meanwhile, or later.
        let away = self.random.below(2_000) as u64;
        self.world.server.pass(away);
        self.passed += away as i64;
        if self.random.one_in(3) {
            self.world.jump(self.random.one_in(2));
        }
        stopped
    }

    /// The stopped one goes on while another has taken over (INV-15). It has less time than `TAKES_AT_MOST`: that what it
    /// still sends has had its time is what the lock on a file proves, whose owner is gone when another opens it.
    fn take_over(&mut self, life: &mut Life, mut old: Life, since: i64) -> Result<(), String> {
        life.run(1 + self.random.below(1_500) as u64)?;
        let until = life.passed();
        old.slept(until - since);
        let span = 1 + self.random.below(1_000) as u64;
        old.go_on(span);
        drop(old);
        self.world.tally.count("a stopped process that went on");
        life.slept(span as i64);
        Ok(())
    }

    /// A life that begins so much later.
    fn later(&mut self, millis: i64, purpose: Purpose) -> Result<(), String> {
        self.passed += millis;
        loop {
            let mut life = Life::begin(self, purpose);
            let came_up = life.run(HOUR as u64)?;
            self.passed = life.passed();
            if came_up {
                break;
            }
        }
        match purpose {
            Purpose::NextYear => self.judge_the_year(),
            Purpose::Clients | Purpose::ToTheEnd | Purpose::NextDays => self.judge_the_night(),
        }
    }

    /// Everything that became durable, for comparing two plays of one seed.
    pub(crate) fn told(&self) -> BTreeMap<String, Vec<String>> {
        let history = self.world.history.lock();
        history
            .iter()
            .map(|(id, records)| (id.clone(), records.iter().map(|record| format!("{record:?}")).collect()))
            .collect()
    }
}
