//! `tools/call` of stateless clients: dialect B, and without the extension.

use serde_json::{Value, json};
use taskgate_core::gate::{BackTasks, ToolMode};
use taskgate_core::operation::Effect;
use taskgate_core::time::Millis;
use taskgate_wire::version::Version;

use super::rig::{Fake, Rig, config, hasty, redact, with_tasks};
use super::schema::{is_b, is_x};
use crate::config::ToolPolicy;

fn asks(extension: bool) -> Value {
    let mut capabilities = if extension { with_tasks() } else { json!({}) };
    capabilities["elicitation"] = json!({"form": {}, "url": {}});
    capabilities
}

#[tokio::test]
async fn b_006_b_017_x_021_a_read_only_call_goes_straight_through_without_a_record() {
    let rig = Rig::start().await;
    let params = json!({"name": "echo", "arguments": {"n": 1.50}, "_meta": {"progressToken": 3, "traceparent": "00-x"}});
    let response = rig.modern("tools/call", with_tasks(), params).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let result = &response.json()["result"];
    is_b("CallToolResult", result);
    assert_eq!(result["resultType"], "complete", "B-011");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fake", "B-006");
    // what speaks to us does not go on, the rest does.
    let sent: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(sent, json!({"name": "echo", "arguments": {"n": 1.5}, "_meta": {"traceparent": "00-x"}}));
    assert!(rig.records().await.is_empty());
}

#[tokio::test]
async fn b_009_b_057_b_067_b_075_b_076_x_008_a_call_that_lasts_becomes_a_task_which_can_be_read_at_once() {
    let rig = Rig::hasty().await;
    let response = rig.modern("tools/call", with_tasks(), json!({"name": "slow"})).await;
    let created = &response.json()["result"];
    is_x("CreateTaskResult", created);
    insta::assert_snapshot!(redact(created.clone()));
    let id = created["taskId"].as_str().unwrap();
    assert!(rig.record(id).await.is_some(), "R3.3");
    // B-067
    let read = rig.modern("tasks/get", with_tasks(), json!({"taskId": id})).await.json();
    assert_eq!(read["result"]["status"], "working");
    assert_eq!(read["result"]["resultType"], "complete", "B-075");
}

#[tokio::test]
async fn design_6_what_may_change_something_is_recorded_first_and_answered_inline_if_in_time() {
    let rig = Rig::with(config()).await;
    let response = rig.modern("tools/call", with_tasks(), json!({"name": "fail"})).await;
    let result = &response.json()["result"];
    assert_eq!((&result["isError"], &result["resultType"]), (&json!(true), &json!("complete")));
    assert_eq!(rig.records().await.len(), 1);
    let response = rig.modern("tools/call", with_tasks(), json!({"name": "raise"})).await;
    assert_eq!(response.status, 200);
    // E-011: a code in the reserved range means something else to a stateless client.
    let error = &response.json()["error"];
    assert_eq!((&error["code"], &error["data"]["upstreamCode"]), (&json!(-32603), &json!(-32050)));
}

#[tokio::test]
async fn b_073_b_074_a_tool_error_is_completed_and_a_json_rpc_error_failed() {
    let mut always = config();
    for name in ["fail", "raise"] {
        let task = ToolPolicy { mode: ToolMode::Task, ..ToolPolicy::default() };
        always.servers[0].tools.insert(name.to_owned(), task);
    }
    let rig = Rig::with(always).await;
    for (tool, status) in [("fail", "completed"), ("raise", "failed")] {
        let response = rig.modern("tools/call", with_tasks(), json!({"name": tool})).await.json();
        if response["result"]["resultType"] != "task" {
            // It was over before it was given; the record has the same ending.
            continue;
        }
        let id = response["result"]["taskId"].as_str().unwrap().to_owned();
        let mut handle = find(&rig, &id).await;
        handle.over().await;
        let got = &rig.modern("tasks/get", with_tasks(), json!({"taskId": id})).await.json()["result"];
        is_x("GetTaskResult", got);
        assert_eq!(got["status"], status);
        assert_eq!(got.get("error").is_some(), status == "failed", "B-172");
    }
}

