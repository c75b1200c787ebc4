//! How a keeper ends: by itself, for a newer version, because somebody says so.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::host::text;
use crate::scene::{Scene, exists, is_alive, until};

/// Says a raw hello; what the keeper answered, and the connection.
fn hello(scene: &Scene, hello: &Value) -> (Value, UnixStream) {
    let mut stream = UnixStream::connect(scene.keeper_folder().join("sock")).unwrap();
    writeln!(stream, "{hello}").unwrap();
    let mut line = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
    (serde_json::from_str(&line).unwrap(), stream)
}

fn caller(protocol: u32, version: &str) -> Value {
    json!({ "taskgate": { "protocol": protocol, "version": version, "kind": "control" } })
}

#[test]
fn design_4_it_ends_by_itself_when_nobody_is_attached_and_nothing_lives() {
    let scene = Scene::with_idle("300ms");
    let mut host = scene.host(&["--answer-within", "50ms"]).opened();
    let keeper = scene.keeper_pid();
    let gate = scene.path("gate");
    let handed = host.text("work", json!({ "text": "a", "gate": gate }));
    assert!(handed.contains("taskgate_task"), "{handed}");
    assert_eq!(host.close(), Some(0));
    // Work lives, so it stays, past its idle time.
    let begun = tokio::time::Instant::now();
    until("more than the idle time has passed", || {
        assert!(is_alive(keeper));
        (begun.elapsed() > std::time::Duration::from_secs(1)).then_some(())
    });
    scene.open_gate("gate");
    until("it has ended", || (!is_alive(keeper)).then_some(()));
    assert!(!exists(&scene.keeper_folder().join("sock")));
    until("nothing is left", || scene.processes().is_empty().then_some(()));
    assert_eq!(scene.status()["running"], false);
    // And the next one finds what came of it.
    assert_eq!(scene.json(&["tasks", "--json"])[0]["state"], "completed");
}

#[test]
fn design_4_a_run_that_comes_while_it_ends_is_served() {
    let scene = Scene::with_idle("1ms");
    // Each comes about when the keeper of the one before ends.
    for _ in 0..10 {
        let mut host = scene.host(&[]).opened();
        assert!(host.text("look", json!({})).starts_with("look"));
        assert_eq!(host.close(), Some(0));
    }
}

#[test]
fn design_4_it_gives_way_to_a_newer_version_when_nothing_is_under_way() {
    let scene = Scene::new();
    let mut host = scene.host(&[]).opened();
    let keeper = scene.keeper_pid();
    let gate = scene.path("gate");
    let id = host.call("work", json!({ "text": "a", "gate": gate }));
    scene.wait_for_journal("begin work a", 1);
    let (older, _) = hello(&scene, &caller(1, "0.0.1"));
    assert_eq!(older["taskgate"]["state"], "ready", "{older}");
    let (newer, _) = hello(&scene, &caller(1, "99.0.0"));
    assert_eq!(newer["taskgate"]["state"], "draining", "{newer}");
    assert_eq!(newer["taskgate"]["calls"], 1);
    // It goes on serving, also those who come now.
    let mut other = scene.host(&[]).opened();
    assert!(other.text("look", json!({})).starts_with("look"));
    assert_eq!(scene.status()["draining"], true);
    scene.open_gate("gate");
    assert!(text(&host.answer(id)).starts_with("work a"));
    until("it has given way", || (!is_alive(keeper)).then_some(()));
    // Both hosts are served by the next one, and notice nothing.
    assert!(host.text("work", json!({ "text": "b" })).starts_with("work b"));
    assert!(other.text("work", json!({ "text": "c" })).starts_with("work c"));
    assert_ne!(scene.keeper_pid(), keeper);
    scene.has_one_keeper();
}

#[test]
fn design_4_a_protocol_that_it_does_not_speak_is_answered_with_its_own() {
    let scene = Scene::new();
    let _host = scene.host(&[]).opened();
    let keeper = scene.keeper_pid();
    let (answer, mut stream) = hello(&scene, &caller(7, "9.9.9"));
    assert_eq!((&answer["taskgate"]["protocol"], &answer["taskgate"]["oldest"]), (&json!(2), &json!(1)));
    assert_eq!(answer["taskgate"]["state"], "draining", "{answer}");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    until("it gives way", || (!is_alive(keeper)).then_some(()));
}

