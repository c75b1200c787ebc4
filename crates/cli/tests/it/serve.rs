//! `serve`: all kinds of call over HTTP, and what is said when it cannot start.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    DemoServer, Gateway, Legacy, Running, config, folder, get, modern, post, run_in, said, taskgate,
    wait_until,
};

/// Looks until the task is over.
fn task_b(url: &str, id: &str) -> Value {
    loop {
        let task = modern(url, "tasks/get", id, json!({ "taskId": id }))["result"].clone();
        if task["status"] != "working" {
            return task;
        }
    }
}

/// As under `taskgate serve 2>&1 | head`: a log line that nobody takes costs no call.
#[test]
fn r3_3_calls_are_answered_when_whoever_read_the_log_is_gone() {
    let server = DemoServer::start("plain");
    let folder = folder(&[("taskgate.toml", &config(&server.url, ""))]);
    let mut command = taskgate(&["serve", "--until-stdin-ends", "--json", "--config", "taskgate.toml"]);
    command.current_dir(folder.path()).env("TASKGATE_LOG", "trace");
    let mut running = Running::start(command);
    drop(running.child.stderr.take());
    let url = running.line()["url"].as_str().unwrap().to_owned();
    let legacy = Legacy::open(&url);
    let echo = legacy.request("tools/call", json!({ "name": "echo", "arguments": { "text": "hello" } }));
    assert_eq!(echo["result"]["content"][0]["text"], "hello", "{echo}");
}

/// What is said in the end, where a first answer may stand in for it.
fn followed(legacy: &Legacy<'_>, mut said: Value) -> Value {
    while said["result"]["structuredContent"]["taskgate"]["status"] == "working" {
        let handle = &said["result"]["structuredContent"]["taskgate"]["taskId"];
        let wait = json!({ "name": "taskgate_task", "arguments": { "action": "wait", "taskId": handle } });
        said = legacy.request("tools/call", wait);
    }
    said
}

fn all_kinds_of_call(dialect: &str) {
    let server = DemoServer::start(dialect);
    let more = "limits.sync_budget = \"100ms\"\nlimits.task_after = \"0s\"";
    let folder = folder(&[("taskgate.toml", &config(&server.url, more))]);
    let gateway = Gateway::start(folder.path());
    let url = &gateway.url;
    let legacy = Legacy::open(url);
    let report =
        |title: &str| json!({ "name": "slow_report", "arguments": { "title": title, "seconds": 2 } });

    // On a busy machine even this outlasts the time that there is, and is followed.
    let echo = legacy.request("tools/call", json!({ "name": "echo", "arguments": { "text": "hello" } }));
    let echo = followed(&legacy, echo);
    assert_eq!(echo["result"]["content"][0]["text"], "hello", "{echo}");

    let plain = legacy.request("tools/call", report("plain"));
    let handle = &plain["result"]["structuredContent"]["taskgate"]["taskId"];
    assert!(handle.is_string(), "{plain}");
    let done = followed(&legacy, plain);
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("\"plain\" is ready"), "{done}");

    let mut params = report("a");
    params["task"] = json!({});
    let created = legacy.request("tools/call", params);
    let id = &created["result"]["task"]["taskId"];
    assert!(id.is_string(), "{created}");
    let done = legacy.request("tasks/result", json!({ "taskId": id }));
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("\"a\" is ready"), "{done}");

    let created = modern(url, "tools/call", "slow_report", report("b"));
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let done = task_b(url, created["result"]["taskId"].as_str().unwrap());
    assert_eq!(done["status"], "completed", "{done}");
    for title in ["plain", "a", "b"] {
        assert_eq!(server.begun("slow_report", title), 1, "{title}");
    }
}

#[test]
fn all_kinds_of_call_work_before_a_server_of_dialect_b() {
    all_kinds_of_call("b");
}

#[test]
fn all_kinds_of_call_work_before_a_server_of_dialect_a() {
    all_kinds_of_call("a");
}

#[test]
fn all_kinds_of_call_work_before_a_plain_server() {
    all_kinds_of_call("plain");
}

#[test]
fn r3_3_a_task_that_waits_for_a_person_survives_a_kill_of_the_gateway() {
    let server = DemoServer::start("b");
    let folder = folder(&[("taskgate.toml", &config(&server.url, "limits.task_after = \"0s\""))]);
    let mut gateway = Gateway::start(folder.path());
    let call = json!({ "name": "deploy", "arguments": { "version": "7" } });
    let created = modern(&gateway.url, "tools/call", "deploy", call);
    let id = created["result"]["taskId"].as_str().unwrap().to_owned();
    // Once it asks, the server's own task is known to the gateway, and its work can be followed after a crash.
    let asked = task_b(&gateway.url, &id);
    assert_eq!(asked["status"], "input_required", "{asked}");
    gateway.running.signal(Signal::SIGKILL);
    assert_eq!(gateway.running.code(), None);

    let gateway = Gateway::start(folder.path());
    let asked = task_b(&gateway.url, &id);
    assert_eq!(asked["status"], "input_required", "{asked}");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answer = json!({ key.as_str(): { "action": "accept", "content": { "approve": true } } });
    let update = json!({ "taskId": id, "inputResponses": answer });
    let taken = modern(&gateway.url, "tasks/update", &id, update);
    assert_eq!(taken["result"]["resultType"], "complete", "{taken}");
    let done = loop {
        let task = task_b(&gateway.url, &id);
        if task["status"] != "input_required" {
            break task;
        }
    };
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(server.begun("deploy", "7"), 1);
}

