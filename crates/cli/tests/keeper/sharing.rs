//! Who shares a server process, and who sees which tasks.

use serde_json::json;

use crate::scene::{Scene, until};

#[test]
fn design_4_two_hosts_at_once_share_one_process() {
    let scene = Scene::new();
    let (mut one, mut other) = (scene.host(&[]).opened(), scene.host(&[]).opened());
    let by = |text: String| text.rsplit(' ').next().unwrap().to_owned();
    assert_eq!(by(one.text("work", json!({ "text": "a" }))), by(other.text("work", json!({ "text": "b" }))));
    assert_eq!(scene.journal("start").len(), 1);
    // One goes, the other stays.
    assert_eq!(one.close(), Some(0));
    assert!(other.text("work", json!({ "text": "c" })).starts_with("work c"));
    assert_eq!(scene.journal("start").len(), 1);
}

#[test]
fn design_4_a_host_apart_has_a_process_of_its_own_and_the_same_tasks() {
    let scene = Scene::new();
    let mut one = scene.host(&[]).opened();
    let mut apart = scene.host(&["--apart"]).opened();
    one.text("work", json!({ "text": "a" }));
    apart.text("work", json!({ "text": "b" }));
    assert_eq!(scene.journal("start").len(), 2);
    let listed = apart.request("tasks/list", json!({}));
    assert_eq!(listed["result"]["tasks"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(apart.close(), Some(0));
    until("its process has ended", || (scene.count("server.py") == 1).then_some(()));
    until("it is forgotten", || (scene.status()["servers"].as_array().unwrap().len() == 1).then_some(()));
}

#[test]
fn design_4_another_environment_is_another_process_in_the_same_scope() {
    let mut scene = Scene::new();
    scene.environment.push(("TOKEN".into(), "one".into()));
    let mut one = scene.host(&[]).opened();
    scene.environment.last_mut().unwrap().1 = "another".into();
    // What names a window does not count.
    scene.environment.push(("TERM_SESSION_ID".into(), "w0t1p0".into()));
    let mut other = scene.host(&[]).opened();
    assert_eq!(one.text("environment", json!({ "text": "TOKEN" })), "one");
    assert_eq!(other.text("environment", json!({ "text": "TOKEN" })), "another");
    assert_eq!(scene.journal("start").len(), 2);
    one.text("work", json!({ "text": "a" }));
    let listed = other.text("taskgate_task", json!({ "action": "list" }));
    assert!(listed.contains("work"), "{listed}");
    scene.environment.last_mut().unwrap().1 = "w9t9p9".into();
    let _third = scene.host(&[]).opened();
    assert_eq!(scene.journal("start").len(), 2);
}

#[test]
fn r6_1_another_command_sees_nothing_of_it() {
    let scene = Scene::new();
    let mut one = scene.host(&[]).opened();
    one.text("work", json!({ "text": "a" }));
    let mut other = scene.host_of("good-too", &[]).opened();
    let listed = other.request("tasks/list", json!({}));
    assert_eq!(listed["result"]["tasks"], json!([]), "{listed}");
    // The person sees all.
    assert_eq!(scene.json(&["tasks", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn design_4_a_name_stands_for_everything_and_is_one_commands() {
    let mut scene = Scene::new();
    let mut one = scene.host(&["--name", "files"]).opened();
    scene.environment.push(("TOKEN".into(), "other".into()));
    let mut other = scene.host(&["--name", "files"]).opened();
    one.text("work", json!({ "text": "a" }));
    other.text("work", json!({ "text": "b" }));
    assert_eq!(scene.journal("start").len(), 1);
    assert_eq!(scene.status()["servers"][0]["server"], "files");
    // Another command under it is refused in words, as the answer to its first request.
    let mut third = scene.host_of("good-too", &["--name", "files"]);
    let refused = third.open();
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains("files") && said.contains("another command"), "{said}");
    // Once nobody uses it, the name is free: a person may change the command of a server.
    assert_eq!((one.close(), other.close()), (Some(0), Some(0)));
    until("the name is free", || third.open()["result"].is_object().then_some(()));
    assert_eq!(scene.journal("start").len(), 2);
}
