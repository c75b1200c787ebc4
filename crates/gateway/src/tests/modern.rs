//! What holds for stateless clients, beyond one call's way.

use serde_json::{Value, json};
use taskgate_client::Notice;
use taskgate_core::gate::{BackTasks, ToolMode};
use taskgate_wire::version::Version;

use super::calls::find;
use super::pipe::{Piped, modern};
use super::rig::{Fake, Rig, config, hasty, modern_body, with_tasks};
use super::schema::{is_b, is_x};
use crate::config::ToolPolicy;

const MODERN: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

fn asks(mut capabilities: Value) -> Value {
    capabilities["elicitation"] = json!({"form": {}, "url": {}});
    capabilities
}

async fn refused(rig: &Rig, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let response = rig.post(headers, body).await.finish().await;
    (response.status, response.json()["error"].clone())
}

#[tokio::test]
async fn b_007_a_name_changes_nothing() {
    let rig = Rig::start().await;
    let mut answers = Vec::new();
    for info in [json!({"name": "a", "version": "1"}), json!({"name": "claude", "version": "9"})] {
        for (method, params) in [("tools/list", json!({})), ("tools/call", json!({"name": "echo"}))] {
            let mut params = params;
            params["_meta"] = json!({"io.modelcontextprotocol/clientInfo": info});
            answers.push(rig.modern(method, with_tasks(), params).await.body);
        }
    }
    assert_eq!(answers[..2], answers[2..]);
}

#[tokio::test]
async fn b_008_what_one_request_declared_is_not_known_of_the_next() {
    let rig = Rig::hasty().await;
    let mut pipe = Piped::start(&rig);
    let created = pipe.ask(modern(1, "tools/call", json!({"name": "slow"}))).await;
    assert_eq!(created["result"]["resultType"], "task");
    let bare = |id: u64, method: &str, params: Value| {
        let (body, _) = modern_body(method, json!({}), params);
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body["id"] = json!(id);
        body
    };
    let refused = pipe.ask(bare(2, "tasks/get", json!({"taskId": created["result"]["taskId"]}))).await;
    assert_eq!(refused["error"]["code"], -32021);
    let lasts = pipe.ask(bare(3, "tools/call", json!({"name": "slow", "arguments": {"n": 2}}))).await;
    assert_eq!(lasts["result"]["resultType"], "complete");
    // And not the other way round either.
    let again = pipe.ask(modern(4, "tasks/get", json!({"taskId": created["result"]["taskId"]}))).await;
    assert_eq!(again["result"]["status"], "working");
}

#[tokio::test]
async fn b_015_b_050_b_123_a_stateless_client_is_sent_no_request() {
    let rig = Rig::with(config()).await;
    let asked = rig.modern("tools/call", asks(json!({})), json!({"name": "ask"})).await;
    is_b("InputRequiredResult", &asked.json()["result"]);
    let roots = json!({"roots": {}});
    let asked = rig.modern("tools/call", roots.clone(), json!({"name": "roots"})).await.json();
    assert_eq!(asked["result"]["inputRequests"]["in-1"]["method"], "roots/list", "X-035");
    let mut pipe = Piped::start(&rig);
    let call = |id: u64, name: &str| {
        let (body, _) = modern_body("tools/call", asks(roots.clone()), json!({"name": name}));
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body["id"] = json!(id);
        body
    };
    for (id, name) in [(1, "ask"), (2, "roots")] {
        pipe.say(call(id, name)).await;
        let heard = pipe.hear().await;
        assert!(heard.get("method").is_none(), "{heard}");
        assert_eq!((&heard["id"], &heard["result"]["resultType"]), (&json!(id), &json!("input_required")));
    }
}

