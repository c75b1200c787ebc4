//! The methods of MCP 2025-11-25, with tasks (dialect A) or without.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Shop;
use super::http::{Headers, held};
use super::message::{Answer, Params, error, invalid, ok, success};
use super::tasks::{Next, Task};
use super::tools::{self, Call};
use super::work::{self, Caller, INSTANT, Outcome};
use crate::args::Dialect;

const NEWEST: &str = "2025-11-25";
const VERSIONS: [&str; 3] = [NEWEST, "2025-06-18", "2025-03-26"];
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Answers one request.
pub(super) async fn answer(
    shop: &Arc<Shop>,
    headers: &Headers<'_>,
    id: &str,
    method: &str,
    params: &Params<'_>,
) -> Answer {
    let has_tasks = shop.dialect == Dialect::A;
    match method {
        "initialize" => initialize(shop, id, params),
        "ping" => ok(id, "{}"),
        "tools/list" => ok(id, &tools::list(shop.dialect).to_string()),
        "tools/call" => call(shop, headers, id, params).await,
        "tasks/list" if has_tasks => {
            let tasks: Vec<_> = shop.tasks.all().iter().map(|task| task.legacy()).collect();
            ok(id, &json!({ "tasks": tasks }).to_string())
        }
        "tasks/get" | "tasks/result" | "tasks/cancel" if has_tasks => task(shop, id, method, params),
        _ => error(StatusCode::OK, id, -32601, &format!("Method not found: {method}"), None),
    }
}

/// Opens a session. Its id says what there is to remember, so that nothing has to be.
fn initialize(shop: &Shop, id: &str, params: &Params<'_>) -> Answer {
    let asked = params.version.as_deref().unwrap_or(NEWEST);
    let version = VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(NEWEST);
    let mut capabilities = json!({ "tools": {} });
    if shop.dialect == Dialect::A {
        capabilities["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    let result = json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": { "name": "taskgate-demo", "version": env!("CARGO_PKG_VERSION") },
    });
    let (number, _) = shop.tasks.expect_reply();
    let forms = if params.capabilities.shows_forms() { "forms" } else { "plain" };
    Answer::Opened(success(id, &result.to_string()), format!("{forms}-{number}"))
}

async fn call(shop: &Arc<Shop>, headers: &Headers<'_>, id: &str, params: &Params<'_>) -> Answer {
    let Some(name) = &params.name else { return invalid(id, "`name` is missing") };
    let call = match Call::parse(name, params.arguments) {
        Ok(call) => call,
        Err(misunderstood) => return invalid(id, &misunderstood.0),
    };
    let as_task = shop.dialect == Dialect::A && params.task.is_some();
    if as_task && !call.is_long() {
        return error(StatusCode::OK, id, -32601, &format!("{name} cannot be called as a task"), None);
    }
    if call == Call::Instant {
        return ok(id, INSTANT);
    }
    if as_task {
        let task = shop.tasks.start(shop, call);
        return ok(id, &json!({ "task": task.legacy() }).to_string());
    }
    if call.is_long() {
        let token = params.meta.progress_token.map(|token| token.get().to_owned());
        let shows_forms = headers.session.is_some_and(|session| session.starts_with("forms-"));
        return held(shop.clone(), id.to_owned(), call, token, shows_forms, str::to_owned);
    }
    match work::perform(shop, call, Caller::Nobody).await {
        Outcome::Result { result, .. } => ok(id, &result),
        Outcome::Cut => Answer::Cut,
    }
}

fn task(shop: &Arc<Shop>, id: &str, method: &str, params: &Params<'_>) -> Answer {
    let Some(task) = params.task_id.as_deref().and_then(|id| shop.tasks.find(id)) else {
        return invalid(id, "Unknown task");
    };
    match method {
        "tasks/result" => {
            let (sender, receiver) = mpsc::channel(8);
            tokio::spawn(result(shop.clone(), task, id.to_owned(), sender));
            Answer::Stream(receiver)
        }
        "tasks/cancel" if !task.cancel() => invalid(id, "Task is already over; cannot cancel"),
        _ => ok(id, &task.legacy().to_string()),
    }
}

/// Holds `tasks/result` open: passes questions on, and at last the result.
async fn result(shop: Arc<Shop>, task: Arc<Task>, id: String, sender: mpsc::Sender<bytes::Bytes>) {
    let related = json!({ RELATED: { "taskId": task.id } });
    let mut seen = Vec::new();
    loop {
        let next = tokio::select! {
            next = task.next(&seen) => next,
            () = sender.closed() => return,
        };
        let message = match next {
            Next::Question { key, mut question } => {
                question["_meta"] = related.clone();
                let ask = shop.tasks.expect_answer(&task, &key);
                seen.push(key);
                let request = json!({ "jsonrpc": "2.0", "id": ask, "method": "elicitation/create", "params": question });
                if sender.send(request.to_string().into()).await.is_err() {
                    return;
                }
                continue;
            }
            Next::Result(result) => {
                let mut result: Value = serde_json::from_str(&result).unwrap_or_default();
                result["_meta"] = related;
                success(&id, &result.to_string())
            }
            Next::Failed => failure(&id, "the work broke off"),
            Next::Cancelled => failure(&id, "the task was cancelled"),
        };
        // If the client went away it will ask again.
        let _ = sender.send(message.into()).await;
        return;
    }
}

fn failure(id: &str, words: &str) -> Vec<u8> {
    let error = json!({ "code": -32603, "message": words });
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()
}
