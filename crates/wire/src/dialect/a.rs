//! Dialect A: the core tasks of 2025-11-25.

use bytes::Bytes;
use taskgate_core::task::{Ending, State, Task};
use taskgate_core::time::Millis;

use super::back::read_fields;
use super::view::{Names, push_fields};
use super::{BackTask, Status, UpstreamFault, View, fault_error};
use crate::errors;
use crate::json::{self, Object, push_literal};
use crate::message;
use crate::meta::{self, META, RELATED_TASK};
use crate::result;
use crate::rpc_error::RpcError;
use crate::splice::{Edit, splice};
use crate::version::Version;

const NAMES: Names = Names { ttl: "ttl", poll: "pollInterval" };

/// The status that dialect A has for a task: a result with `isError` is *failed* (A-044, X-016).
#[must_use]
pub fn status(task: &Task) -> Status {
    match &task.state {
        State::Working => Status::Working,
        State::InputRequired(_) => Status::InputRequired,
        State::Over { ending, .. } => match ending {
            Ending::Cancelled => Status::Cancelled,
            Ending::Returned { is_error: false, .. } => Status::Completed,
            Ending::Returned { is_error: true, .. } | Ending::Raised { .. } | Ending::Faulted(_) => {
                Status::Failed
            }
        },
    }
}

/// `CreateTaskResult`: the task, nested, and always *working*, even if it is over by now (A-034, A-036,
///
#[must_use]
pub fn create_result(view: &View<'_>) -> Bytes {
    let mut out = String::from("{\"task\":{");
    push_fields(&mut out, view, Status::Working, &NAMES);
    out.push_str("}}");
    Bytes::from(out)
}

/// The task, flat: the result of `tasks/get` and `tasks/cancel`, and an entry of `tasks/list`.
#[must_use]
pub fn task(view: &View<'_>) -> Bytes {
    let mut out = String::from("{");
    push_fields(&mut out, view, status(view.task), &NAMES);
    out.push('}');
    Bytes::from(out)
}

/// `ListTasksResult`.
#[must_use]
pub fn list_result(tasks: &[Bytes], next_cursor: Option<&str>) -> Bytes {
    let mut out = String::from("{\"tasks\":[");
    for (at, task) in tasks.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(result::text(task).unwrap_or_default());
    }
    out.push(']');
    if let Some(cursor) = next_cursor {
        out.push_str(",\"nextCursor\":");
        push_literal(&mut out, cursor);
    }
    out.push('}');
    Bytes::from(out)
}

/// What `tasks/result` answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskResult {
    /// Nothing yet: the request is held open.
    NotYet,
    /// The underlying result, with related-task metadata.
    Result(Bytes),
    /// An error object: the underlying one as it was sent, or ours. It has no metadata.
    Error(Bytes),
}

/// The outcome of the underlying call, exactly as it would have been without a task, but for one `_meta` key
/// . A cancelled task has none and says so.
#[must_use]
pub fn task_result(view: &View<'_>) -> TaskResult {
    let ending = match &view.task.state {
        State::Working | State::InputRequired(_) => return TaskResult::NotYet,
        State::Over { ending, .. } => ending,
    };
    match ending {
        Ending::Cancelled => TaskResult::Error(RpcError::task_cancelled(view.id).to_json().into()),
        Ending::Returned { result, .. } => {
            let result = result::for_legacy(result, Version::V2025_11_25);
            TaskResult::Result(with_related(&result, view.id.expose()))
        }
        Ending::Raised { error } => {
            let text = result::text(error).unwrap_or_default();
            TaskResult::Error(match errors::to_legacy(text, Version::V2025_11_25) {
                std::borrow::Cow::Borrowed(_) => error.clone(),
                std::borrow::Cow::Owned(changed) => Bytes::from(changed),
            })
        }
        Ending::Faulted(fault) => {
            TaskResult::Error(fault_error(fault, view.effect, view.operation).to_json().into())
        }
    }
}

/// Adds related-task metadata to a params or result object.
#[must_use]
pub fn with_related(object: &Bytes, task_id: &str) -> Bytes {
    let path = [META, RELATED_TASK];
    let edits = [Edit::set(&path, meta::related_task_value(task_id))];
    result::text(object).and_then(|text| splice(text, &edits).ok()).unwrap_or_else(|| object.clone())
}

/// `notifications/tasks/status`: the whole message, without related-task metadata.
#[must_use]
pub fn status_notification(view: &View<'_>) -> Bytes {
    let task = task(view);
    message::notification("notifications/tasks/status", result::text(&task))
}

