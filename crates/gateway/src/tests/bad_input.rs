//! Bad input of every kind: the right code and words for its era, and nothing left behind.

use serde_json::{Value, json};

use super::rig::{Rig, config, modern_body, with_tasks};

/// One line for a snapshot.
async fn line(rig: &Rig, what: &str, headers: &[(&str, &str)], body: &str) -> String {
    let response = rig.post(headers, body).await.finish().await;
    let kind = response.header("content-type").unwrap_or("-").to_owned();
    format!("{what}\n  {} {kind}\n  {}\n", response.status, response.body)
}

const MODERN: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

#[tokio::test]
async fn d_001_to_d_009_what_cannot_be_placed_is_refused_in_its_own_era() {
    let rig = Rig::start().await;
    let (get, _) = modern_body("tasks/get", with_tasks(), json!({"taskId": "t1"}));
    let (call, _) = modern_body("tools/call", json!({}), json!({"name": "echo"}));
    let old = call.replace("2026-07-28", "1900-01-01");
    let legacy_date = call.replace("2026-07-28", "2025-11-25");
    let (initialize, _) = modern_body("initialize", json!({}), json!({}));
    let no_capabilities = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let bare = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
    let method = |value| ("mcp-method", value);
    let name = |value| ("mcp-name", value);
    let version = |value| ("mcp-protocol-version", value);
    let mut out = String::new();
    for (what, headers, body) in [
        ("A-001 not JSON", vec![], "{nope"),
        ("A-001 not UTF-8 is not JSON", vec![], "\u{0}"),
        ("A-001 an empty body", vec![], ""),
        ("A-124 not JSON-RPC", vec![], r#"{"id":3,"method":"ping"}"#),
        ("A-002 an id that is none", vec![], r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
        ("D-005 a batch without a session", vec![], "[]"),
        ("D-003 a modern header without _meta", vec![MODERN], bare),
        ("B-169 no capabilities", vec![MODERN, method("tools/list")], no_capabilities),
        ("D-008 a legacy header without a session", vec![version("2025-11-25")], bare),
        ("A-136 an unknown version", vec![version("2020-01-01")], bare),
        ("D-009 nothing to go by", vec![], bare),
        ("D-004 an unknown session", vec![("mcp-session-id", "nope"), version("2025-11-25")], bare),
        ("B-039 no version header", vec![method("tools/call"), name("echo")], &call),
        (
            "B-170 another version in the header",
            vec![version("2025-11-25"), method("tools/call"), name("echo")],
            &call,
        ),
        ("B-020 an unknown version", vec![version("1900-01-01"), method("tools/call"), name("echo")], &old),
        (
            "Q-013 a legacy date",
            vec![version("2025-11-25"), method("tools/call"), name("echo")],
            &legacy_date,
        ),
        ("B-171 a modern initialize", vec![MODERN, method("initialize")], &initialize),
        ("B-040 no method header", vec![MODERN, name("echo")], &call),
        ("B-040 another case", vec![MODERN, method("TOOLS/CALL"), name("echo")], &call),
        ("B-041 no name header", vec![MODERN, method("tools/call")], &call),
        ("B-041 another name", vec![MODERN, method("tools/call"), name("slow")], &call),
        (
            "B-043 a name that cannot be decoded",
            vec![MODERN, method("tools/call"), name("=?base64?*?=")],
            &call,
        ),
        ("B-042 another task", vec![MODERN, method("tasks/get"), name("t2")], &get),
        ("G-018 a missing task name is let through", vec![MODERN, method("tasks/get")], &get),
    ] {
        out.push_str(&line(&rig, what, &headers, body).await);
    }
    insta::assert_snapshot!(out);
    assert!(rig.records().await.is_empty());
    assert!(rig.fake.calls.lock().is_empty(), "no upstream traffic (G-017)");
}

#[tokio::test]
async fn a_012_a_023_b_016_b_114_b_119_q_008_methods_that_are_not_there() {
    let rig = Rig::start().await;
    let client = rig.session("2025-11-25", json!({})).await;
    let mut out = String::new();
    for method in
        ["ping", "logging/setLevel", "resources/subscribe", "tasks/list", "tasks/result", "nope/never"]
    {
        let response = rig.modern(method, with_tasks(), json!({})).await;
        out.push_str(&format!("modern {method}: {} {}\n", response.status, response.body));
    }
    // Q-008: nothing is listed to callers that cannot be told apart.
    for method in ["tasks/list", "tasks/update", "server/discover", "nope/never"] {
        let response = client.ask(method, json!({})).await;
        out.push_str(&format!("legacy {method}: {} {}\n", response.status, response.body));
    }
    let older = rig.session("2025-06-18", json!({})).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let response = older.ask(method, json!({"taskId": "t1"})).await;
        out.push_str(&format!("2025-06-18 {method}: {} {}\n", response.status, response.body));
    }
    insta::assert_snapshot!(out);
}

#[tokio::test]
async fn a_028_a_118_params_that_cannot_be_used() {
    let rig = Rig::start().await;
    let client = rig.session("2025-11-25", json!({})).await;
    let mut out = String::new();
    for params in [
        json!({}),
        json!({"name": 7}),
        json!({"name": "nope"}),
        json!({"name": "echo", "arguments": []}),
        json!({"name": "echo", "arguments": "x"}),
        json!({"name": "echo", "task": 1}),
        json!({"name": "echo", "task": {"ttl": -1}}),
        json!({"name": "echo", "task": {"ttl": 1.5}}),
        json!({"name": "echo", "_meta": {"taskgate/idempotency-key": ""}}),
        json!({"name": "taskgate_task", "task": {}}),
    ] {
        let response = client.ask("tools/call", params.clone()).await;
        out.push_str(&format!("{params}: {} {}\n", response.status, response.json()["error"]));
    }
    for (method, params) in [
        ("tasks/get", json!({})),
        ("tasks/get", json!({"taskId": 7})),
        ("tasks/get", json!({"taskId": "no such: task"})),
        ("tasks/get", json!({"taskId": "t123"})),
        ("tasks/result", json!({"taskId": "t123"})),
        ("tasks/cancel", json!({"taskId": "t123"})),
        ("logging/setLevel", json!({"level": "loud"})),
        ("resources/subscribe", json!({})),
    ] {
        let response = client.ask(method, params.clone()).await;
        out.push_str(&format!("{method} {params}: {} {}\n", response.status, response.json()["error"]));
    }
    insta::assert_snapshot!(out);
    assert!(rig.records().await.is_empty());
    assert!(rig.fake.calls.lock().is_empty());
}

#[tokio::test]
async fn b_014_b_064_b_109_b_117_b_168_tasks_without_the_extension_are_refused_before_their_params() {
    let rig = Rig::start().await;
    let legacy_only = json!({"tasks": {"requests": {"tools": {"call": {}}}}});
    for capabilities in [json!({}), legacy_only] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let response = rig.modern(method, capabilities.clone(), json!({})).await;
            assert_eq!(response.status, 400);
            let error = &response.json()["error"];
            assert_eq!(error["code"], -32021);
            let required =
                &error["data"]["requiredCapabilities"]["extensions"]["io.modelcontextprotocol/tasks"];
            assert_eq!(required, &json!({}), "B-168");
        }
        let listen = json!({"notifications": {"taskIds": []}});
        let response = rig.modern("subscriptions/listen", capabilities, listen).await;
        assert_eq!((response.status, &response.json()["error"]["code"]), (400, &json!(-32021)), "B-109");
    }
}

