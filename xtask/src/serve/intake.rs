//! Requests of one connection, read without a framework.

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::load::connection::find;

const READ_BYTES: usize = 8 << 10;

/// What was read and not yet answered.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    received: Vec<u8>,
    taken: usize,
}

impl Intake {
    /// The next request's body; `None` if its method is not POST. The inner end of the connection is an error.
    pub(crate) async fn next(&mut self, stream: &mut TcpStream) -> Result<Option<&[u8]>> {
        self.received.drain(..self.taken);
        self.taken = 0;
        let head_end = loop {
            if let Some(at) = find(&self.received, b"\r\n\r\n") {
                break at + 4;
            }
            self.read(stream).await?;
        };
        let head = std::str::from_utf8(&self.received[..head_end])?;
        let is_post = head.starts_with("POST ");
        let length = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map_or(Ok(0), |(_, length)| length.trim().parse::<usize>())
            .context("Content-Length")?;
        self.taken = head_end + length;
        while self.received.len() < self.taken {
            self.read(stream).await?;
        }
        Ok(is_post.then(|| &self.received[head_end..self.taken]))
    }

    /// Waits until the peer goes away.
    pub(crate) async fn end(&mut self, stream: &mut TcpStream) {
        while self.read(stream).await.is_ok() {}
    }

    async fn read(&mut self, stream: &mut TcpStream) -> Result<()> {
        self.received.reserve(READ_BYTES);
        let count = stream.read_buf(&mut self.received).await?;
        ensure!(count > 0, "closed");
        Ok(())
    }
}
