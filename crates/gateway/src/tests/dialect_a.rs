//! Tasks of legacy clients.

use serde_json::{Value, json};
use taskgate_core::gate::BackTasks;
use taskgate_wire::version::Version;

use super::calls::find;
use super::rig::{Fake, Rig, config, redact};
use super::schema::is_a;

const NEWEST: &str = "2025-11-25";

fn form() -> Value {
    json!({"elicitation": {"form": {}}})
}

const RELATED: &str = "io.modelcontextprotocol/related-task";

#[tokio::test]
async fn a_007_a_016_a_024_a_117_initialize_offers_tasks_but_no_list_to_callers_who_cannot_be_told_apart() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    is_a("InitializeResult", &client.said["result"]);
    insta::assert_snapshot!(client.said["result"]);
    let older = rig.session("2025-06-18", json!({})).await;
    assert!(older.said["result"]["capabilities"].get("tasks").is_none(), "G-001");
}

#[tokio::test]
async fn a_008_d_002_q_010_a_client_that_proposes_another_version_gets_the_newest_with_a_handshake() {
    let rig = Rig::start().await;
    for (proposed, given) in [("2026-07-28", NEWEST), ("1999-01-01", NEWEST), ("2025-03-26", "2025-03-26")] {
        let client = rig.session(proposed, json!({})).await;
        assert_eq!(client.said["result"]["protocolVersion"], given);
    }
}

#[tokio::test]
async fn a_025_a_119_tools_say_that_a_task_is_optional() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let list = client.ask("tools/list", json!({})).await.json();
    is_a("ListToolsResult", &list["result"]);
    let tools = list["result"]["tools"].as_array().unwrap();
    let (ours, theirs) = tools.split_last().unwrap();
    assert!(theirs.iter().all(|tool| tool["execution"]["taskSupport"] == "optional"));
    assert!(theirs.iter().all(|tool| tool.get("outputSchema").is_none()));
    assert!(ours.get("execution").is_none());
    insta::assert_snapshot!(ours);
    let older = rig.session("2025-03-26", json!({})).await;
    let list = older.ask("tools/list", json!({})).await.json();
    assert!(!list.to_string().contains("execution"), "G-001");
    assert!(!list.to_string().contains("\"title\""), "G-005");
}

#[tokio::test]
async fn a_033_a_034_a_036_a_094_q_004_an_augmented_call_is_a_task_at_once_and_always_working() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    for tool in ["echo", "slow", "fail"] {
        let params = json!({"name": tool, "task": {"ttl": 5000}, "_meta": {"progressToken": 1}});
        let created = client.ask("tools/call", params).await.json();
        is_a("CreateTaskResult", &created["result"]);
        assert_eq!(created["result"]["task"]["status"], "working", "A-036");
        assert!(created["result"].get("content").is_none());
        assert!(created["result"].get("_meta").is_none(), "Q-004");
    }
    let long = json!({"name": "slow", "task": {"ttl": 9e15}});
    let created = client.ask("tools/call", long).await.json();
    assert_eq!(created["result"]["task"]["ttl"], 3_600_000, "A-039, R6.2");
}

#[tokio::test]
async fn a_044_a_045_a_047_a_053_a_task_is_read_flat_and_without_its_payload() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = client.task("fail").await;
    find(&rig, &id).await.over().await;
    let response = client.ask("tasks/get", json!({"taskId": id})).await;
    assert_eq!(response.header("content-type"), Some("application/json"), "A-053");
    let got = response.json();
    is_a("GetTaskResult", &got["result"]);
    insta::assert_snapshot!(redact(got["result"].clone()));
}

#[tokio::test]
async fn a_057_a_058_a_062_a_064_a_127_a_result_is_held_until_the_task_is_over_and_names_its_task() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = client.task("slow").await;
    let mut stream = client.open("tasks/result", json!({"taskId": id})).await;
    // A-128: it opens with an event that has an id, no data and a time to wait.
    let first = stream.event().await.unwrap();
    assert!(first.id.is_some() && first.data.is_empty() && first.retry.is_some());
    rig.fake.gate.open();
    let done = stream.message().await.unwrap();
    is_a("CallToolResult", &done["result"]);
    assert_eq!(done["result"]["_meta"][RELATED]["taskId"], json!(id), "A-062");
    assert!(stream.message().await.is_none());
    // A-064: again, and now at once.
    let again = client.ask("tasks/result", json!({"taskId": id})).await;
    assert_eq!(again.header("content-type"), Some("application/json"));
    assert_eq!(again.json()["result"], done["result"]);
}

#[tokio::test]
async fn a_060_a_061_q_005_an_underlying_error_is_passed_on_as_it_was() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = client.task("raise").await;
    let got = client.ask("tasks/result", json!({"taskId": id})).await.json();
    assert_eq!(got["error"], json!({"code": -32050, "message": "it broke"}));
    let failed = client.task("fail").await;
    let got = client.ask("tasks/result", json!({"taskId": failed})).await.json();
    assert_eq!(got["result"]["isError"], true, "A-061");
}

