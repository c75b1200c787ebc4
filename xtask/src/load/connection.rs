//! One kept-alive HTTP/1.1 connection, read no further than is needed to check an answer.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Room that is made before each read; most answers fit.
const READ_BYTES: usize = 16 << 10;

/// Where a needle is looked for in a long body: an answer's id and its outcome stand at its ends.
const ENDS_BYTES: usize = 700;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    chunks: Vec<u8>,
}

/// An answer, in the connection's own buffer.
#[derive(Debug)]
pub(crate) struct Answer<'c> {
    pub(crate) status: u16,
    head: &'c [u8],
    pub(crate) body: &'c [u8],
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, received: Vec::with_capacity(READ_BYTES), chunks: Vec::new() })
    }

    /// Sends a whole request and reads the whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.received.clear();
        let head_end = loop {
            self.read().await?;
            if let Some(at) = find(&self.received, b"\r\n\r\n") {
                break at + 4;
            }
        };
        let status = status(&self.received)?;
        let length = match header(&self.received[..head_end], "content-length") {
            Some(length) => Some(length.parse::<usize>().context("Content-Length")?),
            None if matches!(status, 202 | 204) => Some(0),
            None => None,
        };
        match length {
            Some(length) => {
                while self.received.len() < head_end + length {
                    self.read().await?;
                }
                ensure!(self.received.len() == head_end + length, "more came than was asked for");
                let (head, body) = self.received.split_at(head_end);
                Ok(Answer { status, head, body })
            }
            None => {
                self.read_chunks(head_end).await?;
                Ok(Answer { status, head: &self.received[..head_end], body: &self.chunks })
            }
        }
    }

    async fn read_chunks(&mut self, head_end: usize) -> Result<()> {
        self.chunks.clear();
        let mut at = head_end;
        loop {
            let size_end = loop {
                match find(&self.received[at..], b"\r\n") {
                    Some(end) => break at + end,
                    None => self.read().await?,
                }
            };
            let size = std::str::from_utf8(&self.received[at..size_end])?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).context("the size of a chunk")?;
            let data = size_end + 2;
            while self.received.len() < data + size + 2 {
                self.read().await?;
            }
            if size == 0 {
                return Ok(());
            }
            self.chunks.extend_from_slice(&self.received[data..data + size]);
            at = data + size + 2;
        }
    }

    async fn read(&mut self) -> Result<()> {
        self.received.reserve(READ_BYTES);
        if self.stream.read_buf(&mut self.received).await? == 0 {
            bail!("the connection was closed in an answer: {}", String::from_utf8_lossy(&self.received));
        }
        Ok(())
    }
}

impl Answer<'_> {
    /// Makes sure of a success that holds all of `needles` near the ends of its body.
    pub(crate) fn expect(&self, needles: &[&str]) -> Result<()> {
        let is_there = |needle: &&str| {
            let ends = [&self.body[..self.body.len().min(ENDS_BYTES)], {
                &self.body[self.body.len().saturating_sub(ENDS_BYTES)..]
            }];
            ends.iter().any(|end| find(end, needle.as_bytes()).is_some())
        };
        if self.status == 200 && needles.iter().all(is_there) {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&self.body[..self.body.len().min(ENDS_BYTES)]);
        bail!("wanted 200 with {needles:?}, got {} with {said}", self.status)
    }

    /// The text of a string member, taken by its name alone.
    pub(crate) fn text(&self, member: &str) -> Result<&str> {
        let start = format!("\"{member}\":\"");
        let at = find(self.body, start.as_bytes()).with_context(|| format!("no {member} in the answer"))?;
        let rest = &self.body[at + start.len()..];
        let end = rest.iter().position(|byte| *byte == b'"').context("a string has no end")?;
        Ok(std::str::from_utf8(&rest[..end])?)
    }

    /// The session id that came with it.
    pub(crate) fn session(&self) -> Option<&str> {
        header(self.head, "mcp-session-id")
    }
}

fn status(received: &[u8]) -> Result<u16> {
    let line = received.get(9..12).context("a short status line")?;
    Ok(std::str::from_utf8(line)?.parse()?)
}

fn header<'h>(head: &'h [u8], name: &str) -> Option<&'h str> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let is_it = line[..colon].eq_ignore_ascii_case(name.as_bytes());
        is_it.then(|| std::str::from_utf8(&line[colon + 1..]).ok().map(str::trim)).flatten()
    })
}

/// Where `needle` begins.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut at = 0;
    while let Some(step) = haystack.get(at..)?.iter().position(|byte| *byte == first) {
        at += step;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn answered(parts: &'static [&'static str]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 64];
            let _ = stream.read(&mut request).await.unwrap();
            for part in parts {
                stream.write_all(part.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        Connection::open(address).await.unwrap()
    }

    #[tokio::test]
    async fn a_whole_answer_is_read_and_checked() {
        let parts =
            &["HTTP/1.1 200 OK\r\nMcp-Session-Id: s1\r\nContent-", "Length: 13\r\n\r\n{\"a\":\"bcd", "\",1}"];
        let mut connection = answered(parts).await;
        let answer = connection.exchange(b"x").await.unwrap();
        assert_eq!((answer.session(), answer.text("a").unwrap()), (Some("s1"), "bcd"));
        answer.expect(&["bcd"]).unwrap();
        assert!(answer.expect(&["bcd", "x"]).is_err());
    }

    #[tokio::test]
    async fn chunks_are_put_together() {
        let parts = &[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc",
            "\r\n2;x\r\nde\r\n0\r",
            "\n\r\n",
        ];
        let mut connection = answered(parts).await;
        assert_eq!(connection.exchange(b"x").await.unwrap().body, b"abcde");
    }

    #[tokio::test]
    async fn what_breaks_off_is_an_error() {
        let mut connection = answered(&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"]).await;
        assert!(connection.exchange(b"x").await.is_err());
    }

    #[test]
    fn needles_are_found() {
        assert_eq!(find(b"aab", b"ab"), Some(1));
        assert_eq!(find(b"aab", b"b"), Some(2));
        assert_eq!(find(b"aab", b"abc"), None);
        assert_eq!(find(b"", b"a"), None);
    }
}
