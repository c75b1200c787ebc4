//! One connection to a keeper after the other.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::ledger::{Heard, Numbered};
use super::{Ended, Parts, Shared, link};
use crate::attachment::Attachment;
use crate::frame::{Decoder, End, Frame, Kind};
use crate::hello;
use crate::reach::{Reached, Surroundings};

/// Largest message from the keeper: the largest from a server, and what is said around it.
const RESULT_BYTES_MAX: usize = 72 << 20;

/// A connection that lived less than this says that something is wrong with the keeper; so does one that ended before the
/// host, which waits, was answered anything.
const QUICK: Duration = Duration::from_secs(3);
/// So many in a row are enough.
const QUICK_MAX: u32 = 5;
/// How long a pipe of an old version lets newer ones go first.
const GIVE_WAY: Duration = Duration::from_millis(300);

/// Pause after the first of them; it doubles.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Driver {
    shared: Arc<Shared>,
    attachment: Attachment,
    surroundings: Surroundings,
    generation: u64,
    was_told_of_fallback: bool,
    /// Whether the last keeper was of an older version than we are.
    is_newer_than_keeper: bool,
    /// Whether the host was answered something over this connection.
    has_answered: bool,
    piece: Vec<u8>,
}

/// How one connection ended.
enum After {
    /// The keeper is gone.
    Lost,
    /// It said why it ends.
    Ended(End),
    /// It does not serve us, or its server does not start; in words.
    Unserved(String),
    /// The host no longer reads.
    HostGone,
}

