//! What a client must do and leave, over both transports.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use taskgate_client::{RawAnswer, Session};
use taskgate_core::gate::{Asking, BackTasks};
use taskgate_engine::back::{Answer, Back, BackEvent, LookError, Outgoing, Reply, Stand};
use tokio::sync::Notify;

use crate::support::{ELICITS, http, key, legacy, open, python, returned, servers, tool, upstream};
use crate::web::{Say, Web, empty, event, events, result, text};

fn with_tasks() -> Value {
    json!({"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}})
}

/// What the fake says of itself; by then it has read all that was sent before.
async fn told(session: &Session) -> Value {
    let RawAnswer::Result(said) = session.request("announce", None).answer.await else { panic!("no result") };
    serde_json::from_slice(&said).unwrap()
}

async fn until(web: &Web, method: &str) {
    let seen = async {
        while !web.methods().iter().any(|seen| seen == method) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), seen).await.unwrap_or_else(|_| panic!("no {method}"));
}

#[tokio::test]
async fn a_013_b_138_a_request_that_is_not_answered_in_time_is_taken_back_on_a_pipe() {
    let mut config = legacy(python(&["tasks"]));
    config.read_timeout = Duration::from_millis(50);
    let (_servers, session) = open(config, "{}").await;
    let error = session.look(&upstream("silent")).await.unwrap_err();
    assert!(matches!(error, LookError::Transient(_)), "{error:?}");
    assert_eq!(told(&session).await["cancelled"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_013_a_request_that_is_not_answered_in_time_is_taken_back_over_http() {
    let web = Web::start_slow(|seen| {
        Box::pin(async move {
            match seen.method() {
                "initialize" => {
                    result(&seen, json!({"protocolVersion": "2025-11-25", "capabilities": with_tasks()}))
                }
                "tasks/get" => std::future::pending().await,
                _ => empty(202),
            }
        })
    })
    .await;
    let mut config = legacy(http(&web.url));
    // The word that takes it back must arrive within this as well.
    config.read_timeout = Duration::from_secs(2);
    let (_servers, session) = open(config, "{}").await;
    session.look(&upstream("up")).await.unwrap_err();
    until(&web, "notifications/cancelled").await;
    let seen = web.seen();
    let asked = seen.iter().find(|seen| seen.method() == "tasks/get").unwrap();
    let taken_back = seen.iter().find(|seen| seen.method() == "notifications/cancelled").unwrap();
    assert_eq!(taken_back.body["params"]["requestId"], asked.body["id"]);
}

#[tokio::test]
async fn a_011_nothing_but_the_handshake_is_sent_until_it_is_over() {
    let answered = Arc::new(Notify::new());
    let gate = answered.clone();
    let web = Web::start_slow(move |seen| {
        let gate = gate.clone();
        Box::pin(async move {
            match (seen.verb.as_str(), seen.method()) {
                ("POST", "initialize") => {
                    gate.notified().await;
                    result(&seen, json!({"protocolVersion": "2025-11-25", "capabilities": {}}))
                }
                ("POST", "notifications/initialized") => empty(202),
                ("POST", _) => result(&seen, text("fine")),
                _ => empty(405),
            }
        })
    })
    .await;
    let servers = servers(legacy(http(&web.url)));
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let servers = servers.clone();
            tokio::spawn(async move {
                let session = servers.session(&key("{}")).await.unwrap();
                returned(session.call(tool("x", Asking::Held)).answer.await)
            })
        })
        .collect();
    while web.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    answered.notify_one();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), "fine");
    }
    let posted: Vec<_> = web.seen().iter().filter(|seen| seen.verb == "POST").cloned().collect();
    let methods: Vec<&str> = posted.iter().map(|seen| seen.method()).collect();
    assert_eq!(methods[..2], ["initialize", "notifications/initialized"]);
    assert_eq!(methods[2..], ["tools/call"; 3]);
}

#[tokio::test]
async fn a_014_a_116_a_servers_ping_is_answered_and_tasks_are_not_hosted_here() {
    let (_servers, session) = open(legacy(python(&["tasks"])), ELICITS).await;
    let said = returned(session.call(tool("turn-round", Asking::Held)).answer.await);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said[0], json!({}));
    assert_eq!(said[1]["code"], -32601);
}