#[tokio::test]
async fn b_005_b_020_b_024_b_047_b_169_to_b_171_q_013_envelopes_that_are_wrong_in_one_way() {
    let rig = Rig::start().await;
    let (call, _) = modern_body("tools/call", json!({}), json!({"name": "echo"}));
    let key = |name: &str| format!("io.modelcontextprotocol/{name}");
    let without = |name: &str| {
        let mut body: Value = serde_json::from_str(&call).unwrap();
        body["params"]["_meta"].as_object_mut().unwrap().remove(&key(name));
        body.to_string()
    };
    let method = ("mcp-method", "tools/call");
    let name = ("mcp-name", "echo");
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#.to_owned(),
        without("protocolVersion"),
        without("clientCapabilities"),
    ] {
        let (status, error) = refused(&rig, &[MODERN, method, name], &body).await;
        assert_eq!((status, &error["code"]), (400, &json!(-32602)), "{body}");
    }
    // clientInfo was never there, and is not missed.
    let served = rig.post(&[MODERN, method, name], &call).await.finish().await;
    assert_eq!(served.status, 200);
    let (status, error) = refused(&rig, &[method, name], &call).await;
    assert_eq!((status, &error["code"]), (400, &json!(-32020)));
    let (status, error) = refused(&rig, &[("mcp-protocol-version", "2025-11-25"), method, name], &call).await;
    assert_eq!((status, &error["code"]), (400, &json!(-32020)));
    for version in ["1900-01-01", "2025-11-25"] {
        let body = call.replace("2026-07-28", version);
        let (status, error) = refused(&rig, &[("mcp-protocol-version", version), method, name], &body).await;
        assert_eq!((status, &error["code"]), (400, &json!(-32022)));
        assert_eq!(error["data"]["requested"], version);
        assert_eq!(error["data"]["supported"][0], "2026-07-28");
    }
    for gone in ["initialize", "ping", "logging/setLevel"] {
        let (body, _) = modern_body(gone, json!({}), json!({}));
        let response = rig.post(&[MODERN, ("mcp-method", gone)], &body).await.finish().await;
        let said = response.json();
        assert_eq!((response.status, &said["error"]["code"], &said["id"]), (404, &json!(-32601), &json!(1)));
        if gone == "initialize" {
            assert!(said["error"]["message"].as_str().unwrap().contains("2026-07-28"));
        }
    }
}

#[tokio::test]
async fn b_046_g_017_q_015_the_first_thing_that_is_wrong_is_told_and_nothing_goes_on() {
    let rig = Rig::start().await;
    let (unknown_method, _) = modern_body("tasks/never", json!({}), json!({}));
    let (get, _) = modern_body("tasks/get", json!({}), json!({}));
    let (call, _) = modern_body("tools/call", json!({}), json!({"name": "slow"}));
    let no_meta = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/never","params":{}}"#;
    let wrong_method = ("mcp-method", "other");
    let old = |body: &str| body.replace("2026-07-28", "1900-01-01");
    for (headers, body, status, code) in [
        (vec![MODERN, wrong_method], "{".to_owned(), 400, -32700),
        (vec![MODERN, wrong_method], no_meta.to_owned(), 400, -32602),
        (vec![MODERN, wrong_method], old(&unknown_method), 400, -32020),
        (vec![("mcp-protocol-version", "1900-01-01"), wrong_method], old(&unknown_method), 400, -32022),
        (vec![MODERN, wrong_method], unknown_method.clone(), 400, -32020),
        (vec![MODERN, ("mcp-method", "tasks/never")], unknown_method.clone(), 404, -32601),
        (vec![MODERN, ("mcp-method", "tasks/get")], get.clone(), 400, -32021),
        (vec![MODERN, ("mcp-method", "tools/call"), ("mcp-name", "echo")], call, 400, -32020),
    ] {
        let (got, error) = refused(&rig, &headers, &body).await;
        assert_eq!((got, &error["code"]), (status, &json!(code)), "{body} {headers:?}");
    }
    let declared = rig.modern("tasks/get", with_tasks(), json!({})).await;
    assert_eq!(
        (declared.status, &declared.json()["error"]["code"]),
        (200, &json!(-32602)),
        "params come last"
    );
    assert!(rig.fake.calls.lock().is_empty() && rig.fake.requests.lock().is_empty());
}

