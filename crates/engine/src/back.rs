//! The side towards servers, as the engine sees it. The `client` crate implements it.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use taskgate_core::gate::{Asking, BackTasks};
use taskgate_core::id::{Principal, ServerName};
use taskgate_core::operation::Upstream;
use taskgate_core::recovery::Survival;
use taskgate_core::task::Question;
use taskgate_core::time::Millis;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Finds the session with a server, or opens one.
#[async_trait]
pub trait Backs: Send + Sync + 'static {
    /// The session for `key`, opened if there is none.
    ///
    /// # Errors
    /// [`Unreachable`]: it names the server and says what is wrong with it. Nothing was sent but the opening.
    async fn open(&self, key: &BackKey) -> Result<Arc<dyn Back>, Unreachable>;

    /// Whether a task of this server can outlive our process. `DiedWithUs` for a server that is not configured.
    fn survival(&self, server: &ServerName) -> Survival;

    /// What a server is told at once that asks something which the caller of this very call cannot be asked, though
    /// others can who share the session. `None` if it can be asked (X-030, B-099, Q-021).
    fn refuses(&self, _offers: &str, _question: &Question) -> Option<Reply> {
        None
    }

    /// Whether this server can be opened at all: work for one that is not known yet waits for it after a restart.
    fn is_known(&self, _server: &ServerName) -> bool {
        true
    }
}

/// Which session with a server a call goes over: one per principal and set of capabilities.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BackKey {
    /// The server.
    pub server: ServerName,
    /// For whom.
    pub principal: Principal,
    /// What the client can be asked: `wire::Offers` as stored text.
    pub offers: String,
}

/// A server that cannot be reached now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("server {server:?}: {reason}")]
pub struct Unreachable {
    /// Its name.
    pub server: String,
    /// What is wrong, in words for a person; no secrets.
    pub reason: String,
}

/// A session with a server.
#[async_trait]
pub trait Back: Send + Sync + 'static {
    /// What it said about tasks in this session (R2.1).
    fn tasks(&self) -> BackTasks;

    /// Sends a `tools/call`. Dropping the answer abandons the call without a word to the server.
    ///
    /// A refusal of the form in which it was asked (E-004, X-004) is repeated in the other form once, inside.
    fn call(&self, call: Outgoing) -> InFlight;

    /// Attends to a task of the server: in dialect A holds `tasks/result` open, where questions come and at last the
    /// result; in B listens for pushes where they are offered. `None` if there is nothing to hold open.
    fn attend(&self, upstream: &Upstream) -> Option<InFlight>;

    /// Reads the status of a task of the server, once.
    async fn look(&self, upstream: &Upstream) -> Result<Look, LookError>;

    /// Fetches the result of a task whose status is final (dialect A).
    async fn result(&self, upstream: &Upstream) -> Result<Answer, LookError>;

    /// Answers a question that [`Look::questions`] listed (dialect B).
    async fn answer(&self, upstream: &Upstream, back_key: &str, reply: &Reply) -> Result<(), LookError>;

    /// The URLs that a call's error says must be visited before the call can run, if it says nothing else and each can
    /// be heard of (G-022). From now on they are listened for.
    fn visits(&self, _error: &Bytes) -> Vec<Visit> {
        Vec::new()
    }

    /// Whether a reply to a URL is consent to go there.
    fn agrees(&self, _reply: &Reply) -> bool {
        false
    }

    /// Asks the server to cancel its task. That the server has no such method, or that the task is final, is no
    /// error.
    async fn cancel(&self, upstream: &Upstream) -> Result<(), LookError>;

    /// Resolves when the server's process is gone, and with it all work that it had under way. `None` for a server whose
    /// end nobody here can see.
    fn ended(&self) -> Option<Ended> {
        None
    }
}

/// A `tools/call` on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The tool.
    pub tool: String,
    /// The `params` object, in no dialect: `name`, `arguments` and what else the client sent, without `task`, the
    /// progress token and the per-request members of a modern `_meta`.
    pub params: Bytes,
    /// In which form to ask.
    pub asking: Asking,
    /// How long the server's own task should live, in dialect A: the remaining deadline and an hour (design 5).
    pub ttl: Millis,
    /// What stands in `_meta["taskgate/idempotency-key"]`, for a server declared to honour it.
    pub key: Option<String>,
    /// What the caller can be asked, as [`BackKey::offers`]; a server that hears of it with each call hears this.
    pub offers: String,
    /// The answers to the questions of an earlier round, and its state (B-128).
    pub round: Option<Round>,
}

/// A further round of a call that the server answered by `input_required` (B-128, G-014).
#[derive(Clone, Debug)]
pub struct Round {
    /// The server's key and the answer's bytes.
    pub responses: Vec<(String, Bytes)>,
    /// The server's `requestState` as it came: a JSON string's bytes, quotes included.
    pub state: Option<Bytes>,
}

