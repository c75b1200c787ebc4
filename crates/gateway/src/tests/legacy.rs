//! What holds for clients with a session, beyond tasks.

use serde_json::{Value, json};
use taskgate_client::Notice;
use taskgate_core::gate::BackTasks;
use taskgate_store::memory::{CommandKind, Fault};
use taskgate_wire::version::Version;

use super::calls::find;
use super::pipe::Piped;
use super::rig::{Fake, Rig, config, hasty, with_tasks};
use super::schema::is_a;

const NEWEST: &str = "2025-11-25";
const RELATED: &str = "io.modelcontextprotocol/related-task";

fn form() -> Value {
    json!({"elicitation": {"form": {}}})
}

async fn listened_to(rig: &Rig) {
    while rig.fake.notices.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_004_a_125_notifications_are_accepted_and_never_answered() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    for method in ["notifications/initialized", "notifications/roots/list_changed", "notifications/nonsense"]
    {
        let said = client.say(json!({"jsonrpc": "2.0", "method": method})).await;
        assert_eq!((said.status, said.body.as_str()), (202, ""), "{method}");
    }
    let mut pipe = Piped::start(&rig);
    for _ in 0..2 {
        for method in ["notifications/initialized", "notifications/nonsense"] {
            pipe.say(json!({"jsonrpc": "2.0", "method": method})).await;
        }
        pipe.say(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
        assert_eq!(pipe.hear().await, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        // The same once there is a session.
        pipe.initialize(json!({})).await;
    }
    assert!(rig.fake.requests.lock().is_empty(), "X-035: nothing of it goes on");
}

#[tokio::test]
async fn a_005_b_017_q_040_what_nobody_knows_in_meta_does_no_harm() {
    let rig = Rig::start().await;
    let meta = json!({"io.modelcontextprotocol/unheard-of": {"a": [1]}, "mcp.dev/x": null, "vendor/y": 1,
        "io.modelcontextprotocol/relatedTaskIds": ["t1"]});
    let client = rig.session(NEWEST, json!({})).await;
    let said = client.ask("tools/call", json!({"name": "echo", "_meta": meta})).await.json();
    let sent: Value = serde_json::from_str(said["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(sent["_meta"], meta);
    let said = rig.modern("tools/call", with_tasks(), json!({"name": "echo", "_meta": meta})).await.json();
    assert_eq!(said["result"]["resultType"], "complete", "{said}");
}

#[tokio::test]
async fn a_014_a_ping_is_answered_while_a_result_is_held() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({})).await;
    let params = json!({"name": "slow", "task": {}});
    let created =
        pipe.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    let id = created["result"]["task"]["taskId"].clone();
    pipe.say(json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": id}})).await;
    pipe.say(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).await;
    assert_eq!(pipe.hear().await, json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    rig.fake.gate.open();
    assert_eq!(pipe.ask(json!({"jsonrpc": "2.0", "id": 4, "method": "ping"})).await["result"], json!({}));
}

#[tokio::test]
async fn a_018_b_063_no_other_request_becomes_a_task() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let got = client.ask("prompts/get", json!({"name": "p", "task": {"ttl": 1000}})).await.json();
    assert!(got["result"].is_object() && got["result"].get("task").is_none(), "{got}");
    let got = rig.modern("prompts/get", with_tasks(), json!({"name": "p"})).await.json();
    assert_eq!(got["result"]["resultType"], "complete");
    assert!(rig.records().await.is_empty());
}

#[tokio::test]
async fn a_021_g_001_versions_without_tasks_see_none() {
    let rig = Rig::hasty().await;
    for version in ["2025-06-18", "2025-03-26"] {
        let client = rig.session(version, json!({"tasks": {"requests": {}}})).await;
        assert!(client.said["result"]["capabilities"].get("tasks").is_none());
        let listed = client.ask("tools/list", json!({})).await;
        assert!(!listed.body.contains("execution"));
        let mut standing = client.stream(None).await;
        for task in [json!({"ttl": 1000}), json!("nonsense")] {
            let params = json!({"name": "echo", "arguments": {}, "task": task});
            let said = client.ask("tools/call", params).await.json();
            assert!(said["result"]["content"].is_array(), "{said}");
            assert!(said["result"].get("task").is_none());
        }
        let lasts = client.ask("tools/call", json!({"name": "slow", "task": {}})).await.json();
        assert!(lasts["result"]["content"].is_array() && lasts["result"].get("task").is_none());
        for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
            let said = client.ask(method, json!({"taskId": "t1"})).await.json();
            assert_eq!(said["error"]["code"], -32601, "{method}");
        }
        // The call that lasts is over, and nothing is said of it on the stream.
        rig.fake.gate.open();
        for record in rig.records().await {
            find(&rig, record.id.expose()).await.over().await;
        }
        listened_to(&rig).await;
        rig.fake.notices.send(Notice::ToolsChanged).unwrap();
        assert_eq!(standing.message().await.unwrap()["method"], "notifications/tools/list_changed");
    }
}

#[tokio::test]
async fn a_035_ids_are_ours_whatever_a_client_wishes() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let mut ids = std::collections::BTreeSet::new();
    for n in 0..20 {
        let params = json!({"name": "slow", "arguments": {"n": n}, "task": {"taskId": "mine"}});
        let created = client.ask("tools/call", params).await.json();
        ids.insert(created["result"]["task"]["taskId"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 20);
    assert!(!ids.contains("mine"));
}

#[tokio::test]
async fn a_038_g_023_x_005_the_lifetime_that_is_told_is_the_one_that_holds() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let client = rig.session(NEWEST, json!({})).await;
    for wished in [1, 60_000, 10_000_000_000_u64] {
        let params = json!({"name": "task", "arguments": {"w": wished}, "task": {"ttl": wished}});
        let created = client.ask("tools/call", params).await.json();
        let id = created["result"]["task"]["taskId"].as_str().unwrap();
        let told = created["result"]["task"]["ttl"].as_u64().unwrap();
        let got = client.ask("tasks/get", json!({"taskId": id})).await.json();
        let lifetime = rig.record(id).await.unwrap().task.lifetime;
        for shown in [told, got["result"]["ttl"].as_u64().unwrap()] {
            assert!(shown <= lifetime.max.0, "{shown} of {lifetime:?}");
        }
        assert!(told >= wished.min(lifetime.max.0), "{told} for {wished}");
    }
    // The wish ends here: a server of dialect B has no field for it.
    assert!(
        rig.fake
            .calls
            .lock()
            .iter()
            .all(|(_, params)| !params.contains("\"task\":") && !params.contains("ttl"))
    );
}

#[tokio::test]
async fn a_054_a_072_a_073_the_parameter_alone_names_the_task() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({})).await;
    let mut ids = Vec::new();
    for n in 0..2 {
        let params = json!({"name": "slow", "arguments": {"n": n}, "task": {}});
        let call = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params});
        ids.push(pipe.ask(call).await["result"]["task"]["taskId"].clone());
    }
    let with_other = json!({"taskId": ids[0], "_meta": {RELATED: {"taskId": ids[1]}}});
    for method in ["tasks/get", "tasks/cancel"] {
        let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": with_other});
        let said = pipe.ask(request).await;
        assert_eq!(said["result"]["taskId"], ids[0], "{method}");
        assert!(said["result"].get("_meta").is_none(), "{method}");
    }
    let list = json!({"jsonrpc": "2.0", "id": "l", "method": "tasks/list", "params": {}});
    let listed = pipe.ask(list).await["result"].clone();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 2);
    assert!(!listed.to_string().contains(RELATED));
    let result = json!({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": with_other});
    assert_eq!(pipe.ask(result).await["error"]["data"]["taskId"], ids[0], "the cancelled one");
}

#[tokio::test]
async fn a_056_b_087_a_fault_of_ours_is_told_as_one_in_words() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    for modern in [false, true] {
        rig.store.inject(
            CommandKind::Read,
            Fault::Fail(taskgate_store::Error::Full { place: "/secret/place".to_owned() }),
        );
        let params = json!({"taskId": "tnobodyknows"});
        let said = match modern {
            true => rig.modern("tasks/get", with_tasks(), params).await.json(),
            false => client.ask("tasks/get", params).await.json(),
        };
        assert_eq!(said["error"]["code"], -32603, "{said}");
        let words = said["error"]["message"].as_str().unwrap();
        assert!(words.contains("disk is full") && !words.contains("secret"), "{words}");
    }
}

