//! What taskgate's own ledger says: in the words that a user is given, and read from whichever side.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use taskgate_core::operation::{Inquiry, Operation, Stage};
use taskgate_core::task::{Ending, State};
use taskgate_store::codec::Code;
use taskgate_store::codec::columns::EndingColumns;
use taskgate_store::record::{Phase, Record};
use taskgate_store::{Store, Whose};
use taskgate_store_sqlite::SqliteStore;

use crate::act::Trial;
use crate::play::arguments;
use crate::world::World;

/// An operation and its task, in the words of `taskgate ops export` (docs/commands.md).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// SHA-256 of the tool and its canonical arguments: which trial it is of.
    pub(crate) digest: String,
    pub(crate) operation_id: String,
    pub(crate) task_id: String,
    pub(crate) tool: String,
    pub(crate) idempotency: Option<String>,
    /// `stage`, or once it is settled `outcome: verdict`, or `unknown: doubt`.
    pub(crate) stands: String,
    /// `idle`, `reconciling` or `person: why`.
    pub(crate) inquiry: String,
    pub(crate) attempts: u32,
    /// How its task ended; `None` while it goes on.
    pub(crate) ending: Option<String>,
    /// When, in milliseconds since 1970.
    pub(crate) ended: Option<i64>,
    pub(crate) created: i64,
    pub(crate) updated: i64,
}

/// One event of the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) at: i64,
    pub(crate) lines: Vec<String>,
}

impl Entry {
    /// Whether nothing more is going on about it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ending.is_some()
            && self.inquiry != "reconciling"
            && !["prepared", "dispatched", "observing"].contains(&self.stands.as_str())
    }

    pub(crate) fn waits_for_a_person(&self) -> bool {
        self.inquiry.starts_with("person")
    }

    /// Whether it is certain that its effect was not made: then its key is free.
    pub(crate) fn is_known_undone(&self) -> bool {
        ["confirmed: not_applied", "attested: not_applied"].contains(&self.stands.as_str())
    }

    /// Out of a line of `taskgate ops export`, or what `op show --json` prints.
    pub(crate) fn shown(shown: &Value) -> (Entry, Vec<Event>) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let word = |name: &str| text(&shown[name]).unwrap_or_default();
        let stands = match word("stage").as_str() {
            "settled" => match text(&shown["verdict"]) {
                Some(verdict) => format!("{}: {verdict}", word("outcome")),
                None => word("outcome"),
            },
            "unknown" => format!("unknown: {}", word("doubt")),
            stage => stage.to_owned(),
        };
        let inquiry = match (text(&shown["inquiry"]["state"]), text(&shown["inquiry"]["why"])) {
            (Some(state), Some(why)) => format!("{state}: {why}"),
            (state, _) => state.unwrap_or_default(),
        };
        let entry = Entry {
            digest: word("digest"),
            operation_id: word("id"),
            task_id: text(&shown["task"]["id"]).unwrap_or_default(),
            tool: word("tool"),
            idempotency: text(&shown["key"]),
            stands,
            inquiry,
            attempts: u32::try_from(shown["attempts"].as_u64().unwrap()).unwrap(),
            ending: text(&shown["task"]["ending"]),
            ended: shown["task"]["ended_ms"].as_i64(),
            created: shown["created_ms"].as_i64().unwrap(),
            updated: shown["updated_ms"].as_i64().unwrap(),
        };
        let history = shown["history"].as_array().cloned().unwrap_or_default();
        let events = history.into_iter().map(|event| Event {
            version: event["version"].as_u64().unwrap(),
            at: event["at_ms"].as_i64().unwrap(),
            lines: event["lines"].as_array().unwrap().iter().filter_map(text).collect(),
        });
        (entry, events.collect())
    }
}

/// What `digest` is of a call: SHA-256 over the tool and its canonical arguments, each with its length before it.
pub(crate) fn digest(trial: &Trial) -> String {
    // serde_json keeps the members of an object in order, and writes no blanks: that is the canonical form of these.
    let arguments = arguments(trial).to_string();
    let mut hash = Sha256::new();
    for part in [trial.tool.as_bytes(), arguments.as_bytes()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ends the gateway, and reads what it wrote. Operations that are unfinished in the store's own words come with it.
pub(crate) async fn close(world: &World) -> (Vec<Entry>, Vec<String>) {
    world.end_gateway();
    read(&world.path("store/tasks.db")).await
}

async fn read(path: &Path) -> (Vec<Entry>, Vec<String>) {
    let store = tokio::task::block_in_place(|| SqliteStore::open(path)).unwrap();
    let (mut entries, mut unfinished) = (Vec::new(), Vec::new());
    let mut after = None;
    loop {
        let page = store.list(Whose::Everyone, after.clone(), 500).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.created(), last.id().clone()));
        for listed in page {
            let record = store.load(listed.principal(), listed.id()).await.unwrap().unwrap();
            if record.phase() == Phase::Unfinished {
                unfinished.push(record.operation_id.0.clone());
            }
            entries.push(entry(&record));
        }
    }
    store.close().await;
    (entries, unfinished)
}

fn entry(record: &Record) -> Entry {
    let over = match &record.task.state {
        State::Over { at, ending } => Some((at.0, ending)),
        State::Working | State::InputRequired(_) => None,
    };
    Entry {
        digest: record.call.digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        operation_id: record.operation_id.0.clone(),
        task_id: record.id.expose().to_owned(),
        tool: record.call.tool.clone(),
        idempotency: record.call.key.as_ref().map(|key| key.text.clone()),
        stands: stands(&record.operation),
        inquiry: match &record.operation.inquiry {
            Inquiry::Idle => "idle".to_owned(),
            Inquiry::Reconciling { .. } => "reconciling".to_owned(),
            Inquiry::Person { why, .. } => format!("person: {}", why.word()),
        },
        attempts: record.operation.attempts,
        ending: over.map(|(_, ending): (i64, &Ending)| EndingColumns::of(ending).kind.word().to_owned()),
        ended: over.map(|(at, _)| at),
        created: record.task.lifetime.created.0,
        updated: record.updated.0,
    }
}

fn stands(operation: &Operation) -> String {
    match &operation.stage {
        Stage::Prepared => "prepared".to_owned(),
        Stage::Dispatched { .. } => "dispatched".to_owned(),
        Stage::Observing { .. } => "observing".to_owned(),
        Stage::Unknown(doubt) => format!("unknown: {}", doubt.word()),
        Stage::Settled(outcome) => {
            use taskgate_core::operation::Outcome;
            let certainty = match outcome {
                Outcome::NoneExpected => "none_expected",
                Outcome::Assumed => "assumed",
                Outcome::Reported(_) => "reported",
                Outcome::Attested(_) => "attested",
                Outcome::Confirmed(_) => "confirmed",
            };
            match outcome.verdict() {
                Some(verdict) => format!("{certainty}: {}", verdict.word()),
                None => certainty.to_owned(),
            }
        }
    }
}

/// How long operations may take to come to rest, on a machine that may stand still meanwhile.
pub(crate) const REST: Duration = Duration::from_secs(150);