/// Resolves at the end of something, and keeps it in no way from ending.
pub type Ended = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// An exchange that is under way.
pub struct InFlight {
    /// Resolves once, with the end of the exchange.
    pub answer: BoxFuture<'static, Answer>,
    /// What comes before the end. It may close before the answer resolves.
    pub events: mpsc::UnboundedReceiver<BackEvent>,
    /// Cancel it to have the server told, by its transport's means, that nobody waits any more. The answer may
    /// still come.
    pub stop: CancellationToken,
    /// Resolves once it is proved that nothing of it can still be sent or begun, where there is no answer that says so:
    /// over HTTP when `answer` is resolved or dropped and its connection is closed, on a pipe when the server's process is
    /// gone. Pends for ever where nobody can tell. It keeps nothing open by itself.
    ///
    /// # Source
    /// notes 2.3, 3.4
    pub closed: Ended,
}

impl InFlight {
    /// An exchange that is over already.
    #[must_use]
    pub fn ready(answer: Answer) -> InFlight {
        let (_, events) = mpsc::unbounded_channel();
        InFlight {
            answer: Box::pin(std::future::ready(answer)),
            events,
            stop: CancellationToken::new(),
            closed: Box::pin(std::future::ready(())),
        }
    }
}

/// What a server says before the end.
#[derive(Debug)]
pub enum BackEvent {
    /// The `params` object of `notifications/progress`, without its token.
    Progress(Bytes),
    /// The `params` object of a `notifications/message` that belongs to this call.
    Log(Bytes),
    /// It asks something that only the caller has; it waits for the reply on this connection.
    Asked {
        /// Names the request in this exchange.
        ask: u64,
        /// What it asks. Its kind is one that the session offers.
        question: Question,
        /// Where the reply goes.
        reply: oneshot::Sender<Reply>,
    },
    /// It no longer asks.
    Unasked {
        /// Which request.
        ask: u64,
    },
    /// Its task changed: look now.
    Nudge,
    /// What was to be done at the URL that this request asked to visit is done.
    Visited {
        /// Which request.
        ask: u64,
    },
}

/// A URL that must be visited before a call can run (G-022).
pub struct Visit {
    /// What its client is asked.
    pub question: Question,
    /// Resolves when the server says that what was to be done there is done; never, if it does not say so.
    pub over: BoxFuture<'static, ()>,
}

/// What a person or client replies to a question. It passes through memory only (R6.5), so `Debug` hides it.
#[derive(Clone)]
pub enum Reply {
    /// The result object's bytes, without related-task metadata.
    Result(Bytes),
    /// Refused: code and words.
    Error {
        /// The JSON-RPC code.
        code: i64,
        /// The message.
        message: String,
    },
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reply::Result(_) => f.write_str("Result(…)"),
            Reply::Error { code, .. } => write!(f, "Error({code}, …)"),
        }
    }
}

/// How an exchange ended.
#[derive(Clone, Debug)]
pub enum Answer {
    /// With a result.
    Returned {
        /// The object's bytes, without `resultType` and related-task metadata.
        result: Bytes,
        /// Whether it says `isError: true`.
        is_error: bool,
    },
    /// With a JSON-RPC error.
    Raised {
        /// Its code.
        code: i64,
        /// The error object's bytes, as they came.
        error: Bytes,
    },
    /// The server made a task.
    Task(Accepted),
    /// The server needs answers before it goes on, and has forgotten the call meanwhile (B-124).
    InputRequired {
        /// Its keys and what it asks.
        questions: Vec<(String, Question)>,
        /// Its `requestState`: a JSON string's bytes, quotes included.
        state: Option<Bytes>,
    },
    /// Proof that no byte of the request left us: connection refused, process gone, write failed at the first byte.
    NeverSent(String),
    /// It may have arrived; no answer can come.
    Lost(String),
    /// The server answered what no version of the protocol allows (G-025).
    Nonsense(String),
}

/// A task that the server made.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Its name there.
    pub upstream: Upstream,
    /// What was said of it.
    pub look: Look,
}

/// What a status read showed.
#[derive(Clone, Debug)]
pub struct Look {
    /// Where it stands.
    pub stand: Stand,
    /// The server's message, cleaned (R6.3).
    pub message: Option<String>,
    /// `lastUpdatedAt`, as it came.
    pub last_updated_at: Option<String>,
    /// Look again no sooner than this.
    pub poll: Option<Millis>,
    /// All questions that are open now, by the server's key (dialect B; empty in A, where they come as requests).
    pub questions: Vec<(String, Question)>,
}

/// Where a server's task stands.
#[derive(Clone, Debug)]
pub enum Stand {
    /// It works.
    Working,
    /// It waits for input.
    InputRequired,
    /// It is final; the result must be fetched with [`Back::result`] (dialect A).
    Over,
    /// It is final, and here is the result (dialect B).
    Ended(Box<Answer>),
    /// It was cancelled.
    Cancelled,
}

impl Stand {
    /// The specification's word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Stand::Working => "working",
            Stand::InputRequired => "input_required",
            Stand::Over | Stand::Ended(_) => "over",
            Stand::Cancelled => "cancelled",
        }
    }
}

/// Why a known task could not be read, answered or cancelled. None of it says anything about the effect (R5.6).
#[derive(Clone, Debug, thiserror::Error)]
pub enum LookError {
    /// The server says that it has no such task.
    #[error("the server does not know its task any more")]
    UnknownTask,
    /// It could not be reached, or not in time; try again.
    #[error("{0}")]
    Transient(String),
    /// It answered what makes no sense (G-025).
    #[error("{0}")]
    Nonsense(String),
}
