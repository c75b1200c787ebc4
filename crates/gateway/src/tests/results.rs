//! Long results of tools with a workflow: bounded on every front and path, and had in whole by their handle (R5.7).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use taskgate_client::Manifest;
use taskgate_core::gate::BackTasks;
use taskgate_core::id::TaskId;
use taskgate_core::operation::Effect;
use taskgate_store::memory::MemoryStore;
use taskgate_wire::handshake::BackSelf;
use taskgate_wire::version::Version;
use taskgate_workflow::{Keying, Workflow};

use super::http_client::{self, Response};
use super::rig::{Client, Fake, Rig, config, hasty, with_tasks};
use super::schema::{is_a, is_b, is_x};
use super::workflows::workflow;
use crate::INLINE_MIN;
use crate::config::GatewayConfig;

/// Some pieces and pages of it.
const LONG: usize = 160 * 1024;

/// Longest result that the workflow of these tests lets through.
const MAX: usize = 64 * 1024;

/// `slow` changes something and `echo` reads; both have the workflow.
fn bounded(mut config: GatewayConfig) -> GatewayConfig {
    let bounded = || Workflow { inline_max: Some(MAX), ..workflow(Keying::PerRequest, None) };
    let reads = Workflow { effect: Effect::ReadOnly, ..bounded() };
    config.servers[0].workflows.insert("slow".to_owned(), Arc::new(bounded()));
    config.servers[0].workflows.insert("echo".to_owned(), Arc::new(reads));
    config
}

fn of(result: &Value) -> Bytes {
    Bytes::from(result.to_string())
}

fn long_text() -> String {
    let mut text = String::new();
    while text.len() < LONG {
        text.push_str(&format!("line {} \"ä€\"\n", text.len()));
    }
    text
}

/// One result of each kind that is too long, and the path of its long part.
fn kinds() -> Vec<(&'static str, Value, &'static str)> {
    let image = BASE64.encode(&b"pixel".repeat(LONG / 5));
    let rows: Vec<Value> = (0..4_000).map(|n| json!({"row": n, "name": "Ann \"A\""})).collect();
    vec![
        ("text", json!({"content": [{"type": "text", "text": long_text()}], "isError": true}), "/content/0"),
        (
            "structured",
            json!({"content": [{"type": "text", "text": "see the rows"}], "structuredContent": {"rows": rows}}),
            "/structured",
        ),
        (
            "image",
            json!({"content": [{"type": "text", "text": "a picture"}, {"type": "image", "data": image, "mimeType": "image/png"}],
            "structuredContent": {"pictures": 1}}),
            "/content/1",
        ),
        (
            "resource",
            json!({"content": [{"type": "resource", "resource": {"uri": "db:1", "mimeType": "text/csv", "text": long_text()}}]}),
            "/content/0",
        ),
    ]
}

async fn rig(config: GatewayConfig, result: &Value) -> Rig {
    let rig = Rig::with(bounded(config)).await;
    *rig.fake.returns.lock() = Some(of(result));
    rig
}

/// What is said in the place of a long result; it is checked to be short, and to say what is true.
fn told<'v>(answer: &'v Value, whole: &Value, kind: &str) -> &'v Value {
    assert!(answer.to_string().len() < MAX, "{kind}: {} bytes", answer.to_string().len());
    let told = &answer["_meta"]["taskgate/result"];
    let bytes = of(whole);
    assert_eq!(told["bytes"], bytes.len(), "{kind}: {answer}");
    assert_eq!(told["sha256"], HEXLOWER.encode(&Sha256::digest(&bytes)), "{kind}");
    assert_eq!(answer["isError"], whole["isError"] == true, "{kind}");
    let words = answer["content"].to_string();
    for part in
        [told["sha256"].as_str().unwrap(), told["uri"].as_str().unwrap(), told["expiresAt"].as_str().unwrap()]
    {
        assert!(words.contains(part), "{kind}: {part} in {words}");
    }
    told
}

