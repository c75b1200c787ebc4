//! The line and the server behind it, which keeps its own books.
//!
//! Both outlive every life of the gateway. A request that is under way when the gateway dies still arrives; one whose
//! answer was given up arrives late; some never do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::gate::BackTasks;
use taskgate_core::id::ServerName;
use taskgate_core::operation::Upstream;
use taskgate_core::recovery::Survival;
use taskgate_core::time::Millis;
use taskgate_engine::back::{
    Accepted, Answer, Back, BackKey, Backs, InFlight, Look, LookError, Outgoing, Reply, Stand, Unreachable,
};
use taskgate_power::Random;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::tally::Tally;

/// What the server's own books say of one call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Requests that came.
    pub requests: u32,
    /// Effects that were made.
    pub effects: u32,
}

struct Request {
    call: String,
    key: Option<String>,
    /// Dropped if nobody waits for it any more.
    answer: oneshot::Sender<Answer>,
}

struct State {
    random: Random,
    books: BTreeMap<String, Entry>,
    /// What was done under a key: by which of its own tasks, or at once.
    keys: BTreeMap<String, Option<String>>,
    /// Requests under way, by how many milliseconds of server time are left.
    air: Vec<(u64, Request)>,
    /// The server's own tasks: how long they have to go, and whose they are.
    tasks: BTreeMap<String, (u64, String)>,
}

/// The server, with what is under way to it, and its own books: what came, and what was done. It knows nothing of our ledger,
/// so that the two can be held against each other. It outlives every life of the gateway.
pub struct Server {
    state: Mutex<State>,
    survival: Survival,
    tally: Arc<Tally>,
}

const STEP: u64 = 10;

fn done() -> Answer {
    Answer::Returned { result: Bytes::from_static(b"{\"content\":[]}"), is_error: false }
}

fn accepted(task_id: String) -> Answer {
    let upstream = Upstream { task_id, session: None };
    let look =
        Look { stand: Stand::Working, message: None, last_updated_at: None, poll: None, questions: vec![] };
    Answer::Task(Accepted { upstream, look })
}

impl Server {
    /// One whose tasks survive the gateway or die with it, and which answers as `seed` has it.
    #[must_use]
    pub fn new(seed: u64, survival: Survival, tally: Arc<Tally>) -> Arc<Server> {
        let state = State {
            random: Random::new(seed),
            books: BTreeMap::new(),
            keys: BTreeMap::new(),
            air: vec![],
            tasks: BTreeMap::new(),
        };
        Arc::new(Server { state: Mutex::new(state), survival, tally })
    }

    /// What its books say of a call: nothing came, if they do not know it. The name of a call is the text of its `params`.
    #[must_use]
    pub fn entry(&self, call: &str) -> Entry {
        self.state.lock().books.get(call).copied().unwrap_or_default()
    }

    /// Whether nothing is under way any more, on the line or at the server.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let state = self.state.lock();
        state.air.is_empty() && state.tasks.values().all(|(left, _)| *left == 0)
    }

    /// The time of the line and the server, in steps of 10 ms. It never ends; it goes with its runtime.
    pub async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(Duration::from_millis(STEP)).await;
            self.step();
        }
    }

    /// So many steps of 10 ms, while no gateway lives.
    pub fn pass(&self, steps: u64) {
        for _ in 0..steps {
            self.step();
        }
    }

    fn step(&self) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        for (left, _) in &mut state.air {
            *left = left.saturating_sub(STEP);
        }
        let (now, later): (Vec<_>, Vec<_>) = state.air.drain(..).partition(|(left, _)| *left == 0);
        state.air = later;
        for (_, request) in now {
            self.arrive(state, request);
        }
        let mut finished = vec![];
        for (left, call) in state.tasks.values_mut() {
            if *left > 0 {
                *left = left.saturating_sub(STEP);
                if *left == 0 {
                    finished.push(call.clone());
                }
            }
        }
        for call in finished {
            state.books.entry(call).or_default().effects += 1;
        }
    }

    fn arrive(&self, state: &mut State, request: Request) {
        let Request { call, key, answer } = request;
        if answer.is_closed() {
            self.tally.count("a late request");
        }
        let entry = state.books.entry(call.clone()).or_default();
        entry.requests += 1;
        if let Some(known) = key.as_ref().and_then(|key| state.keys.get(key)) {
            self.tally.count("a key that the server knew");
            let _ = answer.send(known.clone().map_or_else(done, accepted));
            return;
        }
        let said = match state.random.below(20) {
            0 => {
                self.tally.count("refused by the server");
                Answer::Raised {
                    code: -32_602,
                    error: Bytes::from_static(b"{\"code\":-32602,\"message\":\"no\"}"),
                }
            }
            1 => {
                entry.effects += 1;
                Answer::Returned { result: Bytes::from_static(b"{\"isError\":true}"), is_error: true }
            }
            2 | 3 => {
                entry.effects += 1;
                self.tally.count("an answer lost");
                Answer::Lost("the line broke".to_owned())
            }
            _ if self.survival == Survival::Survives => {
                let task_id = format!("up-{call}-{}", entry.requests);
                let left = STEP + STEP * state.random.below(300) as u64;
                state.tasks.insert(task_id.clone(), (left, call));
                accepted(task_id)
            }
            _ => {
                entry.effects += 1;
                done()
            }
        };
        if let Some(key) = key {
            match &said {
                Answer::Task(task) => state.keys.insert(key, Some(task.upstream.task_id.clone())),
                Answer::Returned { .. } | Answer::Lost(_) => state.keys.insert(key, None),
                Answer::Raised { .. }
                | Answer::InputRequired { .. }
                | Answer::NeverSent(_)
                | Answer::Nonsense(_) => None,
            };
        }
        let _ = answer.send(said);
    }
}

