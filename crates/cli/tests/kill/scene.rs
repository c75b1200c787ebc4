//! A gateway that is killed and started again, with a client that lives through it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::back::{Back, Server};
use crate::client::{Session, modern};
use crate::process::{spawn, until};

/// The first right read is promised within a second of a restart. This is measured from the start of the process,
/// unoptimised, on a machine that runs other tests too. Where it is so busy that the start alone takes long, it may be
/// [`STARTS_MAX`] times as much.
const RIGHT_READ_MAX: Duration = Duration::from_secs(10);
const STARTS_MAX: u32 = 5;

/// Servers over stdio are started with each gateway, several at a time, by whatever machine this is. One that is slow to
/// start is no other server for that.
const SLOW: &str = "server_open = \"4m\"\ncreate_time = \"4m\"\nserver_probe = \"3m\"\n";

/// Effects as the tests need them. What is not listed is consequential.
const POLICY: &str = "[servers.NAME.tools]\nslow_report.effect = \"read_only\"\necho.replay = \"natural\"\n\
    fail.replay = \"keyed\"\nfail.replay_window = \"1h\"\n";

pub(crate) struct Scene {
    folder: TempDir,
    pub(crate) servers: Vec<Server>,
    config: String,
    pub(crate) gateway: Gateway,
    /// One legacy session with each server, opened before the first kill and used to the end.
    sessions: Vec<Session>,
}

/// One life of the gateway.
pub(crate) struct Gateway {
    child: Child,
    born: Instant,
    /// From its birth until it listened.
    started_within: Duration,
    /// Where each server answers.
    pub(crate) urls: BTreeMap<String, String>,
}

/// A word that tells one call from all others.
pub(crate) fn mark() -> String {
    static MARKS: AtomicU32 = AtomicU32::new(0);
    format!("m{}x{}x", std::process::id(), MARKS.fetch_add(1, Ordering::SeqCst))
}

impl Scene {
    /// A gateway with these limits before one back.
    pub(crate) fn set(back: Back, limits: &str) -> Scene {
        Scene::before(&[back], limits)
    }

    pub(crate) fn before(backs: &[Back], limits: &str) -> Scene {
        let folder = TempDir::new().unwrap();
        let mut config = String::from("[listen]\naddress = \"127.0.0.1:0\"\n");
        let store = folder.path().join("tasks.db");
        config.push_str(&format!("[store]\npath = {:?}\n[limits]\n{SLOW}LIMITS\n", store.to_str().unwrap()));
        let mut servers = Vec::new();
        for back in backs {
            let (reached, server) = back.server(folder.path());
            config.push_str(&format!(
                "[servers.{}]\n{reached}{}",
                back.name(),
                POLICY.replace("NAME", back.name())
            ));
            servers.push(server);
        }
        let gateway = Gateway::start(&folder, &config, limits);
        let mut scene = Scene { folder, servers, config, gateway, sessions: Vec::new() };
        for at in 0..scene.servers.len() {
            scene.sessions.push(Session::open(scene.url(at)).unwrap());
            // From here on the gateway's session with the server is open, and its tools are known.
            let mark = mark();
            let warm = json!({ "name": "echo", "arguments": { "text": mark }, "task": {} });
            let said = scene.sessions[at].ask(scene.url(at), "tools/call", &warm).unwrap();
            let task = json!({ "taskId": said["result"]["task"]["taskId"] });
            let said = scene.sessions[at].ask(scene.url(at), "tasks/result", &task).unwrap();
            assert_eq!(said["result"]["content"][0]["text"], mark, "{said}");
        }
        scene
    }

    pub(crate) fn url(&self, at: usize) -> &str {
        &self.gateway.urls[self.servers[at].back.name()]
    }

    /// The back, where there is only one.
    pub(crate) fn server(&self) -> &Server {
        &self.servers[0]
    }

    pub(crate) fn session(&self) -> &Session {
        &self.sessions[0]
    }

    /// The sessions, server by server.
    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// Kills the gateway, and has what was on the lines to the servers lost.
    pub(crate) fn kill(&mut self) {
        self.gateway.kill();
        for server in &self.servers {
            server.tap.cut();
        }
    }

    pub(crate) fn restart(&mut self, limits: &str) {
        self.gateway = Gateway::start(&self.folder, &self.config, limits);
    }

    /// The kill, and the life after it.
    pub(crate) fn crash(&mut self) {
        self.kill();
        self.restart("");
    }

    /// What dialect A says.
    pub(crate) fn a(&self, method: &str, params: Value) -> Value {
        self.session().ask(self.url(0), method, &params).unwrap()
    }

