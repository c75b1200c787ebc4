//! A bank, servers of some kinds, the gateway's own binary before them, and proxies on the lines between.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use taskgate_faults::client;
use taskgate_faults::proxy::{Framing, Proxy};
use taskgate_faults::server::PAYMENTS;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::act::{Back, Over};
use crate::policy::Places;
use crate::process::spawn;

/// Impatient where the gateway waits for something that a campaign breaks.
const LIMITS: &str = "task_after = \"200ms\"\nsync_budget = \"500ms\"\npoll_floor = \"50ms\"\npoll_ceiling = \"100ms\"\n\
    restart_first = \"50ms\"\nrestart_max = \"50ms\"\nserver_read = \"300ms\"\nserver_probe = \"3s\"\n\
    cancel_grace = \"200ms\"\ncreate_attempts = 20\nserver_grace = \"100ms\"\ndrain = \"100ms\"\n";

/// What a gateway takes for starting, on a machine that has nothing else to do.
const STARTED: Duration = Duration::from_millis(200);

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) behind: BTreeMap<Back, Behind>,
    /// Where clients call.
    pub(crate) front: Proxy,
    /// Where the gateway looks at the bank itself.
    pub(crate) books: Proxy,
    /// Where it says that a person is to decide: at the bank too, which writes that down.
    pub(crate) hook: Proxy,
    _bank: Process,
    bank_at: SocketAddr,
    gateway: Mutex<Option<Child>>,
    /// One legacy session with each server.
    sessions: Mutex<BTreeMap<Back, String>>,
}

/// A server and the line to it.
pub(crate) struct Behind {
    back: Back,
    /// `None` where it is the gateway's child.
    pub(crate) proxy: Option<Proxy>,
    process: Mutex<Option<Process>>,
}

/// A part that is running.
pub(crate) struct Process {
    child: Child,
    port: u16,
}

