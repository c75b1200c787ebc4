//! The methods of 2025-11-25, with tasks or without.

use std::sync::Arc;

use serde_json::{Value, json};

use super::tasks::{self, State};
use super::work::{self, Call, Ended};
use super::{Kind, Reply, Shop, error, ok};

const VERSION: &str = "2025-11-25";

pub(super) async fn answer(shop: &Arc<Shop>, id: &Value, method: &str, params: &Value) -> Reply {
    let has_tasks = shop.kind == Kind::A;
    match method {
        "initialize" => open(shop, id),
        "ping" => ok(id, &json!({})),
        "tools/list" => {
            let mut list = work::list();
            if has_tasks && let Some(tools) = list["tools"].as_array_mut() {
                for tool in tools
                    .iter_mut()
                    .filter(|tool| tool["name"].as_str().is_some_and(|name| super::PAYMENTS.contains(&name)))
                {
                    tool["execution"] = json!({ "taskSupport": "optional" });
                }
            }
            ok(id, &list)
        }
        "tools/call" => {
            let Some(call) = Call::parse(params) else {
                shop.misunderstands(params);
                return error(200, id, -32602, "no such tool, or its arguments do not fit", None);
            };
            if has_tasks && call.is_long() && params["task"].is_object() {
                let task = shop.tasks.start(shop, call);
                return ok(id, &json!({ "task": tasks::legacy(&task, &State::Working) }));
            }
            finish(id, &shop.perform(call).await, None)
        }
        "tasks/get" | "tasks/result" | "tasks/cancel" if has_tasks => {
            let task = params["taskId"].as_str().unwrap_or_default();
            let Some(mut state) = shop.tasks.find(task) else {
                return error(200, id, -32602, "no such task", None);
            };
            match method {
                "tasks/get" => {
                    let state = state.borrow().clone();
                    ok(id, &tasks::legacy(task, &state))
                }
                "tasks/cancel" => {
                    shop.tasks.cancel(task);
                    ok(id, &tasks::legacy(task, &State::Cancelled))
                }
                _ => match tasks::end(&mut state).await {
                    State::Ended(ended) => finish(id, &ended, Some(task)),
                    State::Working | State::Cancelled => error(200, id, -32603, "it was cancelled", None),
                },
            }
        }
        _ => error(200, id, -32601, "no such method", None),
    }
}

fn open(shop: &Shop, id: &Value) -> Reply {
    let mut capabilities = json!({ "tools": {} });
    if shop.kind == Kind::A {
        capabilities["tasks"] = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    let result = json!({
        "protocolVersion": VERSION, "capabilities": capabilities,
        "serverInfo": { "name": "faults", "version": env!("CARGO_PKG_VERSION") },
    });
    let session = format!("s-{}-{}", std::process::id(), shop.number());
    Reply::Opened(json!({ "jsonrpc": "2.0", "id": id, "result": result }), session)
}

fn finish(id: &Value, ended: &Ended, task: Option<&str>) -> Reply {
    match ended {
        Ended::Result(result) => {
            let mut result = result.clone();
            if let Some(task) = task {
                result["_meta"] = json!({ "io.modelcontextprotocol/related-task": { "taskId": task } });
            }
            ok(id, &result)
        }
        Ended::Error(error) => Reply::Json(200, json!({ "jsonrpc": "2.0", "id": id, "error": error })),
    }
}