pub(super) async fn find(rig: &Rig, id: &str) -> taskgate_engine::Handle {
    let id = taskgate_core::id::TaskId::parse(id).unwrap();
    rig.gateway.engine.find(&taskgate_core::id::Principal::anonymous(), &id).await.unwrap().unwrap()
}

#[tokio::test]
async fn b_023_b_058_without_the_extension_a_call_that_lasts_gets_a_handle_and_never_a_task() {
    let rig = Rig::hasty().await;
    let response = rig.modern("tools/call", json!({}), json!({"name": "slow"})).await;
    let result = &response.json()["result"];
    is_b("CallToolResult", result);
    insta::assert_snapshot!(redact(result.clone()));
    let id = result["structuredContent"]["taskgate"]["taskId"].as_str().unwrap();
    assert!(rig.record(id).await.is_some());
}

#[tokio::test]
async fn b_071_a_task_member_is_ignored_in_a_stateless_call() {
    let rig = Rig::start().await;
    let params = json!({"name": "echo", "task": {"ttl": "nonsense"}});
    let response = rig.modern("tools/call", json!({}), params).await.json();
    assert_eq!(response["result"]["content"][0]["text"], "{\"name\":\"echo\"}");
}

#[tokio::test]
async fn b_035_b_036_b_139_progress_and_wanted_log_messages_come_on_the_calls_own_stream() {
    let rig = Rig::with(config()).await;
    let params = json!({"name": "progress", "_meta": {"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"}});
    let mut stream = rig.modern_open("tools/call", json!({}), params).await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.header("x-accel-buffering"), Some("no"), "B-036");
    let progress = stream.message().await.unwrap();
    is_b("ProgressNotification", &progress);
    assert_eq!(progress["params"], json!({"progress": 1, "total": 2, "progressToken": "p"}));
    let log = stream.message().await.unwrap();
    assert_eq!(
        (&log["method"], &log["params"]["level"]),
        (&json!("notifications/message"), &json!("warning"))
    );
    rig.fake.gate.open();
    assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "done");
    assert!(stream.message().await.is_none());
}

#[tokio::test]
async fn b_140_log_messages_that_nobody_asked_for_are_not_sent() {
    let rig = Rig::with(config()).await;
    let call = rig.modern("tools/call", json!({}), json!({"name": "progress"}));
    let opener = async {
        rig.fake.has_called(1).await;
        rig.fake.gate.open();
    };
    let (response, ()) = tokio::join!(call, opener);
    let json = response.json();
    assert_eq!(json["result"]["content"][0]["text"], "done");
    assert!(!response.body.contains("notifications/"), "{}", response.body);
}

#[tokio::test]
async fn g_019_closing_the_stream_of_a_read_only_call_stops_it() {
    let rig = Rig::with(config()).await;
    let params = json!({"name": "progress", "_meta": {"progressToken": 1}});
    let mut stream = rig.modern_open("tools/call", json!({}), params).await;
    stream.message().await.unwrap();
    drop(stream);
    rig.fake.has_stopped(1).await;
}

#[tokio::test]
async fn g_019_x_050_closing_the_stream_of_any_other_call_lets_it_finish() {
    let rig = Rig::with(config()).await;
    let stream = rig.modern_open("tools/call", json!({}), json!({"name": "slow"})).await;
    assert_eq!(stream.status, 200);
    drop(stream);
    rig.fake.gate.open();
    let id = rig.records().await[0].id.expose().to_owned();
    let record = find(&rig, &id).await.over().await;
    assert_eq!(record.task.cancel_wished_at, None);
    assert!(matches!(record.task.ending(), Some(taskgate_core::task::Ending::Returned { .. })));
}