fn params(tool: &str) -> Value {
    json!({"name": tool, "arguments": {}})
}

/// The bytes of a resource, piece by piece, by whatever way it is read.
async fn pieces<F: Future<Output = Value>>(uri: &str, read: impl Fn(String) -> F) -> Vec<u8> {
    let (mut uri, mut all) = (uri.to_owned(), Vec::new());
    loop {
        let result = read(uri.clone()).await;
        assert!(result.to_string().len() < MAX + 2_000, "{} bytes", result.to_string().len());
        let first = &result["contents"][0];
        assert_eq!(first["uri"], uri);
        match (first["text"].as_str(), first["blob"].as_str()) {
            (Some(text), None) => all.extend_from_slice(text.as_bytes()),
            (None, Some(blob)) => all.extend(BASE64.decode(blob.as_bytes()).unwrap()),
            _ => panic!("{first}"),
        }
        let piece = &result["_meta"]["taskgate/piece"];
        assert_eq!(piece["to"], all.len());
        let Some(next) = piece["next"].as_str() else {
            assert_eq!(
                (piece["bytes"].as_u64().unwrap() as usize, result["contents"].as_array().unwrap().len()),
                (all.len(), 1)
            );
            return all;
        };
        // Nobody takes a piece for the whole.
        assert!(result["contents"][1]["text"].as_str().unwrap().contains(next), "{result}");
        uri = next.to_owned();
    }
}

async fn get(rig: &Rig, url: &str, headers: &[(&str, &str)]) -> Response {
    request(rig, "GET", url, headers).await
}

async fn request(rig: &Rig, method: &str, url: &str, headers: &[(&str, &str)]) -> Response {
    let path = url.strip_prefix(&format!("http://{}", rig.addr)).unwrap_or(url);
    http_client::open(rig.addr, method, path, headers, None).await.finish().await
}

async fn read_modern(rig: &Rig, uri: String) -> Value {
    let said = rig.modern("resources/read", json!({}), json!({"uri": uri})).await.json();
    is_b("ReadResourceResult", &said["result"]);
    assert_eq!(said["result"]["cacheScope"], "private");
    said["result"].clone()
}

/// What is in the long part, out of JSON and base64.
fn part_of(whole: &Value, path: &str) -> Vec<u8> {
    let block = |at: usize| &whole["content"][at];
    match path {
        "/structured" => whole["structuredContent"].to_string().into_bytes(),
        "/content/1" => BASE64.decode(block(1)["data"].as_str().unwrap().as_bytes()).unwrap(),
        _ => block(0)["text"].as_str().or(block(0)["resource"]["text"].as_str()).unwrap().as_bytes().to_vec(),
    }
}

#[tokio::test]
async fn r5_7_a_plain_call_gets_the_beginning_and_a_handle_by_which_every_byte_is_had() {
    for (kind, whole, path) in kinds() {
        for tool in ["slow", "echo"] {
            let rig = rig(config(), &whole).await;
            rig.fake.gate.open();
            let answer = rig.modern("tools/call", json!({}), params(tool)).await.json()["result"].clone();
            is_b("CallToolResult", &answer);
            let told = told(&answer, &whole, kind);
            // It was recorded before its handle left, a read as well (R3.3).
            let id = told["taskId"].as_str().unwrap();
            assert!(rig.record(id).await.unwrap().task.ending().is_some(), "{kind}");
            let uri = told["uri"].as_str().unwrap();
            assert!(uri.ends_with(&format!("/results/{id}")), "{uri}");
            let read = |uri| read_modern(&rig, uri);
            assert!(pieces(uri, read).await == of(&whole), "{kind}");
            let part = format!("{uri}{path}");
            assert_eq!(told["parts"][0]["uri"], part, "{kind}");
            let bytes = part_of(&whole, path);
            assert!(pieces(&part, read).await == bytes, "{kind}");
            assert_eq!(told["parts"][0]["sha256"], HEXLOWER.encode(&Sha256::digest(&bytes)));
            // The same by HTTP.
            let url = told["url"].as_str().unwrap();
            assert_eq!(get(&rig, url, &[]).await.body.as_bytes(), of(&whole), "{kind}");
            let response = get(&rig, &format!("{url}{path}"), &[]).await;
            assert!(response.body.as_bytes() == bytes, "{kind}");
            assert_eq!(response.header("content-length"), Some(&*bytes.len().to_string()));
        }
    }
}

