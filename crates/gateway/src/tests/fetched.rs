//! Answers that could not be handed over: over HTTP the connection says so (design 3).

use serde_json::{Value, json};

use super::http_client;
use super::rig::{Rig, config};
use crate::config::GatewayConfig;
use taskgate_core::time::Millis;

/// One connection at a time, so that the next one shows that the one before is gone.
fn narrow(stream_after: Millis) -> GatewayConfig {
    let mut config = config();
    config.limits.connections_max = 1;
    config.limits.stream_after = stream_after;
    config
}

/// Returns when the gateway has let go of all connections of before.
async fn is_alone(rig: &Rig) {
    let head = [("connection", "close")];
    let healthy = http_client::open(rig.addr, "GET", "/healthz", &head, None).await.finish().await;
    assert_eq!(healthy.status, 200);
}

async fn all_over(rig: &Rig) {
    for record in rig.records().await {
        let mut handle = rig.gateway.engine.find(&record.principal, &record.id).await.unwrap().unwrap();
        handle.over().await;
    }
}

fn close_after(params: &Value) -> (Vec<(&'static str, String)>, String) {
    let (body, name) = super::rig::modern_body("tools/call", json!({}), params.clone());
    let mut headers = vec![
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", "tools/call".to_owned()),
        ("connection", "close".to_owned()),
    ];
    headers.extend(name.map(|name| ("mcp-name", name)));
    (headers, body)
}

async fn call(rig: &Rig, params: &Value) -> Value {
    let (headers, body) = close_after(params);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    rig.post(&headers, &body).await.finish().await.json()
}

/// Makes a call and goes away while the server is at work.
async fn call_and_leave(rig: &Rig, params: &Value) {
    let (headers, body) = close_after(params);
    let calling = async {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        rig.post(&headers, &body).await.finish().await
    };
    tokio::select! {
        answered = calling => panic!("{}", answered.body),
        () = rig.fake.has_called(1) => {}
    }
    is_alone(rig).await;
}

async fn answers_the_same_call_once(stream_after: Millis) {
    let rig = Rig::with(narrow(stream_after)).await;
    let params = json!({"name": "slow", "arguments": {"n": 1}});
    call_and_leave(&rig, &params).await;
    rig.fake.gate.open();
    all_over(&rig).await;
    let records = rig.records().await;

    let said = call(&rig, &params).await;
    let content = said["result"]["content"].as_array().unwrap_or_else(|| panic!("{said}"));
    assert_eq!(content[0]["text"], "done");
    let words = content[1]["text"].as_str().unwrap();
    assert!(words.starts_with("This call was made before at 20"), "{words}");
    assert_eq!(said["result"]["_meta"]["taskgate/joined"], records[0].id.expose());
    assert_eq!(rig.fake.calls.lock().len(), 1);

    // That answer was handed over: from now on it is done again.
    let said = call(&rig, &params).await;
    assert_eq!(said["result"]["content"].as_array().unwrap().len(), 1, "{said}");
    assert_eq!(rig.fake.calls.lock().len(), 2);
}

#[tokio::test]
async fn design_3_over_http_an_answer_that_nobody_took_answers_the_same_call_once() {
    answers_the_same_call_once(Millis::secs(60)).await;
}

#[tokio::test]
async fn design_3_over_http_a_stream_that_broke_before_its_answer_counts_as_not_taken() {
    answers_the_same_call_once(Millis(1)).await;
}

#[tokio::test]
async fn design_3_over_http_a_legacy_answer_that_nobody_took_answers_the_same_call_once() {
    let rig = Rig::with(narrow(Millis(1))).await;
    let client = rig.session("2025-11-25", json!({})).await;
    let message =
        |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "slow"}});
    let headers = [
        ("mcp-session-id", client.id.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
        ("connection", "close"),
    ];
    let leaving = async { rig.post(&headers, &message(1).to_string()).await.finish().await };
    tokio::select! {
        answered = leaving => panic!("{}", answered.body),
        () = rig.fake.has_called(1) => {}
    }
    is_alone(&rig).await;
    rig.fake.gate.open();
    all_over(&rig).await;
    let said = rig.post(&headers, &message(2).to_string()).await.finish().await.json();
    assert_eq!(said["result"]["content"][0]["text"], "done");
    assert!(said["result"]["_meta"]["taskgate/joined"].is_string(), "{said}");
    assert_eq!(rig.fake.calls.lock().len(), 1);
    // Two of one batch are told apart from it no less.
    let old = rig.session("2025-03-26", json!({})).await;
    let headers = [("mcp-session-id", old.id.as_str()), ("connection", "close")];
    for calls in 2..4 {
        let batch = format!("[{}]", message(3));
        let said = rig.post(&headers, &batch).await.finish().await.json();
        assert_eq!(said[0]["result"]["content"].as_array().unwrap().len(), 1, "{said}");
        assert_eq!(rig.fake.calls.lock().len(), calls);
    }
}

#[tokio::test]
async fn design_3_the_result_of_a_handle_that_was_shown_is_not_offered_again() {
    let mut config = narrow(Millis::secs(60));
    config.limits.sync_budget = Millis(20);
    let rig = Rig::with(config).await;
    let params = json!({"name": "slow", "arguments": {"n": 1}});
    let said = call(&rig, &params).await;
    let id = said["result"]["structuredContent"]["taskgate"]["taskId"].as_str().unwrap().to_owned();
    rig.fake.gate.open();
    all_over(&rig).await;
    let shown = json!({"name": "taskgate_task", "arguments": {"action": "wait", "taskId": id}});
    for _ in 0..2 {
        assert_eq!(call(&rig, &shown).await["result"]["content"][0]["text"], "done");
    }
    let said = call(&rig, &params).await;
    assert_eq!(said["result"]["content"].as_array().unwrap().len(), 1, "{said}");
    assert_eq!(rig.fake.calls.lock().len(), 2);
}