#[tokio::test]
async fn b_077_b_094_b_096_b_105_b_166_q_019_q_022_q_023_x_034_a_question_before_the_answer_makes_a_task_for_a_client_that_knows_them()
 {
    let rig = Rig::with(config()).await;
    let created = rig.modern("tools/call", asks(true), json!({"name": "ask"})).await.json();
    is_x("CreateTaskResult", &created["result"]);
    let id = created["result"]["taskId"].as_str().unwrap();
    let got = &rig.modern("tasks/get", asks(true), json!({"taskId": id})).await.json()["result"];
    is_x("GetTaskResult", got);
    assert_eq!(got["status"], "input_required");
    assert_eq!(got["inputRequests"]["in-1"]["method"], "elicitation/create", "B-077");
    // a wrong answer leaves the question open.
    let wrong = json!({"taskId": id, "inputResponses": {"in-1": {"action": "perhaps"}}});
    let refused = rig.modern("tasks/update", asks(true), wrong).await.json();
    assert_eq!(refused["error"]["code"], -32602);
    // B-096: unknown keys are ignored.
    let right = json!({"taskId": id, "inputResponses": {
        "in-1": {"action": "accept", "content": {"colour": "red"}}, "in-9": {"action": "cancel"},
    }});
    let ack = rig.modern("tasks/update", asks(true), right.clone()).await.json();
    assert_eq!(ack["result"], json!({"resultType": "complete"}), "B-094");
    let record = find(&rig, id).await.over().await;
    let Some(taskgate_core::task::Ending::Returned { result, .. }) = record.task.ending() else { panic!() };
    assert!(std::str::from_utf8(result).unwrap().contains("red"));
    // an answer to a task that is over is acknowledged and dropped.
    assert_eq!(
        rig.modern("tasks/update", asks(true), right).await.json()["result"]["resultType"],
        "complete"
    );
    assert_eq!(
        rig.modern("tasks/cancel", asks(true), json!({"taskId": id})).await.json()["result"],
        json!({"resultType": "complete"}),
        "B-105"
    );
}

#[tokio::test]
async fn b_069_g_014_what_a_server_asks_before_its_task_is_asked_on_the_request_itself() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let params = json!({"name": "mrtr", "arguments": {"a": 1}});
    let asked = rig.modern("tools/call", asks(true), params.clone()).await.json();
    is_b("InputRequiredResult", &asked["result"]);
    let state = asked["result"]["requestState"].as_str().unwrap();
    assert!(!state.contains("secret"), "G-014: the server's own state stays with us");
    let mut retry = params;
    retry["inputResponses"] = json!({"theirs": {"action": "accept", "content": {"colour": "blue"}}});
    retry["requestState"] = json!(state);
    let done = rig.modern("tools/call", asks(true), retry).await.json();
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("blue"), "{done}");
    assert_eq!(rig.fake.calls.lock().len(), 2, "one round each");
}

#[tokio::test]
async fn b_092_b_124_a_name_that_a_server_uses_in_two_rounds_stands_for_two_questions() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let params = json!({"name": "mrtr_twice", "arguments": {"a": 1}});
    let retry = |asked: &Value| {
        let mut retry = params.clone();
        retry["inputResponses"] = json!({"theirs": {"action": "accept", "content": {}}});
        retry["requestState"] = asked["result"]["requestState"].clone();
        retry
    };
    let first = rig.modern("tools/call", asks(true), params.clone()).await.json();
    assert!(first["result"]["inputRequests"]["theirs"].is_object(), "the server's own name: {first}");
    let second = rig.modern("tools/call", asks(true), retry(&first)).await.json();
    is_b("InputRequiredResult", &second["result"]);
    assert!(second["result"]["inputRequests"]["theirs"].is_object(), "{second}");
    assert_ne!(first["result"]["requestState"], second["result"]["requestState"]);
    // The first answer once more, as a client sends it that did not hear the second question.
    let again = rig.modern("tools/call", asks(true), retry(&first)).await.json();
    assert_eq!(again["result"]["inputRequests"], second["result"]["inputRequests"], "G-011: {again}");
    let done = rig.modern("tools/call", asks(true), retry(&second)).await.json();
    assert_eq!(done["result"]["content"][0]["text"], "twice", "{done}");
    assert_eq!(rig.fake.calls.lock().len(), 3, "one round each");
}

