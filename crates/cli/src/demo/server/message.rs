//! JSON-RPC, as much of it as this server needs.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// What a client sent.
#[derive(Deserialize)]
pub(super) struct Incoming<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    /// Of a response to a request of ours.
    #[serde(default)]
    pub(super) result: Option<Value>,
}

/// The `params` of the methods that it knows, all in one.
#[derive(Deserialize, Default)]
pub(super) struct Params<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(rename = "taskId", borrow, default)]
    pub(super) task_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) task: Option<&'a RawValue>,
    #[serde(rename = "protocolVersion", borrow, default)]
    pub(super) version: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) capabilities: Capabilities,
    #[serde(rename = "inputResponses", default)]
    pub(super) responses: std::collections::BTreeMap<String, Value>,
    #[serde(rename = "_meta", borrow, default)]
    pub(super) meta: Meta<'a>,
}

/// `_meta` of a request.
#[derive(Deserialize, Default)]
pub(super) struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", borrow, default)]
    pub(super) version: Option<Cow<'a, str>>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", default)]
    pub(super) capabilities: Option<Capabilities>,
    #[serde(rename = "progressToken", borrow, default)]
    pub(super) progress_token: Option<&'a RawValue>,
}

/// What a client can do, as far as it matters here.
#[derive(Deserialize, Default)]
pub(super) struct Capabilities {
    #[serde(default)]
    pub(super) elicitation: Option<Elicitation>,
    #[serde(default)]
    extensions: Option<Extensions>,
}

#[derive(Deserialize)]
pub(super) struct Elicitation {
    #[serde(default)]
    form: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    url: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Extensions {
    #[serde(rename = "io.modelcontextprotocol/tasks", default)]
    tasks: Option<serde::de::IgnoredAny>,
}

impl Capabilities {
    /// Whether a form can be shown. `{}` means forms (B-141).
    pub(super) fn shows_forms(&self) -> bool {
        self.elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
    }

    /// Whether the tasks extension is declared.
    pub(super) fn takes_tasks(&self) -> bool {
        self.extensions.as_ref().is_some_and(|extensions| extensions.tasks.is_some())
    }
}

/// How a request is answered.
pub(super) enum Answer {
    /// By one JSON document.
    Json(StatusCode, Vec<u8>),
    /// By one, and with a new session.
    Opened(Vec<u8>, String),
    /// 202.
    Accepted,
    /// By several messages, the last of which is the response.
    Stream(mpsc::Receiver<Bytes>),
    /// The connection breaks.
    Cut,
}

/// A successful response; `result` is JSON.
pub(super) fn success(id: &str, result: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(40 + id.len() + result.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
    out
}

pub(super) fn ok(id: &str, result: &str) -> Answer {
    Answer::Json(StatusCode::OK, success(id, result))
}

/// An error response.
pub(super) fn error(status: StatusCode, id: &str, code: i64, message: &str, data: Option<Value>) -> Answer {
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    Answer::Json(status, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes())
}

/// `-32602`.
pub(super) fn invalid(id: &str, message: &str) -> Answer {
    error(StatusCode::OK, id, -32602, message, None)
}

/// One event of a stream.
pub(super) fn event(message: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(message.len() + 8);
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(message);
    out.extend_from_slice(b"\n\n");
    out.into()
}
