//! Many kills at moments that nobody chose, while several clients call.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::back::{Back, Kind, Over};
use crate::client::{Session, modern};
use crate::process::until;
use crate::scene::{Scene, mark};

/// What a client knows of one call.
struct Known {
    server: usize,
    mark: String,
    /// The task's id, if the client was given one.
    id: Option<String>,
}

/// A number below `limit` that nobody chose.
fn any(limit: u64) -> u64 {
    RandomState::new().hash_one(0) % limit
}

/// Calls as fast as it is answered, in dialect A or B, and follows every second task to its end.
fn client(
    number: usize,
    urls: &RwLock<Vec<String>>,
    sessions: &[Session],
    known: &Mutex<Vec<Known>>,
    stop: &AtomicBool,
) {
    for turn in number.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let server = turn % sessions.len();
        let mark = mark();
        let url = || urls.read().unwrap()[server].clone();
        let arguments = json!({ "seconds": f64::from(u32::try_from(any(4)).unwrap()) / 10.0, "order": mark });
        let call = json!({ "name": "charge", "arguments": arguments });
        let said = if number.is_multiple_of(2) {
            let mut call = call;
            call["task"] = json!({});
            sessions[server].ask(&url(), "tools/call", &call)
        } else {
            modern(&url(), "tools/call", &call)
        };
        let result = said.map_or(Value::Null, |said| said["result"].clone());
        let id = result["taskId"].as_str().or(result["task"]["taskId"].as_str()).map(str::to_owned);
        if id.is_none() {
            // It is being killed.
            thread::sleep(Duration::from_millis(20));
        }
        known.lock().unwrap().push(Known { server, mark, id: id.clone() });
        while let (Some(id), 0) = (&id, turn % 2) {
            let task = modern(&url(), "tasks/get", &json!({ "taskId": id }));
            let over = task.is_ok_and(|task| task["result"]["status"] != "working");
            if over || stop.load(Ordering::SeqCst) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Kills so often; `ripe` says when a life has come far enough for it.
fn storm(over: Over, kills: usize, most: u64, ripe: impl Fn(&[Known], &Scene) -> bool) {
    let backs = [Kind::Plain, Kind::A, Kind::B].map(|kind| Back { kind, over });
    let mut scene = Scene::before(&backs, "task_after = \"0s\"");
    let sessions = scene.sessions().to_vec();
    let here = |scene: &Scene| (0..backs.len()).map(|at| scene.url(at).to_owned()).collect::<Vec<_>>();
    let urls = RwLock::new(here(&scene));
    let (known, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    thread::scope(|threads| {
        for number in 0..4 {
            let (urls, sessions, known, stop) = (&urls, &sessions, &known, &stop);
            threads.spawn(move || client(number, urls, sessions, known, stop));
        }
        let stopped = Stop(&stop);
        for _ in 0..kills {
            let before = known.lock().unwrap().len();
            until("calls in this life", || ripe(&known.lock().unwrap()[before..], &scene).then_some(()));
            thread::sleep(Duration::from_millis(any(most)));
            {
                // Nobody begins a call while there is no gateway: its ports are free, and may be somebody else's next.
                let mut urls = urls.write().unwrap();
                scene.kill();
                scene.restart("task_after = \"0s\"");
                *urls = here(&scene);
            }
            let held = known.lock().unwrap();
            if let Some(newest) = held.iter().rev().find(|known| known.id.is_some()) {
                let task = read(&scene, newest);
                assert!(task["status"].is_string(), "the newest id that a client holds: {task}");
                scene.took("the newest task");
            }
        }
        // The last life is long enough for calls to end.
        let before = known.lock().unwrap().len();
        until("a call that ends well", || {
            let known = known.lock().unwrap();
            let mut held = known[before..].iter().filter(|call| call.id.is_some());
            held.any(|call| read(&scene, call)["status"] == "completed").then_some(())
        });
        drop(stopped);
    });
    let known = known.into_inner().unwrap();
    let (mut completed, mut doubtful) = (0, 0);
    for call in &known {
        let server = &scene.servers[call.server];
        let told = call.id.as_ref().map(|_| {
            until("the end of a task", || {
                let task = read(&scene, call);
                assert!(task["status"].is_string(), "every id that a client held is readable: {task}");
                (task["status"] != "working").then_some(task)
            })
        });
        let arrived = server.arrived(&call.mark);
        match told {
            Some(task) if task["status"] == "completed" => {
                completed += 1;
                assert_eq!(task["result"]["content"][0]["text"], format!("charged {}", call.mark), "{task}");
                assert_eq!(arrived, 1, "{:?}: {task}", server.back);
            }
            Some(task) => {
                doubtful += 1;
                assert_eq!(task["error"]["code"], -32603, "{:?}: {task}", server.back);
                let outcome = &task["error"]["data"]["outcome"];
                assert!(
                    outcome == "unknown" && arrived <= 1 || outcome == "not_applied" && arrived == 0,
                    "{task}"
                );
            }
            None => assert!(arrived <= 1, "{:?}: a call whose client was not answered", server.back),
        }
        assert!(server.tap.times(&call.mark) <= 1, "{:?}: sent more than once", server.back);
    }
    eprintln!("{kills} kills, {} calls: {completed} completed, {doubtful} in doubt", known.len());
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn read(scene: &Scene, call: &Known) -> Value {
    modern(scene.url(call.server), "tasks/get", &json!({ "taskId": call.id })).unwrap()["result"].clone()
}

#[test]
fn inv_11_twenty_six_kills_under_load_over_http_lose_no_task_and_send_nothing_twice() {
    storm(Over::Http, 26, 300, |calls, _| calls.iter().any(|call| call.id.is_some()));
}

#[test]
fn inv_11_five_kills_under_load_over_stdio_lose_no_task_and_send_nothing_twice() {
    // These servers start with the gateway, which takes them a while.
    storm(Over::Stdio, 5, 300, |calls, scene| {
        calls.iter().any(|call| call.id.is_some() && scene.servers[call.server].arrived(&call.mark) > 0)
    });
}
