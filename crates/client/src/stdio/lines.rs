//! Writing to a server's stdin: a line at a time, in order, and knowing what left us.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What may wait for a server that does not read. More than this is refused, unsent.
const BACKLOG_BYTES_MAX: usize = 128 << 20;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Lines {
    state: Mutex<State>,
    wake: Notify,
    broken: CancellationToken,
}

#[derive(Debug)]
struct State {
    pipe: Option<Arc<pipe::Sender>>,
    backlog: VecDeque<Line>,
    backlog_bytes: usize,
}

#[derive(Debug)]
struct Line {
    id: Option<u64>,
    text: Bytes,
    written: usize,
}

impl Line {
    /// Writes as much as the pipe takes; `true` once all of it is gone.
    fn write(&mut self, pipe: &pipe::Sender) -> io::Result<bool> {
        while self.written <= self.text.len() {
            let rest = self.text.get(self.written..).unwrap_or_default();
            match pipe.try_write_vectored(&[IoSlice::new(rest), IoSlice::new(b"\n")]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Lines {
    pub(crate) fn new(pipe: pipe::Sender) -> Arc<Lines> {
        let state = State { pipe: Some(Arc::new(pipe)), backlog: VecDeque::new(), backlog_bytes: 0 };
        Arc::new(Lines { state: Mutex::new(state), wake: Notify::new(), broken: CancellationToken::new() })
    }

    /// Sends one message, at once if the pipe takes it, else when it does. `Err`: no byte of it left, nor will.
    ///
    /// White space between tokens may hold newlines when a client wrote it over HTTP; in a line it may not.
    pub(crate) fn send(&self, id: Option<u64>, text: Bytes) -> Result<(), &'static str> {
        let mut line = Line { id, text: in_one_line(text), written: 0 };
        let mut state = self.state.lock();
        let Some(pipe) = &state.pipe else { return Err("its input is closed") };
        if state.backlog.is_empty() {
            match line.write(pipe) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(_) if line.written == 0 => return Err("it has closed its input"),
                // The end of the process, which this brings about, resolves the exchange as lost.
                Err(_) => {
                    self.broken.cancel();
                    return Ok(());
                }
            }
        } else if state.backlog_bytes + line.text.len() > BACKLOG_BYTES_MAX {
            return Err("it does not read its input");
        }
        state.backlog_bytes += line.text.len();
        state.backlog.push_back(line);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Takes a message back that nobody wants any more. `true` if no byte of it had left.
    pub(crate) fn recall(&self, id: u64) -> bool {
        let mut state = self.state.lock();
        let at = state.backlog.iter().position(|line| line.id == Some(id) && line.written == 0);
        let Some(line) = at.and_then(|at| state.backlog.remove(at)) else { return false };
        state.backlog_bytes -= line.text.len();
        true
    }

    /// Closes the server's stdin.
    pub(crate) fn close(&self) {
        self.state.lock().pipe = None;
        self.wake.notify_one();
    }

    /// Waits until the pipe takes something; before that nothing is tried, as far as tokio is concerned.
    async fn prime(&self) {
        let pipe = self.state.lock().pipe.clone();
        if let Some(pipe) = pipe {
            let _ = pipe.writable().await;
        }
    }

    /// Writes what could not be written at once, until [`Lines::close`].
    pub(crate) async fn run(&self) {
        self.prime().await;
        loop {
            self.wake.notified().await;
            loop {
                let Some(pipe) = self.waiting() else { break };
                tokio::select! {
                    ready = pipe.writable() => {
                        if ready.is_err() {
                            return;
                        }
                    }
                    () = self.wake.notified() => {}
                }
                drop(pipe);
                self.flush();
            }
            if self.state.lock().pipe.is_none() {
                return;
            }
        }
    }

    fn waiting(&self) -> Option<Arc<pipe::Sender>> {
        let state = self.state.lock();
        if state.backlog.is_empty() { None } else { state.pipe.clone() }
    }

    fn flush(&self) {
        let mut state = self.state.lock();
        let Some(pipe) = state.pipe.clone() else { return };
        while let Some(line) = state.backlog.front_mut() {
            match line.write(&pipe) {
                Ok(true) => {
                    let len = line.text.len();
                    state.backlog_bytes -= len;
                    state.backlog.pop_front();
                }
                Ok(false) => return,
                Err(_) => {
                    // What waits stays in the backlog, so that whoever asks learns that it never left.
                    state.pipe = None;
                    self.broken.cancel();
                    return;
                }
            }
        }
    }

    /// Resolves when a message could be written in part only.
    pub(crate) async fn broken(&self) {
        self.broken.cancelled().await;
    }
}

fn in_one_line(text: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &text).is_none() {
        return text;
    }
    let is_break = |byte: u8| byte == b'\n' || byte == b'\r';
    text.iter().map(|byte| if is_break(*byte) { b' ' } else { *byte }).collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_121_b_049_a_message_is_one_line_whatever_its_white_space() {
        let (sender, mut receiver) = pipe::pipe().unwrap();
        let lines = Lines::new(sender);
        lines.prime().await;
        lines.send(None, Bytes::from_static(b"{\r\n \"a\": 1\n}")).unwrap();
        lines.close();
        let mut all = String::new();
        receiver.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "{   \"a\": 1 }\n");
    }

    #[tokio::test]
    async fn what_a_full_pipe_does_not_take_follows_in_order_or_is_recalled() {
        let (sender, mut receiver) = pipe::pipe().unwrap();
        let lines = Lines::new(sender);
        lines.prime().await;
        let large = Bytes::from(vec![b'x'; 300_000]);
        lines.send(Some(1), large.clone()).unwrap();
        lines.send(Some(2), Bytes::from_static(b"second")).unwrap();
        lines.send(Some(3), Bytes::from_static(b"third")).unwrap();
        assert!(!lines.recall(1), "its first bytes are gone");
        assert!(lines.recall(2));
        let writing = tokio::spawn({
            let lines = lines.clone();
            async move { lines.run().await }
        });
        let mut all = vec![0; 300_000 + 1 + 6];
        receiver.read_exact(&mut all).await.unwrap();
        assert_eq!(&all[300_000..], b"\nthird\n"[..7].as_ref());
        lines.close();
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn a_closed_pipe_says_that_nothing_left() {
        let (sender, receiver) = pipe::pipe().unwrap();
        let lines = Lines::new(sender);
        lines.prime().await;
        drop(receiver);
        assert!(lines.send(Some(1), Bytes::from_static(b"x")).is_err());
    }
}
