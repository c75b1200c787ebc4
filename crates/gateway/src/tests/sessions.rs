//! Legacy sessions over HTTP.

use serde_json::json;
use taskgate_client::Notice;
use taskgate_core::gate::BackTasks;
use taskgate_core::time::Millis;
use taskgate_store::Store;
use taskgate_wire::version::Version;

use super::rig::{Fake, Rig, config};

const NEWEST: &str = "2025-11-25";

#[tokio::test]
async fn a_100_a_133_g_026_ids_cannot_be_guessed_and_only_their_hash_is_kept() {
    let rig = Rig::start().await;
    let one = rig.session(NEWEST, json!({})).await;
    let two = rig.session(NEWEST, json!({})).await;
    assert_ne!(one.id, two.id);
    assert_eq!(one.id.len(), 32);
    assert!(rig.store.session(&one.id).await.unwrap().is_none());
    // Whoever else shows it has no session by it.
    use taskgate_core::id::{Principal, ServerName};
    let fake = ServerName("fake".to_owned());
    let sessions = &rig.gateway.sessions;
    assert!(sessions.find(&Principal::anonymous(), &fake, &one.id).await.unwrap().is_some());
    assert!(sessions.find(&Principal::local(), &fake, &one.id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_135_a_session_ends_by_delete_and_is_then_unknown() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let mut standing = client.stream(None).await;
    let ended = rig.raw("DELETE", &client.headers(), None).await.finish().await;
    assert_eq!(ended.status, 204);
    assert!(standing.message().await.is_none());
    assert_eq!(client.ask("ping", json!({})).await.status, 404, "A-134");
}

#[tokio::test]
async fn a_134_a_session_outlives_a_restart_and_its_tasks_outlive_it() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({"elicitation": {}})).await;
    client.ask("logging/setLevel", json!({"level": "error"})).await;
    let store = rig.store.reopen();
    let next = Rig::over(Fake::new(Version::V2025_11_25, BackTasks::None), config(), store).await;
    let body = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}).to_string();
    let again = next.post(&client.headers(), &body).await.finish().await;
    assert_eq!(again.status, 200, "{}", again.body);
    assert_eq!(
        next.fake.keys.lock()[0].offers,
        r#"{"elicitation":{}}"#,
        "X-002: what was negotiated still holds"
    );
}

#[tokio::test]
async fn g_024_sessions_are_capped_and_expire() {
    let mut config = config();
    config.limits.sessions_max = 2;
    let rig = Rig::with(config.clone()).await;
    let oldest = rig.session(NEWEST, json!({})).await;
    let older = rig.session(NEWEST, json!({})).await;
    let newest = rig.session(NEWEST, json!({})).await;
    let known = [&oldest, &older, &newest];
    let mut alive = 0;
    for client in known {
        alive += usize::from(client.ask("ping", json!({})).await.status == 200);
    }
    assert_eq!(alive, 2);
    assert_eq!(newest.ask("ping", json!({})).await.status, 200);
    config.limits.session_idle = Millis(0);
    let rig = Rig::with(config).await;
    let first = rig.session(NEWEST, json!({})).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    rig.session(NEWEST, json!({})).await;
    assert_eq!(first.ask("ping", json!({})).await.status, 404);
}

#[tokio::test]
async fn a_130_the_standing_stream_carries_what_the_server_announces() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let mut standing = client.stream(None).await;
    assert_eq!(standing.header("content-type"), Some("text/event-stream"));
    assert_eq!(standing.header("x-accel-buffering"), Some("no"));
    client.ask("resources/subscribe", json!({"uri": "file:///a"})).await;
    client.ask("logging/setLevel", json!({"level": "warning"})).await;
    while rig.fake.notices.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    for notice in [
        Notice::Log(br#"{"level":"info","data":1}"#.as_slice().into()),
        Notice::ResourceUpdated(br#"{"uri":"file:///b"}"#.as_slice().into()),
        Notice::ResourceUpdated(br#"{"uri":"file:///a"}"#.as_slice().into()),
        Notice::Log(br#"{"level":"error","data":2}"#.as_slice().into()),
        Notice::ToolsChanged,
    ] {
        rig.fake.notices.send(notice).unwrap();
    }
    let mut methods = Vec::new();
    for _ in 0..3 {
        methods.push(standing.message().await.unwrap()["method"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        methods,
        ["notifications/resources/updated", "notifications/message", "notifications/tools/list_changed"]
    );
}

#[tokio::test]
async fn a_131_two_standing_streams_do_not_say_the_same_thing_twice() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let mut older = client.stream(None).await;
    let mut newer = client.stream(None).await;
    while rig.fake.notices.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    rig.fake.notices.send(Notice::ToolsChanged).unwrap();
    assert_eq!(newer.message().await.unwrap()["method"], "notifications/tools/list_changed");
    rig.raw("DELETE", &client.headers(), None).await.finish().await;
    assert!(older.message().await.is_none());
}

#[tokio::test]
async fn g_024_standing_streams_are_capped() {
    let mut config = config();
    config.limits.streams_max = 1;
    let rig = Rig::with(config).await;
    let client = rig.session(NEWEST, json!({})).await;
    let _one = client.stream(None).await;
    assert_eq!(client.stream(None).await.status, 429);
}

#[tokio::test]
async fn d_005_batches_are_for_the_one_version_that_has_them() {
    let rig = Rig::start().await;
    let old = rig.session("2025-03-26", json!({})).await;
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo"}},
        {"jsonrpc": "2.0", "id": 3, "method": "nope"},
        {"nonsense": true},
    ]);
    let said = old.say(batch.clone()).await;
    let answers = said.json();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 4, "{}", said.body);
    assert_eq!(answers[0]["result"], json!({}));
    assert_eq!(answers[1]["id"], 2);
    assert_eq!(answers[2]["error"]["code"], -32601);
    assert_eq!(answers[3]["error"]["code"], -32600);
    let quiet = old.say(json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).await;
    assert_eq!((quiet.status, quiet.body.as_str()), (202, ""));
    let new = rig.session(NEWEST, json!({})).await;
    assert_eq!(new.say(batch).await.status, 400);
}

#[tokio::test]
async fn a_002_an_id_is_used_once_at_a_time() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let body = json!({"jsonrpc": "2.0", "id": 50, "method": "tools/call", "params": {"name": "slow", "arguments": {}}});
    let (headers, body) = (client.headers(), body.to_string());
    let one = rig.post(&headers, &body);
    let two = async {
        rig.fake.has_called(1).await;
        rig.post(&headers, &body).await.finish().await.json()
    };
    let (_one, two) = tokio::join!(one, two);
    assert_eq!(two["error"]["code"], -32600);
}

