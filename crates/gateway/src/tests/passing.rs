//! Everything else is passed through.

use serde_json::json;
use taskgate_core::gate::BackTasks;
use taskgate_wire::version::Version;

use super::rig::{Fake, Rig, config};
use super::schema::{is_a, is_b};

const NEWEST: &str = "2025-11-25";

#[tokio::test]
async fn bytes_pass_untouched_between_sides_that_speak_the_same() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    for method in [
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    ] {
        let response = client.ask(method, json!({"x": 1, "_meta": {"vendor": true}})).await;
        assert!(response.body.ends_with("\"result\":{\"ok\" : true}}"), "{}", response.body);
    }
    let sent = rig.fake.requests.lock().clone();
    assert_eq!(sent.len(), 6);
    assert!(sent.iter().all(|(_, params)| params == r#"{"_meta":{"vendor":true},"x":1}"#), "{sent:?}");
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let response = rig.modern("prompts/list", json!({}), json!({})).await;
    assert!(response.body.ends_with("\"result\":{\"ok\" : true}}"), "{}", response.body);
}

#[tokio::test]
async fn x_018_x_054_results_are_translated_between_eras() {
    let rig = Rig::start().await;
    rig.fake.answers("prompts/list", json!({"prompts": [{"name": "p"}]}));
    rig.fake.answers("prompts/get", json!({"messages": []}));
    let listed = rig.modern("prompts/list", json!({}), json!({})).await.json();
    is_b("ListPromptsResult", &listed["result"]);
    assert_eq!((&listed["result"]["ttlMs"], &listed["result"]["cacheScope"]), (&json!(0), &json!("private")));
    let got = rig.modern("prompts/get", json!({}), json!({"name": "p"})).await.json();
    is_b("GetPromptResult", &got["result"]);

    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    rig.fake.answers(
        "resources/read",
        json!({"resultType": "complete", "ttlMs": 5, "cacheScope": "public", "contents": [],
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}}}),
    );
    let client = rig.session(NEWEST, json!({})).await;
    let read = client.ask("resources/read", json!({"uri": "file:///a"})).await.json();
    is_a("ReadResourceResult", &read["result"]);
    assert_eq!(read["result"], json!({"contents": []}));
}

#[tokio::test]
async fn x_033_what_a_modern_server_asks_first_is_asked_on_the_stream_of_a_legacy_client() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let question = json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}},
    }});
    rig.fake.answers(
        "prompts/get",
        json!({"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "s"}),
    );
    rig.fake.answers("prompts/get", json!({"resultType": "complete", "messages": []}));
    let client = rig.session(NEWEST, json!({"elicitation": {"form": {}}})).await;
    let mut stream = client.open("prompts/get", json!({"name": "p"})).await;
    let asked = stream.message().await.unwrap();
    is_a("ElicitRequest", &asked);
    client
        .say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}))
        .await;
    assert_eq!(stream.message().await.unwrap()["result"], json!({"messages": []}));
    let sent = rig.fake.requests.lock().clone();
    let retry: serde_json::Value = serde_json::from_str(&sent[1].1).unwrap();
    assert_eq!(retry["requestState"], "s", "G-014: byte for byte");
    assert_eq!(retry["inputResponses"]["q"]["action"], "accept");
}

#[tokio::test]
async fn b_129_g_014_rounds_of_a_modern_pair_pass_untouched() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let asks = json!({"resultType": "input_required", "requestState": "theirs", "inputRequests": {}});
    rig.fake.answers("prompts/get", asks.clone());
    let got =
        rig.modern("prompts/get", json!({}), json!({"name": "p", "requestState": "theirs"})).await.json();
    assert_eq!(got["result"], asks);
    assert!(rig.fake.requests.lock()[0].1.contains("\"requestState\":\"theirs\""));
}

#[tokio::test]
async fn b_012_b_060_g_025_a_result_that_nobody_asked_for_is_never_passed_on() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    for kind in ["paused", "task"] {
        rig.fake.answers.lock().clear();
        rig.fake.answers("prompts/get", json!({"resultType": kind}));
        let got = rig.modern("prompts/get", json!({}), json!({"name": "p"})).await.json();
        assert_eq!(got["error"]["code"], -32603, "{got}");
    }
}

#[tokio::test]
async fn x_056_ping_and_levels_are_answered_here() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    assert_eq!(client.ask("ping", json!({})).await.json()["result"], json!({}));
    assert_eq!(client.ask("logging/setLevel", json!({"level": "debug"})).await.json()["result"], json!({}));
    assert_eq!(
        rig.fake.requests.lock().clone(),
        [("logging/setLevel".to_owned(), r#"{"level":"debug"}"#.to_owned())]
    );
    rig.fake.requests.lock().clear();
    for _ in 0..2 {
        let said = client.ask("resources/subscribe", json!({"uri": "file:///a"})).await.json();
        assert_eq!(said["result"], json!({}));
    }
    client.ask("resources/unsubscribe", json!({"uri": "file:///a"})).await;
    while rig.fake.requests.lock().len() < 2 {
        tokio::task::yield_now().await;
    }
    let methods: Vec<String> = rig.fake.requests.lock().iter().map(|(method, _)| method.clone()).collect();
    assert_eq!(methods, ["resources/subscribe", "resources/unsubscribe"], "once for all clients");
}

#[tokio::test]
async fn e_010_errors_are_those_of_the_clients_era() {
    use bytes::Bytes;
    use taskgate_client::RawAnswer;
    let rig = Rig::start().await;
    let not_found = Bytes::from_static(br#"{"code":-32002,"message":"no such resource"}"#);
    rig.fake.answers.lock().insert("resources/read".to_owned(), vec![RawAnswer::Error(not_found)]);
    let modern = rig.modern("resources/read", json!({}), json!({"uri": "file:///a"})).await.json();
    assert_eq!(modern["error"]["code"], -32602);
    let client = rig.session(NEWEST, json!({})).await;
    assert_eq!(
        client.ask("resources/read", json!({"uri": "file:///a"})).await.json()["error"]["code"],
        -32002
    );
    rig.fake
        .answers
        .lock()
        .insert("prompts/list".to_owned(), vec![RawAnswer::Lost("it went away".to_owned())]);
    assert_eq!(client.ask("prompts/list", json!({})).await.json()["error"]["code"], -32603);
}
