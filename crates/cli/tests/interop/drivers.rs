//! The client drivers, one process for each client: they play many jobs at once (`tests/peers/drive NAME --batch`).

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stage::{peers, with_us};

/// What a driver says of one step.
pub(crate) type Said = Value;

type Waiting = Arc<Mutex<HashMap<String, Sender<Said>>>>;

pub(crate) struct Drivers {
    running: HashMap<&'static str, Driver>,
    jobs: AtomicU32,
}

struct Driver {
    stdin: Mutex<ChildStdin>,
    waiting: Waiting,
}

impl Drivers {
    /// Starts one process for each of these clients, with their words in `folder`.
    pub(crate) fn start(clients: impl IntoIterator<Item = &'static str>, folder: &Path) -> Drivers {
        let running = clients.into_iter().map(|name| (name, Driver::start(name, folder))).collect();
        Drivers { running, jobs: AtomicU32::new(0) }
    }

    /// Has a client play steps in one session; gives what it said of each, in their order. A step of which nothing
    /// was heard within the time is left out, and so is all that follows it.
    pub(crate) fn play(
        &self,
        client: &str,
        mut job: Value,
        steps: Vec<Value>,
        within: Duration,
    ) -> Vec<Said> {
        let driver = &self.running[client];
        let id = format!("j{}", self.jobs.fetch_add(1, Ordering::SeqCst));
        let expected = steps.len();
        job["id"] = json!(id);
        job["steps"] = Value::Array(steps);
        let (tell, told) = mpsc::channel();
        driver.waiting.lock().unwrap().insert(id.clone(), tell);
        // One that has ended hears nothing any more; then nothing comes back either.
        let _ = writeln!(driver.stdin.lock().unwrap(), "{job}");
        let said = listen(&told, expected, within);
        driver.waiting.lock().unwrap().remove(&id);
        said
    }
}

fn listen(told: &Receiver<Said>, expected: usize, within: Duration) -> Vec<Said> {
    let until = Instant::now() + within;
    let mut said = Vec::new();
    while said.len() < expected {
        match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) if line.get("left").is_some() => break,
            Ok(line) => said.push(line),
            Err(_) => break,
        }
    }
    said
}

impl Driver {
    fn start(name: &'static str, folder: &Path) -> Driver {
        let mut command = Command::new(peers().join("drive"));
        command.args([name, "--batch"]).env("PEER_JOBS", "64");
        let mut child = with_us(&command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(folder.join(format!("client-{name}.log"))).unwrap())
            .spawn()
            .unwrap();
        let stdin = Mutex::new(child.stdin.take().unwrap());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let waiting = Waiting::default();
        let answers = Arc::clone(&waiting);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
                let id = line["id"].as_str().unwrap_or_default();
                if let Some(tell) = answers.lock().unwrap().get(id) {
                    let _ = tell.send(line);
                }
            }
            // Who waits for a driver that has ended waits in vain.
            answers.lock().unwrap().clear();
            let _ = child.wait();
        });
        Driver { stdin, waiting }
    }
}
