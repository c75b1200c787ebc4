//! The socket of a process that owns a store and is no keeper: `serve`. Only its user's own commands come in (R4.9).

use std::fs;
use std::io;
use std::process;
use std::sync::Arc;

use taskgate_engine::Engine;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::control::{OfOwner, Questions};
use crate::desk::Desk;
use crate::door::{self, Guest};
use crate::hello::{self, Host, Kind, State};
use crate::place::{Place, Trouble};

/// What is said to a question of a later version.
const NOT_UNDERSTOOD: &str =
    "this `taskgate serve` is of an older version and does not know how to do that; restart it";

/// Why no socket could be opened.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// Its folder cannot be used.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// The system's reason.
    #[error("could not listen at {path}: {source}")]
    Listen {
        /// Where.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// An open socket. It goes with this value; one that a crash left behind is replaced by the next.
#[derive(Debug)]
pub struct Counter {
    place: Place,
    listener: UnixListener,
}

impl Counter {
    /// Opens the socket of the place of a store that this process has opened: a store has one owner, so nobody else
    /// listens there.
    ///
    /// # Errors
    /// [`Closed`]
    pub fn open(place: Place) -> Result<Counter, Closed> {
        place.prepare_socket()?;
        let listener = door::open(&place)
            .map_err(|source| Closed::Listen { path: place.socket().display().to_string(), source })?;
        Ok(Counter { place, listener })
    }

    /// Answers until `shutdown`.
    pub async fn serve(self, engine: Arc<Engine>, version: String, shutdown: CancellationToken) {
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) if door::is_ours(&stream) => {
                    let (engine, version, shutdown) = (engine.clone(), version.clone(), shutdown.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            () = shutdown.cancelled() => {}
                            served = attend(engine, &version, stream) => {
                                if let Err(error) = served {
                                    tracing::debug!(%error, "a connection ended badly");
                                }
                            }
                        }
                    });
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    // Too many open files, as a rule: some close in a moment.
                    tokio::time::sleep(door::BREATH).await;
                }
            }
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let socket = self.place.socket();
        let _ = fs::remove_file(&socket);
        // Its folder goes too where nothing else is in it.
        if let Some(folder) = socket.parent() {
            let _ = fs::remove_dir(folder);
        }
        let _ = fs::remove_dir(self.place.folder());
    }
}

async fn attend(engine: Arc<Engine>, version: &str, mut stream: UnixStream) -> io::Result<()> {
    let Guest { caller, rest } = door::greet(&mut stream, "this is the socket of a taskgate serve").await?;
    let host = Host {
        protocol: hello::PROTOCOL,
        oldest: hello::OLDEST,
        version: version.to_owned(),
        pid: process::id(),
        state: State::Ready,
        calls: engine.live() as u64,
    };
    door::say_hello(&mut stream, &host).await?;
    let is_served = (hello::OLDEST..=hello::PROTOCOL).contains(&caller.protocol);
    match caller.kind {
        Kind::Control if is_served => {}
        // A pipe has nothing to look for here.
        Kind::Control | Kind::Attach => return Ok(()),
    }
    let mut questions = Questions::new(stream, rest);
    let desk = Desk::new(engine);
    while let Some(asked) = questions.next(NOT_UNDERSTOOD).await? {
        match asked.sort() {
            Err(asked) => desk.answer(&mut questions, asked).await?,
            Ok(OfOwner::Status | OfOwner::Stop { .. } | OfOwner::Restart { .. }) => {
                let words = "this is a `taskgate serve` and no keeper; a signal ends it".to_owned();
                questions.say::<()>(&Err(words)).await?;
            }
        }
    }
    Ok(())
}
