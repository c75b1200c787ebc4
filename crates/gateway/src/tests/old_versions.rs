//! Clients of 2024-11-05 and 2025-03-26: the handshake, what they are shown, and batches (D-005, G-005).

use serde_json::{Value, json};
use taskgate_client::RawAnswer;
use taskgate_core::gate::BackTasks;
use taskgate_wire::version::Version;

use super::calls::find;
use super::pipe::Piped;
use super::rig::{Client, Fake, Rig, config};

const FIRST: &str = "2024-11-05";
const BATCHES: &str = "2025-03-26";

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: u64, tool: &str) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": {}}))
}

/// The answers of a batch by their ids.
fn by_id(answers: &Value) -> std::collections::BTreeMap<u64, Value> {
    let answers = answers.as_array().unwrap_or_else(|| panic!("no batch: {answers}"));
    answers.iter().map(|answer| (answer["id"].as_u64().unwrap_or(0), answer.clone())).collect()
}

fn listed(client: &Value) -> Value {
    client["result"]["tools"].clone()
}

#[tokio::test]
async fn a_008_g_001_a_client_of_the_first_version_is_served_over_both_transports() {
    let rig = Rig::hasty().await;
    let client = rig.session(FIRST, json!({})).await;
    assert_eq!(client.said["result"]["protocolVersion"], FIRST);
    assert!(client.said["result"]["capabilities"].get("tasks").is_none(), "G-001");
    let mut pipe = Piped::start(&rig);
    let opened = pipe.initialize_at(FIRST, json!({})).await;
    assert_eq!(opened["result"]["protocolVersion"], FIRST);
    assert_eq!(opened["result"]["serverInfo"]["name"], "fake");
    let over_http = listed(&client.ask("tools/list", json!({})).await.json());
    let over_stdio = listed(&pipe.ask(request(1, "tools/list", json!({}))).await);
    assert_eq!(over_http.as_array().unwrap().len(), over_stdio.as_array().unwrap().len());
    for tool in over_http.as_array().unwrap().iter().chain(over_stdio.as_array().unwrap()) {
        for foreign in ["annotations", "title", "icons", "execution", "outputSchema"] {
            assert!(tool.get(foreign).is_none(), "G-005: {tool}");
        }
    }
    let said = pipe.ask(call(2, "slow")).await;
    let words = said["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("taskgate_task") && said["result"].get("structuredContent").is_none(), "{said}");
    let refused = pipe.ask(request(3, "tasks/get", json!({"taskId": "t"}))).await;
    assert_eq!(refused["error"]["code"], -32601, "G-001");
    rig.fake.gate.open();
}

#[tokio::test]
async fn d_005_batches_are_no_part_of_the_first_version_nor_of_later_ones() {
    let rig = Rig::start().await;
    let batch = json!([request(1, "ping", json!({}))]);
    for version in [FIRST, "2025-06-18", "2025-11-25"] {
        assert_eq!(rig.session(version, json!({})).await.say(batch.clone()).await.status, 400, "{version}");
        let mut pipe = Piped::start(&rig);
        pipe.say(batch.clone()).await;
        assert_eq!(pipe.hear().await["error"]["code"], -32600, "before initialize");
        pipe.initialize_at(version, json!({})).await;
        pipe.say(batch.clone()).await;
        assert_eq!(pipe.hear().await["error"]["code"], -32600, "{version}");
    }
}

/// Batches and what has to be said about them, over either transport.
fn refused() -> Vec<(&'static str, Value, i64)> {
    vec![
        ("an empty one", json!([]), -32600),
        ("too many", Value::Array(vec![request(1, "ping", json!({})); 101]), -32600),
    ]
}

#[tokio::test]
async fn d_005_what_is_no_batch_is_refused_as_a_whole() {
    let rig = Rig::start().await;
    let client = rig.session(BATCHES, json!({})).await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize_at(BATCHES, json!({})).await;
    for (what, batch, code) in refused() {
        let said = client.say(batch.clone()).await;
        assert_eq!((said.status, said.json()["error"]["code"].as_i64()), (400, Some(code)), "{what}");
        pipe.say(batch).await;
        let said = pipe.hear().await;
        assert!(said.is_object(), "{what}");
        assert_eq!(said["error"]["code"], code, "{what}");
    }
    let next = pipe.ask(request(9, "ping", json!({}))).await;
    assert_eq!(next["result"], json!({}), "the session goes on");
}

/// Requests, notifications, responses and rubbish in one, and what each of them is answered by.
fn mixed() -> Value {
    json!([
        request(1, "ping", json!({})),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(2, "initialize", json!({"protocolVersion": BATCHES, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})),
        {"jsonrpc": "2.0", "id": "never asked", "result": {}},
        call(3, "echo"),
        request(1, "ping", json!({})),
        request(4, "nope", json!({})),
        {"nonsense": true},
    ])
}

fn has_mixed(answers: &Value) {
    let all = answers.as_array().unwrap_or_else(|| panic!("no batch: {answers}"));
    assert_eq!(all.len(), 6, "{answers}");
    let of = |id: u64| all.iter().filter(|answer| answer["id"] == id).collect::<Vec<_>>();
    assert_eq!(of(1).iter().filter(|answer| answer["result"] == json!({})).count(), 1, "{answers}");
    assert_eq!(
        of(1).iter().filter(|answer| answer["error"]["code"] == -32600).count(),
        1,
        "A-002: {answers}"
    );
    assert_eq!(of(2)[0]["error"]["code"], -32600, "{answers}");
    assert!(of(2)[0]["error"]["message"].as_str().unwrap().contains("batch"), "{answers}");
    assert!(of(3)[0]["result"]["content"][0]["text"].is_string(), "{answers}");
    assert_eq!(of(4)[0]["error"]["code"], -32601, "{answers}");
    assert!(
        all.iter().any(|answer| answer["id"].is_null() && answer["error"]["code"] == -32600),
        "{answers}"
    );
}

#[tokio::test]
async fn d_005_each_member_of_a_batch_is_answered_or_not_as_it_would_be_alone() {
    let rig = Rig::start().await;
    has_mixed(&rig.session(BATCHES, json!({})).await.say(mixed()).await.json());
    let mut pipe = Piped::start(&rig);
    pipe.initialize_at(BATCHES, json!({})).await;
    pipe.say(mixed()).await;
    has_mixed(&pipe.hear().await);
    let quiet = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 9, "result": {}}]);
    assert_eq!(rig.session(BATCHES, json!({})).await.say(quiet.clone()).await.status, 202);
    pipe.say(quiet).await;
    assert_eq!(pipe.ask(request(7, "ping", json!({}))).await["id"], 7, "nothing was said of the other one");
}

