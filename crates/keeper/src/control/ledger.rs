//! Operations as a person's commands show them (R4.7), and as `taskgate ops --json` and `ops export` print them.
//!
//! Members may be added, none is taken away or changes its meaning. Words of a fixed set are the store's own. Times are
//! milliseconds since 1970. What was asked and what was answered is never part of it (R5.5).

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use taskgate_core::operation::{Inquiry as Asking, Outcome, Replay, Stage};
use taskgate_store::codec::Code;
use taskgate_store::codec::columns::{EndingKind, StateKind};
use taskgate_store::ledger::{Happening as Happened, KeptTask, LedgerEntry};
use taskgate_store::record::{Conflict, KeyScope};

/// Which operations are asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// Which.
    pub which: Which,
    /// From behind this place on.
    #[serde(default)]
    pub after: Option<After>,
    /// At most so many.
    pub limit: usize,
    /// Only those that changed at this time or later.
    #[serde(default)]
    pub since_ms: Option<i64>,
    /// With their history.
    #[serde(default)]
    pub history: bool,
}

/// See [`taskgate_store::ledger::Which`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// All, newest first.
    All,
    /// Those that are not settled, newest first.
    Open,
    /// Those that wait for a person, the longest waiting first.
    Waiting,
}

/// A place in a list. Whoever asks takes it from [`Page::next`] and does not look into it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct After {
    /// A time.
    pub at_ms: i64,
    /// An operation.
    pub id: String,
    /// Whose it is.
    pub scope: String,
}

/// Some operations of a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Page {
    /// They. Fewer than asked for, or none, does not mean that there are no more.
    pub operations: Vec<Operation>,
    /// Where the next page begins; `None` if there is none.
    pub next: Option<After>,
    /// How many operations wait for a person, as far as they were counted.
    #[serde(default)]
    pub waiting: usize,
}

/// What a person says became of an operation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Word {
    /// Its id.
    pub id: String,
    /// Whether its effect was made.
    pub applied: bool,
    /// Who says so.
    pub name: String,
    /// How they know.
    pub reason: String,
    /// Whether it takes the place of what a person said before.
    #[serde(default)]
    pub correct: bool,
}

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// Its id. It opens nothing, and may be shown and logged.
    pub id: String,
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// Who asked for it.
    pub scope: String,
    /// Its workflow; `None` for a tool without one.
    pub workflow: Option<String>,
    /// What it is about.
    pub object: Option<String>,
    /// Which version of that.
    pub object_version: Option<String>,
    /// What becomes of a call about it while this one is open: `allow`, `refuse` or `queue`.
    #[serde(default)]
    pub object_conflict: Option<String>,
    /// What it is meant to do, in the operator's words.
    pub intended_effect: Option<String>,
    /// Its idempotency key.
    pub key: Option<String>,
    /// Where the key counts: `caller`, or `tenant` for a business key that counts for all callers.
    pub key_scope: Option<String>,
    /// The operation that has the key now, if that is another: this one gave it free, since it certainly did nothing.
    #[serde(default)]
    pub key_given_to: Option<String>,
    /// SHA-256 of the tool and its canonical arguments, in hexadecimal.
    pub digest: String,
    /// What it does to the world: `read_only`, `reversible` or `consequential`.
    pub effect: String,
    /// Whether it may be sent again in doubt: `never`, `natural` or `keyed`.
    pub replay: String,
    /// What the receiver reports about executing the request. That is one fact.
    pub task: Task,
    /// How far it has come: `prepared`, `dispatched`, `observing`, `settled` or `unknown`.
    pub stage: String,
    /// How certain it is, once settled: `none_expected`, `assumed`, `reported`, `attested` or `confirmed`. That is
    /// another fact.
    pub outcome: Option<String>,
    /// Whether its effect was made, as far as `outcome` goes: `applied` or `not_applied`.
    pub verdict: Option<String>,
    /// Why it is unknown: `answer_lost`, `tool_error`, `peer_error`, `deadline_passed`, `upstream_lost` or `cancelled`.
    pub doubt: Option<String>,
    /// The system of record's own name for the effect.
    pub receipt: Option<String>,
    /// What is being done to learn more.
    pub inquiry: Inquiry,
    /// Who decides when nothing else can, by the workflow.
    pub owners: Vec<String>,
    /// Whether its workflow says how to ask the system of record.
    pub can_be_asked: bool,
    /// Whether that waits for a host that starts its server: the keeper has its rules only as long as one was there.
    #[serde(default)]
    pub awaits_host: bool,
    /// How often it was sent.
    pub attempts: u32,
    /// How many of these are confirmed to have done nothing.
    pub cleared: u32,
    /// When it was first sent.
    pub first_sent_ms: Option<i64>,
    /// When the last attempt's exchange was proved over.
    pub closed_ms: Option<i64>,
    /// When it was recorded.
    pub created_ms: i64,
    /// When anything last changed.
    pub updated_ms: i64,
    /// How many events its history has.
    pub version: u64,
    /// All that happened, first things first; only where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Happening>>,
}