#[tokio::test]
async fn b_081_b_098_b_102_e_002_g_015_q_030_x_046_unknown_malformed_and_expired_tasks_look_alike() {
    let rig = Rig::start().await;
    let mut answers: Vec<Value> = Vec::new();
    for id in ["t123", "a:b", &"x".repeat(100)] {
        for method in ["tasks/get", "tasks/cancel"] {
            let response = rig.modern(method, with_tasks(), json!({"taskId": id})).await;
            assert_eq!(response.status, 200, "Q-030");
            answers.push(response.json()["error"].clone());
        }
        let params = json!({"taskId": id, "inputResponses": {}});
        answers.push(rig.modern("tasks/update", with_tasks(), params).await.json()["error"].clone());
    }
    assert!(
        answers.iter().all(|error| *error == json!({"code": -32602, "message": "Unknown task"})),
        "{answers:?}"
    );
}

#[tokio::test]
async fn design_10_a_message_that_is_too_large_is_413_with_an_error() {
    let mut config = config();
    config.limits.message_bytes_max = 200;
    let rig = Rig::with(config).await;
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}", "x".repeat(300));
    let response = rig.post(&[], &body).await.finish().await;
    assert_eq!(response.status, 413);
    assert_eq!(response.json()["error"]["code"], -32600);
    // Without a length that says so at once.
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let headers =
        [("content-type", "application/json"), ("transfer-encoding", "chunked"), ("content-length", "-")];
    let response = rig.raw("POST", &headers, Some(chunked.as_bytes())).await.finish().await;
    assert_eq!(response.status, 413);
}

