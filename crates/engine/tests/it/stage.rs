//! The stage on which the tests play: a back whose every answer the test gives, and time that the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::gate::{Asking, BackTasks};
use taskgate_core::id::{Principal, ServerName, TaskId};
use taskgate_core::operation::{Effect, Replay, Upstream};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{Ending, Question, QuestionKind};
use taskgate_core::time::UnixMillis;
use taskgate_engine::back::{
    Accepted, Answer, Back, BackEvent, BackKey, Backs, Ended, InFlight, Look, LookError, Outgoing, Reply,
    Stand, Unreachable,
};
use taskgate_engine::clock::Clock;
use taskgate_engine::engine::{NewCall, Parts, Submitted};
use taskgate_engine::ids::SystemRandom;
use taskgate_engine::limits::Limits;
use taskgate_engine::recover::Recovered;
use taskgate_engine::rules::{NoRules, Rules};
use taskgate_engine::web::{NoWeb, Web};
use taskgate_engine::{Engine, Handle};
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::{Call, Front, Record};
use taskgate_store::{Join, Store};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Wall-clock time that follows the runtime's, which a paused test moves, plus what the test adds.
pub(crate) struct StageClock {
    start: Instant,
    added: AtomicI64,
}

impl StageClock {
    pub(crate) fn skip_ms(&self, ms: i64) {
        self.added.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for StageClock {
    fn now(&self) -> UnixMillis {
        let passed = i64::try_from(self.start.elapsed().as_millis()).unwrap();
        UnixMillis(1_800_000_000_000 + passed + self.added.load(Ordering::SeqCst))
    }
}

/// A call that reached the back, in the test's hands.
pub(crate) struct Heard {
    pub(crate) outgoing: Outgoing,
    pub(crate) answer: oneshot::Sender<Answer>,
    pub(crate) events: mpsc::UnboundedSender<BackEvent>,
    pub(crate) stop: CancellationToken,
    /// Cancelled when the exchange is over: by the test on a pipe, else when nobody waits for its answer any more.
    pub(crate) closed: CancellationToken,
}

/// The back. Calls and attendances are handed to the test; looks answer with what the test set.
pub(crate) struct Puppet {
    pub(crate) survival: Survival,
    /// Whether it can be opened at all.
    pub(crate) known: AtomicBool,
    /// The sessions that were asked for.
    pub(crate) opened: Mutex<Vec<BackKey>>,
    calls: mpsc::UnboundedSender<Heard>,
    pub(crate) heard: tokio::sync::Mutex<mpsc::UnboundedReceiver<Heard>>,
    pub(crate) sent: AtomicUsize,
    pub(crate) look: Mutex<Result<Look, LookError>>,
    pub(crate) looks: AtomicUsize,
    pub(crate) result: Mutex<Result<Answer, LookError>>,
    pub(crate) cancels: AtomicUsize,
    pub(crate) answers: Mutex<Vec<(String, Reply)>>,
    pub(crate) attends: bool,
    /// Whether it is reached over a pipe, whose exchanges end only with the process.
    pub(crate) is_pipe: AtomicBool,
    /// Cancelled when its process is gone.
    pub(crate) gone: CancellationToken,
    attended: mpsc::UnboundedSender<Heard>,
    pub(crate) attending: tokio::sync::Mutex<mpsc::UnboundedReceiver<Heard>>,
}

pub(crate) fn look(stand: Stand) -> Look {
    Look { stand, message: None, last_updated_at: None, poll: None, questions: vec![] }
}

pub(crate) fn text(text: &'static str) -> Answer {
    Answer::Returned { result: Bytes::from_static(text.as_bytes()), is_error: false }
}

pub(crate) fn task() -> Answer {
    let upstream = Upstream { task_id: "up-1".to_owned(), session: Some("s-1".to_owned()) };
    Answer::Task(Accepted { upstream, look: look(Stand::Working) })
}

pub(crate) fn form(params: &'static str) -> Question {
    Question { kind: QuestionKind::Form, params: Bytes::from_static(params.as_bytes()), back_key: None }
}

impl Puppet {
    pub(crate) fn new(survival: Survival) -> Arc<Puppet> {
        Puppet::attending(survival, false)
    }

    pub(crate) fn attending(survival: Survival, attends: bool) -> Arc<Puppet> {
        let (calls, heard) = mpsc::unbounded_channel();
        let (attended, attending) = mpsc::unbounded_channel();
        Arc::new(Puppet {
            survival,
            known: AtomicBool::new(true),
            opened: Mutex::new(vec![]),
            calls,
            heard: tokio::sync::Mutex::new(heard),
            sent: AtomicUsize::new(0),
            look: Mutex::new(Ok(look(Stand::Working))),
            looks: AtomicUsize::new(0),
            result: Mutex::new(Ok(text("{\"r\":1}"))),
            cancels: AtomicUsize::new(0),
            answers: Mutex::new(vec![]),
            attends,
            is_pipe: AtomicBool::new(false),
            gone: CancellationToken::new(),
            attended,
            attending: tokio::sync::Mutex::new(attending),
        })
    }

    pub(crate) async fn hear(&self) -> Heard {
        self.heard.lock().await.recv().await.unwrap()
    }

    pub(crate) async fn attendance(&self) -> Heard {
        self.attending.lock().await.recv().await.unwrap()
    }

    pub(crate) fn stands(&self, stand: Stand) {
        *self.look.lock() = Ok(look(stand));
    }
}

fn exchange(gone: Option<CancellationToken>) -> (Heard, InFlight) {
    let (answer, answered) = oneshot::channel();
    let (events, received) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let outgoing = Outgoing {
        tool: String::new(),
        params: Bytes::new(),
        asking: Asking::Held,
        ttl: taskgate_core::time::Millis(0),
        key: None,
        offers: "{}".to_owned(),
        round: None,
    };
    let is_pipe = gone.is_some();
    let closed = gone.unwrap_or_default();
    let closes = (!is_pipe).then(|| closed.clone().drop_guard());
    let in_flight = InFlight {
        answer: Box::pin(async move {
            let answer = answered.await.unwrap_or_else(|_| Answer::Lost("connection closed".to_owned()));
            drop(closes);
            answer
        }),
        events: received,
        stop: stop.clone(),
        closed: Box::pin(closed.clone().cancelled_owned()),
    };
    (Heard { outgoing, answer, events, stop, closed }, in_flight)
}

#[async_trait]
impl Back for Puppet {
    fn tasks(&self) -> BackTasks {
        BackTasks::None
    }

    fn call(&self, call: Outgoing) -> InFlight {
        self.sent.fetch_add(1, Ordering::SeqCst);
        let gone = self.is_pipe.load(Ordering::SeqCst).then(|| self.gone.clone());
        let (mut heard, in_flight) = exchange(gone);
        heard.outgoing = call;
        let _ = self.calls.send(heard);
        in_flight
    }

    fn attend(&self, _: &Upstream) -> Option<InFlight> {
        if !self.attends {
            return None;
        }
        let (heard, in_flight) = exchange(None);
        let _ = self.attended.send(heard);
        Some(in_flight)
    }

    async fn look(&self, _: &Upstream) -> Result<Look, LookError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.look.lock().clone()
    }

    async fn result(&self, _: &Upstream) -> Result<Answer, LookError> {
        self.result.lock().clone()
    }

    async fn answer(&self, _: &Upstream, back_key: &str, reply: &Reply) -> Result<(), LookError> {
        self.answers.lock().push((back_key.to_owned(), reply.clone()));
        Ok(())
    }

    async fn cancel(&self, _: &Upstream) -> Result<(), LookError> {
        self.cancels.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn ended(&self) -> Option<Ended> {
        let ended = || -> Ended { Box::pin(self.gone.clone().cancelled_owned()) };
        self.is_pipe.load(Ordering::SeqCst).then(ended)
    }
}

/// The one server there is.
pub(crate) struct Ensemble(pub(crate) Arc<Puppet>);

#[async_trait]
impl Backs for Ensemble {
    async fn open(&self, key: &BackKey) -> Result<Arc<dyn Back>, Unreachable> {
        self.0.opened.lock().push(key.clone());
        Ok(self.0.clone())
    }

    fn survival(&self, _: &ServerName) -> Survival {
        self.0.survival
    }

    fn is_known(&self, _: &ServerName) -> bool {
        self.0.known.load(Ordering::SeqCst)
    }
}

/// An engine, its store and its back.
pub(crate) struct Stage {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: MemoryStore,
    pub(crate) back: Arc<Puppet>,
    pub(crate) clock: Arc<StageClock>,
    pub(crate) rules: Arc<dyn Rules>,
    pub(crate) web: Arc<dyn Web>,
}

impl Stage {
    pub(crate) fn new(back: Arc<Puppet>) -> Stage {
        Stage::with(back, Limits::default())
    }

    pub(crate) fn with(back: Arc<Puppet>, limits: Limits) -> Stage {
        let clock = Arc::new(StageClock { start: Instant::now(), added: AtomicI64::new(0) });
        Stage::over(MemoryStore::new(), None, back, clock, limits)
    }

    /// One whose operator declared workflows.
    pub(crate) fn ruled(back: Arc<Puppet>, rules: Arc<dyn Rules>, limits: Limits) -> Stage {
        let clock = Arc::new(StageClock { start: Instant::now(), added: AtomicI64::new(0) });
        Stage::built(MemoryStore::new(), None, back, clock, rules, Arc::new(NoWeb), limits)
    }

    /// One that also speaks to the web, and whose store may be wrapped.
    pub(crate) fn online(
        store: MemoryStore,
        wrapped: Option<Arc<dyn Store>>,
        back: Arc<Puppet>,
        rules: Arc<dyn Rules>,
        web: Arc<dyn Web>,
        limits: Limits,
    ) -> Stage {
        let clock = Arc::new(StageClock { start: Instant::now(), added: AtomicI64::new(0) });
        Stage::built(store, wrapped, back, clock, rules, web, limits)
    }

    pub(crate) fn over(
        store: MemoryStore,
        wrapped: Option<Arc<dyn Store>>,
        back: Arc<Puppet>,
        clock: Arc<StageClock>,
        limits: Limits,
    ) -> Stage {
        Stage::built(store, wrapped, back, clock, Arc::new(NoRules), Arc::new(NoWeb), limits)
    }

    fn built(
        store: MemoryStore,
        wrapped: Option<Arc<dyn Store>>,
        back: Arc<Puppet>,
        clock: Arc<StageClock>,
        rules: Arc<dyn Rules>,
        web: Arc<dyn Web>,
        limits: Limits,
    ) -> Stage {
        let engine = Engine::new(Parts {
            store: wrapped.unwrap_or_else(|| Arc::new(store.clone())),
            backs: Arc::new(Ensemble(back.clone())),
            clock: clock.clone(),
            random: Arc::new(SystemRandom),
            rules: rules.clone(),
            web: web.clone(),
            limits,
        });
        Stage { engine, store, back, clock, rules, web }
    }

    /// As [`Stage::restart_found`], with the same back and the same workflows.
    pub(crate) async fn restart_ruled(&self) -> (Stage, Recovered) {
        let (back, clock, rules) = (self.back.clone(), self.clock.clone(), self.rules.clone());
        let (store, web) = (self.store.reopen(), self.web.clone());
        let stage = Stage::built(store, None, back, clock, rules, web, Limits::default());
        let found = stage.engine.recover().await.unwrap();
        (stage, found)
    }

    /// What a new process finds: the store as it is, and nothing else. The old engine is left where it hangs.
    pub(crate) async fn restart(&self, back: Arc<Puppet>) -> Stage {
        self.restart_found(back).await.0
    }

    /// As [`Stage::restart`], with what recovery says.
    pub(crate) async fn restart_found(&self, back: Arc<Puppet>) -> (Stage, Recovered) {
        let stage = Stage::over(self.store.reopen(), None, back, self.clock.clone(), Limits::default());
        let found = stage.engine.recover().await.unwrap();
        (stage, found)
    }

    /// A restart before anybody brought the server.
    pub(crate) async fn restart_without_server(&self) -> (Stage, Recovered) {
        let back = Puppet::new(self.back.survival);
        back.known.store(false, Ordering::SeqCst);
        self.restart_found(back).await
    }

    /// Somebody brings the server.
    pub(crate) async fn bring_server(&self) -> Recovered {
        self.back.known.store(true, Ordering::SeqCst);
        self.engine.take_up(&server()).await.unwrap()
    }

    pub(crate) async fn submit(&self, new: NewCall) -> Handle {
        match self.engine.submit(new, self.back.clone()).await.unwrap() {
            Submitted::Started(handle) => handle,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn read(&self, id: &TaskId) -> Record {
        let handle = self.engine.find(&me(), id).await.unwrap().expect("the task is known");
        Record::clone(&handle.record())
    }

    pub(crate) async fn over_by(&self, id: &TaskId) -> Arc<Record> {
        self.engine.find(&me(), id).await.unwrap().expect("the task is known").over().await
    }
}

pub(crate) fn me() -> Principal {
    Principal::local()
}

pub(crate) fn server() -> ServerName {
    ServerName("s".to_owned())
}

pub(crate) fn call(effect: Effect) -> NewCall {
    NewCall {
        principal: me(),
        front: Front::A,
        call: Call {
            server: server(),
            tool: "t".to_owned(),
            params: Bytes::from_static(b"{\"name\":\"t\"}"),
            digest: [1; 32],
            key: None,
            intent: None,
            offers: String::new(),
            asking: Asking::Held,
            frame: None,
        },
        effect,
        replay: Replay::Never,
        ttl: None,
        join: Join::Never,
    }
}

pub(crate) fn returned(record: &Record) -> &[u8] {
    match record.task.ending() {
        Some(Ending::Returned { result, .. }) => result,
        other => panic!("{other:?}"),
    }
}

/// A store's "no", for tests that have it say so.
pub(crate) fn no() -> taskgate_store::memory::Fault {
    taskgate_store::memory::Fault::Fail(taskgate_store::Error::Full { place: "the test".to_owned() })
}
