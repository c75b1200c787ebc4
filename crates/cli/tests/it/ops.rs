//! `ops`, `op show`, `reconcile`, `resolve` and `ops export`, asked of a `serve`, as a person types them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::support::{DemoServer, Gateway, Legacy, config, folder, modern, run_in, said, taskgate};

const STORE: [&str; 2] = ["--store", "taskgate.db"];

/// A gateway in a folder, with the demo server and another one, which may go.
struct Scene {
    _server: DemoServer,
    other: Option<DemoServer>,
    folder: TempDir,
    gateway: Option<Gateway>,
}

impl Scene {
    fn open(more: &str) -> Scene {
        let server = DemoServer::start("plain");
        let other = DemoServer::start("plain");
        let second = format!("[servers.other]\nurl = \"{}\"\n", other.url);
        let text = config(&server.url, &format!("{more}\nlimits.create_attempts = 1")) + &second;
        let folder = folder(&[("taskgate.toml", &text)]);
        let gateway = Some(Gateway::start(folder.path()));
        Scene { _server: server, other: Some(other), folder, gateway }
    }

    fn pay(&self, arguments: Value) -> Value {
        self.call("demo", "payment", arguments)
    }

    fn call(&self, server: &str, tool: &str, arguments: Value) -> Value {
        let url = self.gateway.as_ref().unwrap().url.replace("/demo/", &format!("/{server}/"));
        modern(&url, "tools/call", tool, json!({ "name": tool, "arguments": arguments }))
    }

    /// Under an idempotency key.
    fn pay_once(&self, server: &str, key: &str, arguments: Value) -> Value {
        let url = &self.gateway.as_ref().unwrap().url.replace("/demo/", &format!("/{server}/"));
        let meta = json!({ "taskgate/idempotency-key": key });
        modern(
            url,
            "tools/call",
            "payment",
            json!({ "name": "payment", "arguments": arguments, "_meta": meta }),
        )
    }

    /// A call that certainly did nothing: there was nobody to send it to.
    fn call_nobody(&mut self) -> String {
        self.call("other", "payment", json!({ "to": "Z", "amount": 7 }));
        self.other = None;
        let said = self.call("other", "payment", json!({ "to": "Z", "amount": 8 }));
        let id = self.newest();
        let shown = self.json(&["op", "show", &id, "--json", "--store", "taskgate.db"]);
        assert_eq!(
            (&shown["outcome"], &shown["verdict"]),
            (&json!("confirmed"), &json!("not_applied")),
            "{said}: {shown}"
        );
        id
    }

    fn run(&self, args: &[&str]) -> Output {
        run_in(self.folder.path(), args)
    }

    /// What it said, with all that differs from run to run masked.
    fn told(&self, args: &[&str]) -> String {
        mask(&said(&self.run(args)), self.folder.path())
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn newest(&self) -> String {
        let all = self.json(&["ops", "--json", "--store", "taskgate.db"]);
        all[0]["id"].as_str().unwrap_or_else(|| panic!("{all}")).to_owned()
    }

    fn kill(&mut self) {
        let mut gateway = self.gateway.take().unwrap();
        gateway.running.signal(Signal::SIGKILL);
        assert_eq!(gateway.running.code(), None);
    }

    fn start(&mut self) {
        self.gateway = Some(Gateway::start(self.folder.path()));
    }
}

/// Ids, times, spans of time, processes and folders differ from run to run.
pub(crate) fn mask(text: &str, folder: &Path) -> String {
    // A machine that takes its time has it tell minutes.
    let text = text.replace(" min ago", " s ago").replace(" min:", " s:");
    let text = text.replace(folder.canonicalize().unwrap().to_str().unwrap(), "FOLDER");
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.');
    let mut out = String::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let is_time = word.len() == 24 && word.starts_with("20") && word.ends_with('Z');
        let is_span = !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_digit())
            && [" s ago", " s:"].iter().any(|unit| after.starts_with(unit));
        out.push_str(match word {
            _ if is_time => "TIME",
            _ if is_span => "N",
            _ if word.len() > 30 && word.starts_with("op-") => "OPERATION",
            _ if word.len() > 30 && word.starts_with('t') => "TASK",
            word => word,
        });
        let next = after.char_indices().nth(1).map_or(after.len(), |(at, _)| at);
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    out
}

