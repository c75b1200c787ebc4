//! What a back asks of its caller, read from either dialect and written for either.

use bytes::Bytes;
use taskgate_core::id::TaskId;
use taskgate_core::task::{Question, QuestionKind};

use crate::id::RequestId;
use crate::json::{self, Object, string_literal};
use crate::message;
use crate::meta::{self, META, RELATED_TASK};
use crate::rpc_error::RpcError;
use crate::splice::{Edit, splice};
use crate::text::SafeText;
use crate::version::Version;

/// Reads a request by a back: its kind, and its params without `task` and related-task metadata.
///
/// # Errors
/// What the back is to be told if it asked over JSON-RPC: `-32601` for a method that is no question, `-32602`
/// for an elicitation mode that nobody knows.
pub fn read(method: &str, params: Option<&str>, back_key: Option<String>) -> Result<Question, RpcError> {
    let params = params.filter(|params| !json::is_null(params)).unwrap_or("{}");
    let kind = kind(method, params)?;
    let mut edits = vec![Edit::remove(&["task"])];
    if meta::modern::is_meta_only(params, &[RELATED_TASK]) {
        edits.push(Edit::remove(&[META]));
    } else {
        edits.push(Edit::remove(&[META, RELATED_TASK]));
    }
    let params = splice(params, &edits).map_err(|error| RpcError::invalid_params(error.to_string()))?;
    Ok(Question { kind, params, back_key })
}

/// Reads one entry of a modern back's `inputRequests`: `{method, params}` (B-124).
///
/// # Errors
/// As [`read`], and `-32602` if it is no such object.
pub fn read_entry(entry: &str, back_key: Option<String>) -> Result<Question, RpcError> {
    let no_method = || RpcError::invalid_params("An input request without a method");
    let entry = Object::parse(entry).map_err(|_| no_method())?;
    let method = entry.str("method").ok_or_else(no_method)?;
    read(&method, entry.get("params"), back_key)
}

/// The kind of question that a method and its params ask. A missing mode is form mode (A-103, B-142).
///
/// # Errors
/// As [`read`].
pub fn kind(method: &str, params: &str) -> Result<QuestionKind, RpcError> {
    match method {
        "elicitation/create" => {
            let mode = json::at(params, &["mode"]);
            match mode.map(json::string) {
                None => Ok(QuestionKind::Form),
                Some(Some(mode)) if mode == "form" => Ok(QuestionKind::Form),
                Some(Some(mode)) if mode == "url" => Ok(QuestionKind::Url),
                Some(Some(mode)) => {
                    let mode = SafeText::new(&mode, 40);
                    Err(RpcError::invalid_params(format!("Unknown elicitation mode: {mode}")))
                }
                Some(None) => Err(RpcError::invalid_params("The elicitation mode is no string")),
            }
        }
        "sampling/createMessage" => Ok(QuestionKind::Sampling),
        "roots/list" => Ok(QuestionKind::Roots),
        _ => Err(RpcError::method_not_found(method)),
    }
}

/// How a question goes to a legacy client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ToLegacy<'a> {
    /// A fresh id of ours.
    pub id: &'a RequestId,
    /// The front task it belongs to; none if it is asked on a plain call's stream (G-004).
    pub task: Option<&'a TaskId>,
    /// What the session negotiated.
    pub version: Version,
    /// The id for a URL request that has none.
    pub elicitation_id: &'a str,
}

/// Writes a question as a request to a legacy client: message, URL and schema are unchanged.
#[must_use]
pub fn to_a(question: &Question, how: &ToLegacy<'_>) -> Bytes {
    let params = text(question);
    let related = [META, RELATED_TASK];
    let mut edits = Vec::new();
    if question.kind == QuestionKind::Url && json::at(params, &["elicitationId"]).is_none() {
        edits.push(Edit::set(&["elicitationId"], string_literal(how.elicitation_id)));
    }
    if question.kind == QuestionKind::Form && !how.version.has_url_elicitation() {
        edits.push(Edit::remove(&["mode"]));
    }
    if let Some(task) = how.task {
        edits.push(Edit::set(&related, meta::related_task_value(task.expose())));
    }
    let params = splice(params, &edits).unwrap_or_else(|_| question.params.clone());
    let params = crate::result::text(&params).filter(|params| *params != "{}");
    message::request(how.id, question.kind.method(), params)
}

/// Writes a question as a value of `inputRequests`: `{method, params}`, without `task`, `elicitationId` and
/// `_meta` (X-025, B-143).
#[must_use]
pub fn to_b(question: &Question) -> String {
    let method = question.kind.method();
    let edits = [Edit::remove(&["task"]), Edit::remove(&["elicitationId"]), Edit::remove(&[META])];
    let params = splice(text(question), &edits).unwrap_or_else(|_| question.params.clone());
    match crate::result::text(&params) {
        Some(params) if params != "{}" => format!("{{\"method\":\"{method}\",\"params\":{params}}}"),
        Some(_) | None => format!("{{\"method\":\"{method}\"}}"),
    }
}

/// The id by which a back announces the end of a URL flow, if the question has one.
#[must_use]
pub fn elicitation_id(question: &Question) -> Option<String> {
    json::at(text(question), &["elicitationId"]).and_then(json::string).map(String::from)
}

/// The news that a URL flow is over, for the client that was asked.
#[must_use]
pub fn elicitation_complete(elicitation_id: &str) -> Bytes {
    let params = format!("{{\"elicitationId\":{}}}", string_literal(elicitation_id));
    message::notification("notifications/elicitation/complete", Some(&params))
}

fn text(question: &Question) -> &str {
    crate::result::text(&question.params).unwrap_or("{}")
}
