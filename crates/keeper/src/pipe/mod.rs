//! The pipe behind `taskgate run`: the host's stdin and stdout on one side, the user's keeper on the other.
//!
//! It holds nothing that matters: killed at any moment, all work goes on in the keeper. And it holds all that a session
//! needs to survive the keeper: when that dies, the pipe starts the next one and goes on where it was. The host notices
//! nothing but time.
//!
//! - `ledger`: what must be remembered for that
//! - `stdio`: the host's end; `link`: the keeper's end
//! - `driver`: one connection after the other
//! - `signals`: SIGTERM and SIGINT

mod driver;
mod ledger;
mod link;
mod signals;
mod stdio;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use taskgate_wire::message;
use taskgate_wire::rpc_error::RpcError;

use crate::attachment::Attachment;
use crate::frame::Kind;
use crate::reach::Surroundings;
use driver::Driver;
use ledger::{Ledger, Numbered};
use link::Link;
use stdio::{Line, Lines, Out};

/// Largest message from a host; the gateway's own limit.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// How long answers under way are waited for once the host closed its end: the keeper's own patience and a bit.
const DRAIN: Duration = Duration::from_secs(7);

/// Lines for stderr that may wait for a host that does not read it; the next ones are dropped.
const STDERR_WAITING_MAX: usize = 1_024;

/// What a pipe is made of.
#[derive(Debug)]
pub struct Parts {
    /// What it attaches to.
    pub attachment: Attachment,
    /// Where the keeper is.
    pub surroundings: Surroundings,
}

/// How a pipe ended. All of these are the host's will.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It closed its end of our stdin.
    HostClosed,
    /// It no longer reads what we write.
    HostGone,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The host wants something, or nothing any more.
    wanted: Condvar,
    link: Link,
    out: Mutex<Out>,
    stderr: SyncSender<Bytes>,
}

#[derive(Debug)]
struct State {
    ledger: Ledger,
    /// The connection over which the host's messages go; none while there is none, or while a session is opened again.
    live: Option<u64>,
    /// The host closed its end.
    is_closing: bool,
}

/// Serves the host on our stdin and stdout until it ends.
///
/// # Errors
/// The system's, before anything was served.
pub fn run(parts: Parts) -> io::Result<Ended> {
    signals::exit_on_signals()?;
    let (stderr, lines) = sync_channel::<Bytes>(STDERR_WAITING_MAX);
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            ledger: Ledger::new(&parts.attachment.id.short()),
            live: None,
            is_closing: false,
        }),
        wanted: Condvar::new(),
        link: Link::default(),
        out: Mutex::new(Out::stdout()?),
        stderr,
    });
    spawn("stderr", move || {
        for line in lines {
            // A host that closed stderr has no interest in it.
            let _ = io::stderr().lock().write_all(&line);
        }
    })?;
    spawn("sender", {
        let shared = shared.clone();
        move || shared.link.keep_sending()
    })?;
    spawn("stdin", {
        let shared = shared.clone();
        move || shared.read_host()
    })?;
    Ok(Driver::new(shared, parts).run())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

impl Shared {
    /// Takes the host's messages until it closes its end.
    fn read_host(&self) {
        let mut lines = Lines::new(io::stdin(), MESSAGE_BYTES_MAX);
        loop {
            match lines.next() {
                Line::Message(line) if line.iter().all(u8::is_ascii_whitespace) => {}
                Line::Message(line) => self.take(line),
                Line::TooLong => {
                    let refusal = message::error(None, &RpcError::too_large(MESSAGE_BYTES_MAX));
                    // Whether the host still reads is noticed by who writes to it all the time.
                    let _ = self.out.lock().message(&refusal);
                }
                Line::End => break,
            }
        }
        self.close();
    }

    fn take(&self, line: Bytes) {
        let (noted, live) = {
            let mut state = self.state.lock();
            (state.ledger.host(line), state.live)
        };
        match live {
            Some(generation) => self.link.send(generation, Kind::Message, &noted.numbered),
            None if noted.waits => {
                self.wanted.notify_all();
            }
            // Nobody is there whom it could tell anything; what matters of it is in the ledger.
            None => {}
        }
    }

    fn close(&self) {
        let (sequence, live) = {
            let mut state = self.state.lock();
            state.is_closing = true;
            (state.ledger.next(), state.live)
        };
        self.wanted.notify_all();
        if let Some(generation) = live {
            self.link.send(generation, Kind::Close, &Numbered::new(sequence, Bytes::new()));
        }
        thread::sleep(DRAIN);
        // The host is gone, and so is everybody who could wait for more.
        std::process::exit(0);
    }

    /// A line for the person who reads the host's log.
    fn say(&self, line: &str) {
        self.pass_on_stderr(Bytes::from(format!("taskgate: {line}\n")));
    }

    fn pass_on_stderr(&self, line: Bytes) {
        // A host that does not read its stderr gets less of it, and everything else as before.
        let _ = self.stderr.try_send(line);
    }
}