/// One session with the server, as the engine sees it.
pub struct Line(pub Arc<Server>);

#[async_trait]
impl Back for Line {
    fn tasks(&self) -> BackTasks {
        BackTasks::None
    }

    fn call(&self, call: Outgoing) -> InFlight {
        let name = String::from_utf8_lossy(&call.params).into_owned();
        let (answer, answered) = oneshot::channel();
        let mut guard = self.0.state.lock();
        let state = &mut *guard;
        if state.random.one_in(25) {
            self.0.tally.count("a connection refused");
            return InFlight::ready(Answer::NeverSent("refused".to_owned()));
        }
        let (_, events) = mpsc::unbounded_channel();
        if state.random.one_in(25) {
            self.0.tally.count("a request lost");
            drop(answer);
        } else {
            let left = STEP + STEP * state.random.below(250) as u64;
            state.air.push((left, Request { call: name, key: call.key, answer }));
        }
        // The connection may break before anything comes, with the request still on its way.
        let breaks = state.random.one_in(10).then(|| 20 + state.random.below(1_000) as u64);
        let answer = async move {
            let answered =
                async { answered.await.unwrap_or_else(|_| Answer::Lost("the line broke".to_owned())) };
            match breaks {
                None => answered.await,
                Some(after) => tokio::select! {
                    biased;
                    answer = answered => answer,
                    () = tokio::time::sleep(Duration::from_millis(after)) => Answer::Lost("the line broke".to_owned()),
                },
            }
        };
        InFlight { answer: Box::pin(answer), events, stop: CancellationToken::new() }
    }

    fn attend(&self, _: &Upstream) -> Option<InFlight> {
        None
    }

    async fn look(&self, upstream: &Upstream) -> Result<Look, LookError> {
        let mut state = self.0.state.lock();
        if state.random.one_in(20) {
            self.0.tally.count("a failed status read");
            return Err(LookError::Transient("no answer".to_owned()));
        }
        let left = state.tasks.get(&upstream.task_id).map_or(0, |(left, _)| *left);
        let stand = if left > 0 { Stand::Working } else { Stand::Ended(Box::new(done())) };
        let poll = Some(Millis(500));
        Ok(Look { stand, message: None, last_updated_at: None, poll, questions: vec![] })
    }

    async fn result(&self, _: &Upstream) -> Result<Answer, LookError> {
        Ok(done())
    }

    async fn answer(&self, _: &Upstream, _: &str, _: &Reply) -> Result<(), LookError> {
        Ok(())
    }

    async fn cancel(&self, _: &Upstream) -> Result<(), LookError> {
        Ok(())
    }
}

/// All servers, as the engine sees them: whatever the name, it is this one.
pub struct Servers(pub Arc<Server>);

#[async_trait]
impl Backs for Servers {
    async fn open(&self, _: &BackKey) -> Result<Arc<dyn Back>, Unreachable> {
        Ok(Arc::new(Line(self.0.clone())))
    }

    fn survival(&self, _: &ServerName) -> Survival {
        self.0.survival
    }

    fn is_known(&self, _: &ServerName) -> bool {
        true
    }
}
