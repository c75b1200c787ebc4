//! What a person sees of it.

use serde_json::json;

use crate::scene::{Scene, until};

#[test]
fn status_and_tasks_say_it_when_there_is_nothing() {
    let scene = Scene::new();
    let said = scene.output(&["keeper", "status"]);
    assert!(said.status.success());
    assert!(String::from_utf8_lossy(&said.stdout).starts_with("no keeper is running"));
    assert_eq!(scene.json(&["keeper", "status", "--json"]), json!({ "running": false }));
    assert_eq!(scene.json(&["tasks", "--json"]), json!([]));
    // To look starts nothing.
    assert!(scene.processes().is_empty());
    let logs = scene.output(&["keeper", "logs"]);
    assert!(!logs.status.success());
}

#[test]
fn status_names_hosts_and_servers() {
    let scene = Scene::new();
    let mut host = scene.host(&["--name", "files"]).opened();
    let gate = scene.path("gate");
    host.call("work", json!({ "text": "a", "gate": gate }));
    scene.wait_for_journal("begin work a", 1);
    let status = scene.status();
    assert_eq!(status["live"], 1, "{status}");
    assert_eq!(status["hosts"][0]["client"], "test host", "{status}");
    assert_eq!(status["hosts"][0]["pid"].as_u64(), Some(std::process::id().into()), "{status}");
    let server = &status["servers"][0];
    assert_eq!(
        (&server["server"], &server["name"], &server["hosts"], &server["calls"]),
        (&json!("files"), &json!("scripted"), &json!(1), &json!(1)),
        "{status}"
    );
    let said = scene.output(&["keeper", "status"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("files (scripted)") && said.contains("test host"), "{said}");
    scene.open_gate("gate");
}

#[test]
fn tasks_lists_shows_cancels_and_prints_results() {
    let scene = Scene::new();
    let mut host = scene.host(&["--name", "files"]).opened();
    host.text("work", json!({ "text": "first" }));
    host.text("fail", json!({}));
    let gate = scene.path("gate");
    host.call("work", json!({ "text": "third", "gate": gate }));
    scene.wait_for_journal("begin work third", 1);
    let tasks = scene.json(&["tasks", "--json"]);
    let states: Vec<_> = tasks.as_array().unwrap().iter().map(|task| task["state"].clone()).collect();
    assert_eq!(states, ["working", "failed", "completed"], "{tasks}");
    let id = |at: usize| tasks[at]["id"].as_str().unwrap().to_owned();
    let said = |args: &[&str]| {
        let output = scene.output(args);
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (went_well, result) = said(&["tasks", &id(2), "--result"]);
    assert!(went_well && result.starts_with("work first by "), "{result}");
    let (_, shown) = said(&["tasks", &id(2)]);
    assert!(shown.contains("completed") && shown.contains("files"), "{shown}");
    assert!(!said(&["tasks", &id(0), "--result"]).0);
    assert!(!said(&["tasks", "nonsense"]).0);
    let (went_well, _) = said(&["tasks", &id(0), "--cancel"]);
    assert!(went_well);
    scene.open_gate("gate");
    until("it is over", || (scene.json(&["tasks", "--json"])[0]["state"] != "working").then_some(()));
    assert_eq!(scene.json(&["tasks", "--json", "--server", "other"]), json!([]));
}

#[test]
fn logs_are_read_also_when_no_keeper_runs() {
    let scene = Scene::new();
    let mut host = scene.host_of("floods", &["--name", "files"]).opened();
    host.text("look", json!({}));
    until("all of it is written", || {
        let logs = scene.output(&["keeper", "logs", "files", "-n", "5"]);
        String::from_utf8_lossy(&logs.stdout).contains("noise 19999").then_some(())
    });
    assert_eq!(host.close(), Some(0));
    assert!(scene.output(&["keeper", "stop"]).status.success());
    // It says so a blink after it was told.
    let logs = until("its last words", || {
        let logs = scene.output(&["keeper", "logs"]);
        String::from_utf8_lossy(&logs.stdout).contains("the keeper has ended").then_some(logs)
    });
    assert!(String::from_utf8_lossy(&logs.stderr).contains("files"));
    let logs = scene.output(&["keeper", "logs", "fil"]);
    let last = String::from_utf8_lossy(&logs.stdout).lines().last().unwrap_or_default().to_owned();
    assert!(last.contains("ended: process"), "{last}");
    // However much it printed, its log stays small.
    let size: usize =
        scene.files("state/taskgate/keeper/log/servers").iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(size < 5 << 20, "{size}");
}