#[tokio::test]
async fn b_045_mirrored_arguments_are_verified() {
    let rig = Rig::start().await;
    let (call, _) =
        modern_body("tools/call", json!({}), json!({"name": "mirrored", "arguments": {"region": "eu"}}));
    let base = [MODERN, ("mcp-method", "tools/call"), ("mcp-name", "mirrored")];
    for (header, status) in [
        (None, 400),
        (Some(("mcp-param-region", "us")), 400),
        (Some(("Mcp-Param-Region", "eu")), 200),
        (Some(("mcp-param-region", "=?base64?ZXU=?=")), 200),
    ] {
        let mut headers = base.to_vec();
        headers.extend(header);
        headers.push(("mcp-param-unheard-of", "x"));
        let response = rig.post(&headers, &call).await.finish().await;
        assert_eq!(response.status, status, "{header:?}");
        if status == 400 {
            assert_eq!(response.json()["error"]["code"], -32020);
        }
    }
    assert_eq!(rig.fake.calls.lock().len(), 2);
    // On a pipe there are no headers.
    let mut pipe = Piped::start(&rig);
    let said =
        pipe.ask(modern(1, "tools/call", json!({"name": "mirrored", "arguments": {"region": "eu"}}))).await;
    assert!(said["result"].is_object(), "{said}");
}

#[tokio::test]
async fn b_045_a_tool_whose_marks_break_the_rules_is_not_there_over_http() {
    let tool = |name: &str, mark: &str| {
        let region = json!({"type": "string", "x-mcp-header": mark});
        json!({"name": name, "inputSchema": {"type": "object", "properties": {"region": region}}})
    };
    let list = json!({"resultType": "complete", "tools": [tool("sound", "Region"), tool("broken", "a b")]});
    for (version, tasks, is_there) in
        [(Version::V2026_07_28, BackTasks::B, false), (Version::V2025_11_25, BackTasks::A, true)]
    {
        let rig = Rig::before(Fake::new(version, tasks), hasty()).await;
        rig.fake.answers("tools/list", list.clone());
        let listed = rig.modern("tools/list", with_tasks(), json!({})).await.json();
        let names: Vec<_> =
            listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert!(names.contains(&&json!("sound")), "{listed}");
        assert_eq!(names.contains(&&json!("broken")), is_there, "{listed}");
        let headers = [MODERN, ("mcp-method", "tools/call"), ("mcp-name", "broken")];
        let (call, _) = modern_body("tools/call", with_tasks(), json!({"name": "broken"}));
        let called = rig.post(&headers, &call).await.finish().await.json();
        assert_eq!(called["error"]["code"] == -32602, !is_there, "{called}");
        assert_eq!(rig.fake.calls.lock().len(), usize::from(is_there));
    }
}

#[tokio::test]
async fn b_061_no_call_needs_a_client_that_knows_tasks() {
    let mut config = config();
    let policy = ToolPolicy { mode: ToolMode::Task, ..ToolPolicy::default() };
    config.servers[0].tools.insert("slow".to_owned(), policy);
    let rig = Rig::with(config).await;
    let said = rig.modern("tools/call", json!({}), json!({"name": "slow"})).await;
    assert_eq!(said.status, 200);
    assert_eq!(said.json()["result"]["resultType"], "complete", "it is followed by a handle");
}

