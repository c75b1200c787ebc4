//! One gateway, its servers over HTTP and over stdio, and the clients that the tests send.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    PythonA,
    InspectorA,
    InspectorB,
    FastmcpB,
    PlainTs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Server {
    Everything,
    PythonA,
    FastmcpB,
    PythonPlain,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scenario {
    Run,
    Input,
    Cancel,
    Error,
}

/// Which transports a cell goes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    /// HTTP on both sides.
    Http,
    /// stdio on both sides: `taskgate run --foreground`.
    Stdio,
    /// HTTP at the front, stdio at the back.
    HttpToStdio,
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Client::PythonA => "python_a",
            Client::InspectorA => "inspector_a",
            Client::InspectorB => "inspector_b",
            Client::FastmcpB => "fastmcp_b",
            Client::PlainTs => "plain_ts",
        }
    }

    /// Who starts what this client only cancels.
    fn starter(self) -> Option<Client> {
        match self {
            Client::InspectorA => Some(Client::PythonA),
            Client::InspectorB => Some(Client::FastmcpB),
            Client::PythonA | Client::FastmcpB | Client::PlainTs => None,
        }
    }
}

const SERVERS: [Server; 4] = [Server::Everything, Server::PythonA, Server::FastmcpB, Server::PythonPlain];

impl Server {
    fn name(self) -> &'static str {
        match self {
            Server::Everything => "everything",
            Server::PythonA => "python_a",
            Server::FastmcpB => "fastmcp_b",
            Server::PythonPlain => "python_plain",
        }
    }

    /// The call of a scenario, and what its result has to say. `mark` tells this call from all others.
    fn call(self, scenario: Scenario, mark: &str) -> (&'static str, Value, String) {
        match (self, scenario) {
            (Server::Everything, Scenario::Run | Scenario::Cancel) => {
                ("simulate-research-query", json!({ "topic": mark }), mark.to_owned())
            }
            (Server::Everything, Scenario::Input) => {
                ("simulate-research-query", json!({ "topic": mark, "ambiguous": true }), mark.to_owned())
            }
            // It has no tool that fails, but one that refuses its arguments by a tool error.
            (Server::Everything, Scenario::Error) => {
                ("get-sum", json!({ "a": mark, "b": 1 }), "nvalid".to_owned())
            }
            (_, Scenario::Run) => {
                ("charge", json!({ "seconds": 3, "order": mark }), format!("charged {mark}"))
            }
            (_, Scenario::Input) => ("confirm_deploy", json!({ "target": mark }), format!("deployed {mark}")),
            (_, Scenario::Cancel) => ("charge", json!({ "seconds": 30, "order": mark }), String::new()),
            (_, Scenario::Error) => ("fail", json!({ "message": mark }), mark.to_owned()),
        }
    }
}

pub(crate) struct Stage {
    folder: TempDir,
    gateway: String,
    calls: AtomicU32,
}

/// The stage that all tests of this process share.
pub(crate) fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let (set, is_set) = mpsc::channel();
        // The parent whose death ends the processes is the thread that started them, and a test's thread dies with
        // the test.
        thread::spawn(move || {
            let _ = set.send(Stage::set());
            loop {
                thread::park();
            }
        });
        is_set.recv().expect("the stage is set")
    })
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers").canonicalize().unwrap()
}