    /// What dialect B says.
    pub(crate) fn b(&self, method: &str, params: Value) -> Value {
        modern(self.url(0), method, &params).unwrap()
    }

    /// Calls a tool as a task in dialect A. Its id is on disk when this returns.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> String {
        self.keyed(tool, arguments, json!({}))
    }

    /// The same with `_meta`.
    pub(crate) fn keyed(&self, tool: &str, arguments: Value, meta: Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments, "task": {}, "_meta": meta });
        let said = self.a("tools/call", params);
        said["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    pub(crate) fn charge(&self, seconds: f64, mark: &str) -> String {
        self.call("charge", json!({ "seconds": seconds, "order": mark }))
    }

    /// Where the task stands, which both dialects tell alike, but for a tool that answered with an error: that is
    /// `failed` in dialect A and is `completed` in dialect B; and the task in dialect B.
    ///
    /// These are three reads and not one moment, and a task may move more than once meanwhile. What is compared is what
    /// was read while it did not move.
    pub(crate) fn read(&self, id: &str) -> (String, Value) {
        let of_a = || self.a("tasks/get", json!({ "taskId": id }))["result"].clone();
        let (a, task) = until("a task that stays as it is for three reads", || {
            let before = of_a();
            let task = self.b("tasks/get", json!({ "taskId": id }))["result"].clone();
            (before == of_a()).then_some((before, task))
        });
        let status = task["status"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
        let expected = if task["result"]["isError"] == true { "failed" } else { &status };
        assert_eq!(a["status"], expected, "A says {a}, B says {task}");
        assert_eq!(a["lastUpdatedAt"], task["lastUpdatedAt"], "A says {a}, B says {task}");
        (status, task)
    }

    pub(crate) fn until_over(&self, id: &str) -> (String, Value) {
        until("the end of a task", || {
            let (status, task) = self.read(id);
            (status != "working" && status != "input_required").then_some((status, task))
        })
    }

    /// It ends well, with this text, in both dialects.
    pub(crate) fn completes(&self, id: &str, text: &str) {
        let (status, task) = self.until_over(id);
        assert_eq!(status, "completed", "{task}");
        assert_eq!(task["result"]["content"][0]["text"], text, "{task}");
        let result = self.a("tasks/result", json!({ "taskId": id }));
        assert_eq!(result["result"]["content"][0]["text"], text, "{result}");
    }

    /// The first read says that nobody knows, in both dialects.
    pub(crate) fn is_unknown(&self, id: &str) {
        self.has_failed(id, "unknown");
    }

    pub(crate) fn has_failed(&self, id: &str, outcome: &str) {
        let (status, task) = self.read(id);
        self.took(outcome);
        assert_eq!(status, "failed", "{task}");
        for error in [&task["error"], &self.a("tasks/result", json!({ "taskId": id }))["error"]] {
            assert_eq!(error["code"], -32603, "{error}");
            assert_eq!(error["data"]["outcome"], outcome, "{error}");
        }
    }

    /// The first right read was just made.
    pub(crate) fn took(&self, what: &str) {
        let took = self.gateway.born.elapsed();
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        eprintln!("first right read ({what}) {} ms after the restart: {test}", took.as_millis());
        let may_take = RIGHT_READ_MAX.max(self.gateway.started_within * STARTS_MAX);
        assert!(
            took < may_take,
            "the first right read took {took:?}, and the start {:?}",
            self.gateway.started_within
        );
    }

    /// Until the gateway follows a task that the server made, and so knows its id.
    pub(crate) fn until_followed(&self) -> String {
        until("a task of the server is followed", || self.server().tap.asked_about().first().cloned())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!("--- what the gateway said\n{log}---");
        }
    }
}

impl Gateway {
    fn start(folder: &TempDir, config: &str, limits: &str) -> Gateway {
        let at = |name: &str| folder.path().join(name);
        fs::write(at("taskgate.toml"), config.replace("LIMITS", limits)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(["serve", "--json", "--config"]).arg(at("taskgate.toml")).env("NO_COLOR", "1");
        let born = Instant::now();
        let mut child = spawn(&command, &at("log"));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut urls = BTreeMap::new();
        while urls.len() < config.matches("[servers.").count() / 2 {
            let Some(Ok(line)) = lines.next() else {
                panic!("it did not start:\n{}", fs::read_to_string(at("log")).unwrap())
            };
            let line: Value = serde_json::from_str(&line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            urls.insert(text("server"), text("url"));
        }
        Gateway { child, born, started_within: born.elapsed(), urls }
    }

    /// Stops it. Once this returns, none of its threads runs.
    pub(crate) fn stop(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGSTOP).unwrap();
        let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGSTOP));
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