#[tokio::test]
async fn a_059_q_006_a_tasks_result_is_the_plain_one_but_for_one_key() {
    let rig = Rig::with(config()).await;
    let client = rig.session(NEWEST, json!({})).await;
    for tool in ["echo", "fail"] {
        let params = json!({"name": tool, "arguments": {"n": 1}, "_meta": {"vendor/a": 1}});
        let plain = client.ask("tools/call", params.clone()).await.json()["result"].clone();
        let mut augmented = params;
        augmented["task"] = json!({});
        let created = client.ask("tools/call", augmented).await.json();
        let id = created["result"]["task"]["taskId"].clone();
        let mut kept = client.ask("tasks/result", json!({"taskId": id})).await.json()["result"].clone();
        assert_eq!(kept["_meta"], json!({RELATED: {"taskId": id}}));
        kept.as_object_mut().unwrap().remove("_meta");
        assert_eq!(kept, plain, "{tool}");
    }
}

#[tokio::test]
async fn a_078_nothing_is_heard_of_a_task_that_is_over() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, json!({})).await;
    let mut standing = client.stream(None).await;
    let params = json!({"name": "stubborn", "task": {}, "_meta": {"progressToken": 7}});
    let created = client.ask("tools/call", params).await.json();
    let id = created["result"]["task"]["taskId"].clone();
    rig.fake.has_called(1).await;
    client.ask("tasks/cancel", json!({"taskId": id})).await;
    // The server goes on and tells of it.
    rig.fake.gate.open();
    rig.fake.has_called(101).await;
    listened_to(&rig).await;
    rig.fake.notices.send(Notice::ToolsChanged).unwrap();
    let mut methods = Vec::new();
    while methods.last().is_none_or(|last| last != "notifications/tools/list_changed") {
        methods.push(standing.message().await.unwrap()["method"].as_str().unwrap().to_owned());
    }
    assert!(
        methods.iter().all(|method| method != "notifications/progress" && method != "notifications/message"),
        "{methods:?}"
    );
}