#[tokio::test]
async fn b_110_q_032_x_043_a_task_of_a_stateless_client_has_no_progress_and_no_log() {
    let rig = Rig::hasty().await;
    let params = json!({"name": "later", "_meta":
        {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}});
    let response = rig.modern("tools/call", with_tasks(), params).await;
    let created = response.json();
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    assert!(!response.body.contains("notifications/"));
    let listen =
        json!({"notifications": {"taskIds": [created["result"]["taskId"]], "toolsListChanged": true}});
    let mut stream = rig.modern_open("subscriptions/listen", with_tasks(), listen).await;
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    rig.fake.gate.open();
    rig.fake.has_called(101).await;
    rig.fake.notices.send(Notice::ToolsChanged).unwrap();
    let mut methods = Vec::new();
    while methods.last().is_none_or(|last| last != "notifications/tools/list_changed") {
        methods.push(stream.message().await.unwrap()["method"].as_str().unwrap().to_owned());
    }
    methods.retain(|method| method != "notifications/tasks");
    assert_eq!(methods, ["notifications/tools/list_changed"]);
}

#[tokio::test]
async fn b_115_b_116_the_extension_means_nothing_in_a_session() {
    let rig = Rig::hasty().await;
    let client = rig.session("2025-11-25", with_tasks()).await;
    assert!(!client.said.to_string().contains("io.modelcontextprotocol/tasks"));
    let lasts = client.call("slow", json!({})).await;
    assert!(lasts["result"].get("resultType").is_none() && lasts["result"].get("taskId").is_none());
    assert!(lasts["result"]["content"].is_array());
    for method in ["tasks/update", "subscriptions/listen"] {
        let said = client.ask(method, json!({"taskId": "t1"})).await.json();
        assert_eq!(said["error"]["code"], -32601, "{method}");
    }
    let id = client.task("slow").await;
    let got = client.ask("tasks/get", json!({"taskId": id})).await.json();
    assert!(got["result"].get("resultType").is_none() && got["result"].get("ttlMs").is_none());
}

#[tokio::test]
async fn b_118_q_016_legacy_tasks_are_for_legacy_declarers_where_the_operator_allows_it() {
    let legacy = json!({"tasks": {"requests": {"tools": {"call": {}}}}});
    let mut config = hasty();
    for allows in [false, true] {
        config.legacy_tasks_for_stateless = allows;
        let rig = Rig::with(config.clone()).await;
        let id = rig.session("2025-11-25", json!({})).await.task("slow").await;
        let got = rig.modern("tasks/get", legacy.clone(), json!({"taskId": id})).await;
        if !allows {
            assert_eq!((got.status, &got.json()["error"]["code"]), (400, &json!(-32021)));
            continue;
        }
        let task = &got.json()["result"];
        assert_eq!((&task["taskId"], &task["resultType"]), (&json!(id), &json!("complete")));
        assert!(task["ttl"].is_u64() && task.get("ttlMs").is_none());
        let bare = rig.modern("tasks/get", json!({}), json!({"taskId": id})).await.json();
        assert_eq!(bare["error"]["code"], -32021, "it declares nothing at all");
        let made = rig.modern("tools/call", with_tasks(), json!({"name": "slow"})).await.json();
        let other = json!({"taskId": made["result"]["taskId"]});
        let refused = rig.modern("tasks/get", legacy.clone(), other).await.json();
        assert_eq!(refused["error"]["code"], -32021, "that one was not made in a session");
        let cancelled = rig.modern("tasks/cancel", legacy.clone(), json!({"taskId": id})).await.json();
        assert_eq!(cancelled["result"]["status"], "cancelled");
    }
}

#[tokio::test]
async fn b_122_input_is_wanted_before_three_methods_only() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let wants = json!({"resultType": "input_required", "requestState": "s", "inputRequests": {}});
    let client = rig.session("2025-11-25", json!({})).await;
    for (method, may) in [
        ("prompts/get", true),
        ("resources/read", true),
        ("prompts/list", false),
        ("completion/complete", false),
        ("tools/list", false),
    ] {
        rig.fake.answers(method, wants.clone());
        let params =
            if method == "resources/read" { json!({"uri": "file:///a"}) } else { json!({"name": "p"}) };
        let said = rig.modern(method, asks(json!({})), params).await.json();
        assert_eq!(said["result"]["resultType"] == "input_required", may, "{method}: {said}");
        if !may {
            assert_eq!(said["error"]["code"], -32603);
            assert_eq!(client.ask(method, json!({})).await.json()["error"]["code"], -32603);
        }
    }
}