#[tokio::test]
async fn a_123_host_origin_content_type_and_accept_are_checked_first() {
    let rig = Rig::start().await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (header, status) in [
        (("host", "evil.example"), 403),
        (("origin", "https://evil.example"), 403),
        (("content-type", "text/plain"), 415),
        (("accept", "text/html"), 406),
    ] {
        let response = rig.post(&[header], body).await.finish().await;
        assert_eq!(response.status, status, "{header:?}");
        assert!(response.json()["error"]["message"].is_string());
        assert_eq!(response.header("access-control-allow-origin"), None);
    }
    let elsewhere =
        super::http_client::open(rig.addr, "POST", "/nowhere", &[], Some(b"{}")).await.finish().await;
    assert_eq!(elsewhere.status, 404);
    let put = rig.raw("PUT", &[], Some(b"")).await.finish().await;
    assert_eq!((put.status, put.header("allow")), (405, Some("GET, POST, DELETE")));
}

#[tokio::test]
async fn a_122_b_048_d_006_get_and_delete_without_a_session_are_405() {
    let rig = Rig::start().await;
    for method in ["GET", "DELETE"] {
        let response = rig.raw(method, &[("accept", "text/event-stream")], None).await.finish().await;
        assert_eq!((response.status, response.header("allow")), (405, Some("POST")), "D-006");
        let unknown = rig.raw(method, &[("mcp-session-id", "nope")], None).await.finish().await;
        assert_eq!(unknown.status, 404, "A-134");
    }
}

#[tokio::test]
async fn b_033_a_stateless_notification_is_accepted_without_a_body() {
    let rig = Rig::start().await;
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let response = rig.post(&[MODERN], cancelled).await.finish().await;
    assert_eq!((response.status, response.body.as_str()), (202, ""));
}

#[tokio::test]
async fn e_014_a_server_that_is_down_is_said_to_be() {
    let rig = Rig::start().await;
    *rig.fake.is_down.lock() = true;
    let response = rig.modern("tools/call", json!({}), json!({"name": "echo"})).await;
    assert_eq!(response.status, 200);
    let error = json!({"code": -32603, "message": "server \"fake\": it is not running"});
    assert_eq!(response.json()["error"], error);
    let opening = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let response = rig.post(&[], opening).await.finish().await;
    assert_eq!(response.header("mcp-session-id"), None, "nothing is left behind");
    assert_eq!(response.json()["error"]["code"], -32603);
}

#[tokio::test]
async fn health_is_told_to_anyone() {
    let rig = Rig::start().await;
    for (path, status) in [("/healthz", 200), ("/readyz", 200)] {
        let response = super::http_client::open(rig.addr, "GET", path, &[("host", "10.0.0.1")], None).await;
        assert_eq!(response.status, status);
    }
    rig.gateway.set_ready(false);
    assert_eq!(super::http_client::open(rig.addr, "GET", "/readyz", &[], None).await.status, 503);
}

#[tokio::test]
async fn g_018_q_014_the_strict_switch_wants_the_name_of_every_task() {
    let mut config = config();
    config.strict_mcp_name = true;
    let rig = Rig::with(config).await;
    let (get, _) = modern_body("tasks/get", with_tasks(), json!({"taskId": "t1"}));
    let response = rig.post(&[MODERN, ("mcp-method", "tasks/get")], &get).await.finish().await;
    assert_eq!((response.status, &response.json()["error"]["code"]), (400, &json!(-32020)));
}

#[tokio::test]
async fn b_034_a_subscription_needs_a_client_that_reads_streams() {
    let rig = Rig::start().await;
    let (listen, _) = modern_body("subscriptions/listen", json!({}), json!({"notifications": {}}));
    let headers = [MODERN, ("mcp-method", "subscriptions/listen"), ("accept", "application/json")];
    assert_eq!(rig.post(&headers, &listen).await.finish().await.status, 406);
}

#[tokio::test]
async fn b_036_a_quiet_stream_shows_that_it_lives() {
    use taskgate_core::time::Millis;
    let mut config = super::rig::config();
    config.limits.keep_alive = Millis(5);
    let rig = Rig::with(config).await;
    let mut stream = rig.modern_open("tools/call", json!({}), json!({"name": "slow"})).await;
    rig.fake.has_called(1).await;
    assert_eq!(stream.chunk().await.as_deref(), Some(&b":\n\n"[..]), "there is nothing else to say");
    rig.fake.gate.open();
    let response = stream.finish().await;
    assert_eq!(response.json()["result"]["content"][0]["text"], "done");
}