#[tokio::test]
async fn a_107_the_end_of_a_url_flow_is_told_to_the_client_that_was_sent_there() {
    let rig = Rig::start().await;
    let asked_one = rig.session(NEWEST, json!({"elicitation": {"form": {}, "url": {}}})).await;
    let other = rig.session(NEWEST, json!({"elicitation": {"form": {}, "url": {}}})).await;
    let mut theirs = asked_one.stream(None).await;
    let mut others = other.stream(None).await;
    let id = asked_one.task("url").await;
    let asked = loop {
        let message = theirs.message().await.unwrap();
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    is_a("ElicitRequest", &asked);
    assert_eq!(asked["params"]["elicitationId"], "flow-1", "A-105");
    asked_one.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}})).await;
    find(&rig, &id).await.over().await;
    while rig.fake.notices.receiver_count() < 2 {
        tokio::task::yield_now().await;
    }
    let complete =
        |id: &str| Notice::ElicitationComplete(bytes::Bytes::from(json!({"elicitationId": id}).to_string()));
    for notice in [complete("unheard-of"), complete("flow-1"), complete("flow-1"), Notice::ToolsChanged] {
        rig.fake.notices.send(notice).unwrap();
    }
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last: &Value| last["method"] != "notifications/tools/list_changed") {
        seen.push(theirs.message().await.unwrap());
    }
    let complete: Vec<_> =
        seen.iter().filter(|message| message["method"] == "notifications/elicitation/complete").collect();
    assert_eq!(complete.len(), 1, "{seen:?}");
    assert_eq!(complete[0]["params"]["elicitationId"], "flow-1");
    assert_eq!(others.message().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn x_032_who_agreed_to_a_url_of_a_modern_server_hears_when_it_is_done() {
    use taskgate_core::task::{Question, QuestionKind};
    for (action, hears) in [("decline", false), ("accept", true)] {
        let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
        let params = json!({"mode": "url", "url": "https://a.example/c", "message": "Connect."}).to_string();
        let url = Question { kind: QuestionKind::Url, params: params.into(), back_key: Some("u".to_owned()) };
        *rig.fake.listed.lock() = vec![("u".to_owned(), url)];
        let client = rig.session(NEWEST, json!({"elicitation": {"url": {}}})).await;
        let id = client.task("task").await;
        let mut stream = client.open("tasks/result", json!({"taskId": id})).await;
        let asked = stream.message().await.unwrap();
        let elicitation = asked["params"]["elicitationId"].clone();
        client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": action}})).await;
        rig.fake.listed.lock().clear();
        if hears {
            let complete = stream.message().await.unwrap();
            is_a("ElicitationCompleteNotification", &complete);
            assert_eq!(complete["params"]["elicitationId"], elicitation);
        }
        rig.fake.gate.open();
        let done = stream.message().await.unwrap();
        assert!(done["result"].is_object(), "{done}");
    }
}

#[tokio::test]
async fn a_108_x_033_a_client_that_cannot_be_asked_on_a_stream_is_told_the_urls() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let question = json!({"method": "elicitation/create", "params":
        {"mode": "url", "message": "Connect.", "url": "https://a.example/c"}});
    rig.fake
        .answers("prompts/get", json!({"resultType": "input_required", "inputRequests": {"q": question}}));
    let client = rig.session(NEWEST, json!({"elicitation": {"url": {}}})).await;
    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "prompts/get", "params": {"name": "p"}});
    let mut headers = vec![("accept", "application/json")];
    headers.extend(client.headers());
    let said = rig.post(&headers, &body.to_string()).await.finish().await.json();
    is_a("URLElicitationRequiredError", &said);
    assert_eq!(said["error"]["code"], -32042);
    assert_eq!(said["error"]["data"]["elicitations"][0]["url"], "https://a.example/c");
}

