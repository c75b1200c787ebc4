//! One peer, spoken to as it is: over HTTP and over stdio.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{self, Answer};

/// How long a peer may take for one message.
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers").canonicalize().unwrap()
}

/// The command that becomes a server over stdio.
pub(crate) fn serve(name: &str) -> Command {
    let mut command = Command::new(peers().join("serve"));
    command.arg(name);
    command
}

/// Has the kernel end the process with ours, however ours ends.
fn with_us(command: &Command) -> Command {
    let mut guarded = Command::new("setpriv");
    guarded.args(["--pdeathsig", "TERM"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        guarded.env(name, value.unwrap_or_default());
    }
    guarded
}

/// A server over HTTP, which ends with the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(name: &str) -> Server {
        let mut command = serve(name);
        command.args(["--http", "0"]);
        let mut child = with_us(&command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| line.strip_prefix("ready ")?.trim().parse().ok());
        let port = port.unwrap_or_else(|| panic!("{name} did not start: is it installed?"));
        thread::spawn(move || lines.for_each(drop));
        Server { child, port }
    }

    pub(crate) fn url(&self) -> String {
        url(self.port)
    }
}

pub(crate) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/mcp")
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A legacy client over HTTP, by hand.
pub(crate) struct Legacy {
    url: String,
    session: Option<String>,
    version: String,
    pub(crate) opened: Value,
}

impl Legacy {
    pub(crate) fn open(url: &str, capabilities: Value) -> Legacy {
        Legacy::open_at(url, "2025-11-25", capabilities)
    }

    pub(crate) fn open_at(url: &str, version: &str, capabilities: Value) -> Legacy {
        let message = initialize(version, &capabilities);
        let answer = support::post(url, &[], &message);
        let session = answer.header("mcp-session-id").map(str::to_owned);
        let opened = answer.response(0);
        let legacy = Legacy { url: url.to_owned(), session, version: version.to_owned(), opened };
        legacy.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        legacy
    }

    pub(crate) fn post(&self, message: &Value) -> Answer {
        let mut headers = vec![("mcp-protocol-version", self.version.as_str())];
        headers.extend(self.session.as_deref().map(|session| ("mcp-session-id", session)));
        support::post(&self.url, &headers, message)
    }

    /// The response to a request.
    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        self.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).response(1)
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    pub(crate) fn augmented(&self, tool: &str, arguments: Value, task: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments, "task": task }))
    }
}

fn initialize(version: &str, capabilities: &Value) -> Value {
    let params = json!({
        "protocolVersion": version, "capabilities": capabilities,
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

/// A stateless request of 2026-07-28 that declares the tasks extension. `name` is mirrored into `Mcp-Name`, if any.
pub(crate) fn modern(url: &str, method: &str, name: Option<&str>, params: Value) -> Answer {
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend(name.map(|name| ("mcp-name", name)));
    support::post(url, &headers, &modern_request(1, method, params))
}

pub(crate) fn modern_request(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { EXTENSION: {} } },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A server over stdio, by hand.
pub(crate) struct Pipe {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
}

impl Pipe {
    pub(crate) fn start(command: &Command) -> Pipe {
        let mut child = with_us(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // What is no message is not for us.
                if let Ok(message) = serde_json::from_str(&line)
                    && sender.send(message).is_err()
                {
                    return;
                }
            }
        });
        let stdin = child.stdin.take().unwrap();
        Pipe { child, stdin, lines }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
        self.stdin.flush().unwrap();
    }

    pub(crate) fn hear(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("the next message")
    }

    /// Sends a request; gives what came before its answer, and the answer.
    pub(crate) fn ask(&mut self, id: u64, method: &str, params: Value) -> (Vec<Value>, Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.answer(id)
    }

    pub(crate) fn answer(&mut self, id: u64) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let heard = self.hear();
            if heard["id"] == id && heard.get("method").is_none() {
                return (before, heard);
            }
            before.push(heard);
        }
    }

    pub(crate) fn open(&mut self, version: &str, capabilities: &Value) -> Value {
        self.say(&initialize(version, capabilities));
        let (_, opened) = self.answer(0);
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        opened
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