#[tokio::test]
async fn b_127_a_client_that_does_not_come_back_is_asked_again_when_it_calls_again() {
    let mut config = config();
    // As something that may change the world: an identical call joins.
    config.servers[0].tools.remove("ask");
    let rig = Rig::with(config).await;
    let mut questions = Vec::new();
    for _ in 0..2 {
        let asked = rig.modern("tools/call", asks(json!({})), json!({"name": "ask"})).await.json();
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        questions.push(asked["result"]["inputRequests"].clone());
    }
    assert_eq!(questions[0], questions[1]);
    assert_eq!(rig.fake.calls.lock().len(), 1);
}

#[tokio::test]
async fn b_130_bad_missing_and_surplus_answers_of_a_retry() {
    let rig = Rig::with(config()).await;
    let call = json!({"name": "ask"});
    let asked = rig.modern("tools/call", asks(json!({})), call.clone()).await.json();
    let with = |answers: Value| {
        let mut retry = call.clone();
        retry["requestState"] = asked["result"]["requestState"].clone();
        retry["inputResponses"] = answers;
        retry
    };
    let bad =
        rig.modern("tools/call", asks(json!({})), with(json!({"in-1": {"action": "perhaps"}}))).await.json();
    assert_eq!(bad["error"]["code"], -32602);
    let missing = rig.modern("tools/call", asks(json!({})), with(json!({}))).await.json();
    assert_eq!(missing["result"]["inputRequests"], asked["result"]["inputRequests"]);
    let surplus = json!({"in-1": {"action": "decline"}, "in-7": {"action": "accept"}});
    let done = rig.modern("tools/call", asks(json!({})), with(surplus)).await.json();
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("decline"), "{done}");
}

#[tokio::test]
async fn b_130_answers_without_a_state_answer_what_the_call_then_asks() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let with = |name: &str, answers: Value| json!({"name": name, "inputResponses": answers});
    let call = async |params: Value| rig.modern("tools/call", asks(json!({})), params).await.json();
    let yes = json!({"action": "accept", "content": {"colour": "blue"}});
    let missing = call(with("mrtr", json!({"other": yes}))).await;
    assert!(missing["result"]["inputRequests"]["theirs"].is_object(), "asked again: {missing}");
    let done = call(with("mrtr", json!({"theirs": yes, "other": yes}))).await;
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("blue"), "{done}");
    assert_eq!(call(with("mrtr", json!({"theirs": 7}))).await["error"]["code"], -32602);
    assert_eq!(call(with("mrtr", Value::Null)).await["error"]["code"], -32602);
    // They answer one round, whatever the next one calls its question.
    let second = call(with("mrtr_twice", json!({"theirs": yes}))).await;
    assert!(second["result"]["inputRequests"]["theirs"].is_object(), "{second}");
    let unasked = call(with("echo", json!({"theirs": yes}))).await;
    assert_eq!(unasked["result"]["resultType"], "complete", "{unasked}");
    for (_, params) in rig.fake.calls.lock().iter() {
        assert!(!params.contains("inputResponses"), "R6.5: not in what is recorded: {params}");
    }
}

#[tokio::test]
async fn b_148_the_list_of_tools_depends_on_nothing_that_came_before() {
    let rig = Rig::hasty().await;
    let list =
        async || rig.modern("tools/list", with_tasks(), json!({})).await.json()["result"]["tools"].clone();
    let first = list().await;
    rig.modern("tools/call", with_tasks(), json!({"name": "slow"})).await;
    rig.session("2025-06-18", json!({})).await;
    assert_eq!(list().await, first);
}

