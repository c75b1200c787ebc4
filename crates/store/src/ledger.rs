//! The ledger as it is read: operations with all that is known of them, whether their task is kept or not (R4.1, R4.8).

use std::collections::BTreeSet;

use taskgate_core::id::{OperationId, Principal, ServerName, TaskId, WorkflowName};
use taskgate_core::operation::{Doubt, Inquiry, Operation, Stage};
use taskgate_core::task::State;
use taskgate_core::time::UnixMillis;

use crate::codec::columns::{EndingColumns, EndingKind, StateKind};
use crate::codec::event::EventKind;
use crate::record::{Intent, Key, Record};

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LedgerEntry {
    /// Its id, which may be shown and logged.
    pub id: OperationId,
    /// The task by which it was asked for. It may be gone.
    pub task: TaskId,
    /// Who asked for it.
    pub principal: Principal,
    /// The version of the last event.
    pub version: u64,
    /// The server.
    pub server: ServerName,
    /// The tool.
    pub tool: String,
    /// SHA-256 of the tool and its canonical arguments.
    pub digest: [u8; 32],
    /// The idempotency key.
    pub key: Option<Key>,
    /// What the workflow made of the call.
    pub intent: Option<Intent>,
    /// What is known of it.
    pub operation: Operation,
    /// When it was recorded.
    pub created: UnixMillis,
    /// When anything last changed.
    pub updated: UnixMillis,
    /// What the receiver reports of executing the request, as long as that is kept (R4.7).
    pub kept: Option<KeptTask>,
}

/// Where a task stands that is kept. That is one fact, and what is known of the effect another (R4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptTask {
    /// Where it stands.
    pub state: StateKind,
    /// How it ended.
    pub ending: Option<EndingKind>,
    /// When.
    pub ended: Option<UnixMillis>,
    /// When a cancellation that promises nothing was asked for.
    pub cancel_wished: Option<UnixMillis>,
}

impl LedgerEntry {
    /// The entry of a record that is kept.
    #[must_use]
    pub fn of(record: &Record) -> LedgerEntry {
        let (ending, ended) = match &record.task.state {
            State::Working | State::InputRequired(_) => (None, None),
            State::Over { ending, at } => (Some(EndingColumns::of(ending).kind), Some(*at)),
        };
        LedgerEntry {
            id: record.operation_id.clone(),
            task: record.id.clone(),
            principal: record.principal.clone(),
            version: record.version,
            server: record.call.server.clone(),
            tool: record.call.tool.clone(),
            digest: record.call.digest,
            key: record.call.key.clone(),
            intent: record.call.intent.clone(),
            operation: record.operation.clone(),
            created: record.task.lifetime.created,
            updated: record.updated,
            kept: Some(KeptTask {
                state: StateKind::of(&record.task.state),
                ending,
                ended,
                cancel_wished: record.task.cancel_wished_at,
            }),
        }
    }

    /// The place behind which the next page begins, whatever is listed.
    #[must_use]
    pub fn after(&self) -> After {
        let at = match self.operation.inquiry {
            Inquiry::Idle => self.created,
            Inquiry::Reconciling { next, .. } => next,
            Inquiry::Person { since, .. } => since,
        };
        After { at, id: self.id.clone(), principal: self.principal.clone() }
    }

    /// Whether its evidence may go once it is old enough: it is settled, and nobody is to decide anything of it. So may
    /// that of a call which its caller was told an error of, and of which nobody asked more.
    #[must_use]
    pub fn may_retire(&self) -> bool {
        let is_done = match &self.operation.stage {
            Stage::Settled(_) | Stage::Unknown(Doubt::ToolError | Doubt::PeerError) => true,
            Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. }
            | Stage::Unknown(
                Doubt::AnswerLost | Doubt::DeadlinePassed | Doubt::UpstreamLost | Doubt::Cancelled,
            ) => false,
        };
        is_done && self.operation.inquiry == Inquiry::Idle && self.kept.is_none()
    }
}

/// Which operations are listed, and in which order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Which {
    /// All there are, newest first.
    All,
    /// Those whose effect may still come about, or may have come about unknown to us: not settled, or only assumed not to have
    /// been done. Newest first.
    Open,
    /// Those of which nothing certain is known, newest first.
    Unknown,
    /// Those whose system of record is being asked, by when it is asked next.
    Reconciling,
    /// Those that wait for a person, the longest waiting first.
    Waiting,
}

impl Which {
    /// Whether `operation` is one of them.
    #[must_use]
    pub fn has(self, operation: &Operation) -> bool {
        match self {
            Which::All => true,
            Which::Open => operation.is_open(),
            Which::Unknown => matches!(operation.stage, Stage::Unknown(_)),
            Which::Reconciling => matches!(operation.inquiry, Inquiry::Reconciling { .. }),
            Which::Waiting => matches!(operation.inquiry, Inquiry::Person { .. }),
        }
    }

    /// Whether time leads the order, rising; else ids do, falling.
    #[must_use]
    pub fn is_by_time(self) -> bool {
        match self {
            Which::Reconciling | Which::Waiting => true,
            Which::All | Which::Open | Which::Unknown => false,
        }
    }
}

/// A place in a list of operations: see [`LedgerEntry::after`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct After {
    /// Since when it waits, or when it is asked after next; when it was made for others.
    pub at: UnixMillis,
    /// Its id.
    pub id: OperationId,
    /// Whose it is: ids are unique for each.
    pub principal: Principal,
}

/// One event of an operation's history, with its evidence. The task's events are among them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Happening {
    /// The version that it made, from 1 without a gap (INV-04).
    pub version: u64,
    /// When.
    pub at: UnixMillis,
    /// The weightiest of what happened.
    pub kind: EventKind,
    /// All that happened, a line each.
    pub lines: Vec<String>,
}

/// A workflow of which a store holds something that its name leads to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Held {
    /// The name under which its operations are kept.
    pub workflow: WorkflowName,
    /// The tools that it ever had, by their servers.
    pub tools: BTreeSet<(ServerName, String)>,
    /// Operations that are open, asked after, or wait for a person.
    pub open: usize,
    /// Keys that lead to its operations. Of more than [`Held::KEYS_MAX`] for one principal no more are counted.
    pub keys: usize,
}

impl Held {
    /// Keys that are counted.
    pub const KEYS_MAX: usize = 1_000;
}

/// An open operation that another one on the same object has to wait for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Busy {
    /// Which; `None` for another principal's (R6.1).
    pub operation: Option<OperationId>,
    /// When it was made.
    pub since: UnixMillis,
}
