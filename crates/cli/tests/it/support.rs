//! Processes that end with the test, and HTTP by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The binary with nothing around it that could change what it says.
pub(crate) fn taskgate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
    command.args(args).env_clear().env("NO_COLOR", "1").env("PATH", "/usr/bin:/bin");
    command
}

/// Runs it in `folder` to its end.
pub(crate) fn run_in(folder: &Path, args: &[&str]) -> Output {
    taskgate(args).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// The exit code and all that was said, for snapshots.
pub(crate) fn said(output: &Output) -> String {
    format!(
        "exit {}\n--- stdout\n{}--- stderr\n{}",
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A folder with files in it.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// A process that is killed when the test is done with it.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Running { child, stdin, stdout }
    }

    /// The next line of its stdout, as JSON; what it said on stderr if there is none.
    pub(crate) fn line(&mut self) -> Value {
        let text = self.text_line();
        serde_json::from_str(&text).unwrap_or_else(|_| {
            // It is not going to say anything else.
            let _ = self.child.kill();
            panic!("it said {text:?} and then:\n{}", self.stderr())
        })
    }

    pub(crate) fn text_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// All that is left of its stderr, once it has ended.
    pub(crate) fn stderr(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).unwrap();
        }
        text
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Its exit code, once it has ended by itself.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The demo server. It ends with the test, however that ends, since its stdin does.
pub(crate) struct DemoServer {
    _running: Running,
    pub(crate) url: String,
    pub(crate) effects: String,
}

impl DemoServer {
    pub(crate) fn start(dialect: &str) -> DemoServer {
        let args = ["demo-server", "--until-stdin-ends", "--dialect", dialect];
        let mut running = Running::start(taskgate(&args));
        let said = running.line();
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        DemoServer { url: text("url"), effects: text("effects"), _running: running }
    }

    /// How often an effect was begun.
    pub(crate) fn begun(&self, effect: &str, key: &str) -> u64 {
        let counts = get(&self.effects).json();
        let entry =
            counts.as_array().unwrap().iter().find(|entry| entry["effect"] == effect && entry["key"] == key);
        entry.map_or(0, |entry| entry["begun"].as_u64().unwrap())
    }
}

/// A gateway with the demo server behind it.
pub(crate) struct Gateway {
    pub(crate) running: Running,
    pub(crate) url: String,
}

/// A configuration with the demo server behind it; `more` goes on top of it.
pub(crate) fn config(server: &str, more: &str) -> String {
    format!(
        "{more}
[listen]
address = \"127.0.0.1:0\"
[store]
path = \"taskgate.db\"
[servers.demo]
url = \"{server}\"
[servers.demo.tools]
echo.effect = \"read_only\"
slow_report.effect = \"reversible\"
"
    )
}

impl Gateway {
    pub(crate) fn start(folder: &Path) -> Gateway {
        let mut command = taskgate(&["serve", "--until-stdin-ends", "--json", "--config", "taskgate.toml"]);
        command.current_dir(folder);
        Gateway::run(command)
    }

    /// `serve --json`, with whatever is around it.
    pub(crate) fn run(command: Command) -> Gateway {
        let mut running = Running::start(command);
        let url = running.line()["url"].as_str().unwrap().to_owned();
        Gateway { running, url }
    }
}

/// What was answered over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The response to request `id`, in a document or on a stream.
    pub(crate) fn response(&self, id: u64) -> Value {
        if self.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
            return self.json();
        }
        let messages = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
        messages
            .filter_map(|data| serde_json::from_str::<Value>(data).ok())
            .find(|message| message["id"] == id && message.get("method").is_none())
            .unwrap_or_else(|| panic!("no response to {id} in {self:?}"))
    }
}

fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap();
    let slash = rest.find('/').unwrap();
    rest.split_at(slash)
}

pub(crate) fn get(url: &str) -> Answer {
    get_with(url, &[])
}

pub(crate) fn get_with(url: &str, headers: &[(&str, &str)]) -> Answer {
    let (host, path) = split(url);
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    exchange(host, &format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n"))
}

pub(crate) fn post(url: &str, headers: &[(&str, &str)], message: &Value) -> Answer {
    let (host, request) = posted(url, headers, message);
    exchange(host, &request)
}

/// Whom a message is sent to, and what is sent.
fn posted<'a>(url: &'a str, headers: &[(&str, &str)], message: &Value) -> (&'a str, String) {
    let (host, path) = split(url);
    let body = message.to_string();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    (host, format!("{request}\r\n{body}"))
}

/// Looks again until it is so.
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let patience = tokio::time::Instant::now() + std::time::Duration::from_secs(240);
    while !is_so() {
        assert!(tokio::time::Instant::now() < patience, "it did not come to that");
        std::thread::yield_now();
    }
}

fn exchange(host: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(host).unwrap();
    // Longer than anything that is waited for here.
    stream.set_read_timeout(Some(std::time::Duration::from_secs(240))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let answer = Answer { status, head: head.to_owned(), body: body.to_owned() };
    if answer.header("transfer-encoding") == Some("chunked") {
        return Answer { body: unchunk(body), ..answer };
    }
    answer
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        out.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    out
}

/// A client of 2025-11-25.
pub(crate) struct Legacy<'a> {
    url: &'a str,
    session: String,
}

impl<'a> Legacy<'a> {
    pub(crate) fn open(url: &'a str) -> Legacy<'a> {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = post(url, &[], &message);
        let session = answer.header("mcp-session-id").unwrap_or_else(|| panic!("{answer:?}")).to_owned();
        let client = Legacy { url, session };
        client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn headers(&self) -> [(&str, &str); 2] {
        [("mcp-session-id", self.session.as_str()), ("mcp-protocol-version", "2025-11-25")]
    }

    fn post(&self, message: &Value) -> Answer {
        post(self.url, &self.headers(), message)
    }

    /// Asks for something, and closes the connection before its answer when it is so.
    pub(crate) fn leave(&self, method: &str, params: Value, is_so: impl FnMut() -> bool) {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (host, request) = posted(self.url, &self.headers(), &message);
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        wait_until(is_so);
    }

    pub(crate) fn request(&self, method: &str, params: Value) -> Value {
        self.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).response(1)
    }
}

/// A request of a client of 2026-07-28 that takes tasks and shows forms.
pub(crate) fn modern(url: &str, method: &str, name: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({
        "elicitation": { "form": {} }, "extensions": { "io.modelcontextprotocol/tasks": {} },
    });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)];
    post(url, &headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).response(1)
}
