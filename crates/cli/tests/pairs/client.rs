//! A client of either era, over HTTP or stdio, that keeps every message as it came.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader as Buffered};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// How a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Front {
    /// 2025-11-25, with `params.task`.
    A,
    /// 2026-07-28 with the tasks extension.
    B,
    /// 2025-11-25, without tasks.
    Plain,
    /// 2026-07-28, without tasks.
    Rounds,
}

impl Front {
    pub(crate) const ALL: [Front; 4] = [Front::A, Front::B, Front::Plain, Front::Rounds];

    pub(crate) fn is_modern(self) -> bool {
        matches!(self, Front::B | Front::Rounds)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Front::A => "A",
            Front::B => "B",
            Front::Plain => "plain",
            Front::Rounds => "plain, 2026-07-28",
        }
    }
}

/// The other end of the line.
enum Line {
    Http { address: String, path: String, session: Mutex<Option<String>>, open: Mutex<Vec<JoinHandle<()>>> },
    Stdio { stdin: Mutex<ChildStdin>, _child: Killed },
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is shared with whoever reads.
struct Inbox {
    pending: Mutex<HashMap<String, oneshot::Sender<String>>>,
    heard: mpsc::UnboundedSender<String>,
}

pub(crate) struct Client {
    pub(crate) front: Front,
    capabilities: Value,
    line: Arc<Line>,
    inbox: Arc<Inbox>,
    heard: tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>,
    next: AtomicU64,
}

/// A response as it came.
pub(crate) type Answer = oneshot::Receiver<String>;

impl Client {
    /// Over HTTP. A legacy client shakes hands.
    pub(crate) async fn http(url: &str, front: Front, capabilities: Value) -> Client {
        let rest = url.strip_prefix("http://").unwrap();
        let (address, path) = rest.split_at(rest.find('/').unwrap());
        let line = Line::Http {
            address: address.to_owned(),
            path: path.to_owned(),
            session: Mutex::default(),
            open: Mutex::default(),
        };
        let (heard, inbox) = mpsc::unbounded_channel();
        Client::over(line, Arc::new(Inbox { pending: Mutex::default(), heard }), inbox, front, capabilities)
            .await
    }

    /// Over the stdin and stdout of a process of its own.
    pub(crate) async fn stdio(command: &mut Command, front: Front, capabilities: Value) -> Client {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdin = Mutex::new(child.stdin.take().unwrap());
        let stdout = child.stdout.take().unwrap();
        let (heard, heard_here) = mpsc::unbounded_channel();
        let inbox = Arc::new(Inbox { pending: Mutex::default(), heard });
        let reading = inbox.clone();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                reading.take(line);
            }
        });
        let line = Line::Stdio { stdin, _child: Killed(child) };
        Client::over(line, inbox, heard_here, front, capabilities).await
    }

    async fn over(
        line: Line,
        inbox: Arc<Inbox>,
        heard: mpsc::UnboundedReceiver<String>,
        front: Front,
        capabilities: Value,
    ) -> Client {
        let client = Client {
            front,
            capabilities,
            line: Arc::new(line),
            inbox,
            heard: tokio::sync::Mutex::new(heard),
            next: AtomicU64::new(1),
        };
        if !front.is_modern() {
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": client.capabilities,
                "clientInfo": { "name": "pairs", "version": "1" },
            });
            let said = client.ask("initialize", params).await;
            assert!(said["result"]["protocolVersion"].is_string(), "{said}");
            client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;
        }
        client
    }

    /// Sends a request; the response will be there.
    pub(crate) fn send(&self, method: &str, params: &str) -> Answer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut members: serde_json::Map<String, Value> = serde_json::Map::new();
        let mut name = None;
        let body = if self.front.is_modern() {
            // What is given as raw text stays so: only `_meta` is put in front of it.
            members.insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!("2026-07-28"));
            let mut capabilities = self.capabilities.clone();
            if self.front == Front::B {
                capabilities["extensions"] = json!({ TASKS: {} });
            }
            members.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), capabilities);
            let parsed: Value = serde_json::from_str(params).unwrap();
            name = parsed["taskId"].as_str().or(parsed["name"].as_str()).map(str::to_owned);
            format!("{{\"_meta\":{},{}", Value::Object(members), &params[1..])
        } else {
            params.to_owned()
        };
        let message =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{body}}}");
        let (answer, answered) = oneshot::channel();
        self.inbox.pending.lock().unwrap().insert(id.to_string(), answer);
        self.post(message, Some((method.to_owned(), name)));
        answered
    }

    /// A request and its response.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let raw = self.send(method, &params.to_string()).await.expect("a response");
        serde_json::from_str(&raw).unwrap()
    }

    /// Sends what is no request. Over HTTP its status.
    pub(crate) async fn say(&self, message: &str) -> u16 {
        match &*self.line {
            Line::Http { .. } => {
                let (line, inbox, modern) = (self.line.clone(), self.inbox.clone(), self.front.is_modern());
                exchange(
                    &line,
                    &inbox,
                    "POST",
                    Some(message.to_owned()),
                    modern.then(|| (String::new(), None)),
                )
                .await
                .unwrap_or(0)
            }
            Line::Stdio { stdin, .. } => {
                let mut stdin = stdin.lock().unwrap();
                stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
                202
            }
        }
    }

    /// Opens a standing stream.
    pub(crate) fn listen(&self) {
        self.carry("GET", None, None);
    }

    fn post(&self, message: String, named: Option<(String, Option<String>)>) {
        match &*self.line {
            Line::Http { .. } => self.carry("POST", Some(message), named),
            Line::Stdio { stdin, .. } => {
                let mut stdin = stdin.lock().unwrap();
                stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
            }
        }
    }

    fn carry(&self, method: &'static str, message: Option<String>, named: Option<(String, Option<String>)>) {
        let Line::Http { open, .. } = &*self.line else { return };
        let (line, inbox) = (self.line.clone(), self.inbox.clone());
        let named = named.filter(|_| self.front.is_modern());
        open.lock().unwrap().push(tokio::spawn(async move {
            // A connection that breaks leaves its requests without a response.
            let _ = exchange(&line, &inbox, method, message, named).await;
        }));
    }

    /// All its connections break.
    pub(crate) fn hang_up(&self) {
        if let Line::Http { open, .. } = &*self.line {
            open.lock().unwrap().drain(..).for_each(|open| open.abort());
        }
    }

    /// The next message that is no response.
    pub(crate) async fn heard(&self) -> String {
        self.heard.lock().await.recv().await.expect("a message")
    }

    /// What was heard and not read yet.
    pub(crate) async fn heard_meanwhile(&self) -> Vec<String> {
        let mut heard = self.heard.lock().await;
        std::iter::from_fn(|| heard.try_recv().ok()).collect()
    }

    /// The session, to go on with it elsewhere.
    pub(crate) fn moved(&self, url: &str) -> Client {
        let rest = url.strip_prefix("http://").unwrap();
        let (address, path) = rest.split_at(rest.find('/').unwrap());
        let Line::Http { session, .. } = &*self.line else { panic!("a pipe cannot move") };
        let (heard, heard_here) = mpsc::unbounded_channel();
        Client {
            front: self.front,
            capabilities: self.capabilities.clone(),
            line: Arc::new(Line::Http {
                address: address.to_owned(),
                path: path.to_owned(),
                session: Mutex::new(session.lock().unwrap().clone()),
                open: Mutex::default(),
            }),
            inbox: Arc::new(Inbox { pending: Mutex::default(), heard }),
            heard: tokio::sync::Mutex::new(heard_here),
            next: AtomicU64::new(1_000),
        }
    }
}

