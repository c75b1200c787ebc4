//! The errors that we author.

use taskgate_core::id::TaskId;

use crate::json::{self, Object, push_literal, string_literal};
use crate::meta;
use crate::version::Version;

/// The codes.
pub mod code {
    /// Not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// Not a request that is allowed here.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Parameters that cannot be used, an unknown task among them.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A fault of ours or of a server behind us.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// A mirrored header is missing or differs (B-044).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare what the request needs (B-014).
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// The protocol version is not spoken here (B-020).
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// A URL must be visited first: dialect A only (A-108, B-013).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// No such resource: legacy only (E-010).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user said no to sampling.
    pub const USER_REJECTED: i64 = -1;
}

/// A JSON-RPC error object.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// What the caller reads.
    pub message: String,
    /// Raw JSON.
    pub data: Option<String>,
}

impl RpcError {
    /// An error without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    /// The same with `data`, which must be JSON.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<String>) -> RpcError {
        self.data = Some(data.into());
        self
    }

    /// The error object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = format!("{{\"code\":{},\"message\":", self.code);
        push_literal(&mut out, &self.message);
        if let Some(data) = &self.data {
            out.push_str(",\"data\":");
            out.push_str(data);
        }
        out.push('}');
        out
    }

    /// Reads an error object that a peer sent. What makes no sense is replaced: no usable code is `-32603`,
    /// no message an empty one.
    #[must_use]
    pub fn read(error: &str) -> RpcError {
        let Ok(object) = Object::parse(error) else {
            return RpcError::new(code::INTERNAL_ERROR, "The server sent an error that is no object");
        };
        RpcError {
            code: object.i64("code").unwrap_or(code::INTERNAL_ERROR),
            message: object.str("message").map(String::from).unwrap_or_default(),
            data: object.get("data").map(String::from),
        }
    }

    /// The versions that a `-32022` lists (B-020).
    #[must_use]
    pub fn supported_versions(&self) -> Vec<String> {
        let listed = self.data.as_deref().and_then(|data| json::at(data, &["supported"]));
        strings(listed.unwrap_or("[]"))
    }

    /// `-32602` for a task that is unknown, expired or someone else's: one text for all (A-051, A-096, B-081,
    /// G-015).
    #[must_use]
    pub fn unknown_task() -> RpcError {
        RpcError::new(code::INVALID_PARAMS, "Unknown task")
    }

    /// `-32602` for the cancellation of a task that is over. `status` is its dialect A status.
    #[must_use]
    pub fn already_over(status: &str) -> RpcError {
        RpcError::new(code::INVALID_PARAMS, format!("Task is already {status}; cannot cancel"))
    }

    /// What `tasks/result` says of a cancelled task.
    #[must_use]
    pub fn task_cancelled(id: &TaskId) -> RpcError {
        RpcError::new(code::INTERNAL_ERROR, "Task was cancelled")
            .with_data(format!("{{\"taskId\":\"{}\",\"status\":\"cancelled\"}}", id.expose()))
    }

    /// `-32602` for a tool that is not there (A-118, B-150).
    #[must_use]
    pub fn unknown_tool(name: &str) -> RpcError {
        RpcError::new(code::INVALID_PARAMS, format!("Unknown tool: {}", shown(name)))
    }

    /// `-32601`: the tool may not be called as a task.
    #[must_use]
    pub fn task_forbidden(tool: &str) -> RpcError {
        RpcError::new(code::METHOD_NOT_FOUND, format!("{} cannot be called as a task", shown(tool)))
    }

    /// `-32601`: the tool may only be called as a task.
    #[must_use]
    pub fn task_required(tool: &str) -> RpcError {
        RpcError::new(code::METHOD_NOT_FOUND, format!("{} must be called as a task", shown(tool)))
    }

    /// `-32602` with the reason.
    #[must_use]
    pub fn invalid_params(what: impl Into<String>) -> RpcError {
        RpcError::new(code::INVALID_PARAMS, what)
    }

    /// `-32600` with the reason.
    #[must_use]
    pub fn invalid_request(what: impl Into<String>) -> RpcError {
        RpcError::new(code::INVALID_REQUEST, what)
    }

    /// `-32603` with the reason.
    #[must_use]
    pub fn internal(what: impl Into<String>) -> RpcError {
        RpcError::new(code::INTERNAL_ERROR, what)
    }

    /// `-32602` for a cursor that is not ours.
    #[must_use]
    pub fn bad_cursor() -> RpcError {
        RpcError::new(code::INVALID_PARAMS, "Bad cursor")
    }

    /// `-32600`: a legacy request outside a session (D-008, A-134).
    #[must_use]
    pub fn session_required() -> RpcError {
        RpcError::new(
            code::INVALID_REQUEST,
            "A session is required: send initialize first, then its Mcp-Session-Id",
        )
    }

    /// `-32600`: the session is unknown or has ended (D-004, A-134).
    #[must_use]
    pub fn session_unknown() -> RpcError {
        RpcError::new(code::INVALID_REQUEST, "No such session: it has ended, so send initialize again")
    }

    /// `-32020` with the reason (B-044).
    #[must_use]
    pub fn header_mismatch(what: impl Into<String>) -> RpcError {
        RpcError::new(code::HEADER_MISMATCH, what)
    }

    /// `-32022`: a request names a version that is not spoken, or one that needs `initialize` (B-020, Q-013).
    #[must_use]
    pub fn unsupported_version(requested: &str) -> RpcError {
        RpcError::new(code::UNSUPPORTED_VERSION, "Unsupported protocol version").with_data(format!(
            "{{\"supported\":{},\"requested\":{}}}",
            supported(),
            string_literal(requested)
        ))
    }

    /// `-32021`: the request needs what its client did not declare; `required` is a capabilities object
    /// (B-014).
    #[must_use]
    pub fn missing_capability(message: impl Into<String>, required: &str) -> RpcError {
        RpcError::new(code::MISSING_CLIENT_CAPABILITY, message)
            .with_data(format!("{{\"requiredCapabilities\":{required}}}"))
    }

    /// `-32021` for the tasks extension (B-061, B-064, B-168).
    #[must_use]
    pub fn tasks_extension_required() -> RpcError {
        let required = format!("{{\"extensions\":{{\"{}\":{{}}}}}}", meta::TASKS_EXTENSION);
        RpcError::missing_capability("Tasks extension required", &required)
    }

    /// `-32601` (B-016, Q-008).
    #[must_use]
    pub fn method_not_found(method: &str) -> RpcError {
        RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {}", shown(method)))
    }

    /// `-32601` for a modern `initialize`, naming the versions (B-024, B-171, D-001).
    #[must_use]
    pub fn no_initialize_here() -> RpcError {
        let message =
            format!("No initialize in a stateless request; supported versions: {}", supported_words());
        RpcError::new(code::METHOD_NOT_FOUND, message).with_data(format!("{{\"supported\":{}}}", supported()))
    }

    /// `-32600`: a body over the limit.
    #[must_use]
    pub fn too_large(limit: usize) -> RpcError {
        RpcError::new(code::INVALID_REQUEST, format!("The message is larger than {limit} bytes"))
    }

    /// `-32603`: a cap of the operator's is reached (A-094, G-024).
    #[must_use]
    pub fn too_many(what: &str, limit: usize) -> RpcError {
        RpcError::new(code::INTERNAL_ERROR, format!("Too many {what}: the limit is {limit}"))
    }

    /// `-32603`: the server behind us cannot be reached (E-014).
    #[must_use]
    pub fn unreachable(server: &str) -> RpcError {
        RpcError::new(code::INTERNAL_ERROR, format!("The server {} cannot be reached", shown(server)))
    }

    /// `-32603`: the server behind us sent what makes no sense (G-025).
    #[must_use]
    pub fn upstream_fault(what: &str) -> RpcError {
        RpcError::new(code::INTERNAL_ERROR, format!("The server's answer cannot be used: {what}"))
    }
}

/// A peer's word inside a sentence of ours.
fn shown(name: &str) -> String {
    crate::text::SafeText::new(name, 80).into_string()
}

/// The supported versions as a JSON array.
#[must_use]
pub(crate) fn supported() -> String {
    let quoted: Vec<_> =
        Version::SUPPORTED.iter().map(|version| format!("\"{}\"", version.as_str())).collect();
    format!("[{}]", quoted.join(","))
}

pub(crate) fn supported_words() -> String {
    Version::SUPPORTED.map(Version::as_str).join(", ")
}

/// The strings in an array; anything else in it is left out.
pub(crate) fn strings(array: &str) -> Vec<String> {
    let elements = json::elements(array).unwrap_or_default();
    elements.into_iter().filter_map(json::string).map(String::from).collect()
}
