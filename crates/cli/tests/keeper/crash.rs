//! The keeper dies in the middle, and the host notices nothing but time.

use serde_json::json;

use crate::host::text;
use crate::scene::{Scene, kill_9, until};

#[test]
fn r4_5_a_call_that_may_have_happened_is_told_as_unknown_and_not_sent_again() {
    let scene = Scene::new();
    let mut host = scene.host(&[]).opened();
    let id = host.call("work", json!({ "text": "a", "seconds": 100 }));
    scene.wait_for_journal("begin work a", 1);
    kill_9(scene.keeper_pid());
    let said = text(&host.answer(id));
    assert!(said.contains("unknown") || said.contains("may or may not"), "{said}");
    // The host was never restarted, and goes on.
    assert!(host.text("work", json!({ "text": "b" })).starts_with("work b"));
    assert_eq!(scene.journal("begin work a").len(), 1);
    assert_eq!(host.close(), Some(0));
}

#[test]
fn r4_5_a_read_only_call_is_sent_again_and_answered() {
    let scene = Scene::new();
    let mut host = scene.host(&["--trust-annotations"]).opened();
    let gate = scene.path("gate");
    let id = host.call("look", json!({ "text": "a", "gate": gate }));
    scene.wait_for_journal("begin look a", 1);
    kill_9(scene.keeper_pid());
    scene.wait_for_journal("begin look a", 2);
    scene.open_gate("gate");
    assert!(text(&host.answer(id)).starts_with("look a by "));
    assert_eq!(host.close(), Some(0));
}

#[test]
fn a_session_is_opened_again_as_it_was() {
    let scene = Scene::new();
    let mut host = scene.host(&[]).opened();
    let level = host.request("logging/setLevel", json!({ "level": "debug" }));
    assert!(level["result"].is_object(), "{level}");
    for round in 0..3 {
        kill_9(scene.keeper_pid());
        assert!(host.text("work", json!({ "text": round.to_string() })).starts_with("work"));
    }
    // Nothing of the replays reached the host.
    assert!(host.stderr().is_empty() || !host.stderr().contains("ended 5 times"), "{}", host.stderr());
    assert_eq!(host.close(), Some(0));
}

#[test]
fn a_keeper_that_dies_while_nobody_waits_is_followed_by_the_next_at_once() {
    let scene = Scene::new();
    let host = scene.host(&[]).opened();
    let before = scene.keeper_pid();
    kill_9(before);
    until("another keeper serves the host", || {
        let status = scene.status();
        (status["pid"].as_i64() != Some(before.into()) && status["hosts"][0]["client"] == "test host")
            .then_some(())
    });
    assert_eq!(host.close(), Some(0));
}

#[test]
fn a_modern_client_has_no_opening_and_is_served_on_all_the_same() {
    let scene = Scene::new();
    let mut host = scene.host(&["--trust-annotations"]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "modern", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = |text: &str, gate: Option<&str>| json!({ "name": "look", "arguments": { "text": text, "gate": gate }, "_meta": meta });
    let first = host.request("tools/call", call("a", None));
    assert!(text(&first).starts_with("look a"), "{first}");
    let gate = scene.path("gate").display().to_string();
    let id = host.ask("tools/call", call("b", Some(&gate)));
    scene.wait_for_journal("begin look b", 1);
    kill_9(scene.keeper_pid());
    scene.wait_for_journal("begin look b", 2);
    scene.open_gate("gate");
    assert!(text(&host.answer(id)).starts_with("look b"));
    assert_eq!(host.close(), Some(0));
}

#[test]
fn work_that_waits_for_its_turn_when_the_keeper_dies_is_sent_once() {
    let scene = Scene::new();
    let mut host = scene.host(&[]).opened();
    let gate = scene.path("gate");
    // As many as run at once at one server, and one more, which is recorded and not sent.
    let running: Vec<u64> = (0..64)
        .map(|number| host.call("work", json!({ "text": format!("r{number}"), "gate": gate })))
        .collect();
    scene.wait_for_journal("begin work r", running.len());
    let last = host.call("work", json!({ "text": "last" }));
    until("the last one is recorded", || (scene.status()["live"] == 65).then_some(()));
    assert!(scene.journal("begin work last").is_empty());
    kill_9(scene.keeper_pid());
    assert!(text(&host.answer(last)).starts_with("work last"));
    assert_eq!(scene.journal("begin work last").len(), 1);
    assert_eq!(scene.journal("begin work r").len(), running.len(), "those that were sent are not sent again");
    scene.open_gate("gate");
    assert_eq!(host.close(), Some(0));
}

#[test]
fn g_011_a_question_of_a_dead_keeper_is_void_and_asked_anew() {
    let scene = Scene::new();
    let mut host = scene.host(&["--trust-annotations"]);
    host.open_with(json!({ "elicitation": { "form": {} } }));
    let id = host.call("ask", json!({ "text": "a" }));
    let is_question = |message: &serde_json::Value| message["method"] == "elicitation/create";
    let first = host.wait("a question", is_question);
    kill_9(scene.keeper_pid());
    host.wait("word that it is void", |message| {
        message["method"] == "notifications/cancelled" && message["params"]["requestId"] == first["id"]
    });
    let second = host.wait("the question again", is_question);
    assert_ne!(first["id"], second["id"]);
    // A late answer to the old one goes nowhere.
    let reply = |id: &serde_json::Value, who: &str| json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept", "content": { "who": who } } });
    host.send(&reply(&first["id"], "the old one"));
    host.send(&reply(&second["id"], "the new one"));
    assert!(text(&host.answer(id)).starts_with("ask the new one"));
}