#[tokio::test]
async fn r5_7_what_is_short_stays_as_it_was_beside_what_is_long() {
    let (_, whole, _) = kinds().remove(2);
    let rig = rig(config(), &whole).await;
    rig.fake.gate.open();
    let answer = rig.modern("tools/call", json!({}), params("slow")).await.json()["result"].clone();
    assert_eq!(answer["content"][0], whole["content"][0]);
    assert_eq!(answer["structuredContent"], whole["structuredContent"]);
    let link = &answer["content"][2];
    assert_eq!(
        (link["type"].as_str(), link["mimeType"].as_str()),
        (Some("resource_link"), Some("image/png"))
    );
    assert_eq!(link["size"], part_of(&whole, "/content/1").len());
    // A result within the bound is no matter of this, whichever blocks it has.
    let short = json!({"content": [{"type": "text", "text": "x".repeat(INLINE_MIN * 2)}], "structuredContent": {"n": 1}});
    *rig.fake.returns.lock() = Some(of(&short));
    let mut answer = rig.modern("tools/call", json!({}), params("echo")).await.json()["result"].clone();
    answer.as_object_mut().unwrap().retain(|name, _| name == "content" || name == "structuredContent");
    assert_eq!(answer, short);
}

#[tokio::test]
async fn r5_7_a_tool_without_a_workflow_passes_whole_and_unrecorded() {
    let (_, whole, _) = kinds().remove(0);
    let rig = Rig::with(config()).await;
    *rig.fake.returns.lock() = Some(of(&whole));
    let answer = rig.modern("tools/call", json!({}), params("echo")).await.json()["result"].clone();
    assert_eq!(answer["content"], whole["content"]);
    assert!(rig.records().await.is_empty());
}

#[tokio::test]
async fn r5_7_a_task_of_dialect_b_inlines_the_beginning_in_get_and_in_pushes() {
    for (kind, whole, _) in kinds() {
        let rig = rig(hasty(), &whole).await;
        let created = rig.modern("tools/call", with_tasks(), params("slow")).await.json();
        let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        let listen = json!({"notifications": {"taskIds": [id]}});
        let mut stream = rig.modern_open("subscriptions/listen", with_tasks(), listen).await;
        rig.fake.gate.open();
        let pushed = loop {
            let message = stream.message().await.unwrap();
            if message["params"]["status"] == "completed" {
                break message;
            }
        };
        is_x("TaskStatusNotification", &pushed);
        told(&pushed["params"]["result"], &whole, kind);
        let got = rig.modern("tasks/get", with_tasks(), json!({"taskId": id})).await.json();
        is_x("GetTaskResult", &got["result"]);
        let told = told(&got["result"]["result"], &whole, kind);
        assert_eq!(told["taskId"], id);
        // What is no tool of its own is not named to this client.
        assert!(!got.to_string().contains("taskgate_task"));
        if kind == "text" {
            let said = got["result"]["statusMessage"].as_str().unwrap();
            assert!(said.starts_with("line 0"), "an error is told in its own words: {said}");
        }
        let inline = rig.modern("tools/call", with_tasks(), params("echo")).await.json();
        self::told(&inline["result"], &whole, kind);
    }
}

