//! Coming back: a host that was killed finds its tasks, and results that came meanwhile.

use serde_json::json;

use crate::host::text;
use crate::scene::{Scene, kill_9, until};

#[test]
fn design_4_a_killed_host_finds_its_task_and_the_result_that_came_meanwhile() {
    let scene = Scene::new();
    let mut first = scene.host(&[]).opened();
    let gate = scene.path("gate");
    let arguments = json!({ "text": "a", "gate": gate });
    first.call("work", arguments.clone());
    scene.wait_for_journal("begin work a", 1);
    kill_9(first.pid());
    // It is running: the next host is told so.
    let mut second = scene.host(&[]);
    let opened = second.open();
    let said = opened["result"]["instructions"].as_str().unwrap();
    assert!(said.starts_with("Be kind.") && said.contains("taskgate_task"), "{said}");
    scene.open_gate("gate");
    scene.wait_for_journal("end work a", 1);
    // The same call again gets what the first one did.
    let same = second.text("work", arguments.clone());
    assert!(same.contains("work a by "), "{same}");
    assert_eq!(scene.journal("begin work a").len(), 1);
    // Fetched now: the same call once more is a new one.
    let anew = second.text("work", arguments);
    assert!(anew.contains("work a by "), "{anew}");
    assert_eq!(scene.journal("begin work a").len(), 2);
    assert_eq!(second.close(), Some(0));
    // And nothing is left to be told.
    let mut third = scene.host(&[]);
    let opened = third.open();
    assert_eq!(opened["result"]["instructions"], "Be kind.", "{opened}");
}

#[test]
fn design_4_a_result_is_listed_until_somebody_fetched_it() {
    let scene = Scene::new();
    let mut first = scene.host(&[]).opened();
    first.call("work", json!({ "text": "a", "seconds": 0.3 }));
    scene.wait_for_journal("begin work a", 1);
    kill_9(first.pid());
    until("the task has ended", || {
        let tasks = scene.json(&["tasks", "--json"]);
        (tasks[0]["state"] == "completed").then_some(())
    });
    let mut second = scene.host(&[]).opened();
    let listed = second.text("taskgate_task", json!({ "action": "list" }));
    assert!(listed.contains("not been fetched"), "{listed}");
    let id = scene.json(&["tasks", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let result = second.text("taskgate_task", json!({ "action": "wait", "taskId": id }));
    assert!(result.contains("work a by "), "{result}");
    until("it is fetched", || (scene.json(&["tasks", "--json"])[0]["fetched"] == true).then_some(()));
}

#[test]
fn r3_3_a_result_that_never_reached_its_host_stays_unfetched() {
    let scene = Scene::new();
    let mut first = scene.host(&[]).opened();
    let id = first.call("work", json!({ "text": "a" }));
    // It was read by the host, so the pipe has confirmed it.
    assert!(text(&first.answer(id)).starts_with("work a"));
    until("it is fetched", || (scene.json(&["tasks", "--json"])[0]["fetched"] == true).then_some(()));
    let gate = scene.path("gate");
    first.call("work", json!({ "text": "b", "gate": gate }));
    scene.wait_for_journal("begin work b", 1);
    kill_9(first.pid());
    scene.open_gate("gate");
    until("it has ended", || (scene.json(&["tasks", "--json"])[0]["state"] == "completed").then_some(()));
    assert_eq!(scene.json(&["tasks", "--json"])[0]["fetched"], false);
}

#[test]
fn design_4_work_of_a_server_that_nobody_started_waits_for_a_run_of_the_same_key() {
    let scene = Scene::new();
    let mut first = scene.host(&["--trust-annotations", "--answer-within", "100ms"]).opened();
    let gate = scene.path("gate");
    let handed = first.text("look", json!({ "text": "a", "gate": gate }));
    assert!(handed.contains("taskgate_task"), "{handed}");
    kill_9(first.pid());
    kill_9(scene.keeper_pid());
    // A person looks; that starts a keeper, which has no server for the work.
    let tasks = scene.json(&["tasks", "--json"]);
    assert_eq!(tasks[0]["state"], "working", "{tasks}");
    assert_eq!(scene.status()["parked"], 1);
    assert_eq!(scene.journal("begin look a").len(), 1);
    // The host comes back: the work is taken up.
    let mut second = scene.host(&["--trust-annotations"]).opened();
    scene.wait_for_journal("begin look a", 2);
    scene.open_gate("gate");
    let id = tasks[0]["id"].as_str().unwrap();
    let result = second.text("taskgate_task", json!({ "action": "wait", "taskId": id }));
    assert!(result.contains("look a by "), "{result}");
}
