//! The methods of MCP 2026-07-28, with the tasks extension.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::Shop;
use super::http::{Headers, held};
use super::message::{Answer, Capabilities, Params, error, invalid, ok};
use super::tools::{self, Call};
use super::work::{self, Caller, Outcome};
use crate::args::Dialect;

pub(super) const VERSION: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";
/// The key under which `deploy` asks.
const APPROVAL: &str = "approval";

/// Answers one request.
pub(super) async fn answer(
    shop: &Arc<Shop>,
    headers: &Headers<'_>,
    id: &str,
    method: &str,
    params: &Params<'_>,
) -> Answer {
    if let Some(refusal) = refuse(headers, id, method, params) {
        return refusal;
    }
    let capabilities = params.meta.capabilities.as_ref();
    let none = Capabilities::default();
    let capabilities = capabilities.unwrap_or(&none);
    match method {
        "server/discover" => ok(id, &discovery().to_string()),
        "tools/list" => {
            let mut list = tools::list(Dialect::B);
            list["resultType"] = json!("complete");
            list["ttlMs"] = json!(60_000);
            list["cacheScope"] = json!("public");
            ok(id, &list.to_string())
        }
        "tools/call" => call(shop, id, params, capabilities).await,
        "tasks/get" | "tasks/update" | "tasks/cancel" => task(shop, id, method, params, capabilities),
        _ => error(StatusCode::NOT_FOUND, id, -32601, &format!("Method not found: {method}"), None),
    }
}

/// What is wrong with the envelope, if anything.
fn refuse(headers: &Headers<'_>, id: &str, method: &str, params: &Params<'_>) -> Option<Answer> {
    let bad = |code, message: &str, data| Some(error(StatusCode::BAD_REQUEST, id, code, message, data));
    let Some(version) = &params.meta.version else {
        return bad(-32602, "Missing io.modelcontextprotocol/protocolVersion", None);
    };
    if params.meta.capabilities.is_none() {
        return bad(-32602, "Missing io.modelcontextprotocol/clientCapabilities", None);
    }
    if headers.version != Some(version.as_ref()) {
        return bad(-32020, "MCP-Protocol-Version does not equal the version in _meta", None);
    }
    if version != VERSION {
        let data = json!({ "supported": [VERSION], "requested": version });
        return bad(-32022, "Unsupported protocol version", Some(data));
    }
    if headers.method != Some(method) {
        return bad(-32020, "Mcp-Method does not equal the method", None);
    }
    let (name, needed) = match method {
        "tools/call" => (params.name.as_deref(), true),
        "tasks/get" | "tasks/update" | "tasks/cancel" => (params.task_id.as_deref(), false),
        _ => (None, false),
    };
    match (name, headers.name) {
        (Some(name), Some(header)) if name != header => bad(-32020, "Mcp-Name does not fit the params", None),
        (Some(_), None) if needed => bad(-32020, "Mcp-Name is missing", None),
        (Some(_) | None, Some(_) | None) => None,
    }
}

fn server_info() -> Value {
    json!({ "io.modelcontextprotocol/serverInfo": { "name": "taskgate-demo", "version": env!("CARGO_PKG_VERSION") } })
}

fn discovery() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": [VERSION],
        "capabilities": { "tools": {}, "extensions": { TASKS: {} } },
        "ttlMs": 60_000,
        "cacheScope": "public",
        "_meta": server_info(),
    })
}

async fn call(shop: &Arc<Shop>, id: &str, params: &Params<'_>, capabilities: &Capabilities) -> Answer {
    let Some(name) = &params.name else { return invalid(id, "`name` is missing") };
    let call = match Call::parse(name, params.arguments) {
        Ok(call) => call,
        Err(misunderstood) => return invalid(id, &misunderstood.0),
    };
    if call == Call::Instant {
        return ok(id, INSTANT);
    }
    if call.is_long() && capabilities.takes_tasks() {
        let task = shop.tasks.start(shop, call);
        return ok(id, &task.modern(true).to_string());
    }
    if let Call::Deploy { version } = &call
        && capabilities.shows_forms()
    {
        let Some(answer) = params.responses.get(APPROVAL) else {
            let request = json!({ "method": "elicitation/create", "params": tools::approval(version) });
            let asked = json!({ "resultType": "input_required", "inputRequests": { APPROVAL: request } });
            return ok(id, &asked.to_string());
        };
        return finish(id, work::perform(shop, call, Caller::Answered(answer.clone())).await);
    }
    if call.is_long() {
        let token = params.meta.progress_token.map(|token| token.get().to_owned());
        return held(shop.clone(), id.to_owned(), call, token, false, complete);
    }
    finish(id, work::perform(shop, call, Caller::Nobody).await)
}

const INSTANT: &str =
    r#"{"resultType":"complete","content":[{"type":"text","text":"done"}],"isError":false}"#;

fn finish(id: &str, outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Result { result, .. } => ok(id, &complete(&result)),
        Outcome::Cut => Answer::Cut,
    }
}

/// Adds `resultType` to an object that has other members.
fn complete(result: &str) -> String {
    format!("{{\"resultType\":\"complete\",{}", result.trim_start_matches('{'))
}

fn task(shop: &Shop, id: &str, method: &str, params: &Params<'_>, capabilities: &Capabilities) -> Answer {
    if !capabilities.takes_tasks() {
        let data = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
        return error(StatusCode::BAD_REQUEST, id, -32021, "Tasks extension required", Some(data));
    }
    let Some(task) = params.task_id.as_deref().and_then(|id| shop.tasks.find(id)) else {
        return invalid(id, "Unknown task");
    };
    match method {
        "tasks/update" => {
            for (key, answer) in &params.responses {
                task.answer(key, answer.clone());
            }
        }
        "tasks/cancel" => {
            task.cancel();
        }
        _ => return ok(id, &task.modern(false).to_string()),
    }
    ok(id, r#"{"resultType":"complete"}"#)
}