#[tokio::test]
async fn a_055_a_128_g_007_a_broken_result_is_taken_up_again_even_by_our_successor() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = client.task("slow").await;
    let mut stream = client.open("tasks/result", json!({"taskId": id})).await;
    let last = stream.event().await.unwrap().id.unwrap();
    drop(stream);
    let mut resumed = client.stream(Some(&last)).await;
    assert_eq!(resumed.status, 200);
    rig.fake.gate.open();
    let done = resumed.message().await.unwrap();
    assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(2), &json!("done")));
    assert!(resumed.message().await.is_none());
    // Another gateway on the same store: the session and the task are still there.
    rig.shutdown.cancel();
    rig.gateway.engine.shutdown(std::time::Duration::from_secs(1)).await;
    let store = rig.store.reopen();
    let next = Rig::over(Fake::new(Version::V2025_11_25, BackTasks::None), config(), store).await;
    let headers =
        [("accept", "text/event-stream"), client.headers()[0], client.headers()[1], ("last-event-id", &last)];
    let mut resumed = next.raw("GET", &headers, None).await;
    let event = loop {
        let event = resumed.event().await.unwrap();
        if !event.data.is_empty() {
            break event;
        }
    };
    assert_ne!(event.id, Some(last));
    let done: Value = serde_json::from_slice(&event.data).unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_065_a_066_a_104_a_125_x_023_a_question_is_asked_on_the_open_result_stream_and_answered_by_post() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, form()).await;
    let id = client.task("ask").await;
    let mut stream = client.open("tasks/result", json!({"taskId": id})).await;
    let asked = stream.message().await.unwrap();
    is_a("ElicitRequest", &asked);
    assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], json!(id), "A-066");
    let got = client.ask("tasks/get", json!({"taskId": id})).await.json();
    assert_eq!(got["result"]["status"], "input_required", "A-065");
    let wrong = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "perhaps"}});
    let refused = client.say(wrong).await;
    assert_eq!(refused.status, 400, "A-112");
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {
        "action": "accept", "content": {"colour": "green"}, "_meta": {RELATED: {"taskId": id}},
    }});
    let accepted = client.say(answer.clone()).await;
    assert_eq!((accepted.status, accepted.body.as_str()), (202, ""), "A-125");
    let done = stream.message().await.unwrap();
    let text = done["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        text, r#"{"action":"accept","content":{"colour":"green"}}"#,
        "X-021: the server sees no task of ours"
    );
    // X-031: once more is dropped without a word.
    assert_eq!(client.say(answer).await.status, 202);
}

#[tokio::test]
async fn inv_35_an_answer_outlives_a_store_that_fails_for_a_moment() {
    use taskgate_store::memory::{CommandKind, Fault};
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, form()).await;
    let id = client.task("ask").await;
    let mut stream = client.open("tasks/result", json!({"taskId": id})).await;
    let asked = stream.message().await.unwrap();
    // Its client answers once, and believes that it has.
    for _ in 0..2 {
        rig.store.inject(
            CommandKind::Append,
            Fault::Fail(taskgate_store::Error::Full { place: "the store".to_owned() }),
        );
    }
    let result = json!({"action": "accept", "content": {"colour": "green"}});
    let accepted = client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
    assert_eq!((accepted.status, rig.store.pending_faults()), (202, 0));
    let done = stream.message().await.unwrap();
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("green"), "{done}");
}

#[tokio::test]
async fn a_074_a_131_x_026_x_041_a_question_goes_to_the_standing_stream_when_there_is_no_other_and_only_once()
{
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, form()).await;
    let mut standing = client.stream(None).await;
    let id = client.task("ask").await;
    let mut seen = Vec::new();
    let asked = loop {
        let message = standing.message().await.unwrap();
        if message["method"] == "elicitation/create" {
            break message;
        }
        seen.push(message);
    };
    // A-131: it stands there, so an open result does not ask again.
    let mut result = client.open("tasks/result", json!({"taskId": id})).await;
    assert!(result.event().await.unwrap().data.is_empty());
    client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})).await;
    let done = result.message().await.unwrap();
    assert!(done["result"].is_object(), "{done}");
    // A-075: the status was told on the standing stream, without related-task metadata (A-074).
    loop {
        let message = standing.message().await.unwrap();
        seen.push(message.clone());
        if message["params"]["status"] == "completed" {
            break;
        }
    }
    for message in &seen {
        is_a("TaskStatusNotification", message);
        assert!(message["params"].get("_meta").is_none());
    }
}

#[tokio::test]
async fn x_024_x_028_a_question_whose_stream_broke_is_asked_again_under_the_same_key() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, form()).await;
    let id = client.task("ask").await;
    let mut first = client.open("tasks/result", json!({"taskId": id})).await;
    let asked = first.message().await.unwrap();
    drop(first);
    let mut second = client.open("tasks/result", json!({"taskId": id})).await;
    let again = second.message().await.unwrap();
    assert_ne!(asked["id"], again["id"], "A-002");
    assert_eq!(asked["params"], again["params"]);
    // First answer wins, also by the older id (G-011).
    client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}})).await;
    // A-092: the newer one need not be answered any more.
    let taken_back = second.message().await.unwrap();
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], again["id"]);
    let done = second.message().await.unwrap();
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("cancel"));
}