#[tokio::test]
async fn r5_7_a_task_of_dialect_a_is_answered_by_the_beginning_with_its_related_task() {
    for (kind, whole, _) in kinds() {
        let rig = rig(config(), &whole).await;
        let client = rig.session("2025-11-25", json!({})).await;
        let id = client.task("slow").await;
        rig.fake.gate.open();
        let answer = client.ask("tasks/result", json!({"taskId": id})).await.json()["result"].clone();
        is_a("GetTaskPayloadResult", &answer);
        is_a("CallToolResult", &answer);
        assert_eq!(answer["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
        told(&answer, &whole, kind);
        let task = client.ask("tasks/get", json!({"taskId": id})).await.json();
        assert_eq!(task["result"]["status"], if kind == "text" { "failed" } else { "completed" });
    }
}

#[tokio::test]
async fn r5_7_legacy_clients_of_every_version_get_it_in_their_own_blocks() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        for (kind, whole, _) in kinds() {
            let rig = rig(config(), &whole).await;
            rig.fake.gate.open();
            let client = rig.session(version, json!({})).await;
            let answer = client.call("slow", json!({})).await["result"].clone();
            let uri = told(&answer, &whole, kind)["uri"].as_str().unwrap();
            let has_links = answer["content"].to_string().contains("\"resource_link\"");
            assert_eq!(has_links, version >= "2025-06-18", "{version}");
            if version == "2025-11-25" {
                is_a("CallToolResult", &answer);
            }
            if version < "2025-06-18" {
                assert!(answer.get("structuredContent").is_none(), "{version}");
            }
            let read = async |uri: String| {
                let said = client.ask("resources/read", json!({"uri": uri})).await.json();
                assert!(said["result"].get("ttlMs").is_none(), "{said}");
                is_a("ReadResourceResult", &said["result"]);
                said["result"].clone()
            };
            assert!(pieces(uri, read).await == of(&whole), "{version}, {kind}");
        }
    }
}

/// A tool result of `taskgate_task`.
async fn follow(client: &Client<'_>, arguments: Value) -> Value {
    client.call("taskgate_task", arguments).await["result"].clone()
}

#[tokio::test]
async fn r5_7_taskgate_task_waits_for_the_beginning_and_shows_the_rest_in_pages() {
    for (kind, whole, path) in kinds() {
        let rig = rig(hasty(), &whole).await;
        let client = rig.session("2025-06-18", json!({})).await;
        let stand_in = client.call("slow", json!({})).await["result"].clone();
        let id = stand_in["structuredContent"]["taskgate"]["taskId"].as_str().unwrap().to_owned();
        rig.fake.gate.open();
        let mut waited = follow(&client, json!({"action": "wait", "taskId": id})).await;
        while waited["structuredContent"]["taskgate"]["status"] == "working" {
            waited = follow(&client, json!({"action": "wait", "taskId": id})).await;
        }
        told(&waited, &whole, kind);
        assert!(waited["content"].to_string().contains("taskgate_task"), "{kind}");
        let late = follow(&client, json!({"action": "cancel", "taskId": id})).await;
        told(&late, &whole, kind);
        let (mut page, mut text) = (1, String::new());
        loop {
            let shown = follow(&client, json!({"action": "result", "taskId": id, "page": page})).await;
            assert!(shown.to_string().len() < MAX, "{kind}: page {page}");
            let pages = shown["structuredContent"]["taskgate"]["pages"].as_u64().unwrap();
            let blocks = shown["content"].as_array().unwrap();
            for block in &blocks[..blocks.len() - 1] {
                match block["type"].as_str().unwrap() {
                    "text" => text.push_str(block["text"].as_str().unwrap()),
                    "resource_link" => {
                        assert!(block["uri"].as_str().unwrap().ends_with(path), "{block}");
                        text.push_str("[link]");
                    }
                    other => panic!("{other}"),
                }
            }
            if page == pages {
                break;
            }
            page += 1;
        }
        let expected = match kind {
            "text" => whole["content"][0]["text"].as_str().unwrap().to_owned(),
            "structured" => format!("see the rows{}", whole["structuredContent"]),
            "image" => format!("a picture[link]{}", whole["structuredContent"]),
            _ => "[link]".to_owned(),
        };
        assert!(text == expected, "{kind}: {} and {} bytes", text.len(), expected.len());
    }
}

