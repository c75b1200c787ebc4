//! A server over HTTP whose every byte the test decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    pub(crate) connection: usize,
}

impl Seen {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn tool(&self) -> &str {
        self.body["params"]["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What is done about it.
pub(crate) enum Say {
    /// A whole answer.
    Whole(u16, Vec<(&'static str, String)>, String),
    /// An event stream of these, chunk by chunk; it ends in good order when the sender is dropped, and is cut off
    /// after an empty text.
    Stream(mpsc::UnboundedReceiver<String>),
    /// A whole answer, after which the connection is closed.
    LastWhole(String),
    /// The connection is closed without a word.
    HangUp,
}

pub(crate) fn result(seen: &Seen, result: Value) -> Say {
    whole(200, json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}))
}

pub(crate) fn error(status: u16, seen: &Seen, code: i64, message: &str, data: Value) -> Say {
    let error = json!({"code": code, "message": message, "data": data});
    whole(status, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
}

pub(crate) fn whole(status: u16, body: Value) -> Say {
    Say::Whole(status, vec![("content-type", "application/json".to_owned())], body.to_string())
}

pub(crate) fn empty(status: u16) -> Say {
    Say::Whole(status, vec![], String::new())
}

pub(crate) fn events(texts: &[&str]) -> Say {
    let (sender, receiver) = mpsc::unbounded_channel();
    for text in texts {
        sender.send((*text).to_owned()).unwrap();
    }
    Say::Stream(receiver)
}

pub(crate) fn event(message: Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

pub(crate) fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

type Handler = Arc<dyn Fn(Seen) -> BoxFuture<'static, Say> + Send + Sync>;

pub(crate) struct Web {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Web {
    pub(crate) async fn start(handler: impl Fn(Seen) -> Say + Send + Sync + 'static) -> Web {
        Web::start_slow(move |seen| {
            let say = handler(seen);
            Box::pin(std::future::ready(say))
        })
        .await
    }

    pub(crate) async fn start_slow(
        handler: impl Fn(Seen) -> BoxFuture<'static, Say> + Send + Sync + 'static,
    ) -> Web {
        let handler: Handler = Arc::new(handler);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (handler, log) = (handler.clone(), log.clone());
                tokio::spawn(async move {
                    let _ = serve(stream, connection, &handler, &log).await;
                });
            }
        });
        Web { url, seen }
    }

    /// A legacy server with a session, whose calls are answered by `handler`.
    pub(crate) async fn legacy(
        capabilities: Value,
        handler: impl Fn(Seen) -> Say + Send + Sync + 'static,
    ) -> Web {
        Web::start(move |seen| match (seen.verb.as_str(), seen.method()) {
            ("POST", "initialize") => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": "web", "version": "1"}});
                let body = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
                let headers = vec![
                    ("content-type", "application/json".to_owned()),
                    ("mcp-session-id", "s-1".to_owned()),
                ];
                Say::Whole(200, headers, body.to_string())
            }
            ("POST", "notifications/initialized") => empty(202),
            ("DELETE", _) => empty(200),
            _ => handler(seen),
        })
        .await
    }

    /// A modern server with tasks.
    pub(crate) async fn modern(handler: impl Fn(Seen) -> Say + Send + Sync + 'static) -> Web {
        Web::start(move |seen| match seen.method() {
            "server/discover" => result(&seen, discovered()),
            _ => handler(seen),
        })
        .await
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// What came, without the opening.
    pub(crate) fn methods(&self) -> Vec<String> {
        let all = self.seen();
        let named = all.iter().filter(|seen| seen.verb == "POST").map(|seen| seen.method().to_owned());
        named.filter(|method| method != "server/discover" && method != "initialize").collect()
    }
}

pub(crate) fn discovered() -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
        "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}})
}

async fn serve(
    stream: TcpStream,
    connection: usize,
    handler: &Handler,
    log: &Mutex<Vec<Seen>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let mut words = line.split(' ');
        let verb = words.next().unwrap_or_default().to_owned();
        let path = words.next().unwrap_or_default().to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let seen = Seen { verb, path, headers, body, connection };
        log.lock().push(seen.clone());
        match handler(seen).await {
            Say::Whole(status, headers, body) => {
                let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
            }
            Say::LastWhole(body) => {
                let head = format!(
                    "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(format!("{head}{body}").as_bytes()).await?;
                return stream.shutdown().await;
            }
            Say::HangUp => return Ok(()),
            Say::Stream(mut events) => {
                let head =
                    "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                while let Some(text) = events.recv().await {
                    if text.is_empty() {
                        return Ok(());
                    }
                    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await?;
                    stream.flush().await?;
                }
                stream.write_all(b"0\r\n\r\n").await?;
            }
        }
        stream.flush().await?;
    }
}