#[tokio::test]
async fn a_113_b_145_each_answer_of_a_person_lets_the_task_go_on() {
    let rig = Rig::start().await;
    let client = rig.session(NEWEST, form()).await;
    for action in ["accept", "decline", "cancel"] {
        let id = client.task("ask").await;
        let mut stream = client.open("tasks/result", json!({"taskId": id})).await;
        let asked = stream.message().await.unwrap();
        let mut result = json!({"action": action});
        if action == "accept" {
            result["content"] = json!({"colour": "red"});
        }
        client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
        let done = stream.message().await.unwrap();
        assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains(action), "{done}");
    }
}

#[tokio::test]
async fn a_115_x_036_no_request_to_a_client_is_a_task() {
    let rig = Rig::start().await;
    let hosts = json!({"elicitation": {"form": {}}, "tasks": {"requests": {"elicitation": {"create": {}}}}});
    let client = rig.session(NEWEST, hosts).await;
    let id = client.task("ask").await;
    let mut stream = client.open("tasks/result", json!({"taskId": id})).await;
    let asked = stream.message().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    assert!(asked["params"].get("task").is_none());
}

#[tokio::test]
async fn g_005_what_a_version_lacks_is_taken_from_all_that_passes_through() {
    let rig = Rig::start().await;
    rig.fake.answers("prompts/list", json!({"prompts": [{"name": "p", "title": "P", "icons": []}]}));
    rig.fake
        .answers("resources/list", json!({"resources": [{"name": "r", "uri": "file:///r", "icons": []}]}));
    for (version, prompt, resource) in [
        (
            NEWEST,
            json!({"name": "p", "title": "P", "icons": []}),
            json!({"name": "r", "uri": "file:///r", "icons": []}),
        ),
        ("2025-06-18", json!({"name": "p", "title": "P"}), json!({"name": "r", "uri": "file:///r"})),
        ("2025-03-26", json!({"name": "p"}), json!({"name": "r", "uri": "file:///r"})),
    ] {
        let client = rig.session(version, json!({})).await;
        let listed = client.ask("prompts/list", json!({})).await.json();
        assert_eq!(listed["result"], json!({"prompts": [prompt]}), "{version}");
        let listed = client.ask("resources/list", json!({})).await.json();
        assert_eq!(listed["result"], json!({"resources": [resource]}), "{version}");
    }
}

