//! The six kinds of back: real peers, over HTTP as processes of their own and over stdio as the gateway's children.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{spawn, until};
use crate::tap::Tap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Plain,
    A,
    B,
    /// Dialect A, by our own demo server: one that asks an open question again, as python_a does not.
    DemoA,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    Http,
    Stdio,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Back {
    pub(crate) kind: Kind,
    pub(crate) over: Over,
}

/// A server and the line to it.
pub(crate) struct Server {
    pub(crate) back: Back,
    pub(crate) tap: Tap,
    journal: PathBuf,
}

/// A server over HTTP that all tests share.
struct Peer {
    port: u16,
    journal: PathBuf,
    _process: Child,
}

impl Back {
    /// Whether work that a server of this kind has made a task of goes on when the gateway dies.
    pub(crate) fn keeps_its_task(self) -> bool {
        self.over == Over::Http && self.kind != Kind::Plain
    }

    pub(crate) fn name(self) -> &'static str {
        match self.kind {
            Kind::Plain => "python_plain",
            Kind::A => "python_a",
            Kind::B => "fastmcp_b",
            Kind::DemoA => "demo",
        }
    }

    /// The line to a server of this kind, and how the configuration says so.
    pub(crate) fn server(self, folder: &Path) -> (String, Server) {
        let (config, tap, journal) = match self.over {
            Over::Http => {
                let peer = self.peer();
                let tap = Tap::socket(peer.port);
                let Tap::Socket { port, .. } = &tap else { unreachable!() };
                (format!("url = \"http://127.0.0.1:{port}/mcp\"\n"), tap, peer.journal.clone())
            }
            Over::Stdio => {
                let (config, tap) = Tap::pipe(folder, self.name(), &serve());
                let journal = folder.join(format!("{}.journal", self.name()));
                (
                    format!("{config}env = {{ PEER_JOURNAL = {:?} }}\n", journal.to_str().unwrap()),
                    tap,
                    journal,
                )
            }
        };
        (config, Server { back: self, tap, journal })
    }

    fn peer(self) -> &'static Peer {
        static PEERS: [OnceLock<Peer>; 4] = [const { OnceLock::new() }; 4];
        let at = match self.kind {
            Kind::Plain => 0,
            Kind::A => 1,
            Kind::B => 2,
            Kind::DemoA => 3,
        };
        PEERS[at].get_or_init(|| Peer::start(self))
    }
}

fn serve() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/serve").canonicalize().unwrap()
}

impl Peer {
    fn start(back: Back) -> Peer {
        // What is static is never dropped, so it lies where cargo cleans up.
        static FOLDER: OnceLock<TempDir> = OnceLock::new();
        let folder = FOLDER.get_or_init(|| TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()).path();
        let name = back.name();
        let journal = folder.join(format!("{name}.journal"));
        let log = folder.join(format!("{name}.log"));
        let command = if back.kind == Kind::DemoA {
            let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
            command.args(["demo-server", "--dialect", "a", "--journal"]).arg(&journal);
            command
        } else {
            let mut command = Command::new(serve());
            command.args([name, "--http", "0"]).env("PEER_JOURNAL", &journal);
            command
        };
        let mut child = spawn(&command, &log);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| port_in(&line));
        let port = port.unwrap_or_else(|| panic!("{name}: {}", fs::read_to_string(&log).unwrap()));
        // A pipe that nobody reads any more would stop it.
        thread::spawn(move || lines.for_each(drop));
        Peer { port, journal, _process: child }
    }
}

/// The port in what a server says once it listens.
fn port_in(line: &str) -> Option<u16> {
    let after = line.strip_prefix("ready ").or_else(|| Some(line.split_once("127.0.0.1:")?.1))?;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Server {
    /// How often the server wrote `phase` of the call that `mark` stands in.
    pub(crate) fn noted(&self, phase: &str, mark: &str) -> usize {
        let text = fs::read_to_string(&self.journal).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_phase = |line: &Value| match line["stage"].as_str() {
            Some(stage) => (stage == "begun") == (phase == "start"),
            None => line["phase"] == phase,
        };
        lines.filter(|line| is_phase(line) && names(line, mark)).count()
    }

    /// How often the call that `mark` stands in arrived.
    pub(crate) fn arrived(&self, mark: &str) -> usize {
        self.noted("start", mark)
    }

    pub(crate) fn until_noted(&self, phase: &str, mark: &str) {
        until(&format!("{phase} of {mark} at {:?}", self.back), || {
            (self.noted(phase, mark) > 0).then_some(())
        });
    }
}

fn names(line: &Value, mark: &str) -> bool {
    line["key"] == mark
        || line["args"].as_object().is_some_and(|args| args.values().any(|value| value == mark))
}
