//! Finding the user's keeper, or starting it.
//!
//! All of it is blocking: it runs in `run` and in short commands, where nothing else has to go on meanwhile.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use nix::unistd::{AccessFlags, access, geteuid};
use tokio::time::Instant;

use crate::hello::{self, Host, Kind};
use crate::peer;
use crate::place::{Place, Trouble};
use crate::start::{self, StartError};

/// How long a keeper is looked for and started. One that is being stopped may need most of it to end.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a keeper that answers may take to say hello.
const HELLO: Duration = Duration::from_secs(5);
/// How long the end of a keeper that speaks another protocol is waited for.
const DRAIN: Duration = Duration::from_secs(5);
/// First and longest pause before the next try.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// What is known of the user whose keeper is wanted.
#[derive(Clone)]
pub struct Surroundings {
    /// Where a keeper may live, in order.
    pub places: Vec<Place>,
    /// The environment, of which a keeper that is started keeps little.
    pub environment: Vec<(OsString, OsString)>,
    /// Our version.
    pub version: String,
    /// The protocol that is needed: [`hello::PLAIN`], or a newer one for what that does not say.
    pub protocol: u32,
}

// Values may be secrets.
impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("places", &self.places).finish_non_exhaustive()
    }
}

/// A keeper that answers.
#[derive(Debug)]
pub struct Reached {
    /// The connection, after the hello of both.
    pub stream: UnixStream,
    /// What the keeper said.
    pub host: Host,
    /// Where it lives.
    pub place: Place,
}

