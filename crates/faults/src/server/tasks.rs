//! Tasks of the server's own. They live as long as the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Shop;
use super::work::{Call, Ended};

const TTL_MS: u64 = 3_600_000;
/// Campaigns are in a hurry.
const POLL_MS: u64 = 20;
/// All that a server without a clock of its own has to say about time.
const TIME: &str = "2026-01-01T00:00:00Z";

#[derive(Default)]
pub(super) struct Tasks(Mutex<HashMap<String, watch::Receiver<State>>>);

#[derive(Clone)]
pub(super) enum State {
    Working,
    Ended(Arc<Ended>),
    Cancelled,
}

impl Tasks {
    /// Makes a task of a call and sets it going. Its id says which effect it is about, so that whoever reads the line
    /// can tell.
    pub(super) fn start(&self, shop: &Arc<Shop>, call: Call) -> String {
        let id = format!("t-{}-{}", call.key, shop.number());
        let (ends, state) = watch::channel(State::Working);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), state);
        let shop = shop.clone();
        tokio::spawn(async move {
            let ended = shop.perform(call).await;
            let _ = ends.send(State::Ended(Arc::new(ended)));
        });
        id
    }

    pub(super) fn find(&self, id: &str) -> Option<watch::Receiver<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Says that it is cancelled. What was begun goes on: a payment is not taken back by a word.
    pub(super) fn cancel(&self, id: &str) {
        let (_, cancelled) = watch::channel(State::Cancelled);
        if let Some(state) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(id) {
            *state = cancelled;
        }
    }
}

/// Waits for the end, which a task that was cancelled has reached.
pub(super) async fn end(state: &mut watch::Receiver<State>) -> State {
    match state.wait_for(|state| !matches!(state, State::Working)).await {
        Ok(state) => state.clone(),
        Err(_) => State::Cancelled,
    }
}

/// As 2025-11-25 shows it.
pub(super) fn legacy(id: &str, state: &State) -> Value {
    let status = match state {
        State::Working => "working",
        State::Ended(ended) => match &**ended {
            Ended::Result(result) if result["isError"] == true => "failed",
            Ended::Result(_) => "completed",
            Ended::Error(_) => "failed",
        },
        State::Cancelled => "cancelled",
    };
    json!({
        "taskId": id, "status": status, "ttl": TTL_MS, "pollInterval": POLL_MS, "createdAt": TIME, "lastUpdatedAt": TIME,
    })
}

/// As 2026-07-28 shows it.
pub(super) fn modern(id: &str, state: &State, new: bool) -> Value {
    let mut shown = json!({
        "resultType": if new { "task" } else { "complete" }, "taskId": id, "ttlMs": TTL_MS, "pollIntervalMs": POLL_MS,
        "createdAt": TIME, "lastUpdatedAt": TIME,
    });
    match state {
        State::Working => shown["status"] = json!("working"),
        State::Cancelled => shown["status"] = json!("cancelled"),
        State::Ended(ended) => match &**ended {
            Ended::Result(result) => {
                let mut result = result.clone();
                result["resultType"] = json!("complete");
                shown["status"] = json!("completed");
                shown["result"] = result;
            }
            Ended::Error(error) => {
                shown["status"] = json!("failed");
                shown["error"] = error.clone();
            }
        },
    }
    shown
}
