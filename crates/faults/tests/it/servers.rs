//! Each kind of server pays once a call, says what it did, and says the same in its file.

use std::net::SocketAddr;

use serde_json::{Value, json};
use taskgate_faults::books::Books;
use taskgate_faults::server::{self, Kind, Server, Word};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::bank::open;

fn message(kind: Kind, method: &str, mut params: Value) -> Value {
    if matches!(kind, Kind::PlainModern | Kind::B) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        });
    }
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

async fn post(to: SocketAddr, session: &str, message: &Value) -> (String, Value) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let body = message.to_string();
    let text = format!(
        "POST /mcp HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{session}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

/// Pays through a server of a kind, with or without a task, and gives back the tool's result.
async fn pays(kind: Kind, to: SocketAddr, key: &str) -> Value {
    let mut session = String::new();
    if matches!(kind, Kind::Plain | Kind::A) {
        let opening =
            message(kind, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
        let (head, _) = post(to, "", &opening).await;
        let line = head.lines().find(|line| line.starts_with("mcp-session-id")).unwrap();
        session = format!("{line}\r\n");
    }
    let ask = |method: &str, params: Value| {
        let (message, session) = (message(kind, method, params), session.clone());
        async move { post(to, &session, &message).await.1["result"].clone() }
    };
    let mut call = json!({ "name": "pay", "arguments": { "key": key, "object": "o", "amount": 3 } });
    if kind == Kind::A {
        call["task"] = json!({});
    }
    let said = ask("tools/call", call).await;
    match kind {
        Kind::Plain | Kind::PlainModern => said,
        Kind::A => {
            let id = said["task"]["taskId"].clone();
            assert!(id.as_str().unwrap().contains(key), "{said}");
            ask("tasks/result", json!({ "taskId": id })).await
        }
        Kind::B => loop {
            let task = ask("tasks/get", json!({ "taskId": said["taskId"] })).await;
            if task["status"] != "working" {
                break task["result"].clone();
            }
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_pays_once_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (books, said) = (folder.path().join("books"), folder.path().join("said"));
    let (bank, _serving) = open(&books).await;
    for (at, kind) in [Kind::Plain, Kind::PlainModern, Kind::A, Kind::B].into_iter().enumerate() {
        let key = format!("k{at}");
        let server = Server::new(kind, bank, Some(&said), None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { server.http(listener).await });
        let result = pays(kind, address, &key).await;
        assert_eq!(result["structuredContent"]["receipt"], json!(format!("r-{key}-1")), "{kind:?}: {result}");
        assert_eq!(Books::read(&books).unwrap().account(&key).applied, 1);
        let last = server::said(&said).unwrap().pop().unwrap();
        assert_eq!((last.key, last.word), (key, Word::Success));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_lines_many_calls_are_under_way_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (bank, _serving) = open(&folder.path().join("books")).await;
    let server = Server::new(Kind::Plain, bank, None, None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    tokio::spawn(async move { server.lines(listener).await });
    let (from, mut to) = stream.into_split();
    for at in 0..5 {
        let mut call = message(
            Kind::Plain,
            "tools/call",
            json!({
                "name": "pay", "arguments": { "key": format!("k{at}"), "amount": 1 },
            }),
        );
        call["id"] = json!(at);
        to.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    }
    let mut lines = BufReader::new(from).lines();
    for _ in 0..5 {
        let line: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        let key = format!("k{}", line["id"]);
        assert_eq!(line["result"]["structuredContent"]["key"], json!(key), "{line}");
    }
}
