//! Legacy calls without a task: waited for, or followed by a handle.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_core::time::{Millis, UnixMillis};

use super::calls::find;
use super::rig::{Rig, config, redact};
use super::schema::is_a;
use crate::event_id::EventId;

const NEWEST: &str = "2025-11-25";

async fn tool(client: &super::rig::Client<'_>, arguments: Value) -> Value {
    client.call("taskgate_task", arguments).await["result"].clone()
}

fn handle(said: &Value) -> String {
    let id = said["result"]["structuredContent"]["taskgate"]["taskId"].as_str();
    id.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[tokio::test]
async fn g_002_a_call_that_lasts_gets_a_handle_in_every_legacy_version() {
    let rig = Rig::hasty().await;
    for version in [NEWEST, "2025-06-18", "2025-03-26"] {
        let client = rig.session(version, json!({})).await;
        let said = client.call("slow", json!({"version": version})).await;
        is_a("CallToolResult", &said["result"]);
        let text = said["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("taskgate_task"), "{text}");
        let has_structure = said["result"].get("structuredContent").is_some();
        assert_eq!(has_structure, version >= "2025-06-18", "G-005");
        assert!(said["result"].get("task").is_none(), "G-001");
    }
}

#[tokio::test]
async fn design_3_the_handle_tool_waits_and_shows_the_result_itself() {
    let mut config = config();
    config.limits.sync_budget = Millis(60);
    let rig = Rig::with(config).await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = handle(&client.call("slow", json!({})).await);
    let still = tool(&client, json!({"action": "wait", "taskId": id})).await;
    assert_eq!(still["structuredContent"]["taskgate"]["status"], "working");
    rig.fake.gate.open();
    find(&rig, &id).await.over().await;
    let done = tool(&client, json!({"action": "wait", "taskId": id})).await;
    assert_eq!(done, json!({"content": [{"type": "text", "text": "done"}]}));
    assert_eq!(tool(&client, json!({"action": "result", "taskId": id})).await, done);
}

#[tokio::test]
async fn r5_7_a_long_result_is_shown_page_by_page() {
    let mut config = config();
    config.limits.page_bytes = 100;
    config.servers[0].tools.clear();
    let rig = Rig::with(config).await;
    let client = rig.session(NEWEST, json!({})).await;
    let long = "x".repeat(500);
    let created =
        client.ask("tools/call", json!({"name": "echo", "arguments": {"t": long}, "task": {}})).await.json();
    let id = created["result"]["task"]["taskId"].as_str().unwrap().to_owned();
    find(&rig, &id).await.over().await;
    let first = tool(&client, json!({"action": "result", "taskId": id})).await;
    let pages = first["structuredContent"]["taskgate"]["pages"].as_u64().unwrap();
    let mut whole = String::new();
    for page in 1..=pages {
        let said = tool(&client, json!({"action": "result", "taskId": id, "page": page})).await;
        is_a("CallToolResult", &said);
        whole.push_str(said["content"][0]["text"].as_str().unwrap());
    }
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole, json!({"name": "echo", "arguments": {"t": long}}));
    let beyond = tool(&client, json!({"action": "result", "taskId": id, "page": pages + 1})).await;
    assert_eq!(beyond["isError"], true);
}

#[tokio::test]
async fn design_3_the_handle_tool_says_what_it_cannot_do() {
    let rig = Rig::hasty().await;
    let client = rig.session(NEWEST, json!({})).await;
    let mut out = String::new();
    for arguments in [
        json!({}),
        json!({"action": "dance"}),
        json!({"action": "list"}),
        json!({"action": "wait"}),
        json!({"action": "wait", "taskId": "t123"}),
        json!({"action": "wait", "taskId": "a:b"}),
    ] {
        let said = tool(&client, arguments.clone()).await;
        assert_eq!(said["isError"], true);
        out.push_str(&format!("{arguments}: {}\n", said["content"][0]["text"]));
    }
    let id = handle(&client.call("slow", json!({})).await);
    for arguments in [
        json!({"action": "result", "taskId": id, "page": 0}),
        json!({"action": "answer", "taskId": id}),
        json!({"action": "answer", "taskId": id, "key": "in-1"}),
        json!({"action": "answer", "taskId": id, "key": "in-1", "reply": {"action": "accept"}}),
    ] {
        let said = tool(&client, arguments.clone()).await;
        out.push_str(&format!("{}: {}\n", redact(arguments), redact(said["content"][0]["text"].clone())));
    }
    insta::assert_snapshot!(out);
}

#[tokio::test]
async fn design_3_a_wish_to_cancel_is_told_as_one() {
    let rig = Rig::hasty().await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = handle(&client.call("slow", json!({})).await);
    rig.fake.has_called(1).await;
    let said = tool(&client, json!({"action": "cancel", "taskId": id})).await;
    let text = said["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("asked to stop") || text.contains("cancelled"), "{text}");
    rig.fake.has_stopped(1).await;
    find(&rig, &id).await.over().await;
    let over = tool(&client, json!({"action": "wait", "taskId": id})).await;
    assert_eq!(over["isError"], true);
}

#[tokio::test]
async fn a_127_g_004_a_question_is_asked_on_the_calls_own_stream() {
    let rig = Rig::with(config()).await;
    for version in [NEWEST, "2025-06-18"] {
        let client = rig.session(version, json!({"elicitation": {}})).await;
        let mut stream = client.open("tools/call", json!({"name": "ask"})).await;
        let asked = stream.message().await.unwrap();
        is_a("ElicitRequest", &asked);
        assert!(asked["params"].get("_meta").is_none(), "it names no task that the client does not know");
        let answer = json!({"action": "accept", "content": {"colour": "red"}});
        client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer})).await;
        let done = stream.message().await.unwrap();
        assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("red"));
        assert!(stream.message().await.is_none(), "A-127");
    }
}