#[tokio::test]
async fn g_011_a_question_that_the_client_has_is_not_asked_again_with_the_handle() {
    let rig = Rig::hasty().await;
    let client = rig.session(NEWEST, json!({"elicitation": {}})).await;
    let mut standing = client.stream(None).await;
    let mut stream = client.open("tools/call", json!({"name": "ask"})).await;
    let asked = stream.message().await.unwrap();
    let handle = stream.message().await.unwrap();
    let id = handle["result"]["structuredContent"]["taskgate"]["taskId"].as_str().unwrap().to_owned();
    // The person answers after the call was answered by a handle.
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}});
    assert_eq!(client.say(answer).await.status, 202);
    super::calls::find(&rig, &id).await.over().await;
    while rig.fake.notices.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    rig.fake.notices.send(Notice::ToolsChanged).unwrap();
    assert_eq!(standing.message().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn what_a_server_asks_outside_of_any_call_goes_to_the_newest_client_with_a_stream() {
    use taskgate_client::Asker;
    use taskgate_engine::back::Reply;
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({"elicitation": {}})).await;
    let key = rig.fake.keys.lock()[0].clone();
    let newest = crate::upstream::Newest {
        gateway: std::sync::Arc::downgrade(&rig.gateway),
        key,
        sharing: taskgate_client::Sharing::Apart,
    };
    let refused = newest.ask(super::rig::form(None)).await;
    assert!(matches!(refused, Reply::Error { code: -32601, .. }), "nobody can be asked");
    let mut standing = client.stream(None).await;
    let asking = newest.ask(super::rig::form(None));
    let answering = async {
        let asked = standing.message().await.unwrap();
        client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})).await;
    };
    let (reply, ()) = tokio::join!(asking, answering);
    assert!(matches!(reply, Reply::Result(result) if result == br#"{"action":"decline"}"#.as_slice()));
}

#[tokio::test]
async fn each_server_answers_at_its_own_path_and_knows_its_own_sessions_and_tasks_only() {
    use super::http_client::open;
    use crate::config::ServerPolicy;
    use taskgate_core::id::ServerName;
    let mut config = config();
    config.servers.push(ServerPolicy::new(ServerName("other".to_owned())));
    let rig = Rig::with(config).await;
    let post = [("content-type", "application/json")];
    let opening = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
    .to_string();
    let at = |path: &'static str, headers: Vec<(&'static str, String)>, body: String| {
        let addr = rig.addr;
        async move {
            let mut all: Vec<(&str, &str)> = post.to_vec();
            all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
            open(addr, "POST", path, &all, Some(body.as_bytes())).await.finish().await
        }
    };
    assert_eq!(at("/mcp", vec![], opening.clone()).await.status, 404, "there is more than one");
    let opened = at("/fake/mcp", vec![], opening.clone()).await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow", "task": {}}});
    let created = at("/fake/mcp", vec![("mcp-session-id", id.clone())], call.to_string()).await.json();
    let task = created["result"]["task"]["taskId"].clone();
    assert!(task.is_string(), "{created}");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(at("/other/mcp", vec![("mcp-session-id", id)], ping).await.status, 404);
    let other = at("/other/mcp", vec![], opening).await.header("mcp-session-id").unwrap().to_owned();
    let get =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": task}}).to_string();
    let got = at("/other/mcp", vec![("mcp-session-id", other)], get).await.json();
    assert_eq!(got["error"], json!({"code": -32602, "message": "Unknown task"}));
}
