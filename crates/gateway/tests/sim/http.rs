//! One HTTP request over a connection in memory, byte by byte; it breaks off where its client wants it to.

use std::sync::Arc;

use taskgate_gateway::Gateway;
use taskgate_wire::sse::{Decoder, Event};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;

/// A response that is still coming.
pub(crate) struct Coming {
    stream: DuplexStream,
    buffer: Vec<u8>,
    /// How many bytes are read yet before the client is gone.
    left: usize,
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    decoder: Decoder,
    events: std::collections::VecDeque<Event>,
    is_over: bool,
}

/// The connection ended, or was broken by its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    /// By its client.
    Cut,
    /// By the gateway, before all was said.
    Ended,
}

/// What is sent.
pub(crate) struct Request<'r> {
    pub(crate) method: &'r str,
    pub(crate) headers: &'r [(&'r str, &'r str)],
    pub(crate) body: &'r str,
}

/// Sends a request and reads the head of the response.
pub(crate) async fn open(
    gateway: &Arc<Gateway>,
    shutdown: &CancellationToken,
    request: Request<'_>,
    cut: Option<usize>,
) -> Result<Coming, Gone> {
    let (ours, theirs) = tokio::io::duplex(16 * 1024);
    tokio::spawn(gateway.clone().serve_connection(theirs, shutdown.clone()));
    let Request { method, headers, body } = request;
    let mut text = format!("{method} /s/mcp HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    let mut coming = Coming {
        stream: ours,
        buffer: Vec::new(),
        left: cut.unwrap_or(usize::MAX),
        status: 0,
        headers: Vec::new(),
        decoder: Decoder::new(1 << 20),
        events: std::collections::VecDeque::new(),
        is_over: false,
    };
    coming.stream.write_all(text.as_bytes()).await.map_err(|_| Gone::Ended)?;
    coming.head().await?;
    Ok(coming)
}

impl Coming {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    async fn more(&mut self) -> Result<(), Gone> {
        if self.left == 0 {
            return Err(Gone::Cut);
        }
        let mut chunk = [0; 2048];
        let most = self.left.min(chunk.len());
        let read = self.stream.read(&mut chunk[..most]).await.unwrap_or(0);
        self.left -= read;
        self.buffer.extend_from_slice(&chunk[..read]);
        if read > 0 { Ok(()) } else { Err(Gone::Ended) }
    }

    async fn head(&mut self) -> Result<(), Gone> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            self.more().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer.drain(..end + 4).collect::<Vec<_>>()).into_owned();
        let mut lines = head.lines();
        self.status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
        self.headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Ok(())
    }

    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Gone> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let size = std::str::from_utf8(&self.buffer[..at]).unwrap_or("x");
                let size = usize::from_str_radix(size, 16).map_err(|_| Gone::Ended)?;
                if self.buffer.len() >= at + 2 + size + 2 {
                    let chunk = self.buffer.drain(..at + 2 + size + 2).skip(at + 2).take(size).collect();
                    return Ok((size > 0).then_some(chunk));
                }
            }
            self.more().await?;
        }
    }

    /// The next event of a stream; `None` at its good end.
    pub(crate) async fn event(&mut self) -> Result<Option<Event>, Gone> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            match self.chunk().await? {
                Some(chunk) => {
                    let mut events = Vec::new();
                    self.decoder.feed(&chunk, &mut events).map_err(|_| Gone::Ended)?;
                    self.events.extend(events);
                }
                None => self.is_over = true,
            }
        }
    }

    /// A body that is no stream.
    pub(crate) async fn body(mut self) -> Result<Vec<u8>, Gone> {
        let length = self.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.buffer.len() < length {
            self.more().await?;
        }
        Ok(self.buffer)
    }
}
