//! The server's tasks. They live in memory: this process is the one that is not killed.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use taskgate_core::time::UnixMillis;
use taskgate_engine::clock::{Clock, SystemClock};
use taskgate_engine::ids::{SystemRandom, task_id};
use taskgate_wire::time;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::Shop;
use super::tools::Call;
use super::work::{self, Caller, Outcome};

/// Lifetime of a task. The demo is over long before.
const TTL_MS: u64 = 3_600_000;
/// How often to look.
const POLL_MS: u64 = 500;

/// All of them, and the requests of ours that wait for a reply.
#[derive(Default)]
pub(super) struct Tasks {
    tasks: Mutex<BTreeMap<String, Arc<Task>>>,
    replies: Mutex<HashMap<String, Waiting>>,
    next: AtomicU64,
}

/// Who waits for a reply.
enum Waiting {
    Call(oneshot::Sender<Value>),
    Task(Arc<Task>, String),
}

/// One task.
pub(super) struct Task {
    pub(super) id: String,
    created: UnixMillis,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

struct State {
    stand: Stand,
    updated: UnixMillis,
    /// What stops its work.
    work: Option<AbortHandle>,
}

/// Where it stands.
enum Stand {
    Working,
    Asked { key: String, question: Value, reply: oneshot::Sender<Value> },
    Completed { result: Arc<str>, is_error: bool },
    Failed,
    Cancelled,
}

/// What `tasks/result` of dialect A waits for.
pub(super) enum Next {
    Question { key: String, question: Value },
    Result(Arc<str>),
    Failed,
    Cancelled,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tasks {
    /// Makes a task of a call and sets it going.
    pub(super) fn start(&self, shop: &Arc<Shop>, call: Call) -> Arc<Task> {
        let now = SystemClock.now();
        let task = Arc::new(Task {
            id: task_id(&SystemRandom, now).expose().to_owned(),
            created: now,
            state: Mutex::new(State { stand: Stand::Working, updated: now, work: None }),
            changed: watch::Sender::new(0),
        });
        locked(&self.tasks).insert(task.id.clone(), task.clone());
        let (shop, own) = (shop.clone(), task.clone());
        let work = tokio::spawn(async move {
            let outcome = work::perform(&shop, call, Caller::Task(own.clone())).await;
            own.end(match outcome {
                Outcome::Result { result, is_error } => Stand::Completed { result, is_error },
                Outcome::Cut => Stand::Failed,
            });
        });
        locked(&task.state).work = Some(work.abort_handle());
        task
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Task>> {
        locked(&self.tasks).get(id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Task>> {
        locked(&self.tasks).values().cloned().collect()
    }

    /// An id for a request of ours, and where its reply comes.
    pub(super) fn expect_reply(&self) -> (String, oneshot::Receiver<Value>) {
        let (sender, receiver) = oneshot::channel();
        (self.waits(Waiting::Call(sender)), receiver)
    }

    /// An id for a request of ours that passes a task's question on.
    pub(super) fn expect_answer(&self, task: &Arc<Task>, key: &str) -> String {
        self.waits(Waiting::Task(task.clone(), key.to_owned()))
    }

    fn waits(&self, waiting: Waiting) -> String {
        let id = format!("ask-{}", self.next.fetch_add(1, Ordering::Relaxed));
        locked(&self.replies).insert(id.clone(), waiting);
        id
    }

    /// Takes the reply to a request of ours. One that nobody waits for is dropped.
    pub(super) fn replied(&self, id: &str, result: Value) {
        let waiting = locked(&self.replies).remove(id);
        match waiting {
            Some(Waiting::Call(sender)) => {
                // The call may have ended meanwhile.
                let _ = sender.send(result);
            }
            Some(Waiting::Task(task, key)) => task.answer(&key, result),
            None => {}
        }
    }
}

impl Task {
    /// Asks whoever looks at the task.
    pub(super) async fn ask(&self, question: Value) -> Option<Value> {
        let (reply, answered) = oneshot::channel();
        self.change(|state| {
            let key = format!("q{}", state.updated.0);
            state.stand = Stand::Asked { key, question, reply };
        });
        answered.await.ok()
    }

    /// Answers its question; a key that is not outstanding is ignored (B-096).
    pub(super) fn answer(&self, key: &str, answer: Value) {
        self.change(|state| {
            let is_asked = matches!(&state.stand, Stand::Asked { key: asked, .. } if asked == key);
            if is_asked
                && let Stand::Asked { reply, .. } = std::mem::replace(&mut state.stand, Stand::Working)
            {
                // If the work was stopped there is nobody to be told.
                let _ = reply.send(answer);
            }
        });
    }

    fn end(&self, stand: Stand) {
        self.change(|state| {
            if !state.stand.is_over() {
                state.stand = stand;
            }
        });
    }

    /// Stops the work. Whether there was something to stop.
    pub(super) fn cancel(&self) -> bool {
        self.change(|state| {
            if state.stand.is_over() {
                return false;
            }
            if let Some(work) = &state.work {
                work.abort();
            }
            state.stand = Stand::Cancelled;
            true
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = locked(&self.state);
        state.updated = SystemClock.now().max(state.updated);
        let done = change(&mut state);
        drop(state);
        self.changed.send_modify(|version| *version += 1);
        done
    }

    /// Dialect A: waits for a question whose key is not among `seen`, or the end.
    pub(super) async fn next(&self, seen: &[String]) -> Next {
        let mut changes = self.changed.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(next) = self.now(seen) {
                return next;
            }
            if changes.changed().await.is_err() {
                return Next::Cancelled;
            }
        }
    }

    fn now(&self, seen: &[String]) -> Option<Next> {
        match &locked(&self.state).stand {
            Stand::Working => None,
            Stand::Asked { key, question, .. } => {
                (!seen.contains(key)).then(|| Next::Question { key: key.clone(), question: question.clone() })
            }
            Stand::Completed { result, .. } => Some(Next::Result(result.clone())),
            Stand::Failed => Some(Next::Failed),
            Stand::Cancelled => Some(Next::Cancelled),
        }
    }

    /// As dialect A shows it: flat, without the payload.
    pub(super) fn legacy(&self) -> Value {
        let state = locked(&self.state);
        let status = match &state.stand {
            Stand::Working => "working",
            Stand::Asked { .. } => "input_required",
            Stand::Completed { is_error: false, .. } => "completed",
            Stand::Completed { is_error: true, .. } | Stand::Failed => "failed",
            Stand::Cancelled => "cancelled",
        };
        let mut shown = json!({
            "taskId": self.id, "status": status, "ttl": TTL_MS, "pollInterval": POLL_MS,
            "createdAt": time::write(self.created), "lastUpdatedAt": time::write(state.updated),
        });
        if status == "failed" {
            shown["statusMessage"] = json!("the tool reported an error");
        }
        shown
    }

    /// As dialect B shows it: with all that goes with its status, or, when it is `new`, without.
    pub(super) fn modern(&self, new: bool) -> Value {
        let state = locked(&self.state);
        let mut shown = json!({
            "resultType": if new { "task" } else { "complete" },
            "taskId": self.id, "ttlMs": TTL_MS, "pollIntervalMs": POLL_MS,
            "createdAt": time::write(self.created), "lastUpdatedAt": time::write(state.updated),
        });
        let (status, member) = match &state.stand {
            Stand::Working => ("working", None),
            Stand::Asked { key, question, .. } => {
                let request = json!({ "method": "elicitation/create", "params": question });
                ("input_required", Some(("inputRequests", json!({ key.as_str(): request }))))
            }
            Stand::Completed { result, .. } => {
                let mut result: Value = serde_json::from_str(result).unwrap_or_default();
                result["resultType"] = json!("complete");
                ("completed", Some(("result", result)))
            }
            Stand::Failed => {
                let error = json!({ "code": -32603, "message": "the work broke off" });
                ("failed", Some(("error", error)))
            }
            Stand::Cancelled => ("cancelled", None),
        };
        shown["status"] = json!(status);
        if let Some((name, value)) = member
            && !new
        {
            shown[name] = value;
        }
        shown
    }
}

impl Stand {
    fn is_over(&self) -> bool {
        match self {
            Stand::Working | Stand::Asked { .. } => false,
            Stand::Completed { .. } | Stand::Failed | Stand::Cancelled => true,
        }
    }
}
