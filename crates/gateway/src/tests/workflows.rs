//! What a workflow demands of a call, and how its server gets the key.

use std::sync::Arc;

use serde_json::{Value, json};
use taskgate_core::gate::ToolMode;
use taskgate_core::id::ServerName;
use taskgate_core::operation::{Effect, Replay};
use taskgate_core::time::Millis;
use taskgate_store::record::Key;
use taskgate_workflow::{
    Ask, Bounds, Conflict, Expression, Forward, Keying, Pace, Scope, ToolAsk, Want, Workflow,
};

use super::rig::{Rig, config, with_tasks};

pub(super) fn text(source: &str, scope: Scope) -> Expression {
    Expression::compile(source, scope, Want::Text).unwrap()
}

pub(super) fn derived() -> Keying {
    Keying::Derived(text("'order-' + string(args.order)", Scope::Call))
}

pub(super) fn workflow(keying: Keying, forward: Option<Forward>) -> Workflow {
    Workflow {
        name: "payments".to_owned(),
        server: ServerName("fake".to_owned()),
        tools: vec!["slow".to_owned()],
        effect: Effect::Consequential,
        mode: ToolMode::Auto,
        replay: Replay::Never,
        resend: false,
        bounds: Bounds::default(),
        inline_max: None,
        keying,
        forward,
        object: None,
        version: None,
        intended_effect: None,
        conflict: Conflict::Allow,
        receipt: None,
        probe: None,
        settle: None,
        fence: None,
        owners: vec!["operator".to_owned()],
        webhook: None,
    }
}

/// A gateway with the workflow on the tool `slow`, whose calls end at once.
async fn rig(workflow: Workflow) -> Rig {
    let mut config = config();
    config.servers[0].workflows.insert("slow".to_owned(), Arc::new(workflow));
    let rig = Rig::with(config).await;
    rig.fake.gate.open();
    rig
}

pub(super) fn params(arguments: Value, key: Option<&str>) -> Value {
    let mut params = json!({"name": "slow", "arguments": arguments});
    if let Some(key) = key {
        params["_meta"]["taskgate/idempotency-key"] = json!(key);
    }
    params
}

async fn call(rig: &Rig, arguments: Value, key: Option<&str>) -> Value {
    rig.modern("tools/call", with_tasks(), params(arguments, key)).await.json()
}

pub(super) fn sent(rig: &Rig) -> Vec<Value> {
    rig.fake.calls.lock().iter().map(|(_, params)| serde_json::from_str(params).unwrap()).collect()
}

fn refused(said: &Value) -> &str {
    assert_eq!(said["error"]["code"], -32602, "{said}");
    said["error"]["message"].as_str().unwrap()
}

#[tokio::test]
async fn r4_6_a_required_key_that_is_missing_refuses_the_call_before_anything_is_recorded_or_sent() {
    let rig = rig(workflow(Keying::Required, None)).await;
    let said = call(&rig, json!({"order": 7}), None).await;
    assert!(refused(&said).starts_with("This tool needs an idempotency key"), "{said}");
    // In every era alike.
    let legacy = rig.session("2025-11-25", json!({})).await;
    refused(&legacy.ask("tools/call", params(json!({"order": 7}), None)).await.json());
    assert!(rig.records().await.is_empty() && sent(&rig).is_empty());
    let said = call(&rig, json!({"order": 7}), Some("k-1")).await;
    assert_eq!(said["result"]["content"][0]["text"], "done");
    assert_eq!(rig.records().await[0].call.key, Some(Key::of_caller("k-1")));
}

#[tokio::test]
async fn r4_6_the_same_key_joins_with_the_same_request_and_is_refused_with_another() {
    for keying in [derived(), Keying::Required, Keying::PerRequest] {
        let is_derived = matches!(keying, Keying::Derived(_));
        let key = if is_derived { None } else { Some("order-7") };
        let rig = rig(workflow(keying, None)).await;
        let arguments = json!({"order": 7, "to": "ann"});
        for _ in 0..3 {
            let said = call(&rig, arguments.clone(), key).await;
            assert_eq!(said["result"]["content"][0]["text"], "done", "{said}");
        }
        assert_eq!((rig.records().await.len(), sent(&rig).len()), (1, 1));
        refused(&call(&rig, json!({"order": 7, "to": "bob"}), key).await);
        assert_eq!((rig.records().await.len(), sent(&rig).len()), (1, 1));
        // Another piece of business is another operation.
        let other = if is_derived { None } else { Some("order-8") };
        call(&rig, json!({"order": 8, "to": "ann"}), other).await;
        assert_eq!(sent(&rig).len(), 2);
    }
}

#[tokio::test]
async fn r4_6_a_key_that_cannot_be_told_refuses_the_call_and_repeats_nothing_of_it() {
    let rig = rig(workflow(derived(), None)).await;
    for arguments in [json!({}), json!({"order": ["secret-9"]}), json!({"order": null})] {
        let said = call(&rig, arguments, None).await;
        assert!(refused(&said).starts_with("The idempotency key of this call cannot be told"), "{said}");
        assert!(!said.to_string().contains("secret-9"));
    }
    // A caller that names another key than the arguments give means something else.
    let said = call(&rig, json!({"order": 7}), Some("order-8")).await;
    assert!(refused(&said).contains("leave it out"), "{said}");
    assert!(rig.records().await.is_empty() && sent(&rig).is_empty());
}