/// What the receiver reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Its id. Over HTTP, whoever has it can read the task as long as that is kept.
    pub id: String,
    /// `working`, `input_required`, `completed`, `failed`, `cancelled`; `gone` once it is no longer kept.
    pub state: String,
    /// How it ended, in a word of the store's.
    pub ending: Option<String>,
    /// When.
    pub ended_ms: Option<i64>,
    /// When a cancellation was asked for that promises nothing.
    pub cancel_wished_ms: Option<i64>,
}

/// What is being done to learn more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inquiry {
    /// `idle`, `reconciling` or `person`.
    pub state: String,
    /// Since when.
    pub since_ms: Option<i64>,
    /// How often the system of record was asked, while it is.
    pub tries: Option<u32>,
    /// When it is asked next.
    pub next_ms: Option<i64>,
    /// What it last said: `unclear`, `failed` or `not_applied_open`.
    pub last: Option<String>,
    /// Why a person is to decide: `no_rule`, `budget_spent`, `assumed`, `contradiction`, `rule_failed` or `wished`.
    pub why: Option<String>,
}

/// One event of the history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Happening {
    /// The version that it made, from 1 without a gap.
    pub version: u64,
    /// When.
    pub at_ms: i64,
    /// The weightiest of what happened.
    pub kind: String,
    /// All of it, a line each: what, and what says so.
    pub lines: Vec<String>,
}

impl Operation {
    /// The operation of `entry`. Whom its workflow names, and who has its key, is put in by the caller.
    pub(crate) fn of(entry: &LedgerEntry) -> Operation {
        let LedgerEntry { operation, intent, key, .. } = entry;
        let object = intent.as_ref().and_then(|intent| intent.object.as_ref());
        let (outcome, doubt) = match &operation.stage {
            Stage::Settled(outcome) => (Some(*outcome), None),
            Stage::Unknown(doubt) => (None, Some(doubt.word().to_owned())),
            Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } => (None, None),
        };
        Operation {
            id: entry.id.0.clone(),
            server: entry.server.0.clone(),
            tool: entry.tool.clone(),
            scope: entry.principal.as_str().to_owned(),
            workflow: intent.as_ref().map(|intent| intent.workflow.0.clone()),
            object: object.map(|object| object.name.clone()),
            object_version: object.and_then(|object| object.version.clone()),
            object_conflict: object.map(|object| conflict(object.conflict).to_owned()),
            intended_effect: intent.as_ref().and_then(|intent| intent.effect.clone()),
            key: key.as_ref().map(|key| key.text.clone()),
            key_scope: key.as_ref().map(|key| {
                match key.scope {
                    KeyScope::Caller => "caller",
                    KeyScope::Tenant => "tenant",
                }
                .to_owned()
            }),
            key_given_to: None,
            digest: HEXLOWER.encode(&entry.digest),
            effect: operation.effect.word().to_owned(),
            replay: match operation.replay {
                Replay::Never => "never",
                Replay::Natural => "natural",
                Replay::Keyed { .. } => "keyed",
            }
            .to_owned(),
            task: task(entry),
            stage: match &operation.stage {
                Stage::Prepared => "prepared",
                Stage::Dispatched { .. } => "dispatched",
                Stage::Observing { .. } => "observing",
                Stage::Settled(_) => "settled",
                Stage::Unknown(_) => "unknown",
            }
            .to_owned(),
            outcome: outcome.map(|outcome| certainty(outcome).to_owned()),
            verdict: outcome.and_then(Outcome::verdict).map(|verdict| verdict.word().to_owned()),
            doubt,
            receipt: operation.receipt.as_ref().map(ToString::to_string),
            inquiry: inquiry(&operation.inquiry),
            owners: Vec::new(),
            can_be_asked: false,
            awaits_host: false,
            attempts: operation.attempts,
            cleared: operation.cleared,
            first_sent_ms: operation.first_dispatched_at.map(|at| at.0),
            closed_ms: operation.closed_at.map(|at| at.0),
            created_ms: entry.created.0,
            updated_ms: entry.updated.0,
            version: entry.version,
            history: None,
        }
    }
}

