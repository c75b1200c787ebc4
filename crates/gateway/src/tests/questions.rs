//! Questions: when they may be put to a client, to which, and how they are taken back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use taskgate_client::{Asker, Notice, Sharing};
use taskgate_core::task::{Question, QuestionKind};
use taskgate_core::time::Millis;
use taskgate_engine::back::Reply;

use super::pipe::Piped;
use super::rig::{Rig, config, form, with_tasks};
use crate::passthrough;
use crate::upstream::Newest;

const NEWEST: &str = "2025-11-25";

fn roots() -> Question {
    Question { kind: QuestionKind::Roots, params: Bytes::from_static(b"{}"), back_key: None }
}

/// Waits for something that takes other tasks a moment; whether it came.
async fn within(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let looked = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(time, looked).await.is_ok()
}

/// The same, of what must come.
async fn until(is_so: impl FnMut() -> bool) {
    assert!(within(Duration::from_secs(30), is_so).await, "it did not come to that");
}

#[tokio::test]
async fn a_011_nothing_is_announced_or_asked_on_a_pipe_before_the_handshake_is_over() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    let opening = json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
        "protocolVersion": NEWEST, "capabilities": {"roots": {}}, "clientInfo": {"name": "t", "version": "1"},
    }});
    pipe.ask(opening).await;
    let key = rig.fake.keys.lock().last().unwrap().clone();
    let newest = Newest { gateway: Arc::downgrade(&rig.gateway), key, sharing: Sharing::First };
    let asking = tokio::spawn(async move { newest.ask(roots()).await });
    // Whoever listened already would pass this on.
    let listens = || rig.fake.notices.receiver_count() > 0;
    assert!(
        !within(Duration::from_millis(300), listens).await,
        "nobody listens for a client that is not ready"
    );
    let _ = rig.fake.notices.send(Notice::ToolsChanged);
    pipe.say(json!({"jsonrpc": "2.0", "id": 7, "method": "ping"})).await;
    assert_eq!(pipe.hear().await["id"], 7, "the first that it hears");
    pipe.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    // What was asked meanwhile is asked now.
    let asked = pipe.hear().await;
    assert_eq!(asked["method"], "roots/list", "{asked}");
    pipe.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})).await;
    assert!(matches!(asking.await.unwrap(), Reply::Result(_)));
    until(listens).await;
    rig.fake.notices.send(Notice::ToolsChanged).unwrap();
    assert_eq!(pipe.hear().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_066_a_068_a_client_hears_of_its_task_before_it_is_asked_anything_about_it() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({"elicitation": {"form": {}}})).await;
    for id in 1..=20 {
        let params = json!({"name": "ask", "arguments": {"n": id}, "task": {}});
        pipe.say(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
        let created = pipe.hear().await;
        assert_eq!(created["id"], id, "the task comes first: {created}");
        let task = created["result"]["task"]["taskId"].clone();
        let asked = loop {
            let heard = pipe.hear().await;
            if heard["method"] == "elicitation/create" {
                break heard;
            }
        };
        assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task);
        pipe.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})).await;
        while pipe.hear().await["params"]["status"] != "completed" {}
    }
}

#[tokio::test]
async fn q_023_x_029_on_a_pipe_an_answer_that_does_not_fit_is_asked_for_again_once() {
    let rig = Rig::with(config()).await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({"elicitation": {"form": {}}})).await;
    pipe.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}})).await;
    let unfit = |asked: &Value| json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "perhaps"}});
    let asked = pipe.hear().await;
    pipe.say(unfit(&asked)).await;
    let again = pipe.hear().await;
    assert_eq!((&again["method"], &again["params"]), (&asked["method"], &asked["params"]));
    assert_ne!(again["id"], asked["id"], "A-002");
    pipe.say(unfit(&again)).await;
    let done = pipe.hear().await;
    assert_eq!(done["result"]["content"][0]["text"], r#"{"action":"cancel"}"#, "nothing hangs: {done}");
}

#[tokio::test]
async fn a_013_a_092_a_question_that_is_not_answered_in_time_is_taken_back() {
    let mut config = config();
    config.limits.ask_time = Millis(60);
    let rig = Rig::with(config).await;
    let client = rig.session(NEWEST, json!({"elicitation": {"form": {}}, "roots": {}})).await;
    let mut stream = client.stream(None).await;
    let session = rig.gateway.sessions.newest(|_| true).remove(0);
    until(|| session.stream().is_some()).await;
    for question in [form(None), roots()] {
        let outlet = session.stream().unwrap();
        let limits = rig.gateway.config.limits.clone();
        let kind = question.kind;
        let reply = passthrough::ask(session.clone(), outlet, question, limits).await;
        let (asked, taken_back) = (stream.message().await.unwrap(), stream.message().await.unwrap());
        assert_eq!(asked["method"], kind.method());
        assert_eq!(taken_back["method"], "notifications/cancelled");
        super::schema::is_a("CancelledNotification", &taken_back);
        assert_eq!(taken_back["params"]["requestId"], asked["id"]);
        match reply {
            Reply::Result(result) => assert_eq!(result, r#"{"action":"cancel"}"#),
            Reply::Error { code, .. } => assert_eq!((code, kind), (-1, QuestionKind::Roots), "X-029"),
        }
    }
}

#[tokio::test]
async fn b_099_q_021_x_030_what_a_calls_own_client_did_not_declare_is_refused_though_others_share_the_server()
{
    // The rig's one server session is everybody's, and asks whatever call it likes.
    let rig = Rig::with(config()).await;
    let refused = |said: &Value| {
        let text = said["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{said}"));
        assert!(text.starts_with("refused: "), "{text}");
    };
    let said = rig.modern("tools/call", with_tasks(), json!({"name": "ask"})).await.json();
    refused(&said["result"]);
    let client = rig.session(NEWEST, json!({"roots": {}})).await;
    let id = client.task("ask").await;
    let said = client.ask("tasks/result", json!({"taskId": id})).await.json();
    refused(&said["result"]);
    for record in rig.records().await {
        assert_eq!(record.task.keys_issued, 0, "it never was a question");
    }
    // A modern server has no way to be refused: it breaks the rule, and the call ends by that.
    let said = rig.modern("tools/call", with_tasks(), json!({"name": "mrtr"})).await.json();
    assert_eq!(said["error"]["code"], -32603, "{said}");
    assert!(said["error"]["message"].as_str().unwrap().contains("had not declared"), "{said}");
}
