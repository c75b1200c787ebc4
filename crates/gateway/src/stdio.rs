//! The stdio listener: one client's messages as lines (A-121, B-049 to B-053).

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use taskgate_core::id::{Principal, ServerName, TaskId};
use taskgate_wire::message;
use taskgate_wire::rpc_error::RpcError;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::outlet::WAITING_MAX;
use crate::pipe::{Attached, Incoming, Outgoing};

/// Lines that are read ahead.
const AHEAD: usize = 16;

impl Gateway {
    /// Serves the person at this machine on a pipe, as [`Gateway::serve_pipe`] does, a message a line.
    ///
    /// # Errors
    /// The pipe's, or [`io::ErrorKind::NotFound`] for a server that is not configured.
    pub async fn serve_stdio<R, W>(
        self: &Arc<Self>,
        stdin: R,
        stdout: W,
        server: &ServerName,
        shutdown: CancellationToken,
    ) -> io::Result<()>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (lines, incoming) = mpsc::channel(AHEAD);
        let (outgoing, messages) = mpsc::channel(WAITING_MAX);
        let gateway = self.clone();
        let hand_over = move |task: &TaskId| gateway.engine.handed_over(&Principal::local(), task);
        let writer = tokio::spawn(write(stdout, messages, hand_over));
        let max = self.config.limits.message_bytes_max;
        let reading = read(BufReader::new(stdin), max, lines, outgoing.clone());
        let attached = Attached { server: server.clone(), principal: Principal::local() };
        let serving = self.serve_pipe(attached, incoming, outgoing, shutdown);
        let (read, served) = together(reading, serving).await;
        served?;
        // The last way to the writer went with the serving; it ends when everything is written.
        match tokio::time::timeout(self.config.limits.drain.duration(), writer).await {
            Ok(Ok(written)) => read.and(written),
            Ok(Err(_)) | Err(_) => read,
        }
    }
}

/// Reads for as long as the other serves. The end of the reading ends the serving, by the channel between them.
async fn together(
    reading: impl Future<Output = io::Result<()>>,
    serving: impl Future<Output = io::Result<()>>,
) -> (io::Result<()>, io::Result<()>) {
    tokio::pin!(reading, serving);
    tokio::select! {
        served = &mut serving => (Ok(()), served),
        read = &mut reading => (read, serving.await),
    }
}

/// Hands on line by line, to the end.
async fn read<R: AsyncBufRead + Unpin>(
    mut stdin: R,
    max: usize,
    lines: mpsc::Sender<Incoming>,
    outgoing: mpsc::Sender<Outgoing>,
) -> io::Result<()> {
    loop {
        match read_line(&mut stdin, max).await? {
            Line::End => return Ok(()),
            Line::TooLong => {
                let message = message::error(None, &RpcError::too_large(max));
                // A reader that is gone wants nothing.
                let _ = outgoing.send(Outgoing { message, delivers: None }).await;
            }
            Line::Message(message) => {
                if lines
                    .send(Incoming { message, frame: None, since: Instant::now(), is_again: false })
                    .await
                    .is_err()
                {
                    return Ok(());
                }
            }
        }
    }
}

enum Line {
    Message(Bytes),
    TooLong,
    End,
}

/// Reads up to the next line feed. A line over the limit is skipped to its end.
async fn read_line<R: AsyncBufRead + Unpin>(stdin: &mut R, max: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut is_long = false;
    loop {
        let chunk = stdin.fill_buf().await?;
        if chunk.is_empty() {
            // What comes without a line feed before the end is a message all the same.
            return Ok(match (is_long, line.is_empty()) {
                (true, _) => Line::TooLong,
                (false, true) => Line::End,
                (false, false) => Line::Message(Bytes::from(line)),
            });
        }
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        if line.len() + part.len() > max {
            is_long = true;
            line.clear();
        } else if !is_long {
            line.extend_from_slice(part);
        }
        let used = end.map_or(chunk.len(), |end| end + 1);
        stdin.consume(used);
        if end.is_some() {
            return Ok(if is_long { Line::TooLong } else { Line::Message(Bytes::from(line)) });
        }
    }
}

/// Writes one message a line, and says of which tasks it wrote the results.
async fn write<W: AsyncWrite + Unpin>(
    mut stdout: W,
    mut messages: mpsc::Receiver<Outgoing>,
    hand_over: impl Fn(&TaskId),
) -> io::Result<()> {
    while let Some(Outgoing { message, delivers }) = messages.recv().await {
        stdout.write_all(&message).await?;
        if let Some(task) = &delivers {
            // Before the line is whole: the client's next call must find it noted.
            stdout.flush().await?;
            hand_over(task);
        }
        stdout.write_all(b"\n").await?;
        if messages.is_empty() {
            stdout.flush().await?;
        }
    }
    stdout.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_121_lines_are_read_and_overlong_ones_skipped() {
        let mut stdin: &[u8] = b"one\nmuch too long a line\nthree";
        let mut read = Vec::new();
        loop {
            match read_line(&mut stdin, 8).await.unwrap() {
                Line::Message(line) => read.push(String::from_utf8(line.to_vec()).unwrap()),
                Line::TooLong => read.push("-".to_owned()),
                Line::End => break,
            }
        }
        assert_eq!(read, ["one", "-", "three"]);
    }
}
