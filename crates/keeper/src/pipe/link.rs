//! The way to the keeper.
//!
//! Two threads write to it: the one that reads the host's messages, and one that sends what would make the reader of
//! the keeper's messages wait (what is sent again, and confirmations). That reader never writes itself: while it waits
//! for the keeper to read, it would read nothing, and both sides could wait for each other for ever.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::ledger::Numbered;
use super::stdio::write_both;
use crate::frame::{self, Kind};

/// The connection that there is now, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Link {
    current: Mutex<Option<Current>>,
    outbox: Mutex<Outbox>,
    filled: Condvar,
    delivered: Condvar,
}

/// How long a message of the host waits for the confirmation of a result that is just being written. The host cannot
/// have read that result yet unless the write is as good as done; one that does not read must not be waited for.
const CONFIRMATION: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Current {
    stream: Arc<UnixStream>,
    generation: u64,
}

/// What goes out before anything else does.
#[derive(Debug, Default)]
struct Outbox {
    messages: VecDeque<Numbered>,
    /// Everything up to this frame of the keeper's is with the host.
    ack: Option<u64>,
    /// A result is being written to the host.
    is_delivering: bool,
}

impl Link {
    /// Uses `stream` from now on, beginning with `first`.
    pub(crate) fn install(&self, stream: Arc<UnixStream>, generation: u64, first: Vec<Numbered>) {
        let mut current = self.current.lock();
        let mut outbox = self.outbox.lock();
        *outbox = Outbox { messages: first.into(), ..Outbox::default() };
        *current = Some(Current { stream, generation });
        self.filled.notify_one();
    }

    /// Uses `stream` no more. Whoever writes to it is woken by an error.
    pub(crate) fn cut(&self, stream: &UnixStream) {
        // It may be closed already.
        let _ = stream.shutdown(Shutdown::Both);
        *self.current.lock() = None;
    }

    /// Sends a frame over the connection of that generation. One that is gone is noticed by its reader, and what waits
    /// for an answer is sent again; so there is nothing to tell here.
    pub(crate) fn send(&self, generation: u64, kind: Kind, numbered: &Numbered) {
        let current = self.current.lock();
        let Some(current) = current.as_ref().filter(|current| current.generation == generation) else {
            return;
        };
        self.wait_for_confirmation();
        let sent = self.flush(current).and_then(|()| write(&current.stream, kind, numbered));
        if sent.is_err() {
            let _ = current.stream.shutdown(Shutdown::Both);
        }
    }

    /// A result is written to the host from now on, until [`Link::ack`].
    pub(crate) fn delivering(&self) {
        self.outbox.lock().is_delivering = true;
    }

    /// Confirms that everything up to the keeper's frame `sequence` is with the host.
    pub(crate) fn ack(&self, sequence: u64) {
        {
            let mut outbox = self.outbox.lock();
            outbox.ack = Some(sequence);
            outbox.is_delivering = false;
        }
        self.delivered.notify_all();
        self.filled.notify_one();
    }

    /// What a host sends after it has a result must come after the confirmation of that: the same call again is a new
    /// one.
    fn wait_for_confirmation(&self) {
        let mut outbox = self.outbox.lock();
        if outbox.is_delivering {
            let _ = self.delivered.wait_for(&mut outbox, CONFIRMATION);
        }
    }

    /// Sends what was put into the outbox, for ever.
    pub(crate) fn keep_sending(&self) {
        loop {
            {
                let mut outbox = self.outbox.lock();
                while outbox.is_empty() {
                    self.filled.wait(&mut outbox);
                }
            }
            let current = self.current.lock();
            match current.as_ref() {
                Some(current) => {
                    if self.flush(current).is_err() {
                        let _ = current.stream.shutdown(Shutdown::Both);
                    }
                }
                None => *self.outbox.lock() = Outbox::default(),
            }
        }
    }

    fn flush(&self, current: &Current) -> io::Result<()> {
        loop {
            let (message, ack) = {
                let mut outbox = self.outbox.lock();
                match outbox.messages.pop_front() {
                    Some(message) => (Some(message), None),
                    None => (None, outbox.ack.take()),
                }
            };
            match (message, ack) {
                (Some(message), _) => again(&current.stream, &message)?,
                (None, Some(sequence)) => {
                    write(&current.stream, Kind::Ack, &Numbered::new(sequence, Bytes::new()))?;
                }
                (None, None) => return Ok(()),
            }
        }
    }
}

impl Outbox {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.ack.is_none()
    }
}

/// Writes a message that the host sent a while ago, and before it how long ago.
fn again(stream: &UnixStream, numbered: &Numbered) -> io::Result<()> {
    if let Some(since) = numbered.since {
        let age = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let age = Bytes::copy_from_slice(&age.to_le_bytes());
        write(stream, Kind::Age, &Numbered::new(numbered.sequence, age))?;
    }
    write(stream, Kind::Message, numbered)
}

/// Writes one frame.
pub(crate) fn write(mut stream: &UnixStream, kind: Kind, numbered: &Numbered) -> io::Result<()> {
    let header = frame::header(kind, numbered.sequence, numbered.message.len())?;
    write_both(&mut stream, &header, &numbered.message)
}
