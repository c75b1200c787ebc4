//! The line and the server behind it, which keeps its own books.
//!
//! Both outlive every life of the gateway. A request that is under way when the gateway dies still arrives; one whose
//! answer was given up arrives late; some never do. The server is its own system of record: it has the tools [`LOOK`] and
//! [`FENCE`] beside those that do something.
//!
//! - `books`: what it knows of each call
//! - `work`: what it does with a request
//! - `line`: how the engine reaches it

mod books;
mod line;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::recovery::Survival;
use taskgate_core::task::{Question, QuestionKind};
use taskgate_engine::back::{Answer, BackEvent};
use taskgate_power::Random;
use tokio::sync::{Notify, mpsc, oneshot};

use self::books::Books;
pub use self::books::Entry;
pub(crate) use self::line::about;
pub use self::line::{Line, Servers};
use self::work::{Asking, Work};
use crate::tally::Tally;

/// The tool that tells whether the effect of a call was made: `yes`, `no`, or something that says neither.
pub const LOOK: &str = "look";

/// The tool after which a call is not carried out any more: `fenced` if it agrees.
pub const FENCE: &str = "fence";

/// A tool whose results hold a receipt, and whose server does not always tell the truth of what it did.
pub const PAY: &str = "pay";

/// The longest that a request and its work may take from its sending to its effect, in milliseconds, unless the server
/// waits for an answer meanwhile.
pub const TAKES_AT_MOST: u64 = 6_000;

/// How finely its time is cut, in milliseconds.
const STEP: u64 = 50;

/// The longest that a request is under way, and that a task of the server's own takes, in steps.
const WAY_MAX: usize = 50;
const WORK_MAX: usize = 60;

struct Request {
    tool: String,
    call: String,
    key: Option<String>,
    /// Dropped if nobody waits for it any more.
    answer: oneshot::Sender<Answer>,
    says: mpsc::UnboundedSender<BackEvent>,
}

struct State {
    random: Random,
    books: Books,
    /// What was done under a key: by which of its own tasks, or at once.
    keys: BTreeMap<String, Option<String>>,
    /// Requests under way, by how many milliseconds of server time are left.
    air: Vec<(u64, Request)>,
    asking: Vec<Asking>,
    tasks: BTreeMap<String, Work>,
    fenced: BTreeSet<String>,
}

/// The server, with what is under way to it, and its own books: what came, and what was done. It knows nothing of our ledger,
/// so that the two can be held against each other. It outlives every life of the gateway.
pub struct Server {
    state: Mutex<State>,
    /// Something is under way again.
    stirred: Notify,
    survival: Survival,
    tally: Arc<Tally>,
}

fn done(receipt: Option<&str>) -> Answer {
    let result = match receipt {
        Some(receipt) => Bytes::from(format!("{{\"receipt\":\"{receipt}\"}}").into_bytes()),
        None => Bytes::from_static(b"{\"content\":[]}"),
    };
    Answer::Returned { result, is_error: false }
}

fn form() -> Question {
    Question {
        kind: QuestionKind::Form,
        params: Bytes::from_static(b"{\"message\":\"which\"}"),
        back_key: None,
    }
}

impl Server {
    /// One whose tasks survive the gateway or die with it, and which answers as `seed` has it.
    #[must_use]
    pub fn new(seed: u64, survival: Survival, tally: Arc<Tally>) -> Arc<Server> {
        let state = State {
            random: Random::new(seed),
            books: Books::default(),
            keys: BTreeMap::new(),
            air: vec![],
            asking: vec![],
            tasks: BTreeMap::new(),
            fenced: BTreeSet::new(),
        };
        Arc::new(Server { state: Mutex::new(state), stirred: Notify::new(), survival, tally })
    }

    /// What its books say of a call: nothing came, if they do not know it. The name of a call is the text of its `params`.
    #[must_use]
    pub fn entry(&self, call: &str) -> Entry {
        self.state.lock().books.of(call)
    }

    /// All of its books, by the names of calls.
    #[must_use]
    pub fn books(&self) -> BTreeMap<String, Entry> {
        self.state.lock().books.all()
    }

    /// Whether nothing is under way any more, on the line or at the server. What waits for an answer is not.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let state = self.state.lock();
        let works = |work: &Work| work.left > 0 && work.asks.is_none() && !work.is_cancelled;
        state.air.is_empty() && !state.tasks.values().any(works)
    }

    /// Whether nothing that is under way can still do something for this call, unless somebody answers what it asks.
    #[must_use]
    pub fn is_done_with(&self, call: &str) -> bool {
        let state = self.state.lock();
        let is_in_the_air = state.air.iter().any(|(_, request)| request.call == call);
        let is_asking = state.asking.iter().any(|asking| asking.is_about(call));
        let works =
            |work: &Work| work.call == call && work.left > 0 && work.asks.is_none() && !work.is_cancelled;
        !is_in_the_air && !is_asking && !state.tasks.values().any(works)
    }

    fn is_idle(&self) -> bool {
        self.is_quiet() && self.state.lock().asking.is_empty()
    }

    /// The time of the line and the server. It never ends; it goes with its runtime.
    pub async fn run(self: Arc<Self>) {
        loop {
            let stirred = self.stirred.notified();
            tokio::pin!(stirred);
            stirred.as_mut().enable();
            // A process that was stopped has its own of these, so all of them are woken.
            if self.is_idle() {
                stirred.await;
            }
            tokio::time::sleep(Duration::from_millis(STEP)).await;
            self.step();
        }
    }

    /// So many milliseconds pass while no gateway lives.
    pub fn pass(&self, millis: u64) {
        for _ in 0..millis / STEP {
            self.step();
        }
    }

    fn step(&self) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        for (left, _) in &mut state.air {
            *left = left.saturating_sub(STEP);
        }
        let arrived: Vec<_> = state.air.extract_if(.., |(left, _)| *left == 0).collect();
        for (_, request) in arrived {
            self.arrive(state, request);
        }
        self.heed_replies(state);
        self.work_on(state);
    }
}