impl Process {
    /// The port that it took.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This binary is also the parts.
pub(crate) fn part(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(words);
    command
}

pub(crate) fn start(command: &Command, log: &Path) -> Process {
    let mut child = spawn(command, log);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap_or_default();
    let port = said["port"].as_u64().unwrap_or_else(|| panic!("{line:?}: {}", read(log)));
    Process { child, port: u16::try_from(port).unwrap() }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl World {
    pub(crate) async fn set(backs: &[Back]) -> World {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let books = folder.path().join("books");
        let bank = start(&part(&["bank", "--books", books.to_str().unwrap()]), &folder.path().join("log"));
        let bank_at = loopback(bank.port);
        let mut world = World {
            folder,
            behind: BTreeMap::new(),
            front: Proxy::start(Framing::Http, None).await.unwrap(),
            books: Proxy::start(Framing::Http, Some(bank_at)).await.unwrap(),
            hook: Proxy::start(Framing::Http, Some(bank_at)).await.unwrap(),
            _bank: bank,
            bank_at,
            gateway: Mutex::new(None),
            sessions: Mutex::default(),
        };
        for back in backs {
            let proxy = match back.over {
                Over::Http => Some(Proxy::start(Framing::Http, None).await.unwrap()),
                Over::Line => Some(Proxy::start(Framing::Lines, None).await.unwrap()),
                Over::Child => None,
            };
            let behind = Behind { back: *back, proxy, process: Mutex::new(None) };
            behind.start(&world.server_words(*back), &world.log());
            world.behind.insert(*back, behind);
        }
        fs::write(world.path("taskgate.toml"), world.config()).unwrap();
        world.start_gateway();
        for back in backs {
            let session = client::open(world.front.address(), &path(*back), "faults").await.unwrap();
            world.sessions.lock().unwrap().insert(*back, session);
        }
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> PathBuf {
        self.path("log")
    }

    fn server_words(&self, back: Back) -> Vec<String> {
        let kind = match back.kind {
            taskgate_faults::server::Kind::Plain => "plain",
            taskgate_faults::server::Kind::PlainModern => "plain-modern",
            taskgate_faults::server::Kind::A => "a",
            taskgate_faults::server::Kind::B => "b",
        };
        let said = self.path("said");
        let mut words: Vec<String> =
            ["server", "--kind", kind, "--bank", &self.bank_at.to_string(), "--said", said.to_str().unwrap()]
                .map(str::to_owned)
                .into();
        match back.over {
            Over::Http => {}
            Over::Line => words.push("--lines".to_owned()),
            Over::Child => {
                let pid = self.path(&format!("{}.pid", back.name()));
                words.extend(["--stdio".to_owned(), "--pid".to_owned(), pid.to_str().unwrap().to_owned()]);
            }
        }
        words
    }

    fn config(&self) -> String {
        let store = self.path("store/tasks.db");
        let mut config = format!(
            "[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = {:?}\n[limits]\n{LIMITS}",
            store.to_str().unwrap()
        );
        let exe = std::env::current_exe().unwrap();
        for (back, behind) in &self.behind {
            let name = back.name();
            config.push_str(&format!("[servers.{name}]\n"));
            match (back.over, &behind.proxy) {
                (Over::Http, Some(proxy)) => {
                    config.push_str(&format!("url = \"http://{}/mcp\"\n", proxy.address()))
                }
                (Over::Line, Some(proxy)) => {
                    let args = ["bridge".to_owned(), proxy.address().to_string()];
                    config.push_str(&format!("command = {exe:?}\nargs = {args:?}\n"));
                }
                (Over::Http | Over::Line | Over::Child, _) => {
                    config.push_str(&format!("command = {exe:?}\nargs = {:?}\n", self.server_words(*back)));
                }
            }
            config.push_str(&format!("[servers.{name}.tools]\npayment_status.effect = \"read_only\"\n"));
            for tool in PAYMENTS {
                let places = Places { books: self.books.address(), hook: self.hook.address() };
                config.push_str(&crate::policy::workflow(&name, tool, places));
            }
        }
        config
    }

    /// Where a call to this server goes, and in which session.
    pub(crate) fn way(&self, back: Back) -> (SocketAddr, String, Option<String>) {
        (self.front.address(), path(back), self.sessions.lock().unwrap().get(&back).cloned())
    }

    fn gateway(&self) -> MutexGuard<'_, Option<Child>> {
        self.gateway.lock().unwrap()
    }

    fn gateway_command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(["serve", "--json", "--config"]).arg(self.path("taskgate.toml")).env("NO_COLOR", "1");
        if std::env::var("FAULTS_LOG").is_ok() {
            command.env("TASKGATE_LOG", "debug");
        }
        command
    }

    /// Starts the gateway and waits until it answers.
    pub(crate) fn start_gateway(&self) {
        tokio::task::block_in_place(|| {
            let mut child = spawn(&self.gateway_command(), &self.log());
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let line = lines.next().and_then(Result::ok);
            let line = line.unwrap_or_else(|| panic!("it did not start:\n{}", read(&self.log())));
            let said: Value = serde_json::from_str(&line).unwrap();
            let url = said["url"].as_str().unwrap().trim_start_matches("http://");
            let address = url.split('/').next().unwrap().parse().unwrap();
            std::thread::spawn(move || lines.for_each(drop));
            self.front.lead_to(Some(address));
            *self.gateway() = Some(child);
        });
    }

    /// Starts the gateway and kills it after this time, ready or not; or if that is longer than [`STARTED`], so much later
    /// than it listened. Whether it listened by then.
    pub(crate) async fn start_and_kill_gateway(&self, after: Duration) -> bool {
        let mut child = tokio::task::block_in_place(|| spawn(&self.gateway_command(), &self.log()));
        let said = child.stdout.take().unwrap();
        *self.gateway() = Some(child);
        let mut said = BufReader::new(said);
        let mut first = || tokio::task::block_in_place(|| said.read_line(&mut String::new()).unwrap()) > 0;
        if let Some(later) = after.checked_sub(STARTED) {
            let listened = first();
            tokio::time::sleep(later / 8).await;
            self.kill_gateway();
            return listened;
        }
        tokio::time::sleep(after).await;
        self.kill_gateway();
        first()
    }

    pub(crate) fn kill_gateway(&self) {
        self.front.lead_to(None);
        if let Some(mut child) = self.gateway().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Ends the gateway in good order.
    pub(crate) fn end_gateway(&self) {
        self.front.lead_to(None);
        tokio::task::block_in_place(|| {
            if let Some(mut child) = self.gateway().take() {
                signal(child.id(), Signal::SIGTERM);
                child.wait().unwrap();
            }
        });
    }

    pub(crate) fn signal_gateway(&self, what: Signal) {
        if let Some(child) = &*self.gateway() {
            signal(child.id(), what);
        }
    }

    /// Kills a server, and starts it again where that is not for the gateway to do.
    pub(crate) fn kill_server(&self, back: Back) {
        tokio::task::block_in_place(|| match back.over {
            Over::Child => {
                self.server_process(back).iter().for_each(|process| signal(*process, Signal::SIGKILL));
            }
            Over::Http | Over::Line => {
                let behind = &self.behind[&back];
                behind.kill();
                behind.start(&self.server_words(back), &self.log());
            }
        });
    }

    /// The process of a server, if there is one.
    pub(crate) fn server_process(&self, back: Back) -> Option<u32> {
        match back.over {
            Over::Child => read(&self.path(&format!("{}.pid", back.name()))).trim().parse().ok(),
            Over::Http | Over::Line => {
                self.behind[&back].process.lock().unwrap().as_ref().map(|process| process.child.id())
            }
        }
    }

    /// Starts all servers anew: what those before had in hand is over.
    pub(crate) fn renew_servers(&self) {
        let backs: Vec<_> = self.behind.keys().copied().collect();
        backs.into_iter().for_each(|back| self.kill_server(back));
    }

    /// In which state the processes are, for who wonders why nothing goes on.
    pub(crate) fn states(&self) -> String {
        let state = |process: Option<u32>| {
            let status = process.map(|process| read(Path::new(&format!("/proc/{process}/status"))));
            let line = status
                .and_then(|status| status.lines().find(|line| line.starts_with("State")).map(str::to_owned));
            format!("{process:?} {}", line.unwrap_or_else(|| "is gone".to_owned()))
        };
        let mut states = format!("gateway {}", state(self.gateway().as_ref().map(Child::id)));
        for back in self.behind.keys() {
            states.push_str(&format!("; {} {}", back.name(), state(self.server_process(*back))));
        }
        states
    }

    /// A client as a process of its own.
    pub(crate) fn client(&self, call: &client::Call) -> tokio::process::Child {
        let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
        command.arg("client").arg(json!(call).to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command.spawn().unwrap()
    }

    /// Tells the bank something.
    pub(crate) async fn bank(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: bank\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(self.bank_at).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| serde_json::from_str(body).unwrap_or_default())
            .unwrap_or_default()
    }
}

impl Behind {
    fn start(&self, words: &[String], log: &Path) {
        if self.back.over == Over::Child {
            return;
        }
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let process = start(&part(&words), log);
        if let Some(proxy) = &self.proxy {
            proxy.lead_to(Some(loopback(process.port)));
        }
        *self.process.lock().unwrap() = Some(process);
    }

    fn kill(&self) {
        if let Some(proxy) = &self.proxy {
            proxy.lead_to(None);
        }
        drop(self.process.lock().unwrap().take());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill_gateway();
    }
}

fn path(back: Back) -> String {
    format!("/{}/mcp", back.name())
}

pub(crate) fn signal(process: u32, what: Signal) {
    let _ = kill(Pid::from_raw(i32::try_from(process).unwrap()), what);
}