#[test]
fn what_is_no_hello_is_sent_away() {
    let scene = Scene::new();
    let _host = scene.host(&[]).opened();
    let (answer, _) = hello(&scene, &json!("GET / HTTP/1.1"));
    assert!(answer["error"]["message"].as_str().unwrap().contains("taskgate"), "{answer}");
    assert_eq!(scene.status()["running"], true);
}

#[test]
fn stop_ends_it_and_its_servers_and_a_host_starts_the_next_only_when_it_wants_something() {
    let scene = Scene::new();
    let mut host = scene.host_of("child", &[]).opened();
    let keeper = scene.keeper_pid();
    let stopped = scene.output(&["keeper", "stop"]);
    assert!(stopped.status.success());
    // It is told when the process has closed everything, a blink before it is gone.
    until("it is gone", || (!is_alive(keeper)).then_some(()));
    until("its servers are gone", || (scene.count("server.py") + scene.count("sleep") == 0).then_some(()));
    assert_eq!(scene.status()["running"], false);
    let again = scene.output(&["keeper", "stop"]);
    assert_eq!(String::from_utf8_lossy(&again.stdout).trim(), "no keeper is running");
    // The host is still there, and goes on with its next message.
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
    assert_eq!(scene.status()["running"], true);
}

#[test]
fn stop_lets_calls_under_way_end_and_what_has_no_answer_is_asked_of_the_next() {
    let scene = Scene::new();
    let mut host = scene.host(&[]).opened();
    let keeper = scene.keeper_pid();
    let id = host.call("work", json!({ "text": "a", "seconds": 1 }));
    scene.wait_for_journal("begin work a", 1);
    assert!(scene.output(&["keeper", "stop"]).status.success());
    assert!(text(&host.answer(id)).starts_with("work a"));
    assert_eq!(scene.journal("begin work a").len(), 1);
    until("it is gone", || (!is_alive(keeper)).then_some(()));

    // Without time to end, its outcome is unknown, and the host hears that of the next keeper.
    let id = host.call("work", json!({ "text": "b", "seconds": 100 }));
    scene.wait_for_journal("begin work b", 1);
    assert!(scene.output(&["keeper", "stop", "--now"]).status.success());
    let said = text(&host.answer(id));
    assert!(said.contains("unknown") || said.contains("may or may not"), "{said}");
    assert_eq!(scene.journal("begin work b").len(), 1);
}

#[test]
fn sigterm_ends_it_in_good_order() {
    let scene = Scene::new();
    let host = scene.host(&[]).opened();
    let keeper = scene.keeper_pid();
    kill(Pid::from_raw(keeper), Signal::SIGTERM).unwrap();
    until("it is gone", || (!is_alive(keeper)).then_some(()));
    until("its servers are gone", || (scene.count("server.py") == 0).then_some(()));
    assert!(scene.log().contains("the keeper has ended"));
    assert_eq!(host.close(), Some(0));
}

#[test]
fn restart_starts_the_keeper_anew_or_one_server() {
    let scene = Scene::new();
    let mut host = scene.host(&["--name", "files"]).opened();
    let first = host.text("look", json!({}));
    let keeper = scene.keeper_pid();
    let restarted = scene.output(&["keeper", "restart", "files"]);
    assert!(restarted.status.success(), "{restarted:?}");
    assert_ne!(host.text("look", json!({})), first);
    assert_eq!((scene.keeper_pid(), scene.journal("start").len()), (keeper, 2));
    let unknown = scene.output(&["keeper", "restart", "nobody"]);
    assert!(!unknown.status.success());
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("files"), "{unknown:?}");
    let restarted = scene.output(&["keeper", "restart"]);
    assert!(restarted.status.success(), "{restarted:?}");
    assert_ne!(scene.keeper_pid(), keeper);
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
}

#[test]
fn a_developer_who_restarts_the_server_in_the_host_gets_the_new_program() {
    let scene = Scene::new();
    let host = scene.host(&[]).opened();
    assert_eq!(host.close(), Some(0));
    let host = scene.host(&[]).opened();
    assert_eq!(scene.journal("start").len(), 2);
    assert_eq!(host.close(), Some(0));
}