#[tokio::test]
async fn x_029_a_refusal_by_error_becomes_an_answer() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, form()).await;
    let id = client.task("ask").await;
    let mut stream = client.open("tasks/result", json!({"taskId": id})).await;
    let asked = stream.message().await.unwrap();
    let error =
        json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "User rejected"}});
    assert_eq!(client.say(error).await.status, 202);
    let done = stream.message().await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], r#"{"action":"decline"}"#);
}

#[tokio::test]
async fn a_087_to_a_090_q_001_x_020_x_040_a_cancelled_task_is_cancelled_before_the_answer_and_stays_so() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = client.task("slow").await;
    rig.fake.has_called(1).await;
    let mut blocked = client.open("tasks/result", json!({"taskId": id})).await;
    blocked.event().await.unwrap();
    let cancelled = client.ask("tasks/cancel", json!({"taskId": id})).await.json();
    is_a("CancelTaskResult", &cancelled["result"]);
    assert_eq!(cancelled["result"]["status"], "cancelled");
    // X-020, X-040, Q-001
    let released = blocked.message().await.unwrap();
    let data = json!({"taskId": id, "status": "cancelled"});
    assert_eq!(released["error"], json!({"code": -32603, "message": "Task was cancelled", "data": data}));
    rig.fake.has_stopped(1).await;
    rig.fake.gate.open();
    let got = client.ask("tasks/get", json!({"taskId": id})).await.json();
    assert_eq!(got["result"]["status"], "cancelled", "A-090");
    let again = client.ask("tasks/cancel", json!({"taskId": id})).await.json();
    assert_eq!(
        again["error"],
        json!({"code": -32602, "message": "Task is already cancelled; cannot cancel"}),
        "A-087"
    );
}

#[tokio::test]
async fn a_086_a_cancelled_notification_leaves_a_task_alone() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = client.task("slow").await;
    client
        .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    let got = client.ask("tasks/get", json!({"taskId": id})).await.json();
    assert_eq!(got["result"]["status"], "working");
}

#[tokio::test]
async fn a_092_a_held_result_that_is_cancelled_is_not_answered() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = client.task("slow").await;
    let mut blocked = client.open("tasks/result", json!({"taskId": id})).await;
    blocked.event().await.unwrap();
    client
        .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}))
        .await;
    assert!(blocked.message().await.is_none());
    let got = client.ask("tasks/get", json!({"taskId": id})).await.json();
    assert_eq!(got["result"]["status"], "working", "only the read was taken back");
}

#[tokio::test]
async fn a_071_a_077_x_043_progress_keeps_its_token_for_the_life_of_the_task() {
    let rig = Rig::with(config()).await;
    let client = rig.session(NEWEST, json!({})).await;
    let mut standing = client.stream(None).await;
    let params = json!({"name": "later", "task": {}, "_meta": {"progressToken": "tok"}});
    let created = client.ask("tools/call", params).await.json();
    let id = created["result"]["task"]["taskId"].clone();
    rig.fake.gate.open();
    let mut got = Vec::new();
    while got.len() < 2 {
        let message = standing.message().await.unwrap();
        if message["method"] != "notifications/tasks/status" {
            got.push(message);
        }
    }
    is_a("ProgressNotification", &got[0]);
    assert_eq!(got[0]["params"]["progressToken"], "tok");
    assert_eq!(got[0]["params"]["_meta"][RELATED]["taskId"], id, "A-071");
    assert_eq!(got[1]["method"], "notifications/message");
    assert_eq!(got[1]["params"]["_meta"][RELATED]["taskId"], id);
}

#[tokio::test]
async fn g_024_held_results_are_capped() {
    let mut config = config();
    config.limits.blocked_results_max = 1;
    let rig = Rig::with(config).await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = client.task("slow").await;
    let mut held = client.open("tasks/result", json!({"taskId": id})).await;
    held.event().await.unwrap();
    let refused = client.ask("tasks/result", json!({"taskId": id})).await.json();
    assert_eq!(refused["error"]["code"], -32603);
}

#[tokio::test]
async fn g_021_held_results_break_off_when_we_stop() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let id = client.task("slow").await;
    let mut held = client.open("tasks/result", json!({"taskId": id})).await;
    held.event().await.unwrap();
    rig.shutdown.cancel();
    assert!(held.message().await.is_none());
}

#[tokio::test]
async fn r3_3_nothing_is_sent_and_no_id_leaves_when_the_record_cannot_be_written() {
    use taskgate_store::memory::{CommandKind, Fault};
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    rig.store.inject(
        CommandKind::Create,
        Fault::Fail(taskgate_store::Error::Full { place: "the store".to_owned() }),
    );
    let said = client.ask("tools/call", json!({"name": "slow", "task": {}})).await.json();
    assert_eq!(said["error"]["code"], -32603, "{said}");
    assert!(rig.fake.calls.lock().is_empty());
    assert!(rig.records().await.is_empty());
}
