//! The rows of the crash table, each for any back.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};

use crate::back::{Back, Kind, Over};
use crate::client::KEY;
use crate::process::until;
use crate::scene::{Scene, mark};

/// Seconds of work that does not end by itself while a test runs.
const LONG: f64 = 600.0;

/// Nothing was written: the client saw an error, and the same key is safe to send.
pub(crate) fn nothing_written(back: Back) {
    let (mut scene, mark) = (Scene::set(back, ""), mark());
    let call = json!({
        "name": "charge", "arguments": { "seconds": 0.1, "order": mark }, "task": {}, "_meta": { KEY: mark },
    });
    scene.gateway.stop();
    let sent = scene.session().send(scene.url(0), "tools/call", &call).unwrap();
    scene.kill();
    assert!(sent.answer().is_err(), "the client saw its connection end");
    scene.restart("");
    let send = || scene.keyed("charge", call["arguments"].clone(), json!({ KEY: mark }));
    let id = send();
    scene.completes(&id, &format!("charged {mark}"));
    assert_eq!(send(), id, "the same key is the same call");
    assert_eq!(scene.server().arrived(&mark), 1);
}

/// A gateway that runs one call at a time: the first was sent, the second waits and its client has its id.
fn queued(back: Back) -> (Scene, [(String, String); 2]) {
    let scene = Scene::set(back, "running = 1");
    let marks = [mark(), mark()];
    scene.server().tap.hold_answers();
    let first = scene.charge(LONG, &marks[0]);
    scene.server().until_noted("start", &marks[0]);
    let second = scene.charge(0.1, &marks[1]);
    assert_eq!(scene.read(&second).0, "working");
    let [one, two] = marks;
    (scene, [(first, one), (second, two)])
}

/// Prepared: never sent, so it is sent now.
pub(crate) fn prepared(back: Back) {
    let (mut scene, [(first, one), (second, two)]) = queued(back);
    assert_eq!(scene.server().tap.times(&two), 0, "it waits for its turn");
    scene.crash();
    scene.is_unknown(&first);
    scene.completes(&second, &format!("charged {two}"));
    assert_eq!(scene.server().arrived(&two), 1);
    assert_eq!(scene.server().arrived(&one), 1);
    assert_eq!(scene.server().tap.times(&one), 1, "what was sent was not sent again");
}

/// Prepared, and too late to begin: failed, and certain not to have happened.
pub(crate) fn prepared_too_late(back: Back) {
    let (mut scene, [_, (second, two)]) = queued(back);
    scene.kill();
    scene.restart("start_by = \"1ms\"");
    scene.has_failed(&second, "not_applied");
    assert_eq!(scene.server().tap.times(&two), 0, "it was never sent");
    assert_eq!(scene.server().arrived(&two), 0);
}

/// Dispatched and nothing heard: nobody knows.
pub(crate) fn dispatched(back: Back) {
    let (mut scene, mark) = (Scene::set(back, ""), mark());
    scene.server().tap.hold_answers();
    let id = scene.charge(0.5, &mark);
    scene.server().until_noted("start", &mark);
    scene.crash();
    scene.is_unknown(&id);
    if back.over == Over::Http && back.kind != Kind::Plain {
        // The server is alive and goes on; what it does now is nobody's business any more.
        scene.server().until_noted("end", &mark);
    }
    scene.is_unknown(&id);
    assert_eq!(scene.server().arrived(&mark), 1);
    assert_eq!(scene.server().tap.times(&mark), 1);
}

