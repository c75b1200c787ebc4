//! Servers of 2024-11-05 and 2025-03-26, which may send several messages in one (D-005).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use taskgate_client::{Asker, Notice, Session};
use taskgate_core::gate::{Asking, BackTasks};
use taskgate_core::task::Question;
use taskgate_engine::back::{Back, BackEvent, Reply};
use taskgate_wire::Era;
use tokio::sync::mpsc;

use crate::support::{http, legacy, open, python, returned, tool};
use crate::web::{Say, Seen, Web, empty, event, events, result, text};

const ROOTS: &str = "{\"roots\":{}}";

struct Roots;

#[async_trait]
impl Asker for Roots {
    fn reaches(&self, _: &Question) -> bool {
        true
    }

    async fn ask(&self, _: Question) -> Reply {
        Reply::Result(bytes::Bytes::from_static(b"{\"roots\":[{\"uri\":\"file:///w\"}]}"))
    }
}

/// The replies to a batch, which come in one array, by their ids.
fn replies(array: &Value) -> BTreeMap<String, Value> {
    let array = array.as_array().unwrap_or_else(|| panic!("no batch: {array}"));
    array.iter().map(|reply| (reply["id"].as_str().unwrap().to_owned(), reply.clone())).collect()
}

fn are_gathered(array: &Value) {
    let replies = replies(array);
    assert_eq!(replies.len(), 3, "{array}");
    assert_eq!(replies["b1"]["result"], json!({}), "a ping");
    assert_eq!(replies["b2"]["result"]["roots"][0]["uri"], "file:///w");
    assert_eq!(replies["b3"]["error"]["code"], -32601, "tasks are not hosted here");
}

async fn asked(config: taskgate_client::ServerConfig) -> (Arc<taskgate_client::Servers>, Arc<Session>) {
    let (servers, session) = open(config, ROOTS).await;
    session.set_asker(Box::new(Roots));
    (servers, session)
}

#[tokio::test]
async fn d_005_a_batch_of_a_stdio_server_is_taken_apart_and_replied_to_together() {
    for version in ["2025-03-26", "2024-11-05"] {
        let (_servers, session) = asked(legacy(python(&[&format!("version={version}")]))).await;
        assert_eq!(session.manifest().version().as_str(), version);
        let mut notices = session.notices();
        let mut call = session.call(tool("batch", Asking::Held));
        let said = returned(call.answer.await);
        are_gathered(&serde_json::from_str(&said).unwrap());
        let Ok(Notice::Log(_)) = notices.recv().await else { panic!("the notification between") };
        let Some(BackEvent::Progress(_)) = call.events.recv().await else {
            panic!("the one beside the answer")
        };
        let next = returned(session.call(tool("echo", Asking::Held)).answer.await);
        assert!(next.contains("echo"), "the session goes on");
    }
}

/// A server of 2025-03-26 whose calls are answered by `answer`, with a standing stream that says `first`.
async fn old_web(
    answer: impl Fn(&Seen) -> Say + Send + Sync + 'static,
    first: &'static str,
) -> (Web, mpsc::UnboundedReceiver<Value>) {
    let (heard, hears) = mpsc::unbounded_channel();
    let web = Web::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("POST", "initialize") => result(
            &seen,
            json!({"protocolVersion": "2025-03-26", "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"}}),
        ),
        ("POST", "tools/call") => answer(&seen),
        ("GET", _) if !first.is_empty() => {
            let batch: Value = serde_json::from_str(first).unwrap();
            let (sender, receiver) = mpsc::unbounded_channel();
            sender.send(event(batch)).unwrap();
            // It stays open.
            std::mem::forget(sender);
            Say::Stream(receiver)
        }
        ("POST", _) if seen.body.is_array() => {
            heard.send(seen.body.clone()).unwrap();
            empty(202)
        }
        ("POST", _) => empty(202),
        _ => empty(405),
    })
    .await;
    (web, hears)
}

const ASKS: &str = r#"[{"jsonrpc":"2.0","id":"b1","method":"ping"},
    {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},
    {"jsonrpc":"2.0","id":"b2","method":"roots/list"},
    {"jsonrpc":"2.0","id":"b3","method":"tasks/get","params":{"taskId":"x"}}]"#;

/// What the server says before its answer, and the answer, in one array.
fn together(seen: &Seen) -> Value {
    let mut batch: Vec<Value> = serde_json::from_str(ASKS).unwrap();
    // The response to somebody else's request is none to ours.
    batch.push(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": text("ours")}));
    batch.push(json!({"jsonrpc": "2.0", "id": 4_000_000, "result": text("another's")}));
    Value::Array(batch)
}

#[tokio::test]
async fn d_005_a_batch_over_http_is_taken_apart_and_replied_to_together() {
    let as_document = |seen: &Seen| crate::web::whole(200, together(seen));
    let as_event = |seen: &Seen| events(&[&event(together(seen))]);
    for answer in [as_document as fn(&Seen) -> Say, as_event] {
        let (web, mut hears) = old_web(answer, "").await;
        let (_servers, session) = asked(legacy(http(&web.url))).await;
        assert_eq!((session.manifest().era(), session.tasks()), (Era::Legacy, BackTasks::None));
        assert_eq!(returned(answered(&session).await), "ours");
        are_gathered(&hears.recv().await.unwrap());
    }
}

/// Answers what the call is asked.
async fn answered(session: &Session) -> taskgate_engine::back::Answer {
    let mut call = session.call(tool("echo", Asking::Held));
    let answering = async {
        while let Some(event) = call.events.recv().await {
            if let BackEvent::Asked { question, reply, .. } = event {
                reply.send(Roots.ask(question).await).unwrap();
            }
        }
    };
    let (answer, ()) = tokio::join!(call.answer, answering);
    answer
}

#[tokio::test]
async fn d_005_a_130_a_batch_on_the_standing_stream_is_heard() {
    let (web, mut hears) = old_web(|seen| result(seen, text("fine")), ASKS).await;
    let (_servers, session) = asked(legacy(http(&web.url))).await;
    are_gathered(&hears.recv().await.unwrap());
    assert_eq!(returned(session.call(tool("echo", Asking::Held)).answer.await), "fine");
}
