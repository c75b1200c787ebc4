//! The `_meta` keys, and what modern requests carry in them.

pub mod modern;

use crate::json::Object;

/// The member of `params` and of results that holds them.
pub const META: &str = "_meta";
/// The protocol version of a modern request (B-003).
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client of a modern request can do (B-003).
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who sends a modern request (B-004).
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Who answers it (B-006).
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Which log messages it wants (B-140).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Which subscription a notification belongs to (B-132).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Which dialect A task a message belongs to.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The same as FastMCP 2.14 writes it, from before the release.
///
/// Leniency: related-task-of-the-pre-release
pub const PRE_RELEASE_RELATED_TASK: &str = "modelcontextprotocol.io/related-task";
/// What the model may be told at once.
pub const MODEL_IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
/// The token for progress, in both eras.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// The extension that dialect B is (B-055).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The task that `params` or a result says it belongs to.
#[must_use]
pub fn related_task(object: &str) -> Option<String> {
    let task = Object::parse(object).ok()?.object(META)?.object(RELATED_TASK)?;
    task.str("taskId").map(String::from)
}

/// The related-task value for a task id of ours or of a back.
pub(crate) fn related_task_value(task_id: &str) -> String {
    format!("{{\"taskId\":{}}}", crate::json::string_literal(task_id))
}