/// What one frame means for the connection.
enum Next {
    /// It goes on.
    More,
    /// The session is open again.
    Reopened,
    /// It is over.
    Over(After),
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, parts: Parts) -> Driver {
        let Parts { attachment, surroundings } = parts;
        Driver {
            shared,
            attachment,
            surroundings,
            generation: 0,
            was_told_of_fallback: false,
            is_newer_than_keeper: false,
            has_answered: false,
            piece: vec![0; 64 << 10],
        }
    }

    pub(super) fn run(mut self) -> Ended {
        let mut quick = 0;
        loop {
            let begun = Instant::now();
            self.has_answered = false;
            let after = self.connection();
            if self.is_over() {
                return Ended::HostClosed;
            }
            match after {
                After::HostGone => return Ended::HostGone,
                // The newer `run` that it gave way to is to start the next one.
                After::Ended(End::GaveWay) if !self.is_newer_than_keeper => thread::sleep(GIVE_WAY),
                After::Ended(End::GaveWay | End::Done) => {}
                After::Ended(End::Stopped) => {
                    if !self.hold() {
                        return Ended::HostClosed;
                    }
                }
                After::Unserved(words) => {
                    if self.give_up(&words).is_err() {
                        return Ended::HostGone;
                    }
                    if !self.hold() {
                        return Ended::HostClosed;
                    }
                }
                After::Lost => {
                    // A call by which each keeper ends must not be sent for ever, however long each of them lives.
                    let is_vain = !self.has_answered && self.shared.state.lock().ledger.is_waiting();
                    quick = if is_vain || begun.elapsed() < QUICK { quick + 1 } else { 0 };
                    if quick >= QUICK_MAX {
                        quick = 0;
                        let words = format!(
                            "taskgate's keeper ended {QUICK_MAX} times in a row; `taskgate keeper logs` may say why"
                        );
                        if self.give_up(&words).is_err() {
                            return Ended::HostGone;
                        }
                        if !self.hold() {
                            return Ended::HostClosed;
                        }
                    } else if quick > 0 {
                        thread::sleep(PAUSE * (1 << quick));
                    }
                }
            }
        }
    }

    /// The host closed its end, and nothing of it is waited for.
    fn is_over(&self) -> bool {
        let state = self.shared.state.lock();
        state.is_closing && !state.ledger.is_waiting()
    }

    /// Waits until the host wants something; `false` once it wants nothing any more.
    fn hold(&self) -> bool {
        let mut state = self.shared.state.lock();
        loop {
            if state.ledger.is_waiting() {
                return true;
            }
            if state.is_closing {
                return false;
            }
            self.shared.wanted.wait(&mut state);
        }
    }

    fn give_up(&self, words: &str) -> io::Result<()> {
        self.shared.say(words);
        let errors = self.shared.state.lock().ledger.give_up(words);
        errors.iter().try_for_each(|error| self.shared.out.lock().message(error))
    }

    fn connection(&mut self) -> After {
        let Reached { stream, host, place } = match self.surroundings.reach(hello::Kind::Attach) {
            Ok(reached) => reached,
            Err(unreached) => return After::Unserved(unreached.to_string()),
        };
        self.is_newer_than_keeper = hello::is_newer(&self.surroundings.version, &host.version);
        if place.is_fallback() && !self.was_told_of_fallback {
            self.was_told_of_fallback = true;
            self.shared.say(&format!(
                "the state folder cannot be written{}, so tasks are kept in {}: they survive every process, but perhaps no reboot",
                self.surroundings.trouble().map(|trouble| format!(" ({trouble})")).unwrap_or_default(),
                place.folder().display()
            ));
        }
        // What was asked of the keeper of one place is known there and nowhere else: were another place taken when this one
        // cannot be written any more, a call that is sent again would be made twice (R3.3).
        self.surroundings.places.retain(|known| known.folder() == place.folder());
        let stream = Arc::new(stream);
        let after = self.talk(&stream);
        self.shared.state.lock().live = None;
        self.shared.link.cut(&stream);
        let void = self.shared.state.lock().ledger.void_questions();
        if !matches!(after, After::HostGone)
            && void.iter().any(|message| self.shared.out.lock().message(message).is_err())
        {
            return After::HostGone;
        }
        after
    }

    fn talk(&mut self, stream: &Arc<UnixStream>) -> After {
        let mut frames = Frames { stream: stream.clone(), decoder: Decoder::new(RESULT_BYTES_MAX) };
        match self.attach(stream, &mut frames) {
            Ok(()) => {}
            Err(after) => return after,
        }
        // Nothing of the host's goes to the new keeper before the session is open there.
        let opening = {
            let mut state = self.shared.state.lock();
            state.ledger.reopen().map(|message| Numbered::new(state.ledger.next(), message))
        };
        let is_reopened = opening.is_some();
        if let Some(opening) = opening {
            if link::write(stream, Kind::Message, &opening).is_err() {
                return After::Lost;
            }
            loop {
                let Some(frame) = frames.next(&mut self.piece) else { return After::Lost };
                match self.heard(frame) {
                    Next::More => {}
                    Next::Reopened => break,
                    Next::Over(after) => return after,
                }
            }
        }
        self.go_live(stream, is_reopened);
        loop {
            let Some(frame) = frames.next(&mut self.piece) else { return After::Lost };
            match self.heard(frame) {
                Next::More | Next::Reopened => {}
                Next::Over(after) => return after,
            }
        }
    }

    fn attach(&mut self, stream: &UnixStream, frames: &mut Frames) -> Result<(), After> {
        // Structs of texts and numbers always have a JSON form.
        let payload = serde_json::to_vec(&self.attachment).unwrap_or_default();
        let attach = Numbered::new(0, Bytes::from(payload));
        link::write(stream, Kind::Attach, &attach).map_err(|_| After::Lost)?;
        loop {
            let frame = frames.next(&mut self.piece).ok_or(After::Lost)?;
            if frame.kind == Kind::Ready {
                return Ok(());
            }
            match self.heard(frame) {
                Next::More | Next::Reopened => {}
                Next::Over(after) => return Err(after),
            }
        }
    }

    /// From here on the host's messages go straight to the keeper, behind all that is sent again.
    fn go_live(&mut self, stream: &Arc<UnixStream>, is_reopened: bool) {
        self.generation += 1;
        let mut state = self.shared.state.lock();
        let mut first = Vec::new();
        if is_reopened {
            for message in state.ledger.rest_of_opening() {
                first.push(Numbered::new(state.ledger.next(), message));
            }
        }
        first.extend(state.ledger.again());
        state.live = Some(self.generation);
        self.shared.link.install(stream.clone(), self.generation, first);
        if state.is_closing {
            let close = Numbered::new(state.ledger.next(), Bytes::new());
            drop(state);
            self.shared.link.send(self.generation, Kind::Close, &close);
        }
    }

    fn heard(&mut self, frame: Frame) -> Next {
        match frame.kind {
            Kind::Message | Kind::Result => self.message(&frame),
            Kind::Stderr => {
                let mut line = frame.payload.to_vec();
                line.push(b'\n');
                self.shared.pass_on_stderr(line.into());
                Next::More
            }
            Kind::Notice => {
                self.shared.say(&String::from_utf8_lossy(&frame.payload));
                Next::More
            }
            Kind::Refused => {
                Next::Over(After::Unserved(String::from_utf8_lossy(&frame.payload).into_owned()))
            }
            Kind::End => Next::Over(After::Ended(End::read(&frame.payload))),
            // What only a pipe says, and what was said already.
            Kind::Attach | Kind::Ack | Kind::Close | Kind::Ready | Kind::Age => Next::More,
        }
    }

    fn message(&mut self, frame: &Frame) -> Next {
        let heard = self.shared.state.lock().ledger.keeper(&frame.payload);
        match heard {
            Heard::Pass(answered) => {
                if frame.kind == Kind::Result {
                    self.shared.link.delivering();
                }
                if self.shared.out.lock().message(&frame.payload).is_err() {
                    return Next::Over(After::HostGone);
                }
                if !answered.is_empty() {
                    self.has_answered = true;
                    self.shared.state.lock().ledger.written(&answered);
                }
                if frame.kind == Kind::Result {
                    self.shared.link.ack(frame.sequence);
                }
                Next::More
            }
            Heard::Swallow => Next::More,
            Heard::Reopened => Next::Reopened,
            Heard::NotReopened(words) => Next::Over(After::Unserved(words)),
        }
    }
}

/// The keeper's frames, as they come.
struct Frames {
    stream: Arc<UnixStream>,
    decoder: Decoder,
}

impl Frames {
    /// The next one; `None` once the connection is of no use.
    fn next(&mut self, piece: &mut [u8]) -> Option<Frame> {
        loop {
            match self.decoder.take() {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => {}
                Err(_) => return None,
            }
            match (&*self.stream).read(piece) {
                Ok(0) => return None,
                Ok(count) => self.decoder.extend(piece.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}