#[tokio::test]
async fn r5_7_a_call_that_joins_gets_the_beginning_with_the_note_that_it_joined() {
    let (kind, whole, _) = kinds().remove(0);
    let rig = rig(config(), &whole).await;
    let key = |tool| json!({"name": tool, "arguments": {}, "_meta": {"taskgate/idempotency-key": "k"}});
    rig.fake.gate.open();
    let first = rig.modern("tools/call", json!({}), key("slow")).await.json();
    let second = rig.modern("tools/call", json!({}), key("slow")).await.json()["result"].clone();
    let told = told(&second, &whole, kind);
    assert_eq!(second["_meta"]["taskgate/joined"], told["taskId"]);
    assert_eq!(told, &first["result"]["_meta"]["taskgate/result"]);
    assert!(second["content"].to_string().contains("identical call was made before"));
}

#[tokio::test]
async fn r5_7_a_stream_that_broke_is_taken_up_with_the_beginning() {
    let (kind, whole, _) = kinds().remove(0);
    let rig = rig(config(), &whole).await;
    let client = rig.session("2025-11-25", json!({})).await;
    let mut stream = client.open("tools/call", params("slow")).await;
    let primed = stream.event().await.unwrap().id.unwrap();
    drop(stream);
    rig.fake.gate.open();
    let mut again = client.stream(Some(&primed)).await;
    let answer = loop {
        let message = again.message().await.unwrap();
        if message.get("result").is_some() {
            break message["result"].clone();
        }
    };
    told(&answer, &whole, kind);
}

#[tokio::test]
async fn r5_7_a_batch_is_bounded_result_by_result() {
    let (kind, whole, _) = kinds().remove(0);
    let rig = rig(config(), &whole).await;
    rig.fake.gate.open();
    let client = rig.session("2025-03-26", json!({})).await;
    let call = |id: u64, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params(tool)});
    let answers = client.say(json!([call(1, "slow"), call(2, "echo")])).await.json();
    for answer in answers.as_array().unwrap() {
        told(&answer["result"], &whole, kind);
    }
}

#[tokio::test]
async fn r5_7_after_a_restart_the_handle_still_leads_to_every_byte() {
    let (kind, whole, path) = kinds().remove(2);
    let store = MemoryStore::new();
    let fake = Fake::new(Version::V2025_11_25, BackTasks::None);
    *fake.returns.lock() = Some(of(&whole));
    fake.gate.open();
    let first = Rig::over(fake.clone(), bounded(config()), store.clone()).await;
    let answer = first.modern("tools/call", json!({}), params("slow")).await.json()["result"].clone();
    let told = told(&answer, &whole, kind).clone();
    first.shutdown.cancel();
    let second = Rig::over(fake, bounded(config()), store).await;
    let uri = format!("{}{path}", told["uri"].as_str().unwrap());
    assert!(pieces(&uri, |uri| read_modern(&second, uri)).await == part_of(&whole, path));
    let id = told["taskId"].as_str().unwrap();
    let again = second.modern("tasks/get", with_tasks(), json!({"taskId": id})).await.json();
    let url = again["result"]["result"]["_meta"]["taskgate/result"]["url"].as_str().unwrap().to_owned();
    assert_eq!(get(&second, &url, &[]).await.body.as_bytes(), of(&whole));
    // Its workflow is configured no more: what was called under it stays bounded.
    let mut without = config();
    without.limits.result_inline = MAX;
    let third = Rig::over(second.fake.clone(), without, second.store.clone()).await;
    let again = third.modern("tasks/get", with_tasks(), json!({"taskId": id})).await.json();
    self::told(&again["result"]["result"], &whole, kind);
}

