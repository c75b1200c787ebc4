//! Who may run now: a bounded number of calls per server, and a bounded queue behind them (G-024).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_core::id::ServerName;
use taskgate_store::record::Phase;

use crate::back::Back;
use crate::handle::Live;

/// A call that waits for its turn.
pub(crate) struct Waiting {
    pub(crate) live: Arc<Live>,
    /// Open already for a fresh call; after a restart it is opened when the turn comes.
    pub(crate) back: Option<Arc<dyn Back>>,
}

#[derive(Default)]
struct Server {
    running: usize,
    /// Places promised to calls whose record is being written.
    promised: usize,
    queue: VecDeque<Waiting>,
}

/// Where calls wait for each other: at a server, or in a workflow of it that has a bound of its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lane {
    pub(crate) server: ServerName,
    pub(crate) workflow: Option<String>,
}

/// The running and waiting calls of every lane.
#[derive(Default)]
pub(crate) struct Slots {
    servers: Mutex<HashMap<Lane, Server>>,
}

/// What a new call gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It runs as soon as it is recorded.
    Running,
    /// It waits in the queue.
    Queued,
}

impl Slots {
    /// Takes a place; `None` if the queue is full.
    pub(crate) fn take(&self, server: &Lane, running_max: usize, queue_max: usize) -> Option<Place> {
        let mut servers = self.servers.lock();
        let server = servers.entry(server.clone()).or_default();
        if server.running < running_max && server.queue.is_empty() && server.promised == 0 {
            server.running += 1;
            Some(Place::Running)
        } else if server.queue.len() + server.promised < queue_max {
            server.promised += 1;
            Some(Place::Queued)
        } else {
            None
        }
    }

    /// Gives back a queue place that was not used.
    pub(crate) fn give_back(&self, server: &Lane) {
        if let Some(server) = self.servers.lock().get_mut(server) {
            server.promised = server.promised.saturating_sub(1);
        }
    }

    /// Puts a call in the place promised to it, or straight at the end of the queue after a restart. The calls
    /// that may run now come back.
    pub(crate) fn queue(
        &self,
        name: &Lane,
        waiting: Waiting,
        promised: bool,
        running_max: usize,
    ) -> Vec<Waiting> {
        let mut servers = self.servers.lock();
        let server = servers.entry(name.clone()).or_default();
        if promised {
            server.promised = server.promised.saturating_sub(1);
        }
        server.queue.push_back(waiting);
        server.next(running_max)
    }

    /// A running call is done, and the calls whose turn it is now come back, each with a running place taken.
    pub(crate) fn done(&self, name: &Lane, running_max: usize) -> Vec<Waiting> {
        let mut servers = self.servers.lock();
        let Some(server) = servers.get_mut(name) else { return Vec::new() };
        server.running = server.running.saturating_sub(1);
        server.next(running_max)
    }

    /// Takes a running place whatever the bound: for work that runs already.
    pub(crate) fn force(&self, name: &Lane) {
        self.servers.lock().entry(name.clone()).or_default().running += 1;
    }
}

impl Server {
    fn next(&mut self, running_max: usize) -> Vec<Waiting> {
        let mut next = Vec::new();
        while self.running < running_max {
            let Some(waiting) = self.queue.pop_front() else { break };
            // One that was ended meanwhile needs no turn, unless its operation is still to be closed.
            if waiting.live.record().phase() == Phase::Unfinished {
                self.running += 1;
                next.push(waiting);
            }
        }
        next
    }
}
