//! Clients that break the rules of conversation: what they are told, and that they and everybody else are served on.

use serde_json::{Value, json};

use super::pipe::Piped;
use super::rig::{Rig, config};

const NEWEST: &str = "2025-11-25";

fn answer(id: &Value, colour: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"colour": colour}}})
}

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

#[tokio::test]
async fn g_011_x_031_a_client_that_answers_twice_is_heard_once() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({"elicitation": {}})).await;
    let mut stream = client.open("tools/call", json!({"name": "ask", "arguments": {}})).await;
    let asked = stream.message().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    for colour in ["red", "blue"] {
        let said = client.say(answer(&asked["id"], colour)).await;
        assert_eq!((said.status, said.body.as_str()), (202, ""), "A-004: an answer is not answered");
    }
    let done = stream.message().await.unwrap();
    let words = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("red") && !words.contains("blue"), "{words}");

    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({"elicitation": {}})).await;
    let call = json!({"name": "ask", "arguments": {"on": "a pipe"}});
    pipe.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})).await;
    let asked = loop {
        let heard = pipe.hear().await;
        if heard["method"] == "elicitation/create" {
            break heard;
        }
    };
    pipe.say(answer(&asked["id"], "red")).await;
    pipe.say(answer(&asked["id"], "blue")).await;
    let done = loop {
        let heard = pipe.hear().await;
        if heard["id"] == 1 {
            break heard;
        }
    };
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("red"), "{done}");
    assert_eq!(pipe.ask(ping(2)).await["result"], json!({}));
}

/// What answers nothing and takes nothing back.
fn pointless() -> Vec<Value> {
    let cancelled =
        |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    vec![
        answer(&json!("never-asked"), "red"),
        answer(&json!(4711), "red"),
        answer(&json!(-1), "red"),
        json!({"jsonrpc": "2.0", "id": "never-asked", "error": {"code": -1, "message": "no"}}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -1, "message": "no"}}),
        cancelled(json!({"requestId": 4711})),
        cancelled(json!({"requestId": "never-sent", "reason": "why not"})),
        cancelled(json!({})),
        cancelled(json!({"requestId": {}})),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
        json!({"jsonrpc": "2.0", "method": "notifications/no/such"}),
    ]
}

#[tokio::test]
async fn a_004_a_092_x_031_answers_to_nothing_and_cancellations_of_nothing_are_dropped() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({"elicitation": {}})).await;
    for message in pointless() {
        let said = client.say(message.clone()).await;
        assert_eq!((said.status, said.body.as_str()), (202, ""), "{message}");
    }
    assert_eq!(client.ask("ping", json!({})).await.json()["result"], json!({}));
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({})).await;
    for message in pointless() {
        pipe.say(message).await;
    }
    pipe.say(ping(7)).await;
    assert_eq!(
        pipe.hear().await,
        json!({"jsonrpc": "2.0", "id": 7, "result": {}}),
        "nothing was said before"
    );
    assert!(rig.fake.calls.lock().is_empty());
}

#[tokio::test]
async fn g_024_a_client_that_floods_is_refused_beyond_its_share_and_hurts_nobody_else() {
    let mut config = config();
    config.limits.requests_max = 8;
    config.limits.sync_budget = taskgate_core::time::Millis::secs(60);
    let rig = Rig::with(config).await;
    let mut flood = Piped::start(&rig);
    flood.initialize(json!({})).await;
    for id in 0..200_u64 {
        let params = json!({"name": "slow", "arguments": {"n": id}});
        flood.say(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
        flood.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": 1}})).await;
    }
    let mut refused = 0;
    while refused < 192 {
        let heard = flood.hear().await;
        assert_eq!(heard["error"]["code"], -32600, "{heard}");
        assert!(heard["error"]["message"].as_str().unwrap().contains("too many"), "{heard}");
        refused += 1;
    }
    // Another client, and then the same one.
    let other = rig.session(NEWEST, json!({})).await;
    let said = other.call("echo", json!({"text": "hi"})).await;
    assert!(said["result"]["content"].is_array(), "{said}");
    rig.fake.gate.open();
    for _ in 0..8 {
        assert_eq!(flood.hear().await["result"]["content"][0]["text"], "done");
    }
    assert_eq!(flood.ask(ping(1000)).await["result"], json!({}));
}
