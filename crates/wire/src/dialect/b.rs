//! Dialect B: the extension `io.modelcontextprotocol/tasks` of 2026-07-28.

use bytes::Bytes;
use taskgate_core::id::TaskId;
use taskgate_core::task::{Ending, State, Task};

use super::back::read_fields;
use super::view::{Names, push_fields};
use super::{BackTask, Status, UpstreamFault, View, fault_error};
use crate::errors;
use crate::json::{self, Object, push_literal, string_literal};
use crate::message;
use crate::meta::{META, SUBSCRIPTION_ID};
use crate::mrtr;
use crate::result;
use crate::rpc_error::{RpcError, strings};
use crate::text::SafeText;

const NAMES: Names = Names { ttl: "ttlMs", poll: "pollIntervalMs" };

/// The result that acknowledges `tasks/update` and `tasks/cancel` (B-094, B-100).
pub const ACK: &str = "{\"resultType\":\"complete\"}";

/// The status that dialect B has for a task: whatever returned a result is *completed* (B-073, B-074, X-016).
#[must_use]
pub fn status(task: &Task) -> Status {
    match &task.state {
        State::Working => Status::Working,
        State::InputRequired(_) => Status::InputRequired,
        State::Over { ending, .. } => match ending {
            Ending::Cancelled => Status::Cancelled,
            Ending::Returned { .. } => Status::Completed,
            Ending::Raised { .. } | Ending::Faulted(_) => Status::Failed,
        },
    }
}

/// `CreateTaskResult`: flat, without questions, result and error (B-065, B-066). A task that already asks is
/// shown as *working*, since its questions cannot be.
#[must_use]
pub fn create_result(view: &View<'_>) -> Bytes {
    let status = match status(view.task) {
        Status::InputRequired => Status::Working,
        status @ (Status::Working | Status::Completed | Status::Failed | Status::Cancelled) => status,
    };
    let mut out = String::from("{\"resultType\":\"task\",");
    push_fields(&mut out, view, status, &NAMES);
    out.push('}');
    Bytes::from(out)
}

/// The result of `tasks/get`: complete, whatever the status (B-075 to B-080).
#[must_use]
pub fn get_result(view: &View<'_>) -> Bytes {
    let mut out = String::from("{\"resultType\":\"complete\",");
    push_task(&mut out, view);
    out.push('}');
    Bytes::from(out)
}

/// `notifications/tasks`: the whole message with the full task and the raw id of the subscription, and
/// without `resultType` (B-107, B-132).
#[must_use]
pub fn notification(view: &View<'_>, subscription_id: &str) -> Bytes {
    let mut out = String::from("{");
    push_task(&mut out, view);
    out.push(',');
    push_subscription(&mut out, subscription_id);
    out.push('}');
    message::notification("notifications/tasks", Some(&out))
}

fn push_task(out: &mut String, view: &View<'_>) {
    push_fields(out, view, status(view.task), &NAMES);
    match &view.task.state {
        State::Working => {}
        State::InputRequired(asked) => {
            let questions = asked.questions().iter().map(|(key, question)| (key.0.as_str(), question));
            out.push_str(",\"inputRequests\":");
            out.push_str(&mrtr::requests_json(questions));
        }
        State::Over { ending, .. } => match ending {
            Ending::Cancelled => {}
            Ending::Returned { result, .. } => {
                let result = result::for_modern(result);
                out.push_str(",\"result\":");
                out.push_str(result::text(&result).unwrap_or_default());
            }
            Ending::Raised { error } => {
                out.push_str(",\"error\":");
                out.push_str(&errors::to_modern(result::text(error).unwrap_or_default()));
            }
            Ending::Faulted(fault) => {
                out.push_str(",\"error\":");
                out.push_str(&fault_error(fault, view.effect, view.operation).to_json());
            }
        },
    }
}

fn push_subscription(out: &mut String, subscription_id: &str) {
    out.push_str(&format!("\"{META}\":{{\"{SUBSCRIPTION_ID}\":{subscription_id}}}"));
}

/// Reads a back's `resultType: "task"`.
///
/// # Errors
/// [`UpstreamFault`]: it makes no sense (G-025).
pub fn read_create(result: &str) -> Result<BackTask, UpstreamFault> {
    let object = Object::parse(result).map_err(|error| UpstreamFault::new(error.to_string()))?;
    read_fields(&object, NAMES.ttl, NAMES.poll)
}

