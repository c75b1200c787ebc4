//! Servers that do what servers must not do: what their callers are told, that nothing hangs, and that the gateway goes on
//! to serve the next call.
//!
//! `server.py` has a tool for each thing. Each is called in three ways, by a client of 2025-11-25 with a task, by one of
//! 2026-07-28 that takes tasks and by one that knows none, over stdio and over HTTP, all at once. What they are told is a
//! snapshot for each era of the server, the same for both transports where nothing else is said.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that meets what it does not expect fails; this one takes real time"
)]

#[allow(dead_code, reason = "shared with the tests of the binary, which need more of it")]
#[path = "../it/support.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use support::{Gateway, Running, folder, modern, post};

/// Within this each of them must have been told how its call ended: the deadline below, and some for a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

const LIMITS: &str = "[limits]
sync_budget = \"600ms\"
task_after = \"100ms\"
deadline = \"4s\"
deadline_anonymous = \"4s\"
request_time = \"3s\"
server_read = \"2s\"
status_read_time = \"1s\"
status_read_attempts = 2
result_attempts = 2
create_time = \"4s\"
cancel_grace = \"300ms\"
poll_floor = \"50ms\"
";

/// A gateway before such a server.
struct Scene {
    _folder: tempfile::TempDir,
    _server: Option<Running>,
    gateway: Gateway,
}

impl Scene {
    fn set(era: &str, over: &str) -> Scene {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad/server.py");
        let (server, config) = if over == "http" {
            let mut command = Command::new("python3");
            command.args([script, era, "0"]);
            let mut server = Running::start(command);
            let said = server.text_line();
            let port: u16 = said.trim().strip_prefix("ready ").unwrap().parse().unwrap();
            (Some(server), format!("url = \"http://127.0.0.1:{port}/mcp\"\n"))
        } else {
            (None, format!("command = \"python3\"\nargs = [{script:?}, {era:?}]\nshared = true\n"))
        };
        let config = format!(
            "{LIMITS}[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = \"tasks.db\"\n[servers.bad]\n{config}"
        );
        let folder = folder(&[("taskgate.toml", &config)]);
        let gateway = Gateway::start(folder.path());
        Scene { _folder: folder, _server: server, gateway }
    }