impl Inbox {
    fn take(&self, raw: String) {
        #[derive(serde::Deserialize)]
        struct Head<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            method: Option<String>,
        }
        let Ok(head) = serde_json::from_str::<Head<'_>>(&raw) else { return };
        let waiting = match (&head.method, head.id) {
            (None, Some(id)) => self.pending.lock().unwrap().remove(id.get()),
            (_, _) => None,
        };
        if head.method.is_none() {
            if let Some(waiting) = waiting {
                let _ = waiting.send(raw);
            }
        } else {
            let _ = self.heard.send(raw);
        }
    }
}

/// One HTTP exchange: every message of its body goes to the inbox. The status.
async fn exchange(
    line: &Line,
    inbox: &Inbox,
    method: &str,
    message: Option<String>,
    named: Option<(String, Option<String>)>,
) -> std::io::Result<u16> {
    let Line::Http { address, path, session, .. } = line else { return Ok(0) };
    let body = message.unwrap_or_default();
    let accept = if method == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\naccept: {accept}\r\nconnection: close\r\n");
    match &named {
        Some((method, name)) => {
            head.push_str("mcp-protocol-version: 2026-07-28\r\n");
            if !method.is_empty() {
                head.push_str(&format!("mcp-method: {method}\r\n"));
            }
            if let Some(name) = name {
                head.push_str(&format!("mcp-name: {name}\r\n"));
            }
        }
        None => {
            if let Some(session) = &*session.lock().unwrap() {
                head.push_str(&format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n"));
            }
        }
    }
    if !body.is_empty() {
        head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
    let mut reader = Buffered::new(stream);
    let mut read = String::new();
    reader.read_line(&mut read).await?;
    let status = read.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let (mut chunked, mut length, mut events) = (false, 0, false);
    loop {
        read.clear();
        if reader.read_line(&mut read).await? <= 2 {
            break;
        }
        let Some((name, value)) = read.trim_end().split_once(": ") else { continue };
        match name.to_ascii_lowercase().as_str() {
            "transfer-encoding" => chunked = value == "chunked",
            "content-length" => length = value.parse().unwrap_or(0),
            "content-type" => events = value == "text/event-stream",
            "mcp-session-id" => *session.lock().unwrap() = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut text = String::new();
    loop {
        let mut chunk = vec![0; length];
        if chunked {
            read.clear();
            reader.read_line(&mut read).await?;
            let size = usize::from_str_radix(read.trim(), 16).unwrap_or(0);
            if size == 0 {
                break;
            }
            chunk = vec![0; size + 2];
        }
        reader.read_exact(&mut chunk).await?;
        chunk.truncate(if chunked { chunk.len() - 2 } else { chunk.len() });
        text.push_str(&String::from_utf8(chunk).unwrap());
        if !events {
            if !chunked {
                break;
            }
            continue;
        }
        while let Some(end) = text.find("\n\n") {
            let event: String = text.drain(..end + 2).collect();
            for data in event.lines().filter_map(|line| line.strip_prefix("data:")) {
                inbox.take(data.trim_start().to_owned());
            }
        }
        if !chunked {
            break;
        }
    }
    if !events && !text.is_empty() {
        inbox.take(text);
    }
    Ok(status)
}
