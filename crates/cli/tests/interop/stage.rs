//! One gateway, and the servers behind it over HTTP and over stdio.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cast::{Kind, Server, Via};

/// How long a journal may take to show what is in it already: it is written by another process.
const JOURNAL: Duration = Duration::from_secs(5);

pub(crate) struct Stage {
    folder: TempDir,
    gateway: String,
}

/// Sets it for these servers. Its processes end with this one.
pub(crate) fn set(servers: Vec<&'static Server>) -> Stage {
    let (set, is_set) = mpsc::channel();
    // The parent whose death ends the processes is the thread that started them, and a test's thread dies with the
    // test.
    thread::spawn(move || {
        let _ = set.send(Stage::set(&servers));
        loop {
            thread::park();
        }
    });
    is_set.recv().expect("the stage is set")
}

pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers").canonicalize().unwrap()
}

/// Starts a process that ends when this one does, and gives the first line of its stdout that `pick` takes.
fn start<T>(command: &Command, log: &Path, pick: impl Fn(&str) -> Option<T>) -> T {
    let mut child = with_us(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(log).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let found = lines.by_ref().map_while(Result::ok).find_map(|line| pick(&line));
    let Some(found) = found else {
        let _ = child.wait();
        panic!("{command:?} ended before it was ready:\n{}", fs::read_to_string(log).unwrap());
    };
    // A pipe that nobody reads any more would stop it.
    thread::spawn(move || lines.for_each(drop));
    found
}

/// Has the kernel's own tool end the process with ours, however ours ends: these tests have no end of their own.
pub(crate) fn with_us(command: &Command) -> Command {
    let mut guarded = Command::new("setpriv");
    guarded.args(["--pdeathsig", "TERM"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(name, value),
            None => guarded.env_remove(name),
        };
    }
    guarded
}

impl Stage {
    fn set(servers: &[&'static Server]) -> Stage {
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        let serve = peers().join("serve");
        let mut config = format!(
            // Short, so that a client without tasks meets a handle, and few pages of a long result.
            "[limits]\nsync_budget = \"1s\"\ntask_after = \"500ms\"\npage_text = \"256KiB\"\n\
             [listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = {:?}\n",
            at("tasks.db").to_str().unwrap()
        );
        for server in servers {
            let name = server.name;
            let journal = at(&format!("{name}.journal"));
            let mut command = Command::new(&serve);
            command.args([name, "--http", "0"]).env("PEER_JOURNAL", &journal);
            let port: u16 = start(&command, &at(&format!("{name}.log")), |line| {
                line.strip_prefix("ready ").and_then(|port| port.trim().parse().ok())
            });
            config.push_str(&format!("[servers.{name}]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"));
            if server.speaks_over(Via::Stdio) {
                // Nothing asks over this one but server-everything; so one process serves all who come.
                let shared = server.kind != Kind::Everything;
                config.push_str(&format!(
                    "[servers.{name}-stdio]\ncommand = {:?}\nargs = [{name:?}]\nshared = {shared}\n\
                     env = {{ PEER_JOURNAL = {:?} }}\n",
                    serve.to_str().unwrap(),
                    journal.to_str().unwrap(),
                ));
            }
        }
        fs::write(at("taskgate.toml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(["serve", "--json", "--config"]).arg(at("taskgate.toml"));
        let gateway = start(&command, &at("gateway.log"), |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let url = line.get("url")?.as_str()?.to_owned();
            let root = url.strip_prefix("http://")?.split('/').next()?.to_owned();
            Some(format!("http://{root}"))
        });
        Stage { folder, gateway }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder with all logs, for a person to look at.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    /// A job for a driver: the gateway's endpoint that leads to the server over `behind`.
    pub(crate) fn over_http(&self, server: &Server, behind: Via) -> Value {
        let stdio = if behind == Via::Stdio { "-stdio" } else { "" };
        json!({ "http": format!("{}/{}{stdio}/mcp", self.gateway, server.name) })
    }

    /// A job for a driver: a gateway of its own in the place of the server's command.
    pub(crate) fn over_stdio(&self, server: &Server) -> Value {
        let serve = peers().join("serve");
        let taskgate = env!("CARGO_BIN_EXE_taskgate");
        json!({
            "command": [taskgate, "run", "--foreground", "--ephemeral", "--", serve, server.name],
            "env": { "PEER_JOURNAL": self.journal(server) },
        })
    }

    fn journal(&self, server: &Server) -> PathBuf {
        self.folder.path().join(format!("{}.journal", server.name))
    }

    /// How often the server's own journal says that the call began.
    pub(crate) fn begun(&self, server: &Server, mark: &str) -> usize {
        self.lines(server, mark, "start")
    }

    /// Whether the journal says that the call was given up, now or soon.
    pub(crate) fn was_cancelled(&self, server: &Server, mark: &str) -> bool {
        let until = Instant::now() + JOURNAL;
        loop {
            if self.lines(server, mark, "cancelled") > 0 {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn lines(&self, server: &Server, mark: &str, phase: &str) -> usize {
        fs::read_to_string(self.journal(server))
            .unwrap_or_default()
            .lines()
            .filter(|line| {
                line.contains(&format!("\"phase\": \"{phase}\"")) && line.contains(&format!("\"{mark}\""))
            })
            .count()
    }
}