/// Dispatched and nothing heard, of calls that may be repeated: sent again, under the same key.
pub(crate) fn dispatched_repeatable(back: Back) {
    let mut scene = Scene::set(back, "");
    let (read, natural, keyed, key) = (mark(), mark(), mark(), mark());
    scene.server().tap.hold_answers();
    let read_id = scene.call("slow_report", json!({ "seconds": 0.5, "label": read }));
    let natural_id = scene.call("echo", json!({ "text": natural }));
    let keyed_id = scene.keyed("fail", json!({ "message": keyed }), json!({ KEY: key }));
    for mark in [&read, &natural, &keyed] {
        scene.server().until_noted("start", mark);
    }
    assert_eq!(scene.server().tap.times(&key), 1, "the server is shown the key");
    scene.crash();
    for id in [&read_id, &natural_id, &keyed_id] {
        assert_ne!(scene.read(id).0, "input_required");
    }
    scene.took("sent again");
    scene.completes(&read_id, &format!("report {read} ready"));
    scene.completes(&natural_id, &natural);
    let result = scene.a("tasks/result", json!({ "taskId": keyed_id }));
    assert_eq!(result["result"]["isError"], true, "{result}");
    assert!(result["result"]["content"][0]["text"].as_str().unwrap().ends_with(&keyed), "{result}");
    for mark in [&read, &natural, &keyed] {
        assert_eq!(scene.server().arrived(mark), 2);
    }
    assert_eq!(scene.server().tap.times(&key), 2, "the second time under the same key");
}

/// A task of the server is known: it is followed again where the server lives, and else nobody knows.
pub(crate) fn followed(back: Back) {
    let (mut scene, mark) = (Scene::set(back, ""), mark());
    let id = scene.charge(2.0, &mark);
    let upstream = scene.until_followed();
    scene.server().until_noted("start", &mark);
    scene.kill();
    if back.keeps_its_task() {
        // However soon the work ends, the gateway has not heard of it when it is asked.
        scene.server().tap.hold_answers();
    }
    scene.restart("");
    if back.keeps_its_task() {
        let (status, task) = scene.read(&id);
        scene.took("followed again");
        assert_eq!(status, "working", "{task}");
        scene.server().tap.let_answers_pass();
        scene.completes(&id, &format!("charged {mark}"));
    } else {
        scene.is_unknown(&id);
    }
    assert_eq!(scene.server().arrived(&mark), 1);
    assert_eq!(scene.server().tap.times(&mark), 1);
    assert_eq!(
        scene.server().tap.asked_about(),
        BTreeSet::from([upstream]),
        "one task of the server, before and after"
    );
}

/// Many tasks of one server are followed again, in the session with it that made them, and each gets its own result.
pub(crate) fn followed_many(back: Back) {
    let mut scene = Scene::set(back, "");
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let mark = mark();
            (scene.charge(4.0, &mark), mark)
        })
        .collect();
    until("all are followed", || (scene.server().tap.asked_about().len() == calls.len()).then_some(()));
    scene.crash();
    for (id, mark) in &calls {
        scene.completes(id, &format!("charged {mark}"));
        assert_eq!(scene.server().arrived(mark), 1);
    }
    // A server may still be at a request of the life before, and answer it to whoever shows the same id.
    let ids = scene.server().tap.request_ids();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "no id is used twice: {ids:?}");
}

/// A plain client holds a handle, and follows it with the tool `taskgate_task` as before.
pub(crate) fn handle(back: Back) {
    let (mut scene, mark) = (Scene::set(back, "sync_budget = \"100ms\""), mark());
    scene.server().tap.hold_answers();
    let call = json!({ "name": "charge", "arguments": { "seconds": 2.0, "order": mark } });
    let said = scene.a("tools/call", call);
    let id = said["result"]["structuredContent"]["taskgate"]["taskId"].as_str().unwrap().to_owned();
    scene.server().until_noted("start", &mark);
    if back.keeps_its_task() {
        scene.server().tap.let_answers_pass();
        scene.until_followed();
    }
    scene.crash();
    let wait = json!({ "name": "taskgate_task", "arguments": { "action": "wait", "taskId": id } });
    let said = scene.a("tools/call", wait);
    if back.keeps_its_task() {
        assert_eq!(said["result"]["content"][0]["text"], format!("charged {mark}"), "{said}");
    } else {
        assert!(said.to_string().contains("outcome is unknown"), "{said}");
        scene.is_unknown(&id);
    }
    assert_eq!(scene.server().arrived(&mark), 1);
    assert_eq!(scene.server().tap.times(&mark), 1);
}

