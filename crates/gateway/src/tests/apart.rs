//! Callers are kept apart, and so are their credentials from the server's.

use serde_json::{Value, json};

use super::pipe::{Piped, modern};
use super::rig::{Rig, modern_body, with_tasks};

const UNKNOWN: &str = "Unknown task";

#[tokio::test]
async fn a_095_a_096_b_113_x_047_q_009_anothers_task_is_as_good_as_none() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({})).await;
    let params = json!({"name": "slow", "task": {}});
    let created =
        pipe.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    let theirs = created["result"]["task"]["taskId"].clone();
    let unknown = json!({"code": -32602, "message": UNKNOWN});
    let client = rig.session("2025-11-25", json!({})).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let said = client.ask(method, json!({"taskId": theirs})).await;
        assert_eq!((said.status, &said.json()["error"]), (200, &unknown), "{method}");
    }
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": theirs, "inputResponses": {}});
        let said = rig.modern(method, with_tasks(), params).await.json();
        assert_eq!(said["error"], unknown, "{method}");
    }
    let listen = json!({"notifications": {"taskIds": [theirs]}});
    let mut stream = rig.modern_open("subscriptions/listen", with_tasks(), listen).await;
    let acknowledged = stream.message().await.unwrap();
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([]));
    // Its own caller sees it all the while, in either dialect.
    let get = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": {"taskId": theirs}});
    assert_eq!(pipe.ask(get).await["result"]["status"], "working");
    let got = pipe.ask(modern(3, "tasks/get", json!({"taskId": theirs}))).await;
    assert_eq!(got["result"]["status"], "working");
}

#[tokio::test]
async fn b_161_a_header_that_is_right_opens_no_door() {
    let rig = Rig::hasty().await;
    let mut pipe = Piped::start(&rig);
    let created = pipe.ask(modern(1, "tools/call", json!({"name": "slow"}))).await;
    let theirs = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let (body, name) = modern_body("tasks/get", with_tasks(), json!({"taskId": theirs}));
    assert_eq!(name.as_deref(), Some(theirs.as_str()));
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tasks/get"), ("mcp-name", theirs.as_str())];
    let refused = rig.post(&headers, &body).await.finish().await.json();
    assert_eq!(refused["error"]["message"], UNKNOWN);
}

#[tokio::test]
async fn a_141_g_016_a_clients_token_stays_here() {
    let rig = Rig::hasty().await;
    let (body, _) = modern_body("tools/call", with_tasks(), json!({"name": "slow"}));
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "slow"),
        ("authorization", "Bearer theirs-alone"),
    ];
    let created = rig.post(&headers, &body).await.finish().await.json();
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let (body, _) = modern_body("prompts/list", with_tasks(), json!({}));
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "prompts/list"),
        ("authorization", "Bearer theirs-alone"),
    ];
    rig.post(&headers, &body).await.finish().await;
    let records = rig.records().await;
    let (calls, requests) = (rig.fake.calls.lock().clone(), rig.fake.requests.lock().clone());
    let all = format!("{calls:?} {requests:?} {:?} {records:?}", rig.fake.keys.lock());
    assert!(all.contains("slow") && all.contains("prompts/list"));
    assert!(!all.contains("theirs-alone"), "{all}");
}

#[tokio::test]
async fn b_154_a_list_is_fetched_for_each_caller_anew() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    let lists =
        |rig: &Rig| rig.fake.requests.lock().iter().filter(|(method, _)| method == "prompts/list").count();
    rig.modern("prompts/list", json!({}), json!({})).await;
    assert_eq!(lists(&rig), 1);
    let listed: Value = pipe.ask(modern(1, "prompts/list", json!({}))).await;
    assert_eq!(listed["result"]["cacheScope"], "private");
    assert_eq!(lists(&rig), 2);
    let principals: std::collections::BTreeSet<_> =
        rig.fake.keys.lock().iter().map(|key| key.principal.clone()).collect();
    assert_eq!(principals.len(), 2);
}