#[test]
fn r4_2_a_lost_answer_is_an_unknown_outcome_and_is_not_sent_again() {
    let server = DemoServer::start("plain");
    let folder = folder(&[("taskgate.toml", &config(&server.url, ""))]);
    let gateway = Gateway::start(folder.path());
    let legacy = Legacy::open(&gateway.url);
    let payment = json!({ "name": "payment", "arguments": { "to": "X", "amount": 5, "lose_answer": true } });
    for _ in 0..2 {
        let said = legacy.request("tools/call", payment.clone());
        assert_eq!(said["error"]["code"], -32603, "{said}");
        assert_eq!(said["error"]["data"]["outcome"], "unknown", "{said}");
    }
    assert_eq!(server.begun("payment", "5 to X"), 1);
}

#[test]
fn the_only_server_answers_at_mcp_too_and_a_browser_elsewhere_does_not() {
    let server = DemoServer::start("b");
    let folder = folder(&[("taskgate.toml", &config(&server.url, ""))]);
    let gateway = Gateway::start(folder.path());
    let short = gateway.url.replace("/demo/mcp", "/mcp");
    assert!(gateway.url.ends_with("/demo/mcp"));
    Legacy::open(&short);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(post(&short, &[("origin", "https://evil.example")], &message).status, 403);
    assert_eq!(get(&gateway.url.replace("/demo/mcp", "/nothing")).status, 404);
}

#[test]
fn r4_7_whoever_knows_the_address_can_give_commands() {
    // More addresses than a pipe holds: whoever reads one of them has the gateway wait with the others.
    let many: String = (0..500)
        .map(|n| format!("[servers.{}-{n}]\nurl = \"http://127.0.0.1:1/mcp\"\n", "s".repeat(60)))
        .collect();
    let text = format!("[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = \"taskgate.db\"\n{many}");
    let folder = folder(&[("taskgate.toml", &text)]);
    let mut command = taskgate(&["serve", "--json", "--config", "taskgate.toml"]);
    command.current_dir(folder.path());
    let mut gateway = Running::start(command);
    assert!(gateway.line()["url"].is_string());
    let socket = folder.path().join("taskgate.db.control/sock");
    let answered = std::os::unix::net::UnixStream::connect(&socket);
    assert!(answered.is_ok(), "{socket:?}: {answered:?}");
}

#[test]
fn a_signal_ends_it_in_good_order() {
    let server = DemoServer::start("b");
    let folder = folder(&[("taskgate.toml", &config(&server.url, ""))]);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut gateway = Gateway::start(folder.path());
        gateway.running.signal(signal);
        assert_eq!(gateway.running.code(), Some(0), "{}", gateway.running.stderr());
    }
}

#[test]
fn logs_are_json_where_asked_and_stdout_holds_only_endpoints() {
    let server = DemoServer::start("b");
    let folder = folder(&[("taskgate.toml", &config(&server.url, ""))]);
    let mut command = taskgate(&["serve", "--log", "json", "--config", "taskgate.toml"]);
    command.current_dir(folder.path());
    let mut running = Running::start(command);
    let lines = [running.text_line(), running.text_line()];
    assert!(
        lines[0].starts_with("demo  http://127.0.0.1:") && lines[0].ends_with("/demo/mcp\n"),
        "{lines:?}"
    );
    assert!(lines[1].ends_with("/mcp\n"), "{lines:?}");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.text_line(), "");
    let log = running.stderr();
    assert!(log.lines().count() > 0);
    for line in log.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[test]
fn a_port_in_use_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = folder(&[("taskgate.toml", "[store]\npath = \"t.db\"\n[servers.a]\ncommand = \"a\"\n")]);
    let output = run_in(folder.path(), &["serve", "--config", "taskgate.toml", "--listen", &address]);
    assert_eq!(output.status.code(), Some(4));
    let port = taken.local_addr().unwrap().port().to_string();
    insta::assert_snapshot!(said(&output).replace(&port, "PORT"));
    assert!(!folder.path().join("t.db").exists(), "nothing else was touched");
}

