//! `run --foreground`: a server's place in a host's mcp.json.

use std::io::Write;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{DemoServer, Running, folder, run_in, said, taskgate};

fn start(folder: &Path, args: &[&str]) -> Running {
    let mut command = taskgate(&[&["run", "--foreground"], args].concat());
    command.current_dir(folder).env("XDG_STATE_HOME", folder.join("state"));
    Running::start(command)
}

pub(crate) fn ask(running: &mut Running, id: u64, method: &str, params: Value) -> Value {
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    writeln!(running.stdin.as_mut().unwrap(), "{message}").unwrap();
    loop {
        let message = running.line();
        if message["id"] == id {
            return message;
        }
    }
}

pub(crate) fn open(running: &mut Running) {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    let opened = ask(running, 0, "initialize", params);
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    writeln!(running.stdin.as_mut().unwrap(), "{initialized}").unwrap();
}

fn echo(running: &mut Running) {
    let params = json!({ "name": "echo", "arguments": { "text": "hello" } });
    let said = ask(running, 1, "tools/call", params);
    assert_eq!(said["result"]["content"][0]["text"], "hello", "{said}");
}

#[test]
fn a_configured_server_is_served_on_the_pipe_and_its_tasks_are_found_again() {
    let server = DemoServer::start("b");
    let folder = folder(&[("taskgate.toml", &format!("[servers.demo]\nurl = \"{}\"\n", server.url))]);
    let args = ["--config", "taskgate.toml", "--name", "demo"];
    let mut first = start(folder.path(), &args);
    open(&mut first);
    echo(&mut first);
    let report = json!({ "name": "slow_report", "arguments": { "title": "t", "seconds": 1 }, "task": {} });
    let created = ask(&mut first, 2, "tools/call", report);
    let id = created["result"]["task"]["taskId"].clone();
    assert!(id.is_string(), "{created}");
    // The host closes the pipe, as hosts do.
    drop(first.stdin.take());
    assert_eq!(first.code(), Some(0), "{}", first.stderr());

    let mut second = start(folder.path(), &args);
    open(&mut second);
    let done = ask(&mut second, 3, "tasks/result", json!({ "taskId": id }));
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("is ready"), "{done}");
    assert_eq!(server.begun("slow_report", "t"), 1);
    // The person at this machine is one principal, so tasks may be listed.
    let listed = ask(&mut second, 4, "tasks/list", json!({}));
    assert_eq!(listed["result"]["tasks"][0]["taskId"], id, "{listed}");
}

#[test]
fn a_command_is_started_and_ends_with_us() {
    let server = DemoServer::start("plain");
    let folder = folder(&[("taskgate.toml", &format!("[servers.demo]\nurl = \"{}\"\n", server.url))]);
    // A stdio server is at hand: this program itself.
    let inner = ["run", "--foreground", "--ephemeral", "--config", "taskgate.toml", "--name", "demo"];
    let args = [&["--ephemeral", "--", env!("CARGO_BIN_EXE_taskgate")], inner.as_slice()].concat();
    let mut running = start(folder.path(), &args);
    open(&mut running);
    echo(&mut running);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(0), "{}", running.stderr());
    assert!(!folder.path().join("state").exists(), "nothing was kept");
}

#[test]
fn two_of_the_same_command_do_not_get_in_each_others_way() {
    let server = DemoServer::start("b");
    let folder = folder(&[("taskgate.toml", &format!("[servers.demo]\nurl = \"{}\"\n", server.url))]);
    let args = ["--config", "taskgate.toml", "--name", "demo"];
    let mut first = start(folder.path(), &args);
    open(&mut first);
    let mut second = start(folder.path(), &args);
    open(&mut second);
    echo(&mut second);
    echo(&mut first);
}

#[test]
fn what_is_missing_is_told() {
    let folder = folder(&[]);
    insta::assert_snapshot!(said(&run_in(folder.path(), &["run", "--foreground"])));
    insta::assert_snapshot!(said(&run_in(folder.path(), &["run", "--ephemeral", "--", "x"])));
}
