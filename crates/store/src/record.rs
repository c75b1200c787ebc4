//! What is kept.

use bytes::Bytes;
use taskgate_core::gate::Asking;
use taskgate_core::id::{OperationId, Principal, ServerName, TaskId, WorkflowName};
use taskgate_core::operation::{self, Doubt, Effect, Operation, Outcome, Stage, Verdict};
use taskgate_core::task::{self, Ending, Task};
use taskgate_core::time::UnixMillis;

/// A task and its operation, as one command writes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The task's id, which clients see.
    pub id: TaskId,
    /// Whose it is.
    pub principal: Principal,
    /// 1 for a new record, one more for each append (INV-04).
    pub version: u64,
    /// The front by which it came.
    pub front: Front,
    /// What was called.
    pub call: Call,
    /// The protocol record.
    pub task: Task,
    /// The operation's id.
    pub operation_id: OperationId,
    /// The domain operation.
    pub operation: Operation,
    /// When the work must be over, whatever the handle's lifetime (R3.6).
    pub deadline: UnixMillis,
    /// When anything last changed.
    pub updated: UnixMillis,
    /// What was last seen upstream (R3.5).
    pub observed: Observed,
    /// When a client was first given the final result. Only [`Store::fetched`](crate::Store::fetched) sets it: a new
    /// record has none, whatever it says, and an append leaves it as it is.
    pub fetched: Option<UnixMillis>,
}

/// One message of a pipe: which attachment sent it, and the how-manieth it was. A pipe that lost its connection sends
/// under the same frame again what was not answered, so one frame is one call, however often it comes (R3.3, design 4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Frame {
    /// The attachment: 16 random bytes for one pipe's life, which survive reconnects.
    pub attachment: [u8; 16],
    /// The message's number within the attachment.
    pub sequence: u64,
}

/// How far a record is from being done with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// The task is not over, or its operation is prepared, dispatched, observed or being asked after. Recovery asks for
    /// these, and they are never purged (INV-30).
    Unfinished,
    /// The task is over and nobody knows whether the effect was made, or it is only assumed that it was not.
    Doubtful,
    /// Both are closed.
    Finished,
}

impl Record {
    /// How far it is from being done with.
    #[must_use]
    pub fn phase(&self) -> Phase {
        if self.task.ending().is_none() || self.operation.is_active() {
            return Phase::Unfinished;
        }
        match &self.operation.stage {
            Stage::Unknown(_) | Stage::Settled(Outcome::Assumed) => Phase::Doubtful,
            Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. }
            | Stage::Settled(
                Outcome::NoneExpected | Outcome::Reported(_) | Outcome::Confirmed(_) | Outcome::Attested(_),
            ) => Phase::Finished,
        }
    }

    /// Whether the same call made again joins this one instead of being carried out (design 3): nobody knows yet what
    /// came of it, or nobody was told. That the two are the same call, and that neither has a key, is for the store.
    ///
    /// - It is unfinished.
    /// - It is over and its effect unknown. A tool's own error is another matter: it leaves the effect unknown, but it
    ///   is an answer that the caller was given, and a call after it is a new one.
    /// - It is over without an answer, and its effect was found out to have been made: whoever calls again was never told.
    /// - It [`is_unfetched`](Record::is_unfetched).
    #[must_use]
    pub fn takes_same_call(&self) -> bool {
        self.is_unresolved() || self.is_unfetched()
    }

    /// The first three reasons of [`takes_same_call`](Record::takes_same_call): nobody knows yet, or was told, what came
    /// of it.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        self.is_untold()
            || match self.phase() {
                Phase::Unfinished => {
                    // What was answered and is only confirmed beside that is no reason not to call again.
                    let is_answered = match &self.operation.stage {
                        Stage::Settled(outcome) => *outcome != Outcome::Assumed,
                        Stage::Prepared
                        | Stage::Dispatched { .. }
                        | Stage::Observing { .. }
                        | Stage::Unknown(_) => false,
                    };
                    self.task.ending().is_none() || !is_answered
                }
                Phase::Doubtful => self.operation.stage != Stage::Unknown(Doubt::ToolError),
                Phase::Finished => false,
            }
    }

    /// Whether the effect was made and there is no answer that could have told its caller.
    fn is_untold(&self) -> bool {
        let is_unanswered = match self.task.ending() {
            Some(Ending::Faulted(_)) => true,
            Some(Ending::Returned { .. } | Ending::Raised { .. } | Ending::Cancelled) | None => false,
        };
        is_unanswered
            && match &self.operation.stage {
                Stage::Settled(outcome) => outcome.verdict() == Some(Verdict::Applied),
                Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Unknown(_) => {
                    false
                }
            }
    }

    /// Whether the server returned a result, `isError` or not, and no client was given that yet, as far as that is
    /// [noted](Record::notes_fetch).
    #[must_use]
    pub fn is_unfetched(&self) -> bool {
        self.is_returned() && self.notes_fetch() && self.fetched.is_none()
    }

    /// Whether it is noted when a client was given its result: it came by a frame, or whoever made it may make it again
    /// without a word that it is the same, as clients do that hold neither a task nor a key.
    #[must_use]
    pub fn notes_fetch(&self) -> bool {
        let has_effect = match self.operation.effect {
            Effect::ReadOnly => false,
            Effect::Reversible | Effect::Consequential => true,
        };
        self.call.frame.is_some() || (self.front == Front::Plain && self.call.key.is_none() && has_effect)
    }

    /// Whether the server returned a result, `isError` or not.
    #[must_use]
    pub fn is_returned(&self) -> bool {
        match self.task.ending() {
            Some(Ending::Returned { .. }) => true,
            Some(Ending::Cancelled | Ending::Raised { .. } | Ending::Faulted(_)) | None => false,
        }
    }
}