/// The result is on disk and its client was not told: the client asks, and gets it.
pub(crate) fn ended(back: Back) {
    let (mut scene, mark) = (Scene::set(back, ""), mark());
    let id = scene.charge(0.1, &mark);
    // Another client of the same principal looks; the one that called is away.
    until("the result is on disk", || {
        let task = scene.b("tasks/get", json!({ "taskId": id }))["result"].clone();
        (task["status"] == "completed").then_some(())
    });
    scene.crash();
    let result = scene.a("tasks/result", json!({ "taskId": id }));
    scene.took("the result");
    assert_eq!(result["result"]["content"][0]["text"], format!("charged {mark}"), "{result}");
    scene.completes(&id, &format!("charged {mark}"));
    assert_eq!(scene.server().arrived(&mark), 1);
}

/// The work ends while its client waits for the result, and the gateway dies in that moment.
pub(crate) fn ended_while_waited_for(back: Back) {
    let (mut scene, mark) = (Scene::set(back, ""), mark());
    let id = scene.charge(0.5, &mark);
    let held = scene.session().send(scene.url(0), "tasks/result", &json!({ "taskId": id })).unwrap();
    let waiting = thread::spawn(move || held.answer().ok());
    scene.server().until_noted("end", &mark);
    scene.crash();
    let told = waiting.join().unwrap();
    let (status, task) = scene.until_over(&id);
    scene.took("the result");
    if status == "completed" {
        scene.completes(&id, &format!("charged {mark}"));
    } else {
        // The answer was on its way here, and only a task of a server that lives can be asked once more.
        assert!(!back.keeps_its_task(), "{task}");
        assert_eq!(told, None, "what a client was told stays true");
        scene.is_unknown(&id);
    }
    assert_eq!(scene.server().arrived(&mark), 1);
    assert_eq!(scene.server().tap.times(&mark), 1);
}

fn asked(task: &Value) -> Option<String> {
    task["inputRequests"].as_object()?.keys().next().cloned()
}

/// A call that asks, and the key that its question has.
fn asking(back: Back) -> (Scene, String, String, String) {
    let (scene, mark) = (Scene::set(back, ""), mark());
    let (tool, arguments) = match back.kind {
        Kind::DemoA => ("deploy", json!({ "version": mark })),
        Kind::Plain | Kind::A | Kind::B => ("confirm_deploy", json!({ "target": mark })),
    };
    let id = scene.call(tool, arguments);
    let key = until("a question", || asked(&scene.read(&id).1));
    assert_eq!(scene.read(&id).0, "input_required");
    (scene, id, mark, key)
}

