//! What taskgate's own ledger says, read from its store once no gateway has it.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use taskgate_core::operation::{Inquiry, Operation, Stage};
use taskgate_core::task::{Ending, State};
use taskgate_store::record::{Phase, Record};
use taskgate_store::{Store, Whose};
use taskgate_store_sqlite::SqliteStore;

use crate::world::World;

/// How often the gateway may live on to finish what is unfinished.
const LIVES: u32 = 20;

/// An operation and its task.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The key of its effect, out of the call's arguments.
    pub(crate) key: String,
    pub(crate) operation_id: String,
    pub(crate) task_id: String,
    pub(crate) operation: Operation,
    pub(crate) ending: Option<Ending>,
    pub(crate) created: i64,
    /// When its task was over.
    pub(crate) ended: Option<i64>,
    pub(crate) unfinished: bool,
}

/// Ends the gateway when it has nothing left to do, and reads what it wrote. What is unfinished then gets another life, and
/// is handed out as it is if that does not end it.
pub(crate) async fn close(world: &World) -> Vec<Entry> {
    let mut entries = Vec::new();
    for _ in 0..LIVES {
        world.end_gateway();
        entries = read(&world.path("store/tasks.db")).await;
        if entries.iter().all(|entry| !entry.unfinished) {
            break;
        }
        world.start_gateway();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    entries
}

async fn read(path: &Path) -> Vec<Entry> {
    let store = tokio::task::block_in_place(|| SqliteStore::open(path)).unwrap();
    let mut entries = Vec::new();
    let mut after = None;
    loop {
        let page = store.list(Whose::Everyone, after.clone(), 500).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.task.lifetime.created, last.id.clone()));
        entries.extend(page.into_iter().map(entry));
    }
    store.close().await;
    entries
}

fn entry(record: Record) -> Entry {
    let params: Value = serde_json::from_slice(&record.call.params).unwrap_or_default();
    Entry {
        key: params["arguments"]["key"].as_str().unwrap_or_default().to_owned(),
        operation_id: record.operation_id.0.clone(),
        task_id: record.id.expose().to_owned(),
        ending: record.task.ending().cloned(),
        created: record.task.lifetime.created.0,
        ended: match &record.task.state {
            State::Over { at, .. } => Some(at.0),
            State::Working | State::InputRequired(_) => None,
        },
        unfinished: record.phase() == Phase::Unfinished,
        operation: record.operation,
    }
}

impl Entry {
    /// Where it stands, in a few words.
    pub(crate) fn stage(&self) -> String {
        match &self.operation.stage {
            Stage::Prepared => "prepared".to_owned(),
            Stage::Dispatched { .. } => "dispatched".to_owned(),
            Stage::Observing { .. } => "observing".to_owned(),
            Stage::Settled(outcome) => format!("{outcome:?}"),
            Stage::Unknown(doubt) => format!("Unknown({doubt:?})"),
        }
    }

    /// What is being done to learn more.
    pub(crate) fn inquiry(&self) -> String {
        match &self.operation.inquiry {
            Inquiry::Idle => "none".to_owned(),
            Inquiry::Reconciling { .. } => "reconciling".to_owned(),
            Inquiry::Person { why, .. } => format!("with a person ({why:?})"),
        }
    }
}