#[tokio::test]
async fn g_006_tasks_are_ours_before_a_server_of_a_version_without_them() {
    for version in [Version::V2025_06_18, Version::V2025_03_26] {
        let rig = Rig::before(Fake::new(version, BackTasks::None), hasty()).await;
        let client = rig.session(NEWEST, json!({})).await;
        let id = client.task("slow").await;
        let created = rig.modern("tools/call", with_tasks(), json!({"name": "slow"})).await.json();
        assert_eq!(created["result"]["resultType"], "task");
        rig.fake.gate.open();
        find(&rig, &id).await.over().await;
        let got = client.ask("tasks/result", json!({"taskId": id})).await.json();
        assert_eq!(got["result"]["content"][0]["text"], "done");
        assert!(rig.fake.calls.lock().iter().all(|(_, params)| !params.contains("\"task\"")));
    }
}

#[tokio::test]
async fn x_044_a_modern_server_hears_which_log_messages_the_session_wants() {
    let rig = Rig::before(Fake::new(Version::V2026_07_28, BackTasks::B), config()).await;
    let client = rig.session(NEWEST, json!({})).await;
    let key = "io.modelcontextprotocol/logLevel";
    client.call("echo", json!({})).await;
    client.ask("prompts/list", json!({})).await;
    client.ask("logging/setLevel", json!({"level": "warning"})).await;
    client.call("echo", json!({})).await;
    client.ask("prompts/list", json!({})).await;
    let calls: Vec<Value> =
        rig.fake.calls.lock().iter().map(|(_, params)| serde_json::from_str(params).unwrap()).collect();
    let lists: Vec<Value> = rig
        .fake
        .requests
        .lock()
        .iter()
        .filter(|(method, _)| method == "prompts/list")
        .map(|(_, params)| serde_json::from_str(params).unwrap())
        .collect();
    for sent in [calls, lists] {
        assert_eq!(sent[0]["_meta"].get(key), None);
        assert_eq!(sent[1]["_meta"][key], "warning");
    }
    assert!(
        rig.fake.requests.lock().iter().all(|(method, _)| method != "logging/setLevel"),
        "it has no such method"
    );
}

#[tokio::test]
async fn q_007_a_call_that_is_taken_back_before_its_task_is_told_makes_none() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({})).await;
    // The record is written only when the client has taken its call back.
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let wait = Box::pin(async move {
        let _ = gone.await;
    });
    rig.store.inject(CommandKind::Create, Fault::Wait(wait));
    let params = json!({"name": "slow", "task": {}});
    pipe.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    pipe.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    // Behind it in the line, so it has been read.
    assert_eq!(pipe.ask(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await["result"], json!({}));
    go.send(()).unwrap();
    loop {
        let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tasks/list", "params": {}});
        pipe.say(list).await;
        let heard = pipe.hear().await;
        assert_eq!(heard["id"], 3, "the call itself is not answered: {heard}");
        let tasks = heard["result"]["tasks"].as_array().unwrap().clone();
        if tasks.first().is_some_and(|task| task["status"] == "cancelled") {
            break;
        }
    }
}