#[test]
fn a_damaged_database_is_told() {
    let folder = folder(&[
        ("taskgate.toml", "[store]\npath = \"t.db\"\n[servers.a]\ncommand = \"a\"\n"),
        ("t.db", &"this is no database, and it is long enough to be looked at ".repeat(200)),
    ]);
    let output = run_in(folder.path(), &["serve", "--config", "taskgate.toml", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    let said = said(&output);
    assert!(said.contains("t.db") && said.contains("move it away"), "{said}");
}

#[test]
fn a_database_that_another_process_has_is_told() {
    let server = DemoServer::start("b");
    let folder = folder(&[("taskgate.toml", &config(&server.url, ""))]);
    let _first = Gateway::start(folder.path());
    let output = run_in(folder.path(), &["serve", "--config", "taskgate.toml"]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("in use by another taskgate process"), "{}", said(&output));
}

#[test]
fn a_folder_that_cannot_be_written_is_told() {
    let folder = folder(&[("taskgate.toml", "[store]\npath = \"no/t.db\"\n[servers.a]\ncommand = \"a\"\n")]);
    let no = folder.path().join("no");
    std::fs::create_dir(&no).unwrap();
    std::fs::set_permissions(&no, std::fs::Permissions::from_mode(0o500)).unwrap();
    if std::fs::write(no.join("probe"), "").is_ok() {
        // The superuser writes anywhere, so there is nothing to be told.
        return;
    }
    let output = run_in(folder.path(), &["serve", "--config", "taskgate.toml", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
}

#[test]
fn an_address_that_others_reach_is_refused_from_a_flag_too() {
    let folder = folder(&[("taskgate.toml", "[servers.a]\ncommand = \"a\"\n")]);
    let output = run_in(folder.path(), &["serve", "--config", "taskgate.toml", "--listen", "0.0.0.0:1"]);
    insta::assert_snapshot!(said(&output));
}

#[test]
fn without_a_configuration_it_says_how_to_give_one() {
    let folder = folder(&[]);
    insta::assert_snapshot!(said(&run_in(folder.path(), &["serve"])));
}

#[test]
fn a_server_that_will_not_start_is_told_at_once_and_the_others_go_on() {
    let server = DemoServer::start("b");
    let more = "[servers.gone]\ncommand = \"/does/not/exist\"";
    let folder = folder(&[("taskgate.toml", &config(&server.url, more))]);
    let mut gateway = Gateway::start(folder.path());
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(gateway.running.child.stderr.take().unwrap()));
    let told = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("/does/not/exist")));
    assert!(told.is_some());
    Legacy::open(&gateway.url);
}

/// A client that reads its answers does the same thing as often as it likes, however fast it calls again (design 3).
#[test]
fn design_3_a_plain_client_that_reads_its_answers_is_never_joined_to_an_earlier_call() {
    let server = DemoServer::start("plain");
    let folder = folder(&[("taskgate.toml", &config(&server.url, ""))]);
    let gateway = Gateway::start(folder.path());
    let legacy = Legacy::open(&gateway.url);
    let call = json!({ "name": "slow_report", "arguments": { "title": "often", "seconds": 0 } });
    for done in 1..=100 {
        let said = legacy.request("tools/call", call.clone());
        assert!(said["result"]["_meta"]["taskgate/joined"].is_null(), "{done}: {said}");
    }
    assert_eq!(server.begun("slow_report", "often"), 100);
}

/// And one that went away before its answer came is not made to pay twice, even by a gateway that was killed meanwhile.
#[test]
fn design_3_an_answer_that_nobody_took_answers_the_same_call_after_a_kill() {
    let server = DemoServer::start("plain");
    let folder = folder(&[("taskgate.toml", &config(&server.url, ""))]);
    let gateway = Gateway::start(folder.path());
    // Long enough that the gateway notices that nobody waits any more before there is an answer.
    let call = json!({ "name": "slow_report", "arguments": { "title": "once", "seconds": 4 } });
    Legacy::open(&gateway.url).leave("tools/call", call.clone(), || server.begun("slow_report", "once") == 1);
    let returned = || {
        let tasks = run_in(folder.path(), &["tasks", "--json", "--config", "taskgate.toml"]);
        String::from_utf8_lossy(&tasks.stdout).contains("\"completed\"")
    };
    wait_until(returned);
    gateway.running.signal(Signal::SIGKILL);
    drop(gateway);
    let gateway = Gateway::start(folder.path());
    let legacy = Legacy::open(&gateway.url);
    let said = legacy.request("tools/call", call.clone());
    assert!(said["result"]["_meta"]["taskgate/joined"].is_string(), "{said}");
    assert_eq!(server.begun("slow_report", "once"), 1);
    let said = legacy.request("tools/call", call);
    assert!(said["result"]["_meta"]["taskgate/joined"].is_null(), "{said}");
    assert_eq!(server.begun("slow_report", "once"), 2);
}