#[tokio::test]
async fn b_126_g_013_a_request_state_is_good_for_its_own_request_only() {
    let rig = Rig::with(config()).await;
    let params = json!({"name": "ask", "arguments": {"a": 1}});
    let asked = rig.modern("tools/call", asks(false), params.clone()).await.json();
    is_b("InputRequiredResult", &asked["result"]);
    let state = asked["result"]["requestState"].as_str().unwrap().to_owned();
    let answers = json!({"in-1": {"action": "accept", "content": {"colour": "red"}}});
    let with = |state: &str, params: &Value| {
        let mut params = params.clone();
        params["requestState"] = json!(state);
        params["inputResponses"] = answers.clone();
        params
    };
    let flipped = if state.ends_with('A') {
        format!("{}B", &state[..state.len() - 1])
    } else {
        format!("{}A", &state[..state.len() - 1])
    };
    let other_arguments = json!({"name": "ask", "arguments": {"a": 2}});
    let other_tool = json!({"name": "slow", "arguments": {"a": 1}});
    for bad in [
        with("", &params),
        with("v1.x.y", &params),
        with(&flipped, &params),
        with(&state, &other_arguments),
        with(&state, &other_tool),
    ] {
        let refused = rig.modern("tools/call", asks(false), bad).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let done = rig.modern("tools/call", asks(false), with(&state, &params)).await.json();
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("red"), "{done}");
    assert_eq!(rig.fake.calls.lock().len(), 1, "R7.3: the call was made once");
}

#[tokio::test]
async fn b_014_b_143_e_009_x_033_a_url_that_comes_first_is_asked_for_and_the_call_made_again() {
    let rig = Rig::with(config()).await;
    let params = json!({"name": "url_first"});
    let asked = rig.modern("tools/call", asks(false), params.clone()).await.json();
    is_b("InputRequiredResult", &asked["result"]);
    assert_eq!(asked["result"]["inputRequests"]["url-1"]["params"]["url"], "https://a.example/c");
    assert!(asked["result"]["inputRequests"]["url-1"]["params"].get("elicitationId").is_none(), "B-143");
    let mut retry = params.clone();
    retry["requestState"] = asked["result"]["requestState"].clone();
    retry["inputResponses"] = json!({"url-1": {"action": "accept"}});
    rig.modern("tools/call", asks(false), retry).await;
    assert_eq!(rig.fake.calls.lock().len(), 2);
    let response = rig.modern("tools/call", json!({}), params).await;
    assert_eq!(response.status, 400);
    let error = &response.json()["error"];
    assert_eq!(
        (&error["code"], &error["data"]["requiredCapabilities"]),
        (&json!(-32021), &json!({"elicitation": {"url": {}}}))
    );
}

#[tokio::test]
async fn r4_6_the_same_key_joins_and_another_request_under_it_is_refused() {
    let rig = Rig::hasty().await;
    let keyed =
        |n: u32| json!({"name": "slow", "arguments": {"n": n}, "_meta": {"taskgate/idempotency-key": "k"}});
    let first = rig.modern("tools/call", with_tasks(), keyed(1)).await.json();
    let second = rig.modern("tools/call", with_tasks(), keyed(1)).await.json();
    assert_eq!(first["result"]["taskId"], second["result"]["taskId"]);
    assert!(first["result"]["taskId"].is_string());
    let other = rig.modern("tools/call", with_tasks(), keyed(2)).await.json();
    assert_eq!(other["error"]["code"], -32602, "{other}");
    assert_eq!(rig.fake.calls.lock().len(), 1);
}

