//! The fixtures, and one gateway before them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::cast::Before;

/// Tools of which the suite wants a task however soon they end: this is how an operator says so.
const ALWAYS_TASKS: [&str; 5] =
    ["slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input"];

pub(crate) struct Stage {
    folder: TempDir,
    gateway: String,
    core: String,
    tasks: String,
}

/// Sets it. Its processes end with this one.
pub(crate) fn set() -> Stage {
    let (set, is_set) = mpsc::channel();
    // The parent whose death ends the processes is the thread that started them, and a test's thread dies with the
    // test.
    thread::spawn(move || {
        let _ = set.send(Stage::set());
        loop {
            thread::park();
        }
    });
    is_set.recv().expect("the stage is set")
}

/// The folder of the peers' sources.
pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers").canonicalize().unwrap()
}

/// Where the peers are installed.
pub(crate) fn installed() -> PathBuf {
    let folder = std::env::var_os("TASKGATE_PEERS").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| peers().join("../../target/peers"));
    folder.canonicalize().expect("the peers are installed: tests/peers/install")
}

/// Has the kernel's own tool end the process with ours, however ours ends.
pub(crate) fn with_us(program: &Path) -> Command {
    let mut guarded = Command::new("setpriv");
    guarded.args(["--pdeathsig", "TERM"]).arg(program).stdin(Stdio::null());
    guarded
}

/// Starts a process that ends when this one does, and gives the first that `pick` finds on its stdout.
fn start<T>(mut command: Command, log: &Path, pick: impl Fn(&str) -> Option<T>) -> T {
    let mut child = command.stdout(Stdio::piped()).stderr(fs::File::create(log).unwrap()).spawn().unwrap();
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

impl Stage {
    fn set() -> Stage {
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        let fixture = |name: &str| {
            let mut command = with_us(&peers().join("serve"));
            command.args([name, "--http", "0"]);
            let port: u16 = start(command, &at(&format!("{name}.log")), |line| {
                line.strip_prefix("ready ").and_then(|port| port.trim().parse().ok())
            });
            format!("http://127.0.0.1:{port}/mcp")
        };
        let (core, tasks) = (fixture("conformance_core"), fixture("conformance_tasks"));
        let mut config = format!(
            "[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = {:?}\n[servers.core]\nurl = {core:?}\n\
             [servers.core-legacy]\nurl = {core:?}\nera = \"legacy\"\n[servers.tasks]\nurl = {tasks:?}\n",
            at("tasks.db").to_str().unwrap()
        );
        for tool in ALWAYS_TASKS {
            config.push_str(&format!("[servers.tasks.tools.{tool}]\nmode = \"task\"\n"));
        }
        fs::write(at("taskgate.toml"), config).unwrap();
        let mut command = with_us(Path::new(env!("CARGO_BIN_EXE_taskgate")));
        command.args(["serve", "--json", "--config"]).arg(at("taskgate.toml"));
        let gateway = start(command, &at("gateway.log"), |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let root = line["url"].as_str()?.strip_prefix("http://")?.split('/').next()?;
            Some(format!("http://{root}"))
        });
        Stage { folder, gateway, core, tasks }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder with all logs and results, for a person to look at.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    /// The server that offers what the versions require.
    pub(crate) fn core(&self, before: Before) -> String {
        match before {
            Before::Direct => self.core.clone(),
            Before::Modern => format!("{}/core/mcp", self.gateway),
            Before::Legacy => format!("{}/core-legacy/mcp", self.gateway),
        }
    }

    /// The server with tasks.
    pub(crate) fn tasks(&self, before: Before) -> String {
        match before {
            Before::Direct => self.tasks.clone(),
            Before::Modern | Before::Legacy => format!("{}/tasks/mcp", self.gateway),
        }
    }
}