/// Why no keeper was reached.
#[derive(Debug, thiserror::Error)]
pub enum Unreached {
    /// None runs, and none was to be started.
    #[error("no keeper is running")]
    NotRunning,
    /// None could be started in any place.
    #[error("{0}")]
    NotStarted(String),
    /// It speaks another protocol.
    #[error(
        "a taskgate keeper of {} version (version {}, process {}) still has {} calls under way; it ends when they are over, or by `taskgate keeper stop` of that version (`kill {}` does the same)",
        if hello::PROTOCOL > .0.protocol { "an older" } else { "a newer" }, .0.version, .0.pid, .0.calls, .0.pid
    )]
    OtherProtocol(Host),
    /// It is there and does not answer.
    #[error("the keeper could not be talked with: {0}")]
    Io(#[from] io::Error),
    /// Its folder is not ours alone.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

impl Surroundings {
    /// Connects to the keeper that runs.
    ///
    /// # Errors
    /// [`Unreached::NotRunning`] if none does.
    pub fn find(&self, kind: Kind) -> Result<Reached, Unreached> {
        let begun = Instant::now();
        let mut pause = PAUSE.0;
        loop {
            match self.look(kind)? {
                Seen::Served(reached) => return Ok(*reached),
                Seen::Nobody => return Err(Unreached::NotRunning),
                Seen::Other(host) if begun.elapsed() >= DRAIN => return Err(Unreached::OtherProtocol(host)),
                Seen::Ending if begun.elapsed() >= PATIENCE => return Err(Unreached::NotRunning),
                Seen::Other(_) | Seen::Ending => wait(&mut pause),
            }
        }
    }

    /// Connects to the keeper, and starts one if none runs.
    ///
    /// # Errors
    /// [`Unreached`], in words for the host's person.
    pub fn reach(&self, kind: Kind) -> Result<Reached, Unreached> {
        let begun = Instant::now();
        let mut pause = PAUSE.0;
        loop {
            match self.look(kind)? {
                Seen::Served(reached) => return Ok(*reached),
                Seen::Other(host) if begun.elapsed() >= DRAIN => return Err(Unreached::OtherProtocol(host)),
                Seen::Nobody | Seen::Ending if begun.elapsed() >= PATIENCE => {
                    let words = format!(
                        "no keeper was ready within {} s, though one was started; its log may say why: {}",
                        PATIENCE.as_secs(),
                        self.places
                            .first()
                            .map(|place| place.log().display().to_string())
                            .unwrap_or_default()
                    );
                    return Err(Unreached::NotStarted(words));
                }
                Seen::Nobody => {
                    self.start()?;
                    // The one that we started is ready now, or another one is: look before the pause.
                    if let Seen::Served(reached) = self.look(kind)? {
                        return Ok(*reached);
                    }
                    wait(&mut pause);
                }
                Seen::Other(_) | Seen::Ending => wait(&mut pause),
            }
        }
    }

    /// Starts one in the first place that can be written.
    fn start(&self) -> Result<(), Unreached> {
        let mut words = Vec::new();
        for place in &self.places {
            match start::start(place, &self.environment) {
                Ok(()) => return Ok(()),
                Err(StartError::Said(complaint)) if complaint.elsewhere => words.push(complaint.message),
                Err(error) => return Err(Unreached::NotStarted(error.to_string())),
            }
        }
        Err(Unreached::NotStarted(format!(
            "there is no place to keep tasks: {}; make one of these folders writable, or set XDG_STATE_HOME to one that is",
            words.join("; ")
        )))
    }

    /// What is wrong with the usual place, in words, for the person who is to mend it.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let usual = self.places.iter().find(|place| !place.is_fallback())?;
        let folder = usual.folder().display();
        Some(match (usual.prepare(), access(usual.folder(), AccessFlags::W_OK)) {
            (Err(trouble), _) => trouble.to_string(),
            (Ok(()), Err(errno)) => format!("{folder}: {}", errno.desc()),
            (Ok(()), Ok(())) => format!("no database could be opened in {folder}; is its disk full?"),
        })
    }

    fn look(&self, kind: Kind) -> Result<Seen, Unreached> {
        let mut seen = Seen::Nobody;
        for place in &self.places {
            match place.check() {
                Ok(true) => {}
                Ok(false) => continue,
                // One that is only a fallback is somebody's trap at worst: a keeper of ours never starts there.
                Err(_) if place.is_fallback() => continue,
                Err(trouble) => return Err(trouble.into()),
            }
            let stream = match UnixStream::connect(place.socket()) {
                Ok(stream) => stream,
                Err(error) if is_nobody(&error) => continue,
                Err(error) => return Err(error.into()),
            };
            match self.greet(stream, kind) {
                Ok((stream, host)) if host.serves(self.protocol) => {
                    return Ok(Seen::Served(Box::new(Reached { stream, host, place: place.clone() })));
                }
                Ok((_, host)) => return Ok(Seen::Other(host)),
                // It was ending when we connected.
                Err(error) if is_end(&error) => seen = Seen::Ending,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(seen)
    }

    fn greet(&self, mut stream: UnixStream, kind: Kind) -> io::Result<(UnixStream, Host)> {
        let uid = peer::uid(&stream)?;
        if uid != geteuid().as_raw() {
            let words = format!("its socket belongs to user {uid}, not to you: it was not talked to");
            return Err(io::Error::new(ErrorKind::PermissionDenied, words));
        }
        stream.set_read_timeout(Some(HELLO))?;
        stream.write_all(&hello::ask(kind, &self.version, self.protocol))?;
        let mut line = Vec::new();
        // The keeper says nothing more before it is asked, so whole pieces can be taken.
        let mut piece = [0; 512];
        while !line.ends_with(b"\n") {
            match stream.read(&mut piece)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => line.extend_from_slice(piece.get(..count).unwrap_or_default()),
            }
            if line.len() > hello::LINE_MAX {
                return Err(io::Error::new(ErrorKind::InvalidData, "its hello does not end"));
            }
        }
        stream.set_read_timeout(None)?;
        Ok((stream, hello::read_host(&line)?))
    }
}

enum Seen {
    Served(Box<Reached>),
    /// Nobody listens in any place.
    Nobody,
    /// One was just ending.
    Ending,
    /// One speaks another protocol, and gives way.
    Other(Host),
}

fn wait(pause: &mut Duration) {
    thread::sleep(*pause);
    *pause = (*pause * 2).min(PAUSE.1);
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