fn conflict(conflict: Conflict) -> &'static str {
    match conflict {
        Conflict::Allow => "allow",
        Conflict::Refuse => "refuse",
        Conflict::Queue => "queue",
    }
}

fn certainty(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NoneExpected => "none_expected",
        Outcome::Assumed => "assumed",
        Outcome::Reported(_) => "reported",
        Outcome::Attested(_) => "attested",
        Outcome::Confirmed(_) => "confirmed",
    }
}

fn inquiry(asking: &Asking) -> Inquiry {
    let none = |state: &str| Inquiry {
        state: state.to_owned(),
        since_ms: None,
        tries: None,
        next_ms: None,
        last: None,
        why: None,
    };
    match asking {
        Asking::Idle => none("idle"),
        Asking::Reconciling { since, tries, next, last } => Inquiry {
            since_ms: Some(since.0),
            tries: Some(*tries),
            next_ms: Some(next.0),
            last: last.map(|last| last.word().to_owned()),
            ..none("reconciling")
        },
        Asking::Person { since, why } => {
            Inquiry { since_ms: Some(since.0), why: Some(why.word().to_owned()), ..none("person") }
        }
    }
}

fn task(entry: &LedgerEntry) -> Task {
    let id = entry.task.expose().to_owned();
    let Some(KeptTask { state, ending, ended, cancel_wished }) = entry.kept else {
        return Task { id, state: "gone".to_owned(), ending: None, ended_ms: None, cancel_wished_ms: None };
    };
    let said = match state {
        StateKind::Working => "working",
        StateKind::InputRequired => "input_required",
        StateKind::Over => match ending {
            Some(EndingKind::Cancelled) => "cancelled",
            Some(EndingKind::Returned) => "completed",
            Some(
                EndingKind::ReturnedError
                | EndingKind::Raised
                | EndingKind::FoundApplied
                | EndingKind::FoundNotApplied
                | EndingKind::AssumedNotApplied
                | EndingKind::NeverSent
                | EndingKind::OutcomeUnknown
                | EndingKind::DeadlinePassed
                | EndingKind::UpstreamLost
                | EndingKind::UpstreamFault
                | EndingKind::NoAnswer
                | EndingKind::BudgetSpent,
            )
            | None => "failed",
        },
    };
    Task {
        id,
        state: said.to_owned(),
        ending: ending.map(|ending| ending.word().to_owned()),
        ended_ms: ended.map(|at| at.0),
        cancel_wished_ms: cancel_wished.map(|at| at.0),
    }
}

impl Happening {
    pub(crate) fn of(happened: Happened) -> Happening {
        Happening {
            version: happened.version,
            at_ms: happened.at.0,
            kind: happened.kind.word().to_owned(),
            lines: happened.lines,
        }
    }
}