#[tokio::test]
async fn g_004_a_question_that_outlasts_the_wait_comes_with_the_handle_and_is_answered_there() {
    let rig = Rig::hasty().await;
    let client = rig.session(NEWEST, json!({"elicitation": {"form": {}}})).await;
    // A client that reads no streams cannot be asked on one.
    let body = json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {"name": "ask"}});
    let mut headers = vec![("accept", "application/json")];
    headers.extend(client.headers());
    let said = rig.post(&headers, &body.to_string()).await.finish().await.json();
    insta::assert_snapshot!(redact(said["result"].clone()));
    let id = handle(&said);
    let reply = json!({"action": "accept", "content": {"colour": "blue"}});
    let answered =
        tool(&client, json!({"action": "answer", "taskId": id, "key": "in-1", "reply": {"action": "no"}}))
            .await;
    assert_eq!(answered["isError"], true, "Q-023");
    tool(&client, json!({"action": "answer", "taskId": id, "key": "in-1", "reply": reply})).await;
    find(&rig, &id).await.over().await;
    let done = tool(&client, json!({"action": "wait", "taskId": id})).await;
    assert!(done["content"][0]["text"].as_str().unwrap().contains("blue"));
}

#[tokio::test]
async fn g_003_a_cancelled_plain_call_is_cancelled_and_not_answered() {
    let rig = Rig::with(config()).await;
    let client = rig.session(NEWEST, json!({})).await;
    for (tool, request) in [("slow", 1), ("progress", 2)] {
        let params = json!({"name": tool, "_meta": {"progressToken": 1}});
        let mut stream = client.open("tools/call", params).await;
        rig.fake.has_called(request).await;
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})).await;
        rig.fake.has_stopped(request).await;
        while let Some(message) = stream.message().await {
            assert!(message.get("result").is_none() && message.get("error").is_none(), "{message}");
        }
    }
}

#[tokio::test]
async fn a_129_g_020_x_050_closing_a_legacy_stream_cancels_nothing() {
    let rig = Rig::with(config()).await;
    let client = rig.session(NEWEST, json!({})).await;
    let params = json!({"name": "progress", "_meta": {"progressToken": 1}});
    let mut stream = client.open("tools/call", params).await;
    stream.message().await.unwrap();
    drop(stream);
    let slow = client.open("tools/call", json!({"name": "slow"})).await;
    drop(slow);
    rig.fake.has_called(2).await;
    rig.fake.gate.open();
    let id = rig.records().await[0].id.expose().to_owned();
    let record = find(&rig, &id).await.over().await;
    assert!(matches!(record.task.ending(), Some(taskgate_core::task::Ending::Returned { .. })));
    assert_eq!(*rig.fake.stopped.borrow(), 0);
}

#[tokio::test]
async fn a_128_a_broken_call_is_taken_up_again_by_its_last_event() {
    let rig = Rig::with(config()).await;
    let client = rig.session(NEWEST, json!({})).await;
    let mut stream = client.open("tools/call", json!({"name": "slow"})).await;
    let last = stream.event().await.unwrap().id.unwrap();
    drop(stream);
    let mut resumed = client.stream(Some(&last)).await;
    rig.fake.gate.open();
    let done = resumed.message().await.unwrap();
    assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(1), &json!("done")));
    assert_eq!(rig.fake.calls.lock().len(), 1, "R7.3");
}

#[tokio::test]
async fn a_128_r2_6_a_call_that_is_taken_up_again_has_what_is_left_of_its_time() {
    let rig = Rig::with(config()).await;
    let client = rig.session(NEWEST, json!({})).await;
    let mut stream = client.open("tools/call", json!({"name": "slow"})).await;
    let last = stream.event().await.unwrap().id.unwrap();
    drop(stream);
    // Its client has been waiting for the whole budget by now.
    let mut id = EventId::parse(&last).unwrap();
    id.since = id.since.map(|since| UnixMillis(since.0 - 60_000));
    let mut resumed = client.stream(Some(&id.encode())).await;
    let said = tokio::time::timeout(Duration::from_secs(20), resumed.message()).await;
    handle(&said.expect("nobody waits for a minute once more").unwrap());
}

#[tokio::test]
async fn r6_2_nothing_is_listed_to_callers_who_cannot_be_told_apart() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    client.task("slow").await;
    let said = tool(&client, json!({"action": "list"})).await;
    assert_eq!(said["isError"], true);
    assert!(!said.to_string().contains("t0"));
}