#[tokio::test]
async fn b_150_an_unknown_tool_is_an_error_and_a_failed_one_a_result() {
    let rig = Rig::with(config()).await;
    for params in [json!({"name": "nope"}), json!({}), json!({"name": "echo", "arguments": 1})] {
        let (body, _) = modern_body("tools/call", json!({}), params.clone());
        let mut headers = vec![MODERN, ("mcp-method", "tools/call")];
        headers.push(("mcp-name", params["name"].as_str().unwrap_or("x")));
        let said = rig.post(&headers, &body).await.finish().await;
        assert_eq!((said.status, &said.json()["error"]["code"]), (200, &json!(-32602)), "{params}");
    }
    let failed = rig.modern("tools/call", json!({}), json!({"name": "fail"})).await.json();
    assert_eq!(failed["result"]["isError"], true);
}

#[tokio::test]
async fn b_167_q_024_what_was_not_answered_stays_open() {
    let rig = Rig::start().await;
    let capabilities = asks(with_tasks());
    let created = rig.modern("tools/call", capabilities.clone(), json!({"name": "twice"})).await.json();
    is_x("CreateTaskResult", &created["result"]);
    let id = created["result"]["taskId"].as_str().unwrap();
    let mut handle = find(&rig, id).await;
    while handle.record().task.outstanding().is_none_or(|asked| asked.questions().len() < 2) {
        handle.changed().await;
    }
    let open = async || {
        let got = rig.modern("tasks/get", capabilities.clone(), json!({"taskId": id})).await.json();
        let keys: Vec<String> = got["result"]["inputRequests"].as_object().unwrap().keys().cloned().collect();
        keys
    };
    let update = async |answers: Value| {
        let params = json!({"taskId": id, "inputResponses": answers});
        rig.modern("tasks/update", capabilities.clone(), params).await.json()["result"].clone()
    };
    assert_eq!(update(json!({})).await, json!({"resultType": "complete"}));
    assert_eq!(open().await, ["in-1", "in-2"]);
    update(json!({"in-1": {"action": "cancel"}})).await;
    assert_eq!(open().await, ["in-2"]);
    let still = rig.modern("tasks/get", capabilities.clone(), json!({"taskId": id})).await.json();
    assert_eq!(still["result"]["status"], "input_required");
}

#[tokio::test]
async fn q_021_open_questions_are_listed_to_whoever_may_read_the_task() {
    let rig = Rig::start().await;
    let created = rig.modern("tools/call", asks(with_tasks()), json!({"name": "ask"})).await.json();
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    // This reader declares no elicitation.
    let got = rig.modern("tasks/get", with_tasks(), json!({"taskId": id})).await.json();
    assert_eq!(got["result"]["status"], "input_required");
    assert_eq!(got["result"]["inputRequests"]["in-1"]["method"], "elicitation/create");
}

#[tokio::test]
async fn q_029_a_subscription_to_nothing_is_acknowledged_and_ends() {
    let rig = Rig::start().await;
    for notifications in [json!({}), json!({"taskIds": []}), json!({"promptsListChanged": true})] {
        let listen = json!({"notifications": notifications});
        let mut stream = rig.modern_open("subscriptions/listen", with_tasks(), listen).await;
        let acknowledged = stream.message().await.unwrap();
        is_b("SubscriptionsAcknowledgedNotification", &acknowledged);
        is_b("SubscriptionsListenResult", &stream.message().await.unwrap()["result"]);
        assert!(stream.message().await.is_none());
    }
}

#[tokio::test]
async fn q_038_the_header_of_a_notification_is_checked_if_it_is_there() {
    let rig = Rig::start().await;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    for (header, status) in [
        (None, 202),
        (Some(("mcp-method", "notifications/cancelled")), 202),
        (Some(("mcp-method", "notifications/other")), 400),
    ] {
        let mut headers = vec![MODERN];
        headers.extend(header);
        assert_eq!(rig.post(&headers, note).await.finish().await.status, status, "{header:?}");
    }
}