/// Starts a process that ends when this one does, and gives the first line of its stdout that `pick` takes.
fn start<T>(command: &mut Command, log: &Path, pick: impl Fn(&str) -> Option<T>) -> T {
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
fn with_us(command: &Command) -> Command {
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
    fn set() -> Stage {
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        let serve = peers().join("serve");
        let mut config = format!(
            // Short, so that a plain client meets a handle.
            "[limits]\nsync_budget = \"2s\"\ntask_after = \"1s\"\n[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = {:?}\n",
            at("tasks.db").to_str().unwrap()
        );
        for server in SERVERS {
            let name = server.name();
            let mut command = Command::new(&serve);
            command.args([name, "--http", "0"]).env("PEER_JOURNAL", at(&format!("{name}.journal")));
            let port: u16 = start(&mut command, &at(&format!("{name}.log")), |line| {
                line.strip_prefix("ready ").and_then(|port| port.trim().parse().ok())
            });
            config.push_str(&format!("[servers.{name}]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"));
            config.push_str(&format!(
                "[servers.{name}-stdio]\ncommand = {:?}\nargs = [{name:?}]\nenv = {{ PEER_JOURNAL = {:?} }}\n",
                serve.to_str().unwrap(),
                at(&format!("{name}.journal")).to_str().unwrap(),
            ));
        }
        fs::write(at("taskgate.toml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(["serve", "--json", "--config"]).arg(at("taskgate.toml"));
        let gateway = start(&mut command, &at("gateway.log"), |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let url = line.get("url")?.as_str()?.to_owned();
            let root = url.strip_prefix("http://")?.split('/').next()?.to_owned();
            Some(format!("http://{root}"))
        });
        Stage { folder, gateway, calls: AtomicU32::new(0) }
    }

    /// Plays one cell; what went wrong, if anything did.
    pub(crate) fn play(
        &self,
        client: Client,
        server: Server,
        scenario: Scenario,
        via: Via,
    ) -> Result<(), String> {
        let mark = format!("m{}x", self.calls.fetch_add(1, Ordering::SeqCst));
        // Work of server-everything ends in four seconds, and Inspector needs longer to come back and cancel it; so
        // it cancels what waits for an answer.
        let lasting =
            scenario == Scenario::Cancel && server == Server::Everything && client.starter().is_some();
        let (tool, args, expect) = server.call(if lasting { Scenario::Input } else { scenario }, &mark);
        let args = args.to_string();
        let mut options = vec!["--tool", tool, "--args", &args, "--timeout", "60"];
        let started;
        if let (Scenario::Cancel, Some(starter)) = (scenario, client.starter()) {
            let said = self.drive(starter, server, "start", via, &options)?;
            started = said["task_id"].as_str().ok_or("the starter told no task id")?.to_owned();
            options.extend(["--task", &started]);
        }
        if !expect.is_empty() && scenario != Scenario::Cancel {
            options.extend(["--expect", &expect]);
        }
        let word = match scenario {
            Scenario::Run => "run",
            Scenario::Input => "input",
            Scenario::Cancel => "cancel",
            Scenario::Error => "error",
        };
        self.drive(client, server, word, via, &options)?;
        // server-everything keeps no journal.
        if server != Server::Everything {
            let times = self.times(server, &mark);
            if times != 1 {
                return Err(format!("the server was called {times} times"));
            }
        }
        Ok(())
    }

    /// How often the server's own journal says that the call began.
    fn times(&self, server: Server, mark: &str) -> usize {
        let journal = self.folder.path().join(format!("{}.journal", server.name()));
        fs::read_to_string(journal)
            .unwrap_or_default()
            .lines()
            .filter(|line| line.contains("\"start\"") && line.contains(&format!("\"{mark}\"")))
            .count()
    }

    fn drive(
        &self,
        client: Client,
        server: Server,
        scenario: &str,
        via: Via,
        options: &[&str],
    ) -> Result<Value, String> {
        let mut command = Command::new(peers().join("drive"));
        command.arg(client.name());
        match via {
            Via::Http => command.args(["--http", &format!("{}/{}/mcp", self.gateway, server.name())]),
            Via::HttpToStdio => {
                command.args(["--http", &format!("{}/{}-stdio/mcp", self.gateway, server.name())])
            }
            Via::Stdio => command.arg("--stdio"),
        };
        command.args(["--scenario", scenario]).args(options);
        if via == Via::Stdio {
            command
                .env("PEER_JOURNAL", self.folder.path().join(format!("{}.journal", server.name())))
                .args(["--", env!("CARGO_BIN_EXE_taskgate"), "run", "--foreground", "--ephemeral", "--"])
                .arg(peers().join("serve"))
                .arg(server.name());
        }
        let child: Child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if output.status.success() {
            return Ok(said);
        }
        let heard = String::from_utf8_lossy(&output.stderr);
        let last: Vec<_> = heard.lines().rev().take(5).collect();
        Err(format!("{said} {last:?}"))
    }
}
