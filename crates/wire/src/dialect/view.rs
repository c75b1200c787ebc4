//! A task's record, seen from outside, and what both dialects take from it alike.

use std::borrow::Cow;

use taskgate_core::id::{OperationId, TaskId};
use taskgate_core::operation::Effect;
use taskgate_core::task::{Ending, State, Task};
use taskgate_core::time::{Millis, UnixMillis};

use super::fault::fault_message;
use crate::json::push_literal;
use crate::result;
use crate::rpc_error::RpcError;
use crate::text::SafeText;
use crate::time;

/// Everything that is needed to show a task.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Its id.
    pub id: &'a TaskId,
    /// The id of its operation, which may be shown.
    pub operation: &'a OperationId,
    /// What the operation does to the world.
    pub effect: Effect,
    /// What the state machine knows.
    pub task: &'a Task,
    /// When it was made.
    pub created: UnixMillis,
    /// When it last changed.
    pub updated: UnixMillis,
    /// The time at which it is shown.
    pub now: UnixMillis,
    /// How soon to ask again.
    pub poll: Millis,
}

/// The five words that both dialects have, used differently (A-042, B-072).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// The work goes on.
    Working,
    /// It waits for the caller.
    InputRequired,
    /// It ended well, in the sense of the dialect.
    Completed,
    /// It did not.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Working => "working",
            Status::InputRequired => "input_required",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// Whether nothing changes it any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Status::Working | Status::InputRequired => false,
            Status::Completed | Status::Failed | Status::Cancelled => true,
        }
    }
}

/// How the two dialects name the fields that they share.
pub(super) struct Names {
    pub(super) ttl: &'static str,
    pub(super) poll: &'static str,
}

/// Writes the task's fields, without the braces around them.
pub(super) fn push_fields(out: &mut String, view: &View<'_>, status: Status, names: &Names) {
    out.push_str("\"taskId\":");
    push_literal(out, view.id.expose());
    out.push_str(",\"status\":\"");
    out.push_str(status.as_str());
    out.push('"');
    if let Some(message) = message(view, status).filter(|message| !message.is_empty()) {
        out.push_str(",\"statusMessage\":");
        push_literal(out, &message);
    }
    out.push_str(&format!(
        ",\"createdAt\":\"{}\",\"lastUpdatedAt\":\"{}\",\"{}\":{}",
        time::write(view.created),
        time::write(view.updated),
        names.ttl,
        view.task.ttl(view.now).0.max(1)
    ));
    if !status.is_final() {
        out.push_str(&format!(",\"{}\":{}", names.poll, view.poll.0.max(1)));
    }
}

/// What is said beside the status: why it failed (A-045, B-079), else what the back last said of its work.
/// Never a whole result (R6.3).
fn message<'a>(view: &View<'a>, status: Status) -> Option<Cow<'a, str>> {
    let task = view.task;
    let said = task.message.as_deref().map(Cow::Borrowed);
    match &task.state {
        State::Working if task.cancel_wished_at.is_some() => {
            Some(said.unwrap_or(Cow::Borrowed("Asked to stop")))
        }
        State::Working => said,
        // The question itself tells more than anything the back said before it.
        State::InputRequired(_) => said.or(Some(Cow::Borrowed("Waiting for an answer"))),
        State::Over { ending, .. } if status.is_final() => match ending {
            Ending::Cancelled => Some(Cow::Borrowed("Cancelled on request")),
            Ending::Returned { is_error: false, .. } => None,
            Ending::Returned { is_error: true, result } => {
                let text = result::text(result).and_then(result::first_text).unwrap_or_default();
                let clean = SafeText::status(&text).into_string();
                Some(Cow::Owned(if clean.is_empty() {
                    String::from("The tool reported an error")
                } else {
                    clean
                }))
            }
            Ending::Raised { error } => {
                let message = RpcError::read(result::text(error).unwrap_or_default()).message;
                let clean = SafeText::status(&message).into_string();
                Some(Cow::Owned(if clean.is_empty() { String::from("The call failed") } else { clean }))
            }
            Ending::Faulted(fault) => Some(Cow::Owned(fault_message(fault, view.effect))),
        },
        // Shown as it was created, though it is already over.
        State::Over { .. } => None,
    }
}