    fn legacy(&self, version: &str) -> Legacy<'_> {
        let params = json!({ "protocolVersion": version, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = post(&self.gateway.url, &[], &message);
        let session = answer.header("mcp-session-id").unwrap_or_else(|| panic!("{answer:?}")).to_owned();
        Legacy { url: &self.gateway.url, session, version: version.to_owned() }
    }

    /// A call with a task at 2025-11-25, to its end.
    fn as_a(&self, tool: &str) -> String {
        let client = self.legacy("2025-11-25");
        let said = client.ask("tools/call", json!({ "name": tool, "arguments": {}, "task": {} }));
        let Some(id) = said["result"]["task"]["taskId"].as_str() else { return told(&said) };
        let end = client.ask("tasks/result", json!({ "taskId": id }));
        let task = client.ask("tasks/get", json!({ "taskId": id }))["result"].clone();
        let words = task["statusMessage"].as_str().map(|words| format!(" ({words})")).unwrap_or_default();
        format!("{}{words}; {}", task["status"].as_str().unwrap_or("?"), told(&end))
    }

    /// A call of a client that takes tasks at 2026-07-28, to its end.
    fn as_b(&self, tool: &str) -> String {
        let call = json!({ "name": tool, "arguments": {} });
        let said = modern(&self.gateway.url, "tools/call", tool, call);
        let Some(id) = said["result"]["taskId"].as_str() else { return told(&said) };
        let until = Instant::now() + PATIENCE;
        loop {
            let task = modern(&self.gateway.url, "tasks/get", id, json!({ "taskId": id }))["result"].clone();
            let status = task["status"].as_str().unwrap_or("?").to_owned();
            if status != "working" {
                // Whether it became a task is a matter of moments.
                return if status == "cancelled" { status } else { told(&task) };
            }
            assert!(Instant::now() < until, "{tool} hangs");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// A call of a client without tasks, followed by its handle.
    fn as_plain(&self, tool: &str) -> String {
        let client = self.legacy("2025-06-18");
        let mut said = client.ask("tools/call", json!({ "name": tool, "arguments": {} }));
        let until = Instant::now() + PATIENCE;
        loop {
            let handle = &said["result"]["structuredContent"]["taskgate"];
            if handle["status"] != "working" {
                return told(&said);
            }
            assert!(Instant::now() < until, "{tool} hangs");
            let wait = json!({ "action": "wait", "taskId": handle["taskId"] });
            said = client.ask("tools/call", json!({ "name": "taskgate_task", "arguments": wait }));
        }
    }
}

struct Legacy<'a> {
    url: &'a str,
    session: String,
    version: String,
}

impl Legacy<'_> {
    fn ask(&self, method: &str, params: Value) -> Value {
        let headers =
            [("mcp-session-id", self.session.as_str()), ("mcp-protocol-version", self.version.as_str())];
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        post(self.url, &headers, &message).response(1)
    }
}

/// What a result or an error says.
fn told(said: &Value) -> String {
    let whole = said["result"].as_object().map_or(said, |_| &said["result"]);
    let error = [&said["error"], &whole["error"]].into_iter().find(|error| error.is_object());
    if let Some(error) = error {
        let outcome =
            error["data"]["outcome"].as_str().map(|outcome| format!(" [{outcome}]")).unwrap_or_default();
        return format!("{} {}{outcome}", error["code"], masked(error["message"].as_str().unwrap_or("?")));
    }
    let result = if whole["result"].is_object() { &whole["result"] } else { whole };
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let words: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let is_error = if result["isError"] == true { "error: " } else { "" };
    format!("{is_error}\"{}\"", masked(&words.join(" | ")))
}

/// Without what differs from run to run: the ids of tasks, and times.
fn masked(words: &str) -> String {
    let is_time = |word: &str| word.starts_with("20") && word.contains('T') && word.contains('Z');
    let words = words.split(' ').map(|word| match word {
        word if word.starts_with("t0") => "TASK",
        word if is_time(word) => "TIME",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

const AS_TASKS: [&str; 13] = [
    "no-get",
    "other-shape",
    "plain-result",
    "paused",
    "moves-again",
    "wrong-task",
    "no-outcome",
    "forgets",
    "early-notes",
    "no-id",
    "bad-status-at-once",
    "unknown-kind",
    "get-hangs",
];
const AS_CALLS: [&str; 10] = [
    "unasked-task",
    "answers-twice",
    "never",
    "wrong-id",
    "no-result",
    "neither",
    "both",
    "array",
    "asks-nothing",
    "asks-strangely",
];

/// Everybody's calls, all at once; what each was told.
fn all(era: &'static str, over: &'static str) -> BTreeMap<String, [String; 3]> {
    let scene = Scene::set(era, over);
    let told = thread::scope(|threads| {
        let calls: Vec<_> = AS_TASKS
            .iter()
            .chain(&AS_CALLS)
            .map(|tool| {
                let scene = &scene;
                (
                    *tool,
                    threads.spawn(move || {
                        let begun = Instant::now();
                        let told = [scene.as_a(tool), scene.as_b(tool), scene.as_plain(tool)];
                        assert!(begun.elapsed() < 3 * PATIENCE, "{tool} hangs");
                        told
                    }),
                )
            })
            .collect();
        calls.into_iter().map(|(tool, call)| (tool.to_owned(), call.join().unwrap())).collect()
    });
    // The next ones are served, in each way.
    for said in [scene.as_a("echo"), scene.as_b("echo"), scene.as_plain("echo")] {
        assert!(said.contains("\"hello\""), "{era} over {over}: {said}");
    }
    out_of_order(&scene);
    changes_its_mind(&scene);
    lacks_what_it_declares(&scene);
    told
}

/// The first of two calls is answered after the second.
fn out_of_order(scene: &Scene) {
    let (first, second) = thread::scope(|threads| {
        let first = threads.spawn(|| scene.as_plain("first"));
        let second = threads.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            scene.as_plain("second")
        });
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!(first, "\"the first, answered last\"");
    assert_eq!(second, "\"the second, answered first\"");
}

/// Its tools are others in mid-session: one is gone, and one takes no tasks any more.
fn changes_its_mind(scene: &Scene) {
    assert!(scene.as_plain("vanishes").contains("vanishes\""));
    assert!(scene.as_a("flips").contains("done flips"));
    assert!(scene.as_plain("changes").contains("changed"));
    let until = Instant::now() + PATIENCE;
    loop {
        let listed = scene.legacy("2025-11-25").ask("tools/list", json!({}));
        let has = |name: &str| {
            listed["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == name)
        };
        if !has("vanishes") {
            assert!(has("echo"));
            break;
        }
        assert!(Instant::now() < until, "the change is never seen");
        thread::sleep(Duration::from_millis(50));
    }
    for said in [scene.as_a("vanishes"), scene.as_b("vanishes"), scene.as_plain("vanishes")] {
        assert!(said.contains("nknown tool") && said.contains("vanishes"), "{said}");
    }
    // Whoever asks for a task still gets one: ours.
    assert!(scene.as_a("flips").contains("flips\""), "{}", scene.as_a("flips"));
    assert!(scene.as_b("flips").contains("flips\""));
}

/// It declares prompts and has no such method; it has resources and does not say so.
fn lacks_what_it_declares(scene: &Scene) {
    let client = scene.legacy("2025-11-25");
    let refused = client.ask("prompts/list", json!({}));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    let listed = client.ask("resources/list", json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], "x:r", "{listed}");
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
}

fn whole(era: &'static str) -> String {
    let (http, stdio) = thread::scope(|threads| {
        let http = threads.spawn(move || all(era, "http"));
        let stdio = threads.spawn(move || all(era, "stdio"));
        (http.join().unwrap(), stdio.join().unwrap())
    });
    let mut out = String::new();
    for (tool, over_http) in &http {
        let over_stdio = &stdio[tool];
        out.push_str(&format!("{tool}\n"));
        for ((way, by_http), by_stdio) in ["A", "B", "plain"].iter().zip(over_http).zip(over_stdio) {
            if by_http == by_stdio {
                out.push_str(&format!("  {way}: {by_http}\n"));
            } else {
                out.push_str(&format!("  {way}, http: {by_http}\n  {way}, stdio: {by_stdio}\n"));
            }
        }
    }
    out
}

#[test]
fn g_025_b_012_b_060_a_server_of_2025_that_breaks_its_word_is_told_of_in_words() {
    assert!(Path::new("/usr/bin/python3").exists(), "the server is a script");
    insta::assert_snapshot!(whole("a"));
}

#[test]
fn g_025_b_058_x_018_a_server_of_2026_that_breaks_its_word_is_told_of_in_words() {
    insta::assert_snapshot!(whole("b"));
}