/// A question is open: it is asked again under a new key where the server lives, and else nobody knows.
pub(crate) fn waiting_for_input(back: Back) {
    let (mut scene, id, mark, before) = asking(back);
    scene.crash();
    if back.keeps_its_task() {
        let (status, task) = scene.read(&id);
        scene.took("asked again");
        assert!(status == "working" || status == "input_required", "{task}");
        let after = until("the question again", || asked(&scene.read(&id).1).filter(|key| *key != before));
        let answer = json!({ "action": "accept", "content": { "approve": true } });
        let late = json!({ "taskId": id, "inputResponses": { before: { "action": "decline" } } });
        scene.b("tasks/update", late);
        scene.b("tasks/update", json!({ "taskId": id, "inputResponses": { after: answer } }));
        let (status, task) = scene.until_over(&id);
        assert_eq!(status, "completed", "{task}");
        let text = task["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&mark) && !text.contains("not deployed"), "{task}");
    } else {
        scene.is_unknown(&id);
    }
    assert_eq!(scene.server().arrived(&mark), 1);
}

/// A question is open at a server that asks each question once, on a connection that is gone now. Nothing is lost, sent
/// again or made up: the task stays open, and can be cancelled.
pub(crate) fn waiting_for_input_that_is_not_asked_again(back: Back) {
    let (mut scene, id, mark, _) = asking(back);
    let attended = scene.server().tap.times("tasks/result");
    scene.crash();
    until("tasks/result again", || (scene.server().tap.times("tasks/result") > attended).then_some(()));
    let (status, task) = scene.read(&id);
    assert!(status == "working" || status == "input_required", "{task}");
    let said = scene.a("tasks/cancel", json!({ "taskId": id }));
    assert_eq!(said["result"]["status"], "cancelled", "{said}");
    is_passed_on(&scene, back, &mark);
}

/// Cancelling was asked for, and the server has not heard of it.
fn cancelling(back: Back, cancel: impl FnOnce(&Scene, &str)) -> (Scene, String, String) {
    let (mut scene, mark) = (Scene::set(back, ""), mark());
    let id = scene.charge(LONG, &mark);
    if back.kind != Kind::Plain {
        scene.until_followed();
    }
    scene.server().until_noted("start", &mark);
    if back.over == Over::Http {
        scene.server().tap.hold_requests();
    } else {
        // It hears of it, and what it says of it is lost.
        scene.server().tap.hold_answers();
    }
    cancel(&scene, &id);
    if back.keeps_its_task() {
        assert_eq!(scene.server().tap.times("tasks/cancel"), 0, "it was held back");
    }
    scene.crash();
    (scene, id, mark)
}

fn is_passed_on(scene: &Scene, back: Back, mark: &str) {
    if back.keeps_its_task() {
        scene.server().until_noted("cancelled", mark);
    }
    assert_eq!(scene.server().arrived(mark), 1);
    assert_eq!(scene.server().tap.times(mark), 1);
}

/// Nobody knows, unless the gateway still saw to it that the call was stopped: a modern server over HTTP is told by the
/// end of its stream, which may be done before the kill comes.
fn is_unknown_or_was_stopped(scene: &Scene, back: Back, id: &str) {
    if back.over == Over::Http && scene.read(id).0 == "cancelled" {
        scene.took("cancelled");
    } else {
        scene.is_unknown(id);
    }
}

/// Cancelling was asked for in dialect B, where it is a wish: passed on, and the work's own end counts.
pub(crate) fn cancel_wished(back: Back) {
    let (scene, id, mark) = cancelling(back, |scene, id| {
        let said = scene.b("tasks/cancel", json!({ "taskId": id }));
        assert_eq!(said["result"]["resultType"], "complete", "{said}");
    });
    if back.keeps_its_task() {
        scene.read(&id);
        scene.took("cancelling");
        let (status, task) = scene.until_over(&id);
        assert_eq!(status, "cancelled", "{task}");
    } else {
        is_unknown_or_was_stopped(&scene, back, &id);
    }
    is_passed_on(&scene, back, &mark);
}

/// Cancelling was asked for in dialect A, where it is a promise: it stays cancelled, and is passed on all the same.
pub(crate) fn cancel_promised(back: Back) {
    let (scene, id, mark) = cancelling(back, |scene, id| {
        let said = scene.a("tasks/cancel", json!({ "taskId": id }));
        assert_eq!(said["result"]["status"], "cancelled", "{said}");
    });
    assert_eq!(scene.read(&id).0, "cancelled");
    scene.took("cancelled");
    is_passed_on(&scene, back, &mark);
    assert_eq!(scene.read(&id).0, "cancelled");
}

/// A call that may be repeated is not sent again once its client wants it stopped.
pub(crate) fn cancel_wished_repeatable(back: Back) {
    let (mut scene, mark) = (Scene::set(back, ""), mark());
    scene.server().tap.hold_answers();
    let id = scene.call("echo", json!({ "text": mark }));
    scene.server().until_noted("start", &mark);
    scene.b("tasks/cancel", json!({ "taskId": id }));
    scene.crash();
    is_unknown_or_was_stopped(&scene, back, &id);
    assert_eq!(scene.server().arrived(&mark), 1);
    assert_eq!(scene.server().tap.times(&mark), 1);
}