#[tokio::test]
async fn r5_7_http_gives_ranges_and_nothing_that_a_browser_would_run_or_keep() {
    let page = "<script>alert(1)</script>".repeat(10_000);
    let whole = json!({"content": [{"type": "resource", "resource": {"uri": "x:1", "mimeType": "text/html", "text": page}}]});
    let rig = rig(config(), &whole).await;
    rig.fake.gate.open();
    let answer = rig.modern("tools/call", json!({}), params("slow")).await.json()["result"].clone();
    let url = format!("{}/content/0", told(&answer, &whole, "page")["url"].as_str().unwrap());
    let total = page.len();
    let all = get(&rig, &url, &[]).await;
    assert_eq!((all.status, all.body.as_str()), (200, page.as_str()));
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("content-disposition", "attachment"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("accept-ranges", "bytes"),
    ] {
        assert_eq!(all.header(name), Some(value), "{name}");
    }
    let part =
        get(&rig, &url, &[("range", "bytes=100-199"), ("if-range", all.header("etag").unwrap())]).await;
    assert_eq!((part.status, part.body.as_str()), (206, &page[100..200]));
    assert_eq!(part.header("content-range"), Some(&*format!("bytes 100-199/{total}")));
    let end = get(&rig, &url, &[("range", "bytes=-7")]).await;
    assert_eq!((end.status, end.body.as_str()), (206, &page[total - 7..]));
    let behind = get(&rig, &url, &[("range", &format!("bytes={total}-"))]).await;
    assert_eq!((behind.status, behind.header("content-range")), (416, Some(&*format!("bytes */{total}"))));
    let other = get(&rig, &url, &[("range", "bytes=0-1"), ("if-range", "\"other\"")]).await;
    assert_eq!((other.status, other.body.len()), (200, total));
    let mut head = http_client::open(
        rig.addr,
        "HEAD",
        url.strip_prefix(&format!("http://{}", rig.addr)).unwrap(),
        &[],
        None,
    )
    .await;
    assert_eq!((head.status, head.header("content-length")), (200, Some(&*total.to_string())));
    assert!(tokio::time::timeout(Duration::from_millis(1), head.event()).await.is_err(), "no body");
    assert_eq!(request(&rig, "POST", &url, &[]).await.status, 405);
    // Who may ask at all is decided before (B-031).
    assert_eq!(get(&rig, &url, &[("host", "evil.example")]).await.status, 403);
    assert_eq!(get(&rig, &url, &[("origin", "https://evil.example")]).await.status, 403);
}

