//! One gateway, and the servers behind it over HTTP and over stdio.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::capture::tap::{self, Exchange, Exchanges, Pipe};
use crate::cast::{Kind, Server, Via};

/// How long a journal may take to show what is under way to it: it is written by another process.
const JOURNAL: Duration = Duration::from_secs(30);

pub(crate) struct Stage {
    folder: TempDir,
    /// The gateway's port.
    gateway: u16,
    /// What passes to each server over HTTP.
    backs: BTreeMap<&'static str, Exchanges>,
    /// The port at which each client finds the gateway, and what passes there.
    fronts: Mutex<BTreeMap<&'static str, (u16, Exchanges)>>,
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
        let mut backs = BTreeMap::new();
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
            let (port, exchanges) = tap::http(port);
            backs.insert(name, exchanges);
            config.push_str(&format!("[servers.{name}]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"));
            if server.speaks_over(Via::Stdio) {
                // Nothing asks over this one but server-everything; so one process serves all who come.
                let shared = server.kind != Kind::Everything;
                let [command, script, base] = tap::pipe(folder.path(), &back(name, None));
                config.push_str(&format!(
                    "[servers.{name}-stdio]\ncommand = {command:?}\nargs = {:?}\nshared = {shared}\n\
                     env = {{ PEER_JOURNAL = {:?} }}\n",
                    [&script, &base, serve.to_str().unwrap(), name],
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
            let root = url.strip_prefix("http://")?.split('/').next()?;
            root.rsplit(':').next()?.parse().ok()
        });
        Stage { folder, gateway, backs, fronts: Mutex::default() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder with all logs, for a person to look at.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    /// A job for a client's driver: the gateway's endpoint that leads to the server over `behind`.
    pub(crate) fn over_http(&self, client: &'static str, server: &Server, behind: Via) -> Value {
        let stdio = if behind == Via::Stdio { "-stdio" } else { "" };
        let mut fronts = self.fronts.lock().unwrap();
        let (port, _) = fronts.entry(client).or_insert_with(|| tap::http(self.gateway));
        json!({ "http": format!("http://127.0.0.1:{port}/{}{stdio}/mcp", server.name) })
    }

    /// A job for a client's driver: a gateway of its own in the place of the server's command.
    pub(crate) fn over_stdio(&self, client: &str, server: &Server) -> Value {
        let serve = peers().join("serve").to_str().unwrap().to_owned();
        let run = [env!("CARGO_BIN_EXE_taskgate"), "run", "--foreground", "--ephemeral", "--"];
        let mut command = tap::pipe(self.folder(), &front(client, server.name)).to_vec();
        command.extend(run.map(str::to_owned));
        command.extend(tap::pipe(self.folder(), &back(server.name, Some(client))));
        command.extend([serve, server.name.to_owned()]);
        json!({ "command": command, "env": { "PEER_JOURNAL": self.journal(server) } })
    }

    /// What passed over HTTP between this client and the gateway, by the endpoint's name.
    pub(crate) fn heard_of_client(&self, client: &str) -> BTreeMap<String, Vec<Exchange>> {
        let mut by_endpoint: BTreeMap<String, Vec<Exchange>> = BTreeMap::new();
        let fronts = self.fronts.lock().unwrap();
        let all = fronts.get(client).map(|(_, exchanges)| std::mem::take(&mut *exchanges.lock().unwrap()));
        for exchange in all.unwrap_or_default() {
            let name = exchange.path.split('/').nth(1).unwrap_or_default().to_owned();
            by_endpoint.entry(name).or_default().push(exchange);
        }
        by_endpoint
    }

    /// What passed over HTTP between the gateway and this server.
    pub(crate) fn heard_of_server(&self, server: &str) -> Vec<Exchange> {
        self.backs.get(server).map(|back| std::mem::take(&mut *back.lock().unwrap())).unwrap_or_default()
    }

    /// What passed over stdio: between this client and a gateway that it started, and between that gateway and the
    /// server.
    pub(crate) fn heard_of_pair(&self, client: &str, server: &str) -> (Vec<Pipe>, Vec<Pipe>) {
        let read = |name: String| tap::pipes(self.folder(), &name);
        (read(front(client, server)), read(back(server, Some(client))))
    }

    /// What passed between the gateway and the processes of a server that it started.
    pub(crate) fn heard_of_child(&self, server: &str) -> Vec<Pipe> {
        tap::pipes(self.folder(), &back(server, None))
    }

    fn journal(&self, server: &Server) -> PathBuf {
        self.folder.path().join(format!("{}.journal", server.name))
    }

    /// How often the server's own journal says that the call began. Where it is to have begun, that may show soon.
    pub(crate) fn begun(&self, server: &Server, mark: &str, is_due: bool) -> usize {
        if is_due {
            self.says(server, mark, "start");
        }
        self.lines(server, mark, "start")
    }

    /// Whether the journal says that the call was given up, now or soon.
    pub(crate) fn was_cancelled(&self, server: &Server, mark: &str) -> bool {
        self.says(server, mark, "cancelled")
    }

    fn says(&self, server: &Server, mark: &str, phase: &str) -> bool {
        let until = Instant::now() + JOURNAL;
        loop {
            if self.lines(server, mark, phase) > 0 {
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

/// What a tap between a client and a gateway that it starts is called.
fn front(client: &str, server: &str) -> String {
    format!("front-{client}-{server}")
}

/// What a tap between a gateway and a server that it starts is called.
fn back(server: &str, client: Option<&str>) -> String {
    format!("back-{server}-{}", client.unwrap_or("shared"))
}