#[tokio::test]
async fn design_3_an_identical_plain_call_joins_and_is_told() {
    let rig = Rig::hasty().await;
    let params = json!({"name": "slow", "arguments": {"a": 1, "b": 2}});
    let first = rig.modern("tools/call", json!({}), params.clone()).await.json();
    // The same by its canonical form.
    let reordered = json!({"name": "slow", "arguments": {"b": 2, "a": 1}});
    let second = rig.modern("tools/call", json!({}), reordered).await.json();
    let id = |said: &Value| said["result"]["structuredContent"]["taskgate"]["taskId"].clone();
    assert_eq!(id(&first), id(&second));
    let words = second["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.starts_with("An identical call was made before"), "{words}");
    assert_eq!(rig.fake.calls.lock().len(), 1);
    // The result, too, says so.
    let mut patient = config();
    patient.limits.stream_after = Millis::secs(60);
    let rig = Rig::with(patient).await;
    let one = rig.modern("tools/call", json!({}), params.clone());
    let two = async {
        rig.fake.has_called(1).await;
        let joined = rig.modern("tools/call", json!({}), params.clone());
        let opener = async {
            while rig.gateway.engine.store().unfinished(None, 9).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            rig.fake.gate.open();
        };
        tokio::join!(joined, opener).0
    };
    let (one, two) = tokio::join!(one, two);
    assert_eq!(one.json()["result"]["content"].as_array().unwrap().len(), 1);
    let calls = rig.fake.calls.lock().len();
    if calls == 1 {
        assert_eq!(two.json()["result"]["content"].as_array().unwrap().len(), 2, "{}", two.body);
    }
}

#[tokio::test]
async fn design_7_arguments_that_name_a_member_twice_are_refused_unless_read_only() {
    let rig = Rig::start().await;
    let raw = |tool: &str| {
        let (body, _) = super::rig::modern_body("tools/call", json!({}), json!({"name": tool}));
        body.replace(
            &format!("\"name\":\"{tool}\""),
            &format!("\"name\":\"{tool}\",\"arguments\":{{\"a\":1,\"a\":2}}"),
        )
    };
    let headers = |tool: &'static str| {
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)]
    };
    let refused = rig.post(&headers("fail"), &raw("fail")).await.finish().await.json();
    assert_eq!(refused["error"]["code"], -32602);
    assert!(rig.records().await.is_empty());
    let passed = rig.post(&headers("echo"), &raw("echo")).await.finish().await.json();
    assert!(passed["result"].is_object());
}

#[tokio::test]
async fn r2_6_mode_sync_stops_the_call_at_the_budget_and_says_so() {
    let mut config = hasty();
    for (name, effect) in [("slow", Effect::Consequential), ("progress", Effect::ReadOnly)] {
        let policy = ToolPolicy { effect, mode: ToolMode::Sync, ..ToolPolicy::default() };
        config.servers[0].tools.insert(name.to_owned(), policy);
    }
    let rig = Rig::with(config).await;
    let said = rig.modern("tools/call", with_tasks(), json!({"name": "slow"})).await.json();
    let operation = rig.records().await[0].operation_id.0.clone();
    let data = json!({"reason": "sync_budget", "outcome": "unknown", "operation": operation});
    assert_eq!(said["error"]["data"], data, "{said}");
    rig.fake.has_stopped(1).await;
    let said = rig.modern("tools/call", with_tasks(), json!({"name": "progress"})).await.json();
    assert_eq!(said["error"]["code"], -32603);
    rig.fake.has_stopped(2).await;
}

#[tokio::test]
async fn b_078_q_017_x_010_a_task_of_the_server_is_observed_and_its_result_given() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), hasty()).await;
    let created = rig.modern("tools/call", with_tasks(), json!({"name": "task"})).await.json();
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    assert_ne!(id, "up-1", "X-010: a server's own id is never shown");
    rig.fake.gate.open();
    find(&rig, id).await.over().await;
    let got = &rig.modern("tasks/get", with_tasks(), json!({"taskId": id})).await.json()["result"];
    is_x("GetTaskResult", got);
    assert_eq!(got["result"]["content"][0]["text"], "done upstream");
    assert_eq!(got["result"]["resultType"], "complete", "Q-017");
}

#[tokio::test]
async fn b_139_what_a_server_says_just_before_its_answer_is_shown_before_it() {
    for effect in [Effect::ReadOnly, Effect::Consequential] {
        let mut config = config();
        let policy = ToolPolicy { effect, ..ToolPolicy::default() };
        config.servers[0].tools.insert("progress".to_owned(), policy);
        let rig = Rig::with(config).await;
        rig.fake.gate.open();
        for _ in 0..20 {
            let params = json!({"name": "progress", "_meta": {"progressToken": "p"}});
            let messages = rig.modern("tools/call", json!({}), params).await.messages();
            let methods: Vec<_> = messages.iter().map(|message| message["method"].as_str()).collect();
            assert_eq!(methods, [Some("notifications/progress"), None], "{effect:?}: {messages:?}");
        }
    }
}