#[tokio::test]
async fn r6_1_a_result_that_is_foreign_expired_or_was_never_there_is_answered_alike() {
    let (_, whole, _) = kinds().remove(0);
    // Two servers on one gateway, as one caller sees them.
    let mut config = bounded(config());
    let mut other = config.servers[0].clone();
    other.name = taskgate_core::id::ServerName("other".to_owned());
    other.path = "/other/mcp".to_owned();
    config.servers.push(other);
    let rig = Rig::with(config).await;
    *rig.fake.returns.lock() = Some(of(&whole));
    rig.fake.gate.open();
    let at = |path: &'static str, method: &'static str, params: Value| {
        let rig = &rig;
        async move {
            let (body, name) = super::rig::modern_body(method, json!({}), params);
            let mut headers = vec![
                ("content-type", "application/json"),
                ("accept", "application/json, text/event-stream"),
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", method),
            ];
            if let Some(name) = &name {
                headers.push(("mcp-name", name));
            }
            http_client::open(rig.addr, "POST", path, &headers, Some(body.as_bytes()))
                .await
                .finish()
                .await
                .json()
        }
    };
    let answer = at("/fake/mcp", "tools/call", params("slow")).await;
    let told = answer["result"]["_meta"]["taskgate/result"].clone();
    let (uri, id) = (told["uri"].as_str().unwrap(), told["taskId"].as_str().unwrap());
    let root = uri.strip_suffix(id).unwrap();
    let last = if id.ends_with('0') { "1" } else { "0" };
    let never = TaskId::parse(&format!("{}{last}", &id[..id.len() - 1])).unwrap();
    let unknown = format!("{root}{}", never.expose());
    let fault = |said: &Value| {
        assert!(said["error"]["data"]["uri"].is_string(), "{said}");
        (said["error"]["code"].as_i64().unwrap(), said["error"]["message"].as_str().unwrap().to_owned())
    };
    let read = |path, uri: &str| at(path, "resources/read", json!({"uri": uri}));
    assert!(read("/fake/mcp", uri).await["result"].is_object());
    let expected = (-32602, "Resource not found".to_owned());
    for (path, uri) in [
        ("/other/mcp", uri),
        ("/fake/mcp", unknown.as_str()),
        ("/fake/mcp", &format!("{uri}/content/9")),
        ("/fake/mcp", &format!("{uri}?from=999999999")),
        ("/fake/mcp", &format!("{uri}?from=x")),
        ("/fake/mcp", &format!("{root}nonsense")),
    ] {
        assert_eq!(fault(&read(path, uri).await), expected, "{path} {uri}");
    }
    // None of it was asked of the server behind us.
    assert!(rig.fake.requests.lock().iter().all(|(method, _)| method != "resources/read"));
    let nothing = get(&rig, &format!("/fake/mcp/results/{}", never.expose()), &[]).await;
    assert_eq!(nothing.status, 404);
    for path in [
        format!("/other/mcp/results/{id}"),
        format!("/fake/mcp/results/{id}/content/9"),
        "/fake/mcp/results/x".to_owned(),
    ] {
        let same = get(&rig, &path, &[]).await;
        assert_eq!((same.status, &same.body), (404, &nothing.body), "{path}");
    }
    assert_eq!(get(&rig, &format!("/fake/mcp/results/{id}"), &[]).await.status, 200);
}

#[tokio::test]
async fn r5_7_a_listing_promises_no_structured_content_that_a_handle_may_stand_for() {
    let rig = Rig::with(bounded(config())).await;
    let listed = rig.modern("tools/list", with_tasks(), json!({})).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    for tool in tools {
        let has_workflow = ["slow", "echo"].contains(&tool["name"].as_str().unwrap());
        assert_eq!(tool.get("outputSchema").is_none(), has_workflow, "{tool}");
    }
    assert!(tools.len() > 5);
}

/// A server that has tools and nothing else.
fn bare() -> Arc<Fake> {
    let mut fake = Fake::new(Version::V2025_11_25, BackTasks::None);
    let known = &*fake.manifest;
    let back = BackSelf { capabilities: "{\"tools\":{}}".to_owned(), ..known.back.clone() };
    let manifest = Manifest { back, ..known.clone() };
    Arc::get_mut(&mut fake).unwrap().manifest = Arc::new(manifest);
    fake
}

#[tokio::test]
async fn r5_7_resources_are_announced_and_answered_for_a_server_that_has_none() {
    let (kind, whole, path) = kinds().remove(0);
    let rig = Rig::before(bare(), bounded(config())).await;
    *rig.fake.returns.lock() = Some(of(&whole));
    rig.fake.gate.open();
    let client = rig.session("2025-06-18", json!({})).await;
    assert_eq!(client.said["result"]["capabilities"]["resources"], json!({}));
    let found = rig.modern("server/discover", json!({}), json!({})).await.json();
    assert_eq!(found["result"]["capabilities"]["resources"], json!({}));
    let list = rig.modern("resources/list", json!({}), json!({})).await.json();
    is_b("ListResourcesResult", &list["result"]);
    assert_eq!(list["result"]["resources"], json!([]));
    let templates = rig.modern("resources/templates/list", json!({}), json!({})).await.json();
    is_b("ListResourceTemplatesResult", &templates["result"]);
    assert_eq!(client.ask("resources/list", json!({})).await.json()["result"], json!({"resources": []}));
    let other = client.ask("resources/read", json!({"uri": "file:///etc/passwd"})).await.json();
    assert_eq!(other["error"]["code"], -32002, "{other}");
    let answer = client.call("slow", json!({})).await["result"].clone();
    let part = format!("{}{path}", told(&answer, &whole, kind)["uri"].as_str().unwrap());
    assert!(pieces(&part, |uri| read_modern(&rig, uri)).await == part_of(&whole, path));
    assert!(rig.fake.requests.lock().iter().all(|(method, _)| !method.starts_with("resources/")));
    // Without a workflow nothing is announced that the server has not.
    let plain = Rig::before(bare(), config()).await;
    let client = plain.session("2025-06-18", json!({})).await;
    assert!(client.said["result"]["capabilities"].get("resources").is_none());
}

