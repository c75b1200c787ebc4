//! What a call of a workflow leaves in the ledger, and what the ledger says of the next one.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use taskgate_core::gate::Asking;
use taskgate_core::id::{Principal, WorkflowName};
use taskgate_core::operation::{Effect, Replay};
use taskgate_core::time::UnixMillis;
use taskgate_engine::back::Back;
use taskgate_engine::engine::{NewCall, Submitted};
use taskgate_store::record::{self, Call, Front, Intent, Key, KeyScope};
use taskgate_store::{Join, Store};
use taskgate_workflow::{Conflict, Keying, Workflow};

use super::rig::{Rig, config, hasty, with_tasks};
use super::workflows::{derived, params, sent, text, workflow};
use crate::calls::digest;
use crate::config::GatewayConfig;

/// How a client asks.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Plain,
    A,
    B,
}

const SHAPES: [Shape; 3] = [Shape::Plain, Shape::A, Shape::B];

async fn ask(rig: &Rig, shape: Shape, params: Value) -> Value {
    match shape {
        Shape::B => rig.modern("tools/call", with_tasks(), params).await.json(),
        Shape::Plain | Shape::A => {
            let session = rig.session("2025-11-25", json!({})).await;
            let mut params = params;
            if let Shape::A = shape {
                params["task"] = json!({});
            }
            session.ask("tools/call", params).await.json()
        }
    }
}

/// The workflow on each of the tools `slow`, `lose` and `raise`.
async fn rig(workflow: Workflow, mut config: GatewayConfig) -> Rig {
    let workflow = Arc::new(workflow);
    for tool in ["slow", "lose", "raise"] {
        config.servers[0].workflows.insert(tool.to_owned(), workflow.clone());
    }
    Rig::with(config).await
}

fn about(keying: Keying, conflict: Conflict) -> Workflow {
    let object = text("'order/' + string(args.order)", taskgate_workflow::Scope::Call);
    Workflow { object: Some(object), conflict, ..workflow(keying, None) }
}

/// A call of the same workflow by somebody else, who is not a client of this rig.
async fn made_by_ann(rig: &Rig, arguments: &str, key: Option<Key>, object: Option<record::Object>) -> String {
    let params = format!("{{\"name\":\"slow\",\"arguments\":{arguments}}}");
    let call = Call {
        server: rig.gateway.config.servers[0].name.clone(),
        tool: "slow".to_owned(),
        params: Bytes::from(params),
        digest: digest("slow", arguments),
        key,
        intent: Some(Intent { workflow: WorkflowName("payments".to_owned()), object, effect: None }),
        offers: "{}".to_owned(),
        asking: Asking::Held,
        frame: None,
    };
    let new = NewCall {
        principal: Principal::stored("ann".to_owned()),
        front: Front::Plain,
        call,
        effect: Effect::Consequential,
        replay: Replay::Never,
        ttl: None,
        join: Join::SameKey,
    };
    let back: Arc<dyn Back> = rig.fake.clone();
    let submitted = rig.gateway.engine.submit(new, back).await.unwrap();
    let Submitted::Started(handle) = submitted else { panic!("{submitted:?}") };
    handle.record().operation_id.0.clone()
}

fn error<'a>(said: &'a Value, code: i64, reason: &str) -> &'a Value {
    assert_eq!(said["error"]["code"], code, "{said}");
    assert_eq!(said["error"]["data"]["reason"], reason, "{said}");
    &said["error"]
}

#[tokio::test]
async fn r4_1_what_the_workflow_makes_of_a_call_is_recorded_with_it() {
    let scope = taskgate_workflow::Scope::Call;
    let whole = Workflow {
        version: Some(text("args.version", scope)),
        intended_effect: Some(text("'pays ' + string(args.order)", scope)),
        ..about(derived(), Conflict::Refuse)
    };
    let rig = rig(whole, config()).await;
    rig.fake.gate.open();
    ask(&rig, Shape::B, params(json!({"order": 7, "version": "v3"}), None)).await;
    let call = rig.records().await.remove(0).call;
    assert_eq!(call.key, Some(Key { text: "order-7".to_owned(), scope: KeyScope::Tenant }));
    let object = record::Object {
        name: "order/7".to_owned(),
        version: Some("v3".to_owned()),
        conflict: record::Conflict::Refuse,
    };
    let intent = Intent {
        workflow: WorkflowName("payments".to_owned()),
        object: Some(object),
        effect: Some("pays 7".to_owned()),
    };
    assert_eq!(call.intent, Some(intent));
}

