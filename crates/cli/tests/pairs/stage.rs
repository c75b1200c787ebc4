//! The servers that ask, and a gateway before them that can be killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

/// How long anything may take on a machine that has other things to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// How a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Back {
    A,
    B,
    Plain,
    Rounds,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    Http,
    Stdio,
}

impl Back {
    pub(crate) const ALL: [Back; 4] = [Back::A, Back::B, Back::Plain, Back::Rounds];

    /// As `asker.py` calls it, and the configuration.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Back::A => "a",
            Back::B => "b",
            Back::Plain => "plain",
            Back::Rounds => "rounds",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Back::A => "A",
            Back::B => "B",
            Back::Plain => "plain",
            Back::Rounds => "plain, 2026-07-28",
        }
    }
}

pub(crate) fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pairs/asker.py")
}

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One gateway, and the servers that it is before.
pub(crate) struct Stage {
    folder: TempDir,
    config: String,
    _servers: Vec<Ends>,
    ports: BTreeMap<Back, u16>,
    gateway: Option<Ends>,
    urls: BTreeMap<String, String>,
}

/// Something that happened to a call at the server.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) what: String,
    pub(crate) raw: String,
}

impl Stage {
    /// One for all tests that need no other.
    pub(crate) fn shared() -> &'static Stage {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(|| Stage::set(""))
    }

    /// With these limits, before servers over HTTP and over stdio, which the configuration calls `a` and `a_pipe`.
    pub(crate) fn set(limits: &str) -> Stage {
        let folder = TempDir::new().unwrap();
        let journal = folder.path().join("journal");
        fs::write(&journal, "").unwrap();
        let mut config = format!(
            // A client without tasks is asked on its call for as long as that takes, and never given a handle.
            "[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = {:?}\n[limits]\ntask_after = \"0s\"\n\
             sync_budget = \"15m\"\npoll_floor = \"50ms\"\npoll_ceiling = \"100ms\"\n{limits}\n",
            folder.path().join("tasks.db").to_str().unwrap()
        );
        let mut servers = Vec::new();
        let mut ports = BTreeMap::new();
        for back in Back::ALL {
            let mut command = Command::new("python3");
            command.arg(script()).args([back.key(), "--http"]).env("ASKER_JOURNAL", &journal);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let port = line.trim().strip_prefix("ready ").unwrap().parse().unwrap();
            servers.push(Ends(child));
            ports.insert(back, port);
            let key = back.key();
            config.push_str(&format!(
                "[servers.{key}]\nurl = \"http://127.0.0.1:{port}/mcp\"\n[servers.{key}.tools.again]\n\
                 effect = \"read_only\"\n[servers.{key}_pipe]\ncommand = \"python3\"\nargs = [{:?}, {key:?}]\n\
                 env = {{ ASKER_JOURNAL = {:?} }}\n",
                script().to_str().unwrap(),
                journal.to_str().unwrap()
            ));
        }
        let mut stage =
            Stage { folder, config, _servers: servers, ports, gateway: None, urls: BTreeMap::new() };
        stage.start();
        stage
    }

    fn start(&mut self) {
        let at = |name: &str| self.folder.path().join(name);
        fs::write(at("taskgate.toml"), &self.config).unwrap();
        let log = fs::File::options().create(true).append(true).open(at("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(["serve", "--json", "--until-stdin-ends", "--config"]).arg(at("taskgate.toml"));
        command.env("NO_COLOR", "1").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        self.urls.clear();
        while self.urls.len() < 2 * Back::ALL.len() {
            let Some(Ok(line)) = lines.next() else {
                panic!("it did not start:\n{}", fs::read_to_string(at("log")).unwrap())
            };
            let line: Value = serde_json::from_str(&line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            self.urls.insert(text("server"), text("url"));
        }
        thread::spawn(move || lines.for_each(drop));
        self.gateway = Some(Ends(child));
    }

    /// `kill -9`, and the next life.
    pub(crate) fn crash(&mut self) {
        self.gateway = None;
        self.start();
    }

    pub(crate) fn url(&self, back: Back, over: Over) -> &str {
        match over {
            Over::Http => &self.urls[back.key()],
            Over::Stdio => &self.urls[&format!("{}_pipe", back.key())],
        }
    }

    /// Where the server itself listens.
    pub(crate) fn port(&self, back: Back) -> u16 {
        self.ports[&back]
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// What happened to the call that `mark` names.
    pub(crate) fn happened(&self, mark: &str) -> Vec<Event> {
        let text = fs::read_to_string(self.journal()).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        lines
            .filter(|line| line["mark"] == mark)
            .map(|line| Event { what: text(&line["event"]), raw: text(&line["raw"]) })
            .collect()
    }

    pub(crate) fn times(&self, mark: &str, what: &str) -> usize {
        self.happened(mark).iter().filter(|event| event.what == what).count()
    }

    /// Waits until that happened.
    pub(crate) async fn until(&self, mark: &str, whats: &[&str]) -> Event {
        until(&format!("{whats:?} of {mark}: {:?}", self.happened(mark)), || {
            self.happened(mark).into_iter().find(|event| whats.contains(&&*event.what))
        })
        .await
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!("--- what the gateway said\n{log}---");
        }
    }
}

/// Looks until there is something to be seen.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A word that tells one call from all others.
pub(crate) fn mark() -> String {
    static MARKS: AtomicU32 = AtomicU32::new(0);
    format!("m{}x", MARKS.fetch_add(1, Ordering::SeqCst))
}

/// A runtime for one test.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(600), test).await.expect("nothing hangs");
    });
    runtime.shutdown_background();
}
