//! Bad servers: the host gets a message that a person understands, in the right place for its era.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::host::Host;
use crate::scene::{Scene, until};

/// What a legacy and a modern host are answered, with what differs from run to run made equal.
fn told(scene: &Scene, server: &[&str]) -> String {
    let mut legacy = scene.host_running(server, &[]);
    let first = legacy.open();
    let mut modern = scene.host_running(server, &[]);
    let second = modern.request("tools/list", json!({ "_meta": modern_meta() }));
    let told = format!("legacy: {}\nmodern: {}", short(&first), short(&second));
    plain(scene, &told)
}

fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "modern", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn short(answer: &Value) -> String {
    let error = &answer["error"];
    if error.is_null() {
        return "a result".to_owned();
    }
    format!("error {}: {}", error["code"], error["message"].as_str().unwrap())
}

fn plain(scene: &Scene, text: &str) -> String {
    let text = text.replace(&scene.path("").display().to_string(), "SCENE/");
    let path = scene.environment.iter().find(|(name, _)| name == "PATH").unwrap();
    let text = text.replace(&path.1, "THE PATH");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keeper/server.py");
    let text = text.replace(script, "server.py");
    // The digits of a key.
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let is_key = word.len() > 26 && word.starts_with('"') && word.contains('-');
        words.push(if is_key { "\"NAME\":".to_owned() } else { word.to_owned() });
    }
    words.join(" ")
}

#[test]
fn a_command_that_is_not_there() {
    let scene = Scene::new();
    insta::assert_snapshot!(told(&scene, &["no-such-command", "--x"]));
}

#[test]
fn a_file_that_cannot_be_executed() {
    let scene = Scene::new();
    fs::write(scene.path("server"), "not a program").unwrap();
    let path = scene.path("server").display().to_string();
    insta::assert_snapshot!(told(&scene, &[&path]));
}

#[test]
fn a_script_whose_interpreter_is_missing() {
    let scene = Scene::new();
    let path = scene.path("server");
    fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    insta::assert_snapshot!(told(&scene, &[&path.display().to_string()]));
}

#[test]
fn a_folder_that_is_gone() {
    let scene = Scene::new();
    let gone = scene.path("gone");
    fs::create_dir(&gone).unwrap();
    let mut command = scene.taskgate(&["run", "--", "python3", "x"]);
    command.current_dir(&gone).env("PWD", &gone);
    let mut host = Host::start(command);
    fs::remove_dir(&gone).unwrap();
    let refused = host.open();
    insta::assert_snapshot!(plain(&scene, &short(&refused)));
}

#[test]
fn a_server_that_exits_at_once_is_quoted() {
    let scene = Scene::new();
    let server = scene.server("exits");
    insta::assert_snapshot!(told(&scene, &server.iter().map(String::as_str).collect::<Vec<_>>()));
}

#[test]
fn a_server_that_needs_a_terminal_is_quoted() {
    let scene = Scene::new();
    let server = scene.server("terminal");
    insta::assert_snapshot!(told(&scene, &server.iter().map(String::as_str).collect::<Vec<_>>()));
}

#[test]
fn a_server_that_prints_nothing_but_rubbish() {
    let scene = Scene::new();
    let server = scene.server("only-rubbish");
    insta::assert_snapshot!(told(&scene, &server.iter().map(String::as_str).collect::<Vec<_>>()));
}

#[test]
fn a_server_that_greets_on_stdout_is_served_and_it_is_said() {
    let scene = Scene::new();
    let mut host = scene.host_of("rubbish", &[]).opened();
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
    host.wait_for_stderr("no MCP message: Welcome to the server!");
}

#[test]
fn a_server_that_floods_stderr_stops_nobody() {
    let scene = Scene::new();
    let mut host = scene.host_of("floods", &[]).opened();
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
    host.wait_for_stderr("noise 0 ");
}

#[test]
fn a_server_that_never_answers_is_given_up_before_the_host_gives_up() {
    let scene = Scene::new();
    let mut host = scene.host_of("mute", &[]);
    let begun = Instant::now();
    let refused = host.open();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(50), "{took:?}");
    insta::assert_snapshot!(plain(&scene, &short(&refused)));
}

#[test]
fn a_server_that_changes_its_tools_is_followed() {
    let scene = Scene::new();
    let mut host = scene.host(&[]).opened();
    host.text("grow", json!({}));
    host.wait("news of it", |message| message["method"] == "notifications/tools/list_changed");
    let tools = host.request("tools/list", json!({})).to_string();
    assert!(tools.contains("\"grown\""), "{tools}");
    assert!(host.text("grown", json!({ "text": "a" })).starts_with("grown a"));
}

#[test]
fn a_server_that_cannot_start_is_no_dead_end() {
    let scene = Scene::new();
    let program = scene.path("server");
    let path = program.display().to_string();
    let server = scene.server("good");
    let words: Vec<&str> =
        [path.as_str()].into_iter().chain(server[2..].iter().map(String::as_str)).collect();
    let mut host = scene.host_running(&words, &[]);
    assert!(host.open()["error"].is_object());
    // The person installs it, and the host asks again.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keeper/server.py");
    fs::write(&program, format!("#!/bin/sh\nexec python3 {script} \"$@\"\n")).unwrap();
    let mut rights = fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    fs::set_permissions(&program, rights).unwrap();
    until("it is served", || host.open()["result"].is_object().then_some(()));
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
}

#[test]
fn what_a_host_sends_wrongly_is_answered_and_the_session_goes_on() {
    let scene = Scene::new();
    let mut host = scene.host(&[]).opened();
    host.send_text("");
    host.send_text("this is no JSON");
    let error = host.wait("a parse error", |message| message["error"]["code"] == -32700);
    assert!(error.get("id").is_none_or(Value::is_null), "{error}");
    host.send_text(&format!("\"{}\"", "x".repeat(5 << 20)));
    let error = host.wait("a refusal", |message| message["error"].is_object());
    assert!(error["error"]["message"].as_str().unwrap().contains("4194304"), "{error}");
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
}