#[tokio::test]
async fn r4_6_a_business_key_of_somebody_else_is_refused_and_nothing_of_theirs_is_shown() {
    let rig = rig(workflow(derived(), None), config()).await;
    let key = Key { text: "order-7".to_owned(), scope: KeyScope::Tenant };
    let theirs = made_by_ann(&rig, r#"{"order":7}"#, Some(key), None).await;
    rig.fake.has_called(1).await;
    for shape in SHAPES {
        let said = ask(&rig, shape, params(json!({"order": 7}), None)).await;
        error(&said, -32602, "key_elsewhere");
        assert!(!said.to_string().contains("ann") && !said.to_string().contains(&theirs), "{said}");
    }
    assert_eq!((rig.records().await.len(), sent(&rig).len()), (0, 1));
}

#[tokio::test]
async fn r4_6_a_key_that_a_caller_gives_is_that_callers_own() {
    let rig = rig(workflow(Keying::Required, None), config()).await;
    made_by_ann(&rig, r#"{"order":7}"#, Some(Key::of_caller("k-1")), None).await;
    rig.fake.gate.open();
    let said = ask(&rig, Shape::B, params(json!({"order": 7}), Some("k-1"))).await;
    assert_eq!(said["result"]["content"][0]["text"], "done", "{said}");
    assert_eq!((rig.records().await.len(), sent(&rig).len()), (1, 2));
}

#[tokio::test]
async fn r4_6_the_same_key_joins_what_goes_on_what_is_over_and_what_is_gone() {
    let rig = rig(workflow(derived(), None), hasty()).await;
    let mine = || params(json!({"order": 7}), None);
    // It goes on: every client gets the one task.
    let first = ask(&rig, Shape::B, mine()).await;
    let id = first["result"]["taskId"].as_str().unwrap().to_owned();
    let a = ask(&rig, Shape::A, mine()).await;
    assert_eq!(a["result"]["task"]["taskId"], id, "{a}");
    assert_eq!(ask(&rig, Shape::B, mine()).await["result"]["taskId"], id);
    let plain = ask(&rig, Shape::Plain, mine()).await;
    assert_eq!(plain["result"]["structuredContent"]["taskgate"]["taskId"], id, "{plain}");
    for shape in SHAPES {
        error(&ask(&rig, shape, params(json!({"order": 7, "to": "bob"}), None)).await, -32602, "key_reused");
    }
    // It is over.
    rig.fake.gate.open();
    super::calls::find(&rig, &id).await.over().await;
    for shape in [Shape::Plain, Shape::B] {
        let said = ask(&rig, shape, mine()).await;
        assert_eq!(said["result"]["content"][0]["text"], "done", "{said}");
    }
    let a = ask(&rig, Shape::A, mine()).await;
    assert_eq!(a["result"]["task"]["taskId"], id, "{a}");
    // Its task is gone, and the ledger still knows it (INV-30).
    let operation = rig.record(&id).await.unwrap().operation_id;
    assert_eq!(rig.store.purge(UnixMillis(i64::MAX), 9).await.unwrap(), 1);
    for shape in SHAPES {
        let said = ask(&rig, shape, mine()).await;
        assert_eq!(said["error"]["code"], -32603, "{said}");
        assert_eq!(said["error"]["data"], json!({"outcome": "applied", "operation": operation.0}));
        let words = said["error"]["message"].as_str().unwrap();
        assert!(words.contains("reported that its effect was made: do not call again"), "{words}");
        error(&ask(&rig, shape, params(json!({"order": 7, "to": "bob"}), None)).await, -32602, "key_reused");
    }
    assert_eq!(sent(&rig).len(), 1);
}

/// What is in doubt, what goes on, what is over and what is gone is known without the server, which cannot be opened.
#[tokio::test]
async fn inv_30_a_repetition_is_answered_from_the_ledger_while_its_server_is_down() {
    let rig = rig(workflow(derived(), None), config()).await;
    let call = |tool: &str, arguments: Value| {
        let mut call = params(arguments, None);
        call["name"] = json!(tool);
        call
    };
    let session = rig.session("2025-11-25", json!({})).await;
    let lost = ask(&rig, Shape::Plain, call("lose", json!({"order": 1}))).await;
    let data = lost["error"]["data"].clone();
    assert_eq!(data["outcome"], "unknown", "{lost}");
    let running = ask(&rig, Shape::A, call("slow", json!({"order": 2}))).await;
    let running = running["result"]["task"]["taskId"].as_str().unwrap().to_owned();
    rig.fake.has_called(2).await;
    *rig.fake.is_down.lock() = true;

    let plain = async |call: Value| session.ask("tools/call", call).await.json();
    let modern = async |call: Value| rig.modern("tools/call", with_tasks(), call).await.json();
    for is_purged in [false, true] {
        for said in
            [plain(call("lose", json!({"order": 1}))).await, modern(call("lose", json!({"order": 1}))).await]
        {
            assert_eq!(said["error"]["data"]["outcome"], "unknown", "{said}");
            assert_eq!(said["error"]["data"]["operation"], data["operation"], "{said}");
        }
        for said in [
            plain(call("lose", json!({"order": 1, "to": "bob"}))).await,
            modern(call("lose", json!({"order": 1, "to": "bob"}))).await,
        ] {
            error(&said, -32602, "key_reused");
        }
        if !is_purged {
            assert_eq!(rig.store.purge(UnixMillis(i64::MAX), 9).await.unwrap(), 1);
        }
    }
    // One that goes on is joined, by its task or by what it comes to.
    let mut as_task = call("slow", json!({"order": 2}));
    as_task["task"] = json!({});
    let said = plain(as_task).await;
    assert_eq!(said["result"]["task"]["taskId"], running, "{said}");
    let joins = modern(call("slow", json!({"order": 2})));
    let (said, ()) = tokio::join!(joins, async { rig.fake.gate.open() });
    assert_eq!(said["result"]["content"][0]["text"], "done", "{said}");
    // What only the server can carry out is refused as ever, and nothing of it is recorded.
    let new = plain(call("slow", json!({"order": 3}))).await;
    assert!(new["error"]["message"].as_str().unwrap().contains("it is not running"), "{new}");
    assert_eq!((rig.records().await.len(), sent(&rig).len()), (1, 2));
}

/// The same call of a client that holds no task, and one that certainly did nothing.
#[tokio::test]
async fn design_3_the_same_call_joins_while_its_server_is_down() {
    let rig = Rig::with(config()).await;
    let session = rig.session("2025-11-25", json!({})).await;
    let lose = || json!({"name": "lose", "arguments": {"a": 1}});
    let first = session.ask("tools/call", lose()).await.json();
    *rig.fake.is_down.lock() = true;
    let again = session.ask("tools/call", lose()).await.json();
    assert_eq!(again["error"]["data"], first["error"]["data"], "{again}");
    assert!(again["error"]["message"].as_str().unwrap().contains("was not sent"), "{again}");
    // By a client that holds tasks it is another call.
    let other = rig.modern("tools/call", with_tasks(), lose()).await.json();
    assert!(other["error"]["message"].as_str().unwrap().contains("it is not running"), "{other}");
}

#[tokio::test]
async fn r4_6_a_call_that_certainly_did_nothing_is_made_when_it_is_repeated() {
    for shape in SHAPES {
        for is_purged in [false, true] {
            let rig = rig(workflow(derived(), None), config()).await;
            *rig.fake.is_cut_off.lock() = true;
            let mine = || params(json!({"order": 7}), None);
            let first = ask(&rig, Shape::Plain, mine()).await;
            assert_eq!(first["error"]["data"]["outcome"], "not_applied", "{first}");
            let first = rig.records().await.remove(0);
            // And once more, since its server is still down.
            ask(&rig, Shape::Plain, mine()).await;
            assert_eq!((rig.records().await.len(), sent(&rig).len()), (2, 0));
            if is_purged {
                assert_eq!(rig.store.purge(UnixMillis(i64::MAX), 9).await.unwrap(), 2);
            }
            *rig.fake.is_cut_off.lock() = false;
            rig.fake.gate.open();
            // Another request for the same order may have it as well, and whoever asks.
            let said = ask(&rig, shape, params(json!({"order": 7, "to": "bob"}), None)).await;
            let made = rig.records().await.remove(0);
            super::calls::find(&rig, made.id.expose()).await.over().await;
            assert_ne!(made.operation_id, first.operation_id, "{said}");
            assert_eq!(sent(&rig).len(), 1);
            let again = ask(&rig, Shape::Plain, mine()).await;
            error(&again, -32602, "key_reused");
        }
    }
}

#[tokio::test]
async fn inv_30_a_late_repetition_of_a_call_in_doubt_is_told_so_and_is_not_sent() {
    for (keying, key, next) in [
        (derived(), None, "gives its business key free"),
        (Keying::Required, Some("k"), "another idempotency key"),
    ] {
        let rig = rig(workflow(keying, None), config()).await;
        let mut mine = params(json!({"order": 7}), key);
        mine["name"] = json!("lose");
        let first = ask(&rig, Shape::Plain, mine.clone()).await;
        let data = json!({"reason": "answer_lost", "outcome": "unknown",
            "operation": rig.records().await[0].operation_id.0});
        assert_eq!(first["error"]["data"], data, "{first}");
        for shape in [Shape::Plain, Shape::B] {
            let said = ask(&rig, shape, mine.clone()).await;
            assert_eq!(said["error"]["data"], data, "{said}");
            let words = said["error"]["message"].as_str().unwrap();
            assert!(words.contains("was not sent") && words.contains(next), "{words}");
        }
        assert_eq!(rig.store.purge(UnixMillis(i64::MAX), 9).await.unwrap(), 1);
        for shape in SHAPES {
            let said = ask(&rig, shape, mine.clone()).await;
            assert_eq!(said["error"]["code"], -32603, "{said}");
            assert_eq!(said["error"]["data"]["outcome"], "unknown", "{said}");
            assert_eq!(said["error"]["data"]["operation"], data["operation"]);
            assert!(said["error"]["message"].as_str().unwrap().contains("Nobody knows"), "{said}");
        }
        assert_eq!(sent(&rig).len(), 1);
    }
}

#[tokio::test]
async fn design_7_a_second_call_on_an_object_is_refused_by_policy_and_names_only_the_callers_own() {
    let rig = rig(about(Keying::PerRequest, Conflict::Refuse), hasty()).await;
    let first = ask(&rig, Shape::B, params(json!({"order": 7}), None)).await;
    assert!(first["result"]["taskId"].is_string(), "{first}");
    let operation = rig.records().await[0].operation_id.0.clone();
    for shape in SHAPES {
        let said = ask(&rig, shape, params(json!({"order": 7, "more": 1}), None)).await;
        let error = error(&said, -32603, "object_busy");
        assert_eq!(error["data"]["operation"], operation);
        assert!(error["data"]["since"].is_string(), "{error}");
    }
    // Another object is another matter.
    let other = ask(&rig, Shape::B, params(json!({"order": 8}), None)).await;
    assert!(other["result"]["taskId"].is_string(), "{other}");
    let object =
        record::Object { name: "order/9".to_owned(), version: None, conflict: record::Conflict::Refuse };
    let theirs = made_by_ann(&rig, r#"{"order":9}"#, None, Some(object)).await;
    for shape in SHAPES {
        let said = ask(&rig, shape, params(json!({"order": 9}), None)).await;
        let error = error(&said, -32603, "object_busy");
        assert!(error["data"].get("operation").is_none(), "{error}");
        assert!(!said.to_string().contains("ann") && !said.to_string().contains(&theirs), "{said}");
    }
    assert_eq!(sent(&rig).len(), 3);
    // Once the first is settled, the next one goes.
    rig.fake.gate.open();
    super::calls::find(&rig, first["result"]["taskId"].as_str().unwrap()).await.over().await;
    let said = ask(&rig, Shape::Plain, params(json!({"order": 7, "more": 1}), None)).await;
    assert_eq!(said["result"]["content"][0]["text"], "done", "{said}");
}

#[tokio::test]
async fn design_7_a_second_call_on_an_object_waits_its_turn_by_policy() {
    let rig = rig(about(Keying::PerRequest, Conflict::Queue), hasty()).await;
    let first = ask(&rig, Shape::Plain, params(json!({"order": 7, "at": 1}), None)).await;
    let first = first["result"]["structuredContent"]["taskgate"]["taskId"].as_str().unwrap();
    let second = ask(&rig, Shape::B, params(json!({"order": 7, "at": 2}), None)).await;
    let second = second["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{second}"));
    let third = ask(&rig, Shape::A, params(json!({"order": 7, "at": 3}), None)).await;
    let third = third["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{third}"));
    // A call on another object overtakes them.
    ask(&rig, Shape::B, params(json!({"order": 8, "at": 4}), None)).await;
    rig.fake.has_called(2).await;
    let order = |sent: Vec<Value>| -> Vec<_> {
        sent.iter().map(|params| params["arguments"]["at"].as_u64().unwrap()).collect()
    };
    assert_eq!(order(sent(&rig)), [1, 4]);
    rig.fake.gate.open();
    for id in [first, second, third] {
        super::calls::find(&rig, id).await.over().await;
    }
    assert_eq!(order(sent(&rig)), [1, 4, 2, 3]);
}

/// What the server answered to the first is no answer to the second: whoever mended the cause must not take it for one.
#[tokio::test]
async fn r4_6_an_error_that_answers_a_repeated_call_says_that_nothing_was_sent() {
    let rig = rig(workflow(derived(), None), config()).await;
    let mut mine = params(json!({"order": 7}), None);
    mine["name"] = json!("raise");
    let first = ask(&rig, Shape::Plain, mine.clone()).await;
    let theirs = first["error"]["message"].as_str().unwrap().to_owned();
    assert!(!theirs.contains("made before"), "{first}");
    for shape in [Shape::Plain, Shape::B] {
        let said = ask(&rig, shape, mine.clone()).await;
        let words = said["error"]["message"].as_str().unwrap();
        assert!(words.starts_with(&theirs), "{words}");
        for part in [
            "This call was made before, at 20",
            "it was not made again",
            "Nobody knows whether it had its effect",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        if let Shape::Plain = shape {
            let rest = |said: &Value| (said["error"]["code"].clone(), said["error"]["data"].clone());
            assert_eq!(rest(&said), rest(&first), "all else of it is the server's");
        }
    }
    assert_eq!(sent(&rig).len(), 1);
}

/// A model that is told to use a new key would make another order of it.
#[tokio::test]
async fn r4_6_a_business_key_that_stands_for_another_request_is_not_to_be_got_around() {
    let rig = rig(workflow(derived(), None), config()).await;
    rig.fake.gate.open();
    ask(&rig, Shape::Plain, params(json!({"order": 7}), None)).await;
    for shape in SHAPES {
        let said = ask(&rig, shape, params(json!({"order": 7, "to": "bob"}), None)).await;
        let words = error(&said, -32602, "key_reused")["message"].as_str().unwrap();
        assert!(
            words.contains("nothing was sent") && words.contains("Do not change the arguments"),
            "{words}"
        );
        assert!(!words.contains("new key"), "{words}");
    }
}