/// Reads a back's full task: the result of `tasks/get`, or the params of a task notification.
///
/// # Errors
/// [`UpstreamFault`]: an unknown `resultType`, status or question; *completed* without a result; *failed*
/// without an error (G-025).
///
/// # Leniency
/// - An absent `resultType` is *complete* (B-012), and so is `task`, which early examples showed.
/// - The inlined result may lack its `resultType`.
///   Leniency: task-of-an-early-example
pub fn read_task(task: &Bytes) -> Result<BackTask, UpstreamFault> {
    let text = result::text(task).unwrap_or_default();
    let object = Object::parse(text).map_err(|error| UpstreamFault::new(error.to_string()))?;
    match object.get("resultType").map(json::string) {
        None => {}
        Some(Some(kind)) if kind == "complete" || kind == "task" => {}
        Some(kind) => {
            let kind = SafeText::new(&kind.unwrap_or_default(), 40);
            return Err(UpstreamFault::new(format!("a task with the unknown resultType {kind}")));
        }
    }
    let mut read = read_fields(&object, NAMES.ttl, NAMES.poll)?;
    let part = |name| {
        object.get(name).filter(|value| json::is_object(value)).map(|value| task.slice_ref(value.as_bytes()))
    };
    match read.status {
        Status::Working | Status::Cancelled => {}
        Status::InputRequired => {
            read.inputs = mrtr::read_questions(object.get("inputRequests").unwrap_or("{}"))?;
        }
        Status::Completed => {
            let result =
                part("result").ok_or_else(|| UpstreamFault::new("a completed task without a result"))?;
            read.result = Some(result::canonical(&result));
        }
        Status::Failed => {
            let error = part("error").ok_or_else(|| UpstreamFault::new("a failed task without an error"))?;
            read.error = Some(error);
        }
    }
    Ok(read)
}

/// Whether a notification on a listen stream is about a task: one preview sent dialect A's name.
///
/// Leniency: old-name-of-pushes
#[must_use]
pub fn is_task_notification(method: &str) -> bool {
    method == "notifications/tasks" || method == "notifications/tasks/status"
}

/// The params of `tasks/update` to a back, without `_meta`. The answers are as
/// [`answer::for_b`](crate::answer::for_b) gives them (B-088).
#[must_use]
pub fn update_params(back_task_id: &str, answers: &[(String, Bytes)]) -> String {
    let answers = mrtr::answers_json(answers);
    format!("{{\"taskId\":{},\"inputResponses\":{answers}}}", string_literal(back_task_id))
}

/// What a `subscriptions/listen` asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen<'a> {
    /// The tasks it names that could be ours, without repetition. Others are left out like unknown ones
    ///
    pub tasks: Vec<TaskId>,
    /// Whether it names tasks at all, which needs the extension (B-109).
    pub names_tasks: bool,
    /// The raw filter.
    pub notifications: &'a str,
}

/// Reads the raw `params.notifications` of `subscriptions/listen` (B-108).
///
/// # Errors
/// `-32602`: it is no object, or `taskIds` is no array.
pub fn read_listen(notifications: Option<&str>) -> Result<Listen<'_>, RpcError> {
    let raw = notifications.ok_or_else(|| RpcError::invalid_params("Missing params.notifications"))?;
    let object =
        Object::parse(raw).map_err(|_| RpcError::invalid_params("params.notifications is no object"))?;
    let ids = object.get("taskIds");
    if ids.is_some_and(|ids| !ids.starts_with('[')) {
        return Err(RpcError::invalid_params("params.notifications.taskIds is no array"));
    }
    let mut tasks = Vec::new();
    for id in strings(ids.unwrap_or("[]")).iter().filter_map(|id| TaskId::parse(id).ok()) {
        if !tasks.contains(&id) {
            tasks.push(id);
        }
    }
    Ok(Listen { tasks, names_tasks: ids.is_some(), notifications: raw })
}

/// The params of our own `subscriptions/listen` to a back, without `_meta`.
#[must_use]
pub fn listen_params(back_task_ids: &[&str]) -> String {
    format!("{{\"notifications\":{{\"taskIds\":{}}}}}", array(back_task_ids))
}

/// `notifications/subscriptions/acknowledged`: the whole message, listing what was accepted (B-131, X-042).
/// `more` is the raw filter of everything else that was accepted, `{}` for nothing.
#[must_use]
pub fn acknowledged(subscription_id: &str, tasks: Option<&[&TaskId]>, more: &str) -> Bytes {
    let ids: Option<Vec<&str>> = tasks.map(|tasks| tasks.iter().map(|id| id.expose()).collect());
    let edit = match &ids {
        Some(ids) => crate::splice::Edit::set(&["taskIds"], array(ids)),
        None => crate::splice::Edit::remove(&["taskIds"]),
    };
    let filter = crate::splice::splice(more, &[edit]).unwrap_or_else(|_| Bytes::from_static(b"{}"));
    let mut params = format!("{{\"notifications\":{},", result::text(&filter).unwrap_or("{}"));
    push_subscription(&mut params, subscription_id);
    params.push('}');
    message::notification("notifications/subscriptions/acknowledged", Some(&params))
}

/// The result that ends a subscription in good order (B-135).
#[must_use]
pub fn listen_result(subscription_id: &str) -> Bytes {
    let mut out = String::from("{\"resultType\":\"complete\",");
    push_subscription(&mut out, subscription_id);
    out.push('}');
    Bytes::from(out)
}

fn array(texts: &[&str]) -> String {
    let mut out = String::from("[");
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_literal(&mut out, text);
    }
    out.push(']');
    out
}