#[tokio::test]
async fn r5_7_resources_of_the_server_pass_as_ever_beside_ours() {
    let (kind, whole, _) = kinds().remove(0);
    let rig = rig(config(), &whole).await;
    rig.fake.gate.open();
    rig.fake.answers("resources/read", json!({"contents": [{"uri": "file:///a", "text": "theirs"}]}));
    let client = rig.session("2025-11-25", json!({})).await;
    let theirs = client.ask("resources/read", json!({"uri": "file:///a"})).await.json();
    assert_eq!(theirs["result"]["contents"][0]["text"], "theirs");
    // So do those of a gateway behind this one.
    let behind = client.ask("resources/read", json!({"uri": "taskgate://00000000/results/x"})).await.json();
    assert_eq!(behind["result"]["contents"][0]["text"], "theirs");
    let answer = client.call("slow", json!({})).await["result"].clone();
    let uri = told(&answer, &whole, kind)["uri"].clone();
    let refused = client.ask("resources/subscribe", json!({"uri": uri})).await.json();
    assert_eq!(refused["error"]["code"], -32602);
    let listen = json!({"notifications": {"resourceSubscriptions": [uri]}});
    let mut stream = rig.modern_open("subscriptions/listen", json!({}), listen).await;
    let acknowledged = stream.message().await.unwrap();
    assert_eq!(acknowledged["params"]["notifications"], json!({}), "{acknowledged}");
    let asked = rig.fake.requests.lock().clone();
    assert!(asked.iter().all(|(_, params)| !params.contains(uri.as_str().unwrap())), "{asked:?}");
}

#[tokio::test]
async fn r5_7_what_stands_for_a_result_is_shorter_than_the_smallest_bound_whatever_it_holds() {
    let mut config = bounded(config());
    let least = Workflow { inline_max: Some(1), ..workflow(Keying::PerRequest, None) };
    config.servers[0].workflows.insert("slow".to_owned(), Arc::new(least));
    let rig = Rig::with(config).await;
    rig.fake.gate.open();
    let control = "\u{1}".repeat(100_000);
    let kind = format!("application/{}", "x".repeat(80));
    let block = |size: usize| json!({"type": "text", "text": "y".repeat(size)});
    for result in [
        json!({"content": [{"type": "text", "text": control}]}),
        json!({"content": vec![json!({"type": "image", "data": BASE64.encode(&[0; 30_000]), "mimeType": kind}); 50]}),
        json!({"content": vec![block(900); 1_000], "structuredContent": {"a": "z".repeat(900)}}),
        json!({"content": vec![block(30_000); 30], "structuredContent": {"a": "z".repeat(90_000)}}),
        json!({"content": [], "structuredContent": {"a": control}}),
        json!({"content": [], "_meta": {"x": control}}),
    ] {
        *rig.fake.returns.lock() = Some(of(&result));
        let mut params = params("slow");
        params["arguments"]["n"] = json!(rig.records().await.len());
        let answer = rig.modern("tools/call", json!({}), params).await;
        assert!(
            answer.body.len() < INLINE_MIN,
            "{} bytes for {:.100}",
            answer.body.len(),
            result.to_string()
        );
        assert_eq!(answer.json()["result"]["_meta"]["taskgate/result"]["bytes"], of(&result).len());
    }
}