/// What `params.task` wishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskWish {
    /// The lifetime, from creation; zero counts as the smallest.
    pub ttl: Option<Millis>,
}

/// Reads the raw `params.task` of a call.
///
/// # Errors
/// `-32602`: it is no object, or its `ttl` is no whole number from zero on.
pub fn read_wish(task: &str) -> Result<TaskWish, RpcError> {
    let task = Object::parse(task).map_err(|_| RpcError::invalid_params("params.task is no object"))?;
    match task.get("ttl") {
        // Clients that write every optional field.
        None | Some("null") => Ok(TaskWish { ttl: None }),
        Some(ttl) => match whole(ttl) {
            Some(ttl) => Ok(TaskWish { ttl: Some(Millis(ttl.max(1))) }),
            None => Err(RpcError::invalid_params("params.task.ttl is no whole number of milliseconds")),
        },
    }
}

/// A whole number however it is written: `9e15` is one.
fn whole(value: &str) -> Option<u64> {
    if let Ok(whole) = value.parse::<u64>() {
        return Some(whole);
    }
    let number: f64 = value.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked, and the cast saturates"
    )]
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}

/// The params of an augmented call to a back: `params.task` with the lifetime that we want. What the
/// client had there is replaced.
///
/// # Errors
/// [`Malformed`](message::Malformed) if `params` is no object.
pub fn augment(params: &str, ttl: Option<Millis>) -> Result<Bytes, message::Malformed> {
    let wish = ttl.map_or_else(|| String::from("{}"), |ttl| format!("{{\"ttl\":{}}}", ttl.0));
    splice(params, &[Edit::set(&["task"], wish)])
}

/// The key under which FastMCP 2 announced a task, before the release.
const PRE_RELEASE: &str = "modelcontextprotocol.io/task";

pub(crate) fn is_create_result(object: &Object<'_>) -> bool {
    let is_task = |task: &Object<'_>| {
        // One without an id is no result either, and is told of as what it is (G-025).
        task.get("taskId").is_some() || (task.get("status").is_some() && object.get("content").is_none())
    };
    object.object("task").is_some_and(|task| is_task(&task))
        || object.object(META).is_some_and(|meta| meta.get(PRE_RELEASE).is_some())
}

/// Reads a back's `CreateTaskResult`; `None` if the result is something else, as from a server that ignores
/// `params.task`.
///
/// # Errors
/// [`UpstreamFault`]: a task that makes no sense (G-025).
///
/// # Leniency
/// - A missing `ttl` counts as none (Python 1.23 to 1.30).
///   Leniency: no-ttl
/// - FastMCP 2 announces the task in `_meta` beside empty content, and says no times.
///   Leniency: task-in-meta
pub fn read_create(result: &str) -> Result<Option<BackTask>, UpstreamFault> {
    let Ok(object) = Object::parse(result) else { return Err(UpstreamFault::new("the result is no object")) };
    if !is_create_result(&object) {
        return Ok(None);
    }
    if let Some(task) = object.object("task") {
        let mut task = read_fields(&task, NAMES.ttl, NAMES.poll)?;
        if task.message.is_none() {
            let said = json::at(result, &[META, meta::MODEL_IMMEDIATE_RESPONSE]).and_then(json::string);
            task.message =
                said.map(|said| crate::text::SafeText::status(&said)).filter(|said| !said.is_empty());
        }
        return Ok(Some(task));
    }
    let early = object.object(META).and_then(|meta| meta.object(PRE_RELEASE));
    let early = early.ok_or_else(|| UpstreamFault::new("a pre-release task that is no object"))?;
    read_fields(&early, NAMES.ttl, NAMES.poll).map(Some)
}

/// Reads a back's task: the result of `tasks/get` or `tasks/cancel`, an entry of `tasks/list`, or the params
/// of `notifications/tasks/status`.
///
/// # Errors
/// [`UpstreamFault`]: it makes no sense (G-025).
///
/// # Leniency
/// - pmcp 2.23 nests the task, as in the result of a creation.
///   Leniency: nested-task
pub fn read_task(task: &str) -> Result<BackTask, UpstreamFault> {
    let object = Object::parse(task).map_err(|error| UpstreamFault::new(error.to_string()))?;
    let nested = if object.get("taskId").is_some() { None } else { object.object("task") };
    read_fields(nested.as_ref().unwrap_or(&object), NAMES.ttl, NAMES.poll)
}