#[tokio::test]
async fn without_a_key_a_call_of_a_per_request_workflow_is_made_each_time() {
    let forward = Some(Forward::Argument("idempotency_key".to_owned()));
    let rig = rig(workflow(Keying::PerRequest, forward)).await;
    for _ in 0..2 {
        call(&rig, json!({"order": 7}), None).await;
    }
    assert_eq!(sent(&rig), vec![json!({"name": "slow", "arguments": {"order": 7}}); 2]);
}

#[tokio::test]
async fn r4_6_the_server_gets_the_key_where_it_takes_it_and_everything_else_as_it_was() {
    let cases = [
        (Forward::Argument("idempotency_key".to_owned()), r#""idempotency_key":"order-7""#),
        (Forward::Meta("bank.example/key".to_owned()), r#""_meta":{"bank.example/key":"order-7"}"#),
        // The header is made from it where requests are sent.
        (Forward::Header("Idempotency-Key".to_owned()), r#""_meta":{"taskgate/idempotency-key":"order-7"}"#),
    ];
    for (forward, carried) in cases {
        let rig = rig(workflow(derived(), Some(forward))).await;
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{ "name":"slow","arguments":{"order":7, "x":1.50e0}}}"#;
        let session = rig.session("2025-11-25", json!({})).await;
        let said = rig.post(&session.headers(), body).await.finish().await.json();
        assert_eq!(said["result"]["content"][0]["text"], "done", "{said}");
        let params = rig.fake.calls.lock()[0].1.clone();
        assert!(params.contains(carried), "{params}");
        assert!(params.starts_with(r#"{ "name":"slow","arguments":{"order":7, "x":1.50e0"#), "{params}");
    }
}

#[tokio::test]
async fn a_key_that_would_take_the_place_of_another_value_refuses_the_call() {
    for (forward, arguments, meta) in [
        (Forward::Argument("order".to_owned()), json!({"order": 7}), json!({})),
        (Forward::Meta("bank.example/key".to_owned()), json!({"order": 7}), json!({"bank.example/key": "x"})),
    ] {
        let rig = rig(workflow(derived(), Some(forward))).await;
        let params = json!({"name": "slow", "arguments": arguments, "_meta": meta});
        let said = rig.modern("tools/call", with_tasks(), params).await.json();
        assert!(refused(&said).contains("is there already"), "{said}");
        assert!(rig.records().await.is_empty() && sent(&rig).is_empty());
    }
    // The same value twice is no contradiction.
    let keying = Keying::Derived(text("args.order", Scope::Call));
    let rig = rig(workflow(keying, Some(Forward::Argument("order".to_owned())))).await;
    call(&rig, json!({"order": 7}), None).await;
    assert_eq!(sent(&rig), [json!({"name": "slow", "arguments": {"order": 7}})]);
    // What cannot stand in a header is not sent without it.
    let rig = self::rig(workflow(Keying::Required, Some(Forward::Header("X-Key".to_owned())))).await;
    for key in ["é\n", "é", " a", "a ", "a\tb", "\u{7f}"] {
        assert!(refused(&call(&rig, json!({}), Some(key)).await).contains("visible ASCII"), "{key:?}");
    }
    assert!(sent(&rig).is_empty());
    call(&rig, json!({}), Some("a b~!")).await;
    assert_eq!(sent(&rig).len(), 1);
}

#[tokio::test]
async fn r4_6_a_repeated_member_name_refuses_the_call_of_a_workflow_too() {
    let rig = rig(workflow(derived(), None)).await;
    let session = rig.session("2025-11-25", json!({})).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"order":7,"order":8}}}"#;
    let said = rig.post(&session.headers(), body).await.finish().await.json();
    assert!(refused(&said).contains("twice"), "{said}");
    assert!(sent(&rig).is_empty());
}

#[tokio::test]
async fn a_workflow_whose_probe_asks_a_tool_that_is_not_there_makes_no_calls_and_the_rest_goes_on() {
    let probe = |tool: &str| taskgate_workflow::Probe {
        ask: Ask::Tool(ToolAsk {
            server: ServerName("fake".to_owned()),
            tool: tool.to_owned(),
            arguments: vec![],
        }),
        applied_when: Expression::compile("data.found == key", Scope::ToolAnswer, Want::Bool).unwrap(),
        not_applied_when: None,
        pace: Pace { first: Millis(1), every: Millis(1_000), budget: None },
    };
    let missing = Workflow { probe: Some(probe("find_payment")), ..workflow(derived(), None) };
    let rig = rig(missing).await;
    let said = call(&rig, json!({"order": 7}), None).await;
    let words = said["error"]["message"].as_str().unwrap();
    assert!(words.contains("find_payment") && words.contains("payments"), "{words}");
    assert!(rig.records().await.is_empty() && sent(&rig).is_empty());
    let echo = rig.modern("tools/call", with_tasks(), json!({"name": "echo"})).await.json();
    assert!(echo["result"].is_object(), "{echo}");
    let there = Workflow { probe: Some(probe("echo")), ..workflow(derived(), None) };
    let said = call(&self::rig(there).await, json!({"order": 7}), None).await;
    assert_eq!(said["result"]["content"][0]["text"], "done");
}