/// The task of the call in a batch that did not end in time, by the words of its handle.
fn told(answers: &Value) -> String {
    let answers = by_id(answers);
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers[&2]["result"]["content"][0]["text"].is_string());
    let words = answers[&1]["result"]["content"][0]["text"].as_str().unwrap();
    let id = words.split_whitespace().find(|word| word.starts_with("t0")).unwrap();
    id.trim_end_matches(['.', ',']).to_owned()
}

#[tokio::test]
async fn d_005_g_002_a_batch_with_a_long_call_is_answered_together_with_its_handle() {
    let batch = json!([call(1, "slow"), call(2, "echo"), request(3, "ping", json!({}))]);
    let wait = |id: &str| {
        let arguments = json!({"action": "wait", "taskId": id});
        request(4, "tools/call", json!({"name": "taskgate_task", "arguments": arguments}))
    };
    let rig = Rig::hasty().await;
    let client = rig.session(BATCHES, json!({})).await;
    let mut open = rig.post(&client.headers(), &batch.to_string()).await;
    assert_eq!(open.header("content-type"), Some("text/event-stream"), "it is kept alive meanwhile");
    let over_http = told(&open.message().await.unwrap());
    assert!(open.message().await.is_none());
    let mut pipe = Piped::start(&rig);
    pipe.initialize_at(BATCHES, json!({})).await;
    pipe.say(batch).await;
    let over_stdio = told(&pipe.hear().await);
    rig.fake.gate.open();
    find(&rig, &over_http).await.over().await;
    let waited = by_id(&client.say(json!([wait(&over_http)])).await.json());
    assert_eq!(waited[&4]["result"]["content"][0]["text"], "done");
    pipe.say(json!([wait(&over_stdio)])).await;
    assert_eq!(by_id(&pipe.hear().await)[&4]["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn d_005_what_a_call_in_a_batch_asks_and_tells_comes_on_the_batchs_own_stream() {
    let rig = Rig::with(config()).await;
    let client = rig.session(BATCHES, json!({"roots": {}})).await;
    let mut progress = call(2, "progress");
    progress["params"]["_meta"] = json!({"progressToken": "p"});
    let batch = json!([call(1, "roots"), progress]);
    let mut stream = rig.post(&client.headers(), &batch.to_string()).await;
    let (mut is_asked, mut is_told) = (false, false);
    while !(is_asked && is_told) {
        let heard = stream.message().await.unwrap();
        match heard["method"].as_str() {
            Some("roots/list") => {
                is_asked = true;
                // The answer comes in a batch as well.
                let answer = json!([{"jsonrpc": "2.0", "id": heard["id"], "result": {"roots": []}}]);
                assert_eq!(client.say(answer).await.status, 202);
            }
            Some("notifications/progress") => {
                is_told = true;
                assert_eq!(heard["params"]["progressToken"], "p");
            }
            _ => assert_eq!(heard["method"], "notifications/message"),
        }
    }
    rig.fake.gate.open();
    let answers = by_id(&stream.message().await.unwrap());
    assert!(answers[&1]["result"]["content"][0]["text"].as_str().unwrap().contains("roots"), "{answers:?}");
    assert_eq!(answers[&2]["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_092_d_005_a_call_that_its_batch_takes_back_is_left_out_of_the_answers() {
    let taken_back = json!([
        call(1, "slow"),
        request(2, "ping", json!({})),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    ]);
    let rig = Rig::with(config()).await;
    let client = rig.session(BATCHES, json!({})).await;
    let answers = by_id(&client.say(taken_back.clone()).await.json());
    assert_eq!(answers.keys().collect::<Vec<_>>(), [&2]);
    let mut pipe = Piped::start(&rig);
    pipe.initialize_at(BATCHES, json!({})).await;
    pipe.say(taken_back).await;
    assert_eq!(by_id(&pipe.hear().await).keys().collect::<Vec<_>>(), [&2]);
}

/// What a server of the newest legacy version says, which older ones lack.
fn rich(rig: &Rig) {
    let icons = json!([{"src": "https://a.example/i.png"}]);
    rig.fake.answers(
        "tools/list",
        json!({"tools": [{"name": "echo", "title": "Echo", "icons": icons, "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}, "execution": {"taskSupport": "optional"}}]}),
    );
    rig.fake.answers(
        "prompts/get",
        json!({"messages": [{"role": "user", "content": {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}}]}),
    );
    rig.fake.answers(
        "resources/templates/list",
        json!({"resourceTemplates": [{"name": "r", "title": "R", "uriTemplate": "x:{y}", "icons": icons}]}),
    );
    let contents = json!({"contents": [{"uri": "x:1", "text": "t", "own": 1}]});
    rig.fake.answers("resources/read", contents);
}

async fn shown(client: &Client<'_>) -> Value {
    let ask = async |method: &str, params: Value| client.ask(method, params).await.json()["result"].clone();
    json!({
        "echo": ask("tools/list", json!({})).await["tools"][0],
        "prompt": ask("prompts/get", json!({"name": "p"})).await,
        "templates": ask("resources/templates/list", json!({})).await,
        "contents": ask("resources/read", json!({"uri": "x:1"})).await,
    })
}

#[tokio::test]
async fn g_005_every_way_by_which_foreign_members_could_reach_an_old_client_is_guarded() {
    for (back, tasks) in [(Version::V2025_11_25, BackTasks::A), (Version::V2026_07_28, BackTasks::B)] {
        let rig = Rig::before(Fake::new(back, tasks), config()).await;
        rich(&rig);
        let mut seen = Vec::new();
        for version in ["2025-11-25", "2025-06-18", BATCHES, FIRST] {
            let client = rig.session(version, json!({})).await;
            let shown = serde_json::to_string_pretty(&shown(&client).await).unwrap();
            seen.push(format!("client {version}\n{shown}"));
        }
        insta::assert_snapshot!(format!("g_005_before_a_server_of_{}", back.as_str()), seen.join("\n\n"));
    }
}

#[tokio::test]
async fn g_005_what_an_old_server_says_passes_untouched_to_every_later_legacy_client() {
    let odd = r#"{ "prompts":[ {"name":"p", "n" : 1.0, "title":"kept"} ] }"#;
    for back in [Version::V2024_11_05, Version::V2025_03_26, Version::V2025_06_18] {
        let rig = Rig::before(Fake::new(back, BackTasks::None), config()).await;
        let answer = RawAnswer::Result(bytes::Bytes::from_static(odd.as_bytes()));
        rig.fake.answers.lock().insert("prompts/list".to_owned(), vec![answer]);
        for front in [back.as_str(), "2025-11-25"] {
            let said = rig.session(front, json!({})).await.ask("prompts/list", json!({})).await;
            assert!(said.body.contains(odd), "{front}: {}", said.body);
        }
    }
}