#[tokio::test]
async fn a_102_b_142_a_mode_that_was_not_declared_is_refused_as_such() {
    let (_servers, session) = open(legacy(python(&[])), ELICITS).await;
    let mut call = session.call(tool("elicit-url", Asking::Held));
    let said: Value = serde_json::from_str(&returned(call.answer.await)).unwrap();
    assert_eq!(said["code"], -32602);
    assert!(call.events.recv().await.is_none(), "nobody is asked");
}

#[tokio::test]
async fn a_114_sampling_is_for_clients_that_declared_it_and_its_refusal_is_passed_on() {
    let (_servers, session) = open(legacy(python(&[])), ELICITS).await;
    let said: Value =
        serde_json::from_str(&returned(session.call(tool("sample", Asking::Held)).answer.await)).unwrap();
    assert_eq!(said["code"], -32601);
    let (_servers, session) = open(legacy(python(&[])), "{\"sampling\":{}}").await;
    let mut call = session.call(tool("sample", Asking::Held));
    let answer = tokio::spawn(call.answer);
    let Some(BackEvent::Asked { reply, .. }) = call.events.recv().await else { panic!("no question") };
    reply.send(Reply::Error { code: -1, message: "User rejected sampling request".to_owned() }).unwrap();
    let said: Value = serde_json::from_str(&returned(answer.await.unwrap())).unwrap();
    assert_eq!((&said["code"], &said["message"]), (&json!(-1), &json!("User rejected sampling request")));
}

