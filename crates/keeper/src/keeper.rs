//! The keeper: who is attached to which server, what lives, and when it is time to go.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_client::Servers;
use taskgate_core::id::ServerName;
use taskgate_core::time::UnixMillis;
use taskgate_engine::Engine;
use taskgate_gateway::Gateway;
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attachment::AttachmentId;
use crate::door;
use crate::frame::End;
use crate::hello::State as Stay;
use crate::key::Key;
use crate::logs::ServerLogs;
use crate::place::Place;
use crate::servers::Known;
use crate::workflows::Workflows;

/// How often it is looked whether something that nobody is attached to has ended.
const TICK: Duration = Duration::from_millis(500);

/// How long hosts have to read what was written for them.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long servers that were being ended have: their own grace, twice, and a bit.
const REMOVALS: Duration = Duration::from_secs(5);

/// What a keeper is made of.
pub struct Parts {
    /// Where it lives. Its lock is held by the caller.
    pub place: Place,
    /// Owns the tasks. Recovery is done.
    pub engine: Arc<Engine>,
    /// All server processes; none is known yet.
    pub servers: Arc<Servers>,
    /// The front.
    pub gateway: Arc<Gateway>,
    /// Understands the workflows that hosts bring.
    pub workflows: Arc<dyn Workflows>,
    /// Our version.
    pub version: String,
    /// How long it stays with nobody attached and nothing alive.
    pub idle: Duration,
    /// How long calls under way have to end when it is stopped.
    pub patience: Duration,
}

/// Why a keeper ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Nobody was attached and nothing lived.
    Idle,
    /// A person, or the system, stopped it.
    Stopped {
        /// Whether calls under way had no time to end.
        now: bool,
    },
    /// It gave way to a newer version.
    GaveWay,
    /// Its store is lost, so that only the next keeper can go on.
    StoreLost,
}

impl Reason {
    /// What pipes are told; `None` if they are cut off without a word: then they start the next keeper as after a death,
    /// ask it for all that they are owed, and do not come back for ever to one whose disk stays broken.
    #[must_use]
    pub fn end(self) -> Option<End> {
        match self {
            Reason::Stopped { .. } => Some(End::Stopped),
            Reason::Idle | Reason::GaveWay => Some(End::GaveWay),
            Reason::StoreLost => None,
        }
    }
}

/// One keeper.
pub struct Keeper {
    pub(crate) parts: Parts,
    pub(crate) logs: ServerLogs,
    pub(crate) since: UnixMillis,
    pub(crate) state: Mutex<State>,
    /// Something changed by which it may have to go.
    pub(crate) changed: Notify,
    /// Nobody new is served, and what is under way may end.
    pub(crate) leaving: CancellationToken,
    /// Nothing is waited for any more.
    pub(crate) hurry: CancellationToken,
    /// Everything is closed: say goodbye.
    pub(crate) farewell: CancellationToken,
    /// Connections.
    pub(crate) connections: TaskTracker,
    /// Ends of servers that nobody needs any more.
    pub(crate) removals: TaskTracker,
    /// Attachments that still deliver answers.
    pub(crate) delivering: TaskTracker,
    /// Whoever is admitted has it: two hosts of one server must not bring other workflows in the same moment.
    pub(crate) admitting: tokio::sync::Mutex<()>,
}

/// What changes.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) attached: BTreeMap<u64, Attached>,
    pub(crate) count: u64,
    pub(crate) known: HashMap<ServerName, Known>,
    pub(crate) draining: bool,
    pub(crate) stop: Option<Reason>,
}

/// One pipe that is connected.
pub(crate) struct Attached {
    pub(crate) id: AttachmentId,
    pub(crate) key: Key,
    pub(crate) host_pid: u32,
    pub(crate) since: UnixMillis,
    /// What its workflows are; `None` if it has none.
    pub(crate) written: Option<String>,
    /// What the host calls itself, once it said so.
    pub(crate) client: Option<String>,
    /// Where lines for its stderr go.
    pub(crate) lines: mpsc::Sender<Line>,
}

/// Takes a pipe off the list, however its service ends.
pub(crate) struct Presence {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) number: u64,
}

impl Presence {
    /// Takes it off the list, and has its server end if nobody else is there and nothing lives.
    pub(crate) async fn leave(self) {
        let server =
            self.keeper.state.lock().attached.get(&self.number).map(|attached| attached.key.server.clone());
        let keeper = self.keeper.clone();
        drop(self);
        if let Some(server) = server {
            keeper.retire(server).await;
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.keeper.leave_one(self.number);
    }
}

/// A line for the stderr of a host.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// The server wrote it.
    Server(String),
    /// We have to say it.
    Notice(String),
}

impl State {
    /// Notes a pipe; its number.
    pub(crate) fn enter(&mut self, attached: Attached) -> u64 {
        self.count += 1;
        self.attached.insert(self.count, attached);
        self.count
    }
}

impl Keeper {
    /// A keeper of these parts.
    ///
    /// # Errors
    /// The system's.
    pub fn new(parts: Parts) -> io::Result<Arc<Keeper>> {
        Ok(Arc::new(Keeper {
            logs: ServerLogs::begin(&parts.place)?,
            since: parts.engine.clock().now(),
            parts,
            state: Mutex::default(),
            changed: Notify::new(),
            leaving: CancellationToken::new(),
            hurry: CancellationToken::new(),
            farewell: CancellationToken::new(),
            connections: TaskTracker::new(),
            removals: TaskTracker::new(),
            delivering: TaskTracker::new(),
            admitting: tokio::sync::Mutex::default(),
        }))
    }