fn all(args: &[&'static str]) -> Vec<&'static str> {
    args.iter().copied().chain(STORE).collect()
}

#[test]
fn r4_7_operations_are_listed_and_shown_with_task_and_effect_apart() {
    let mut scene = Scene::open("");
    scene.pay(json!({ "to": "X", "amount": 5 }));
    scene.pay(json!({ "to": "Y", "amount": 6, "lose_answer": true }));
    scene.call_nobody();
    insta::assert_snapshot!("ops", scene.told(&all(&["ops"])));
    insta::assert_snapshot!("ops_waiting", scene.told(&all(&["ops", "--waiting"])));
    insta::assert_snapshot!("ops_open", scene.told(&all(&["ops", "--open"])));
    let confirmed = ["ops", "--outcome", "confirmed", "--outcome", "not-applied"];
    insta::assert_snapshot!("ops_confirmed", scene.told(&all(&confirmed)));
    insta::assert_snapshot!(
        "ops_server",
        scene.told(&all(&["ops", "--server", "oth", "--outcome", "unknown"]))
    );

    let waiting = scene.json(&["ops", "--waiting", "--json", "--config", "taskgate.toml"]);
    let id = waiting[0]["id"].as_str().unwrap();
    assert_eq!(waiting.as_array().unwrap().len(), 1, "{waiting}");
    insta::assert_snapshot!("op_show", scene.told(&["op", "show", id, "--config", "taskgate.toml"]));
    let shown = scene.json(&["op", "show", &id[..20], "--json", "--store", "taskgate.db"]);
    assert_eq!(shown["id"], id, "a beginning of it is enough: {shown}");
    assert_eq!((&shown["stage"], &shown["doubt"]), (&json!("unknown"), &json!("answer_lost")), "{shown}");
    assert_eq!((&shown["task"]["state"], &shown["inquiry"]["state"]), (&json!("failed"), &json!("person")));
    let versions: Vec<_> =
        shown["history"].as_array().unwrap().iter().map(|event| &event["version"]).collect();
    assert_eq!(versions, [1, 2], "{shown}");
}

#[test]
fn r4_3_a_person_resolves_with_a_reason_and_never_against_what_is_confirmed() {
    let mut scene = Scene::open("");
    scene.pay(json!({ "to": "Y", "amount": 6, "lose_answer": true }));
    let id = scene.newest();
    let told = |scene: &Scene, args: &[&str]| scene.told(&[&["resolve", &id], args, &STORE].concat());
    insta::assert_snapshot!("resolve_without_reason", told(&scene, &["applied"]));
    insta::assert_snapshot!("resolve_empty_reason", told(&scene, &["applied", "--reason", " "]));
    insta::assert_snapshot!("resolve_long_reason", told(&scene, &["applied", "--reason", &"x".repeat(300)]));
    let shown = scene.json(&["op", "show", &id, "--json", "--store", "taskgate.db"]);
    assert_eq!(shown["version"], 2, "nothing of that was written: {shown}");
    let args = ["applied", "--reason", "the bank's statement, line 12", "--name", "ada"];
    insta::assert_snapshot!("resolve", told(&scene, &args));
    insta::assert_snapshot!("resolve_again", told(&scene, &["not-applied", "--reason", "a second thought"]));
    let correct = ["not-applied", "--reason", "line 12 is another one", "--name", "bob", "--correct"];
    insta::assert_snapshot!("resolve_correct", told(&scene, &correct));
    insta::assert_snapshot!("ops_nobody_waits", scene.told(&all(&["ops", "--waiting"])));

    let confirmed = scene.call_nobody();
    let args = ["resolve", &confirmed, "applied", "--reason", "a feeling", "--store", "taskgate.db"];
    insta::assert_snapshot!("resolve_confirmed", scene.told(&args));
}

#[test]
fn r4_6_two_effects_under_one_key_are_shown_to_a_person() {
    let scene = Scene::open("");
    let said =
        scene.pay_once("demo", "k-1", json!({ "order": "A-1", "to": "Y", "amount": 6, "lose_answer": true }));
    assert_eq!(said["error"]["data"]["outcome"], "unknown", "{said}");
    let first = scene.newest();
    let args = ["resolve", &first, "not-applied", "--reason", "no A-1 to be seen", "--name", "ada"];
    assert_eq!(scene.run(&[&args[..], &STORE].concat()).status.code(), Some(0));
    let said = scene.pay_once("demo", "k-1", json!({ "order": "A-1", "to": "Y", "amount": 6 }));
    assert!(said["result"].is_object(), "{said}");
    let second = scene.newest();
    let shown = scene.json(&["op", "show", &first, "--json", "--store", "taskgate.db"]);
    assert_eq!(shown["key_given_to"], second, "{shown}");
    insta::assert_snapshot!(
        "op_show_key_given",
        scene.told(&["op", "show", &first, "--store", "taskgate.db"])
    );
    insta::assert_snapshot!(
        "op_show_key_taken",
        scene.told(&["op", "show", &second, "--store", "taskgate.db"])
    );
    let args = ["resolve", &first, "applied", "--reason", "found it", "--name", "ada", "--correct", "--json"];
    let shown = scene.json(&[&args[..], &STORE].concat());
    assert_eq!((&shown["verdict"], &shown["inquiry"]["why"]), (&json!("applied"), &json!("contradiction")));
    insta::assert_snapshot!("ops_waiting_twice", scene.told(&all(&["ops", "--waiting"])));
}

/// A task that failed since nobody knew keeps its state and not its doubt, for every client and in every way of asking.
/// Takes out what follows from the clock, from words on the operation, and from the number of a request.
fn still(shown: &mut Value) {
    match shown {
        Value::Object(fields) => {
            ["id", "ttl", "ttlMs", "pollInterval", "pollIntervalMs", "lastUpdatedAt"].iter().for_each(
                |field| {
                    fields.remove(*field);
                },
            );
            fields.values_mut().for_each(still);
        }
        Value::Array(elements) => elements.iter_mut().for_each(still),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn r4_3_inv_03_a_repeated_call_is_told_what_was_found_out_since_and_its_task_stays_as_it_is() {
    let more = "[workflows.payments]
server = \"demo\"
tools = [\"payment\"]
object = \"args.order\"
intended_effect = \"'pays ' + args.to\"
idempotency = { mode = \"derived\", key = \"args.order\" }";
    let server = DemoServer::start("plain");
    let folder = folder(&[("taskgate.toml", &config(&server.url, more))]);
    let mut gateway = Gateway::start(folder.path());
    let lost = || json!({ "order": "A-4711", "to": "ACME", "amount": 5, "lose_answer": true });
    let pay =
        |url: &str| modern(url, "tools/call", "payment", json!({ "name": "payment", "arguments": lost() }));
    let first = pay(&gateway.url);
    assert_eq!(first["error"]["data"]["outcome"], "unknown", "{first}");
    let json = |args: &[&str]| -> Value {
        let output = run_in(folder.path(), &[args, &["--json"], &STORE].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // Whoever has the order's number finds it, and nobody finds it by another.
    let found = json(&["ops", "--about", "4711"]);
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!(json(&["ops", "--about", "ACME"]), found);
    assert_eq!(json(&["ops", "--about", "4712"]), json!([]));
    let id = found[0]["id"].as_str().unwrap();
    let task = found[0]["task"]["id"].as_str().unwrap();
    let line = said(&run_in(folder.path(), &[&["ops"], &STORE[..]].concat()));
    assert!(line.contains("A-4711"), "{line}");

    // All that is shown of the task itself, which no word of anybody changes.
    let of_task = || -> Vec<Value> {
        let legacy = Legacy::open(&gateway.url);
        let of_handle = |action: &str| {
            let arguments = json!({ "action": action, "taskId": task });
            legacy.request("tools/call", json!({ "name": "taskgate_task", "arguments": arguments }))
        };
        let mut seen = vec![
            modern(&gateway.url, "tasks/get", task, json!({ "taskId": task })),
            legacy.request("tasks/get", json!({ "taskId": task })),
            legacy.request("tasks/result", json!({ "taskId": task })),
            of_handle("wait"),
            of_handle("result"),
        ];
        seen.iter_mut().for_each(still);
        seen
    };
    let before = of_task();
    assert_eq!(before[0]["result"]["error"]["data"]["outcome"], "unknown", "{before:?}");
    let mut person = vec!["resolve", id, "not-applied", "--reason", "not in the books", "--name", "ada"];
    for verdict in ["applied", "not-applied", "applied"] {
        person[2] = verdict;
        json(&person);
        person.retain(|word| *word != "--correct");
        person.push("--correct");
        assert_eq!(of_task(), before);
    }
    // It is the same for one that reads it from the disk.
    gateway.running.signal(Signal::SIGKILL);
    assert_eq!(gateway.running.code(), None);
    let gateway = Gateway::start(folder.path());
    let again = pay(&gateway.url);
    assert_eq!(again["error"]["data"]["outcome"], "applied", "{again}");
    let words = again["error"]["message"].as_str().unwrap();
    assert!(words.contains("The effect was made") && words.contains("was not sent"), "{words}");
    assert_eq!(server.begun("payment", "A-4711"), 1);
}

#[test]
fn inv_30_a_repetition_is_answered_from_the_ledger_by_a_new_process_whose_server_is_dead() {
    let mut scene = Scene::open("");
    let lost = || json!({ "order": "A-1", "to": "Y", "amount": 6, "lose_answer": true });
    let first = scene.pay_once("other", "k-1", lost());
    assert_eq!(first["error"]["data"]["outcome"], "unknown", "{first}");
    scene.other = None;
    scene.kill();
    scene.start();
    let again = scene.pay_once("other", "k-1", lost());
    assert_eq!(again["error"]["data"], first["error"]["data"], "{again}");
    assert!(again["error"]["message"].as_str().unwrap().contains("was not sent"), "{again}");
    let other = scene.pay_once("other", "k-1", json!({ "order": "A-2" }));
    assert_eq!(other["error"]["data"]["reason"], "key_reused", "{other}");
    // A person says that nothing was done, so it is tried again, and the server is missed.
    let args =
        ["resolve", &scene.newest(), "not-applied", "--reason", "its books are empty", "--name", "ada"];
    assert_eq!(scene.run(&[&args[..], &STORE].concat()).status.code(), Some(0));
    let tried = scene.pay_once("other", "k-1", lost());
    assert!(tried["error"]["message"].as_str().unwrap().contains("server \"other\""), "{tried}");
}

#[test]
fn r4_9_what_cannot_be_done_is_told_with_what_can() {
    let mut scene = Scene::open("");
    scene.pay(json!({ "to": "X", "amount": 5 }));
    scene.pay(json!({ "to": "Y", "amount": 6, "lose_answer": true }));
    let unknown = scene.newest();
    insta::assert_snapshot!("op_unknown", scene.told(&all(&["op", "show", "op-nothing"])));
    insta::assert_snapshot!("op_ambiguous", scene.told(&all(&["op", "show", "op-"])));
    let ask = ["reconcile", &unknown, "--store", "taskgate.db"];
    insta::assert_snapshot!("reconcile_nobody_to_ask", scene.told(&ask));
    insta::assert_snapshot!("ops_no_store", scene.told(&["ops", "--store", "other.db"]));
    insta::assert_snapshot!("ops_no_config", scene.told(&["ops", "--config", "other.toml"]));

    // A folder that others may enter may hold a socket of theirs.
    let control = scene.folder.path().join("taskgate.db.control");
    assert_eq!(fs::metadata(&control).unwrap().permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&control, Permissions::from_mode(0o755)).unwrap();
    insta::assert_snapshot!("ops_unsafe_folder", scene.told(&all(&["ops"])));
    fs::set_permissions(&control, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(scene.run(&all(&["ops"])).status.code(), Some(0));

    // Its end by a kill leaves the socket, its end in good order does not; neither answers.
    scene.kill();
    assert!(control.join("sock").exists());
    insta::assert_snapshot!("ops_owner_gone", scene.told(&all(&["ops"])));
    scene.start();
    assert_eq!(scene.json(&["ops", "--json", "--store", "taskgate.db"]).as_array().unwrap().len(), 2);
    let mut gateway = scene.gateway.take().unwrap();
    gateway.running.signal(Signal::SIGTERM);
    assert_eq!(gateway.running.code(), Some(0));
    assert!(!control.exists());
    assert_eq!(scene.told(&all(&["ops"])), scene.told(&all(&["ops", "--all"])));
}

#[test]
fn r4_8_an_operation_outlives_the_gateway_and_its_task_and_can_be_resolved_then() {
    let mut scene = Scene::open("limits.ttl = \"1s\"\nlimits.linger = \"1s\"");
    scene.pay(json!({ "to": "Y", "amount": 6, "lose_answer": true }));
    let id = scene.newest();
    scene.kill();
    scene.start();
    let show = ["op", "show", &id, "--json", "--store", "taskgate.db"];
    // Housekeeping begins with a start.
    let since = Instant::now();
    while scene.json(&show)["task"]["state"] != "gone" {
        assert!(since.elapsed() < Duration::from_secs(90), "its task is still kept");
        scene.kill();
        scene.start();
    }
    insta::assert_snapshot!("op_show_task_gone", scene.told(&["op", "show", &id, "--store", "taskgate.db"]));
    let args = ["resolve", &id, "not-applied", "--reason", "the bank has none", "--name", "ada"];
    let resolved = scene.run(&[&args[..], &STORE].concat());
    assert_eq!(resolved.status.code(), Some(0), "{}", said(&resolved));
    let shown = scene.json(&show);
    assert_eq!(
        (&shown["outcome"], &shown["verdict"]),
        (&json!("attested"), &json!("not_applied")),
        "{shown}"
    );
    assert_eq!(shown["history"].as_array().unwrap().len(), 3, "{shown}");
}

#[test]
fn r4_8_the_export_has_a_line_for_each_operation_with_its_whole_history() {
    let scene = Scene::open("");
    for order in 0..30 {
        scene.pay(json!({ "order": order.to_string(), "to": "X", "amount": 5 }));
    }
    scene.pay(json!({ "to": "Y", "amount": 6, "lose_answer": true }));
    let export = |more: &[&str]| {
        let output = scene.run(&[&["ops", "export", "--store", "taskgate.db"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let lines = export(&[]);
    assert_eq!(lines.len(), 31);
    for line in &lines {
        let history = line["history"].as_array().unwrap();
        let versions: Vec<u64> = history.iter().map(|event| event["version"].as_u64().unwrap()).collect();
        assert_eq!(versions, (1..=line["version"].as_u64().unwrap()).collect::<Vec<_>>(), "{line}");
        assert_eq!(history[0]["kind"], "created", "{line}");
        assert!(!line.to_string().contains("lose_answer"), "no payload: {line}");
    }
    assert_eq!(lines[0]["stage"], "unknown", "the newest comes first");
    assert_eq!(export(&["--since", "1h"]).len(), 31);
    assert_eq!(export(&["--since", "2026-01-01"]).len(), 31);
    assert_eq!(export(&["--since", "2999-01-01T00:00:00Z"]).len(), 0);
    insta::assert_snapshot!("export_bad_since", scene.told(&all(&["ops", "export", "--since", "yesterday"])));
}

#[test]
fn r4_7_without_a_word_the_keeper_and_the_usual_serve_are_both_asked() {
    let server = DemoServer::start("plain");
    let text = config(&server.url, "").replace("path = \"taskgate.db\"", "");
    let folder = folder(&[("taskgate.toml", &text)]);
    let home = |args: &[&str]| {
        let mut command = taskgate(args);
        command.current_dir(folder.path()).env("HOME", folder.path()).env("TASKGATE_KEEPER_IDLE", "2s");
        command
    };
    let told = |args: &[&str]| mask(&said(&home(args).output().unwrap()), folder.path());
    insta::assert_snapshot!("ops_nothing_yet", told(&["ops"]));

    let mut command = home(&["serve", "--until-stdin-ends", "--json", "--config", "taskgate.toml"]);
    command.env_remove("TASKGATE_KEEPER_IDLE");
    let gateway = Gateway::run(command);
    let call = json!({ "name": "payment", "arguments": { "to": "X", "amount": 5 } });
    Legacy::open(&gateway.url).request("tools/call", call.clone());
    let program = env!("CARGO_BIN_EXE_taskgate");
    let mut host = crate::support::Running::start(home(&[
        "run",
        "--name",
        "desk",
        "--",
        program,
        "demo-server",
        "--stdio",
    ]));
    crate::run::open(&mut host);
    crate::run::ask(&mut host, 2, "tools/call", call);
    insta::assert_snapshot!("ops_of_both", told(&["ops"]));
    let keepers = told(&["ops", "--store", ".local/state/taskgate/keeper/tasks.db", "--outcome", "reported"]);
    assert_eq!(keepers.matches("OPERATION").count(), 1, "{keepers}");
    let shown = home(&["ops", "--json"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    for operation in shown.as_array().unwrap() {
        let found = home(&["op", "show", operation["id"].as_str().unwrap()]).output().unwrap();
        assert_eq!(found.status.code(), Some(0), "{}", said(&found));
    }
    let tasks = told(&["tasks"]);
    assert_eq!(tasks.matches("TASK").count(), 2, "{tasks}");
    drop(gateway);
    // Its database is there, and nobody answers for it: that is said, and the keeper's are shown.
    insta::assert_snapshot!("ops_of_the_keeper_alone", told(&["ops"]));
    drop(host.stdin.take());
    assert_eq!(host.code(), Some(0), "{}", host.stderr());
    told(&["keeper", "stop", "--now"]);
}