/// The kind of call that a record was made for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Front {
    /// A legacy call with `params.task`.
    A,
    /// A modern call that declares the extension.
    B,
    /// Any other.
    Plain,
}

/// What was called, and how it goes to the back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The configured server.
    pub server: ServerName,
    /// The tool.
    pub tool: String,
    /// The `params` object of `tools/call` as it goes to the back: without `task`, the progress token and the
    /// members of `_meta` that speak to us. A payload: it lives apart from the row and goes with the task (R5.5).
    pub params: Bytes,
    /// SHA-256 of the tool and its canonical arguments.
    pub digest: [u8; 32],
    /// The idempotency key, if the client gave one or the workflow derived one.
    pub key: Option<Key>,
    /// What the workflow makes of it; `None` for a tool without one.
    pub intent: Option<Intent>,
    /// What the client can be asked: `wire::Offers` as stored text.
    pub offers: String,
    /// How the back is asked.
    pub asking: Asking,
    /// The frame by which it came, if it came by a pipe. Two records of a principal never have the same.
    pub frame: Option<Frame>,
}

/// An idempotency key, and where it counts (R4.6).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// The key.
    pub text: String,
    /// Where it counts.
    pub scope: KeyScope,
}

impl Key {
    /// A key that a caller gave.
    #[must_use]
    pub fn of_caller(text: impl Into<String>) -> Key {
        Key { text: text.into(), scope: KeyScope::Caller }
    }
}

/// Where a key counts, within the workflow, or within server and tool where there is none (design 7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeyScope {
    /// For the principal that gave it.
    Caller,
    /// For everybody: a business key that was derived from the arguments. Another principal's duplicate is refused.
    Tenant,
}

/// What an operator's workflow makes of a call (R4.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intent {
    /// The workflow.
    pub workflow: WorkflowName,
    /// What the call acts on.
    pub object: Option<Object>,
    /// The intended effect, for people.
    pub effect: Option<String>,
}

/// What a call acts on: an invoice, a service in an environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Its name within the workflow.
    pub name: String,
    /// Its version, if the call names one.
    pub version: Option<String>,
    /// What becomes of a second operation on it.
    pub conflict: Conflict,
}

/// What becomes of an operation while another one on the same object is open (design 7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Conflict {
    /// It is carried out all the same.
    Allow,
    /// It is refused.
    Refuse,
    /// It waits, prepared, until the other is settled.
    Queue,
}

/// What was last seen of the back's task (R3.5).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// Its status, in its own word.
    pub status: Option<String>,
    /// Its `lastUpdatedAt`, as it came.
    pub last_updated_at: Option<String>,
    /// When it may be read next.
    pub next_look: Option<UnixMillis>,
}

/// One thing that happened, for the log of evidence. Payloads and people's answers are not part of it (R5.5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The record was made.
    Created,
    /// To the task.
    Task(task::Event),
    /// To the operation.
    Operation(operation::Event),
    /// The back's task was read.
    Observed(Observed),
}

/// A legacy MCP session, or what is left of one after a restart. It holds negotiated state and nothing else: tasks
/// outlive it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// SHA-256 of the session id in hexadecimal. The id itself is not kept (R6.3).
    pub key: String,
    /// Whose it is.
    pub principal: Principal,
    /// The server whose path it was opened at.
    pub server: ServerName,
    /// The negotiated protocol version.
    pub version: String,
    /// What the client can be asked: `wire::Offers` as stored text.
    pub offers: String,
    /// The client's `clientInfo` object, as it came.
    pub client_info: String,
    /// The level of `logging/setLevel`, once set.
    pub log_level: Option<String>,
    /// When it was opened.
    pub created: UnixMillis,
    /// When it was last used, to the minute.
    pub seen: UnixMillis,
}
