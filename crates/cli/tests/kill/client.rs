//! Clients of both dialects that live through the gateway's death: what they cannot have is an error, not a panic.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::process::PATIENCE;

/// The member of `_meta` that holds an idempotency key.
pub(crate) const KEY: &str = "taskgate/idempotency-key";

/// A request that is on its way.
pub(crate) struct Sent(TcpStream);

/// A legacy session that knows tasks and shows forms.
#[derive(Clone)]
pub(crate) struct Session(String);

impl Session {
    pub(crate) fn open(url: &str) -> io::Result<Session> {
        let capabilities = json!({ "elicitation": { "form": {} }, "tasks": { "cancel": {} } });
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client,
        });
        let (head, _) = send(url, &[], &request("initialize", &params))?.read()?;
        let id = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
        });
        let session = Session(id.ok_or_else(|| io::Error::other("no session"))?);
        let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        send(url, &session.headers(), &opened)?.read()?;
        Ok(session)
    }

    fn headers(&self) -> [(&str, &str); 2] {
        [("mcp-session-id", &self.0), ("mcp-protocol-version", "2025-11-25")]
    }

    pub(crate) fn send(&self, url: &str, method: &str, params: &Value) -> io::Result<Sent> {
        send(url, &self.headers(), &request(method, params))
    }

    pub(crate) fn ask(&self, url: &str, method: &str, params: &Value) -> io::Result<Value> {
        self.send(url, method, params)?.answer()
    }
}

/// A request of 2026-07-28 that takes tasks and shows forms.
pub(crate) fn modern(url: &str, method: &str, params: &Value) -> io::Result<Value> {
    let mut params = params.clone();
    let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({
        "elicitation": { "form": {} }, "extensions": { "io.modelcontextprotocol/tasks": {} },
    });
    let name = params["taskId"].as_str().or(params["name"].as_str()).unwrap_or_default().to_owned();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", &name)];
    send(url, &headers, &request(method, &params))?.answer()
}

fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn send(url: &str, headers: &[(&str, &str)], message: &Value) -> io::Result<Sent> {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_at(rest.find('/').unwrap());
    let body = message.to_string();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{request}\r\n{body}").as_bytes())?;
    Ok(Sent(stream))
}

impl Sent {
    fn read(mut self) -> io::Result<(String, String)> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes)?;
        let text = String::from_utf8(bytes).map_err(io::Error::other)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunk(body)? } else { body.to_owned() };
        Ok((head.to_owned(), body))
    }

    /// The whole response, in a document or on a stream.
    pub(crate) fn answer(self) -> io::Result<Value> {
        let (_, body) = self.read()?;
        let documents = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        let messages = documents.filter_map(|text| serde_json::from_str::<Value>(text).ok());
        let mut responses = messages.filter(|said| said["id"] == 1 && said.get("method").is_none());
        responses.next().ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, body.clone()))
    }
}

fn unchunk(mut body: &str) -> io::Result<String> {
    let mut out = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        if size == 0 {
            return Ok(out);
        }
        out.push_str(rest.get(..size).ok_or(io::ErrorKind::UnexpectedEof)?);
        body = rest[size..].strip_prefix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    }
}