#[tokio::test]
async fn a_126_b_034_an_answer_is_read_whole_or_from_a_stream_in_either_era() {
    let answer = |seen: crate::web::Seen| match (seen.verb.as_str(), seen.tool()) {
        ("GET", _) => empty(405),
        (_, "streamed") => {
            events(&[&event(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": text("fine")}))])
        }
        _ => result(&seen, text("fine")),
    };
    let old = Web::legacy(json!({}), answer).await;
    let new = Web::modern(answer).await;
    for config in [legacy(http(&old.url)), http(&new.url)] {
        let (_servers, session) = open(config, "{}").await;
        for name in ["whole", "streamed"] {
            assert_eq!(returned(session.call(tool(name, Asking::Held)).answer.await), "fine");
        }
    }
}

#[tokio::test]
async fn b_015_b_050_a_request_of_a_modern_server_is_not_answered() {
    let (_servers, session) = open(python(&["modern"]), ELICITS).await;
    let mut call = session.call(tool("improper", Asking::Held));
    assert_eq!(returned(call.answer.await), "done");
    assert!(call.events.recv().await.is_none(), "nobody is asked");
    assert_eq!(told(&session).await["answered"], Value::Null);
    // Over HTTP it would be a POST of its own.
    let web = Web::modern(|seen| {
        let asks = json!({"jsonrpc": "2.0", "id": "imp", "method": "roots/list"});
        let done = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": text("done")});
        events(&[&event(asks), &event(done)])
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{\"roots\":{}}").await;
    for _ in 0..2 {
        assert_eq!(returned(session.call(tool("x", Asking::Held)).answer.await), "done");
    }
    assert_eq!(web.methods(), ["tools/call", "tools/call"]);
}

#[tokio::test]
async fn b_051_subscriptions_on_one_pipe_are_told_apart() {
    let (_servers, session) = open(python(&["modern"]), "{}").await;
    let mut one = session.attend(&upstream("one")).unwrap();
    let mut two = session.attend(&upstream("two")).unwrap();
    let listening = [tokio::spawn(one.answer), tokio::spawn(two.answer)];
    while told(&session).await["listens"].as_array().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    let push = |task: &str| Outgoing {
        params: Bytes::from(json!({"name": "push", "arguments": {"q": format!("push:{task}")}}).to_string()),
        ..tool("push", Asking::Held)
    };
    assert_eq!(returned(session.call(push("two")).answer.await), "pushed");
    assert!(matches!(two.events.recv().await, Some(BackEvent::Nudge)));
    assert!(one.events.try_recv().is_err(), "it is the other's");
    listening.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn b_054_a_server_that_crashed_is_started_again_and_listened_to_again() {
    let (servers, session) = open(python(&["modern", "announces"]), "{}").await;
    let first = loop {
        let told = told(&session).await;
        if told["listens"].as_array().unwrap().len() == 1 {
            break told["pid"].clone();
        }
    };
    let answer = session.call(tool("crash", Asking::Held)).answer.await;
    assert!(matches!(answer, Answer::Lost(_)), "{answer:?}");
    let session = servers.session(&key("{}")).await.unwrap();
    loop {
        let told = told(&session).await;
        assert_ne!(told["pid"], first);
        if told["listens"].as_array().unwrap().len() == 1 {
            break;
        }
    }
}

#[tokio::test]
async fn b_152_no_schema_is_fetched() {
    let elsewhere = Web::start(|seen| result(&seen, json!({}))).await;
    let schema = format!("{}/schema.json", elsewhere.url);
    let web = Web::modern(move |seen| match seen.method() {
        "tools/list" => {
            let tool =
                json!({"name": "x", "inputSchema": {"$ref": schema}, "outputSchema": {"$ref": schema}});
            result(&seen, json!({"tools": [tool], "ttlMs": 0}))
        }
        _ => result(&seen, json!({"content": [], "structuredContent": {"a": 1}})),
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    assert_eq!(session.tools().await.unwrap().len(), 1);
    let answer = session.call(tool("x", Asking::Held)).answer.await;
    assert!(matches!(answer, Answer::Returned { .. }), "{answer:?}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn q_003_whether_a_completed_task_failed_is_seen_by_its_result() {
    let web = Web::legacy(with_tasks(), |seen| match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => empty(405),
        (_, "tasks/get") => result(
            &seen,
            json!({"taskId": "up", "status": "completed", "createdAt": "x", "lastUpdatedAt": "y", "ttl": null}),
        ),
        _ => result(&seen, json!({"content": [], "isError": true})),
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), "{}").await;
    assert!(matches!(session.look(&upstream("up")).await.unwrap().stand, Stand::Over));
    let answer = session.result(&upstream("up")).await.unwrap();
    assert!(matches!(answer, Answer::Returned { is_error: true, .. }), "{answer:?}");
}

#[tokio::test]
async fn a_086_q_007_a_call_that_is_stopped_before_its_task_is_told_cancels_the_task() {
    let created = Arc::new(Notify::new());
    let gate = created.clone();
    let web = Web::start_slow(move |seen| {
        let gate = gate.clone();
        Box::pin(async move {
            match (seen.verb.as_str(), seen.method()) {
                ("POST", "initialize") => {
                    result(&seen, json!({"protocolVersion": "2025-11-25", "capabilities": with_tasks()}))
                }
                ("POST", "tools/call") => {
                    gate.notified().await;
                    let task = json!({"taskId": "up", "status": "working", "createdAt": "x",
                        "lastUpdatedAt": "y", "ttl": null});
                    result(&seen, json!({"task": task}))
                }
                ("POST", "tasks/cancel") => {
                    let task = json!({"taskId": "up", "status": "cancelled", "createdAt": "x",
                        "lastUpdatedAt": "y", "ttl": null});
                    result(&seen, task)
                }
                ("POST", _) => empty(202),
                _ => empty(405),
            }
        })
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), "{}").await;
    assert_eq!(session.tasks(), BackTasks::A);
    let call = session.call(tool("x", Asking::Augmented));
    let (stop, answer) = (call.stop.clone(), tokio::spawn(call.answer));
    until(&web, "tools/call").await;
    stop.cancel();
    created.notify_one();
    let answer = answer.await.unwrap();
    assert!(matches!(answer, Answer::Task(_)), "{answer:?}");
    assert_eq!(web.methods(), ["notifications/initialized", "tools/call", "tasks/cancel"]);
}

#[tokio::test]
async fn x_039_a_server_that_cannot_cancel_is_not_asked_to() {
    let web = Web::legacy(json!({"tasks": {"requests": {"tools": {"call": {}}}}}), |seen| {
        match seen.verb.as_str() {
            "GET" => empty(405),
            _ => Say::HangUp,
        }
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), "{}").await;
    assert_eq!(session.tasks(), BackTasks::A);
    session.cancel(&upstream("up")).await.unwrap();
    assert_eq!(web.methods(), ["notifications/initialized"]);
}