    /// Serves whoever connects, until it is time to go. When this returns, nobody new can connect and what was to be
    /// delivered is; servers and store are the caller's to close, then comes [`Keeper::say_farewell`].
    ///
    /// # Shape
    /// Why it goes, and how much of the patience with calls under way is left.
    pub async fn serve(self: &Arc<Self>, listener: UnixListener) -> (Reason, Duration) {
        let mut idle_since = None;
        let mut ticks = tokio::time::interval(TICK.min(self.parts.idle).max(Duration::from_millis(10)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let reason = loop {
            // A connection and the decision to go are taken in turns, so nobody is served by one that goes.
            tokio::select! {
                connection = listener.accept() => match connection {
                    Ok((stream, _)) => {
                        idle_since = None;
                        door::take(self, stream);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be taken");
                        // Too many open files, as a rule: some close in a moment.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                () = self.changed.notified() => {}
                _ = self.parts.engine.lost() => self.state.lock().stop = Some(Reason::StoreLost),
                _ = ticks.tick() => self.look_after_servers(),
            }
            if let Some(reason) = self.is_time_to_go(&mut idle_since) {
                break reason;
            }
        };
        let begun = Instant::now();
        self.leave(listener, reason).await;
        let left = match reason {
            Reason::Stopped { now: true } | Reason::StoreLost => Duration::ZERO,
            Reason::Stopped { now: false } | Reason::Idle | Reason::GaveWay => {
                self.parts.patience.saturating_sub(begun.elapsed())
            }
        };
        (reason, left)
    }

    fn is_time_to_go(&self, idle_since: &mut Option<Instant>) -> Option<Reason> {
        let (stop, draining, attached) = {
            let state = self.state.lock();
            (state.stop, state.draining, !state.attached.is_empty())
        };
        if stop.is_some() {
            return stop;
        }
        let lives = self.parts.engine.live() > 0;
        if draining && !lives {
            return Some(Reason::GaveWay);
        }
        if attached || lives || self.asks_after_any() || !self.connections.is_empty() {
            *idle_since = None;
            return None;
        }
        let since = *idle_since.get_or_insert_with(Instant::now);
        (since.elapsed() >= self.parts.idle).then_some(Reason::Idle)
    }

    async fn leave(&self, listener: UnixListener, reason: Reason) {
        tracing::info!(?reason, "ending");
        // Whoever finds no socket starts a keeper, which waits for our lock. Whoever was just connecting is cut off
        // before a word was said, and tries again.
        if let Err(error) = std::fs::remove_file(self.parts.place.socket()) {
            tracing::warn!(%error, "the socket could not be removed");
        }
        drop(listener);
        self.leaving.cancel();
        if matches!(reason, Reason::Stopped { now: true } | Reason::StoreLost) {
            self.hurry.cancel();
        }
        self.delivering.close();
        // The gateway keeps to its own patience; a host that does not read must not keep us.
        let _ = tokio::time::timeout(self.parts.patience + FAREWELL, self.delivering.wait()).await;
    }

    /// Tells the pipes that we are gone, which is to be true a moment later.
    pub async fn say_farewell(&self) {
        self.removals.close();
        // The guard ends what has not ended by then.
        let _ = tokio::time::timeout(REMOVALS, self.removals.wait()).await;
        let logs = self.logs.clone();
        let _ = tokio::task::spawn_blocking(move || logs.finish()).await;
        self.farewell.cancel();
        self.connections.close();
        // One whose host does not read has had its time.
        let _ = tokio::time::timeout(FAREWELL, self.connections.wait()).await;
    }

    /// Ends it: calls under way have a moment to end, or none.
    pub fn stop(&self, now: bool) {
        {
            let mut state = self.state.lock();
            if state.stop != Some(Reason::StoreLost) {
                state.stop = Some(Reason::Stopped { now });
            }
        }
        if now {
            self.hurry.cancel();
        }
        self.changed.notify_one();
    }

    /// Gives way to a newer version as soon as nothing lives.
    pub(crate) fn drain(&self, version: &str) {
        let was_draining = std::mem::replace(&mut self.state.lock().draining, true);
        if !was_draining {
            tracing::info!(version, "a newer taskgate is there: giving way to it when nothing is under way");
            self.changed.notify_one();
        }
    }

    pub(crate) fn stay(&self) -> Stay {
        self.stay_of(&self.state.lock())
    }

    pub(crate) fn stay_of(&self, state: &State) -> Stay {
        if state.draining { Stay::Draining } else { Stay::Ready }
    }

    /// A pipe is gone, with all that it was owed.
    fn leave_one(self: &Arc<Self>, number: u64) {
        let gone = self.state.lock().attached.remove(&number);
        if let Some(gone) = gone {
            tracing::info!(server = %gone.key.server, attachment = gone.id.short(), "a host has gone");
        }
        self.look_after_servers();
        self.changed.notify_one();
    }

    /// Why it ends, once it does.
    pub(crate) fn reason(&self) -> Reason {
        self.state.lock().stop.unwrap_or(Reason::GaveWay)
    }

    /// Notes what the host of a pipe calls itself.
    pub(crate) fn name_client(&self, number: u64, client: String) {
        if let Some(attached) = self.state.lock().attached.get_mut(&number) {
            attached.client = Some(client);
        }
    }

    /// Sends a line to the stderr of all hosts of a server. One that does not read it misses it.
    pub(crate) fn tell(&self, server: &ServerName, line: &Line) {
        for attached in self.state.lock().attached.values() {
            if attached.key.server == *server {
                let _ = attached.lines.try_send(line.clone());
            }
        }
    }
}
