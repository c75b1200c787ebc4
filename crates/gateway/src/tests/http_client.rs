//! A raw HTTP client: tests see every byte.

use std::net::SocketAddr;

use bytes::Bytes;
use taskgate_wire::sse::{Decoder, Event};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The body as JSON; of a stream, its last message.
    pub(crate) fn json(&self) -> serde_json::Value {
        if self.header("content-type") == Some("text/event-stream") {
            return self.messages().pop().expect("a stream with a message");
        }
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// All messages of a stream.
    pub(crate) fn messages(&self) -> Vec<serde_json::Value> {
        let mut events = Vec::new();
        Decoder::new(1 << 24).feed(self.body.as_bytes(), &mut events).unwrap();
        events
            .iter()
            .filter(|event| !event.data.is_empty())
            .map(|event| serde_json::from_slice(&event.data).unwrap())
            .collect()
    }
}

fn find<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// A response that is still coming.
pub(crate) struct Open {
    stream: TcpStream,
    buffer: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    decoder: Decoder,
    events: std::collections::VecDeque<Event>,
    is_over: bool,
}

/// Sends a request and reads the head of the response.
pub(crate) async fn open(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Open {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if find_pair(headers, "host").is_none() {
        head.push_str(&format!("host: {addr}\r\n"));
    }
    for (name, value) in headers.iter().filter(|(_, value)| *value != "-") {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body
        && find_pair(headers, "content-length").is_none()
    {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server may refuse before it has read all of it.
    let _ = stream.write_all(body.unwrap_or_default()).await;
    let mut open = Open {
        stream,
        buffer: Vec::new(),
        status: 0,
        headers: Vec::new(),
        decoder: Decoder::new(1 << 24),
        events: std::collections::VecDeque::new(),
        is_over: false,
    };
    open.head().await;
    open
}

fn find_pair<'h>(headers: &[(&str, &'h str)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

impl Open {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    async fn more(&mut self) -> bool {
        let mut chunk = [0; 4096];
        let read = self.stream.read(&mut chunk).await.unwrap_or(0);
        self.buffer.extend_from_slice(&chunk[..read]);
        read > 0
    }

    async fn head(&mut self) {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            assert!(
                self.more().await,
                "the connection ended before the head: {:?}",
                String::from_utf8_lossy(&self.buffer)
            );
        };
        let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).unwrap();
        let mut lines = head.lines();
        self.status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        self.headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
    }

    /// The next chunk of a chunked body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let size = std::str::from_utf8(&self.buffer[..at]).unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                if self.buffer.len() >= at + 2 + size + 2 {
                    let chunk = self.buffer.drain(..at + 2 + size + 2).skip(at + 2).take(size).collect();
                    return (size > 0).then_some(chunk);
                }
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// The next event of a stream; `None` at its end.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            match self.chunk().await {
                Some(chunk) => {
                    let mut events = Vec::new();
                    self.decoder.feed(&chunk, &mut events).unwrap();
                    self.events.extend(events);
                }
                None => self.is_over = true,
            }
        }
    }

    /// The next message of a stream; `None` at its end.
    pub(crate) async fn message(&mut self) -> Option<serde_json::Value> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some(serde_json::from_slice(&event.data).unwrap());
            }
        }
    }

    /// Reads it to its end.
    pub(crate) async fn finish(mut self) -> Response {
        let mut body = Vec::new();
        if let Some(length) = self.header("content-length").map(|length| length.parse::<usize>().unwrap()) {
            while self.buffer.len() < length && self.more().await {}
            body.extend_from_slice(&self.buffer);
        } else if self.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await {
                body.extend_from_slice(&chunk);
            }
        }
        Response { status: self.status, headers: self.headers, body: String::from_utf8(body).unwrap() }
    }
}
