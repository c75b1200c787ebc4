//! The methods of 2026-07-28, with the tasks extension or without.

use std::sync::Arc;

use serde_json::{Value, json};

use super::tasks::{self, State};
use super::work::{self, Call, Ended};
use super::{Kind, Reply, Shop, error, ok};

const VERSION: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";

pub(super) async fn answer(shop: &Arc<Shop>, id: &Value, method: &str, params: &Value) -> Reply {
    let has_tasks = shop.kind == Kind::B;
    if method == "initialize" {
        let data = json!({ "supported": [VERSION] });
        return error(400, id, -32601, "no initialize here", Some(data));
    }
    let asked = &params["_meta"]["io.modelcontextprotocol/protocolVersion"];
    if asked != VERSION {
        let data = json!({ "supported": [VERSION], "requested": asked });
        return error(400, id, -32022, "another version is spoken here", Some(data));
    }
    let takes_tasks =
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][TASKS].is_object();
    match method {
        "server/discover" => {
            let extensions = if has_tasks { json!({ TASKS: {} }) } else { json!({}) };
            let info = json!({ "name": "faults", "version": env!("CARGO_PKG_VERSION") });
            ok(
                id,
                &json!({
                    "resultType": "complete", "supportedVersions": [VERSION], "ttlMs": 60_000, "cacheScope": "public",
                    "capabilities": { "tools": {}, "extensions": extensions },
                    "_meta": { "io.modelcontextprotocol/serverInfo": info },
                }),
            )
        }
        "tools/list" => {
            let mut list = work::list();
            list["resultType"] = json!("complete");
            list["ttlMs"] = json!(60_000);
            list["cacheScope"] = json!("public");
            ok(id, &list)
        }
        "tools/call" => {
            let Some(call) = Call::parse(params) else {
                shop.misunderstands(params);
                return error(200, id, -32602, "no such tool, or its arguments do not fit", None);
            };
            if has_tasks && takes_tasks && call.is_long() {
                let task = shop.tasks.start(shop, call);
                return ok(id, &tasks::modern(&task, &State::Working, true));
            }
            match shop.perform(call).await {
                Ended::Result(mut result) => {
                    result["resultType"] = json!("complete");
                    ok(id, &result)
                }
                Ended::Error(error) => {
                    Reply::Json(200, json!({ "jsonrpc": "2.0", "id": id, "error": error }))
                }
            }
        }
        "tasks/get" | "tasks/cancel" | "tasks/update" if has_tasks => {
            let task = params["taskId"].as_str().unwrap_or_default();
            let Some(state) = shop.tasks.find(task) else {
                return error(200, id, -32602, "no such task", None);
            };
            match method {
                "tasks/get" => {
                    let state = state.borrow().clone();
                    ok(id, &tasks::modern(task, &state, false))
                }
                "tasks/cancel" => {
                    shop.tasks.cancel(task);
                    ok(id, &json!({ "resultType": "complete" }))
                }
                _ => ok(id, &json!({ "resultType": "complete" })),
            }
        }
        _ => error(404, id, -32601, "no such method", None),
    }
}
