//! What can be ordered of a proxy, and what is known of an order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};

/// Towards the server, or back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// What the client says.
    Request,
    /// What the server says.
    Answer,
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Close {
    /// As if all were said.
    Fin,
    /// As if the machine were gone.
    Reset,
}

/// What becomes of a message. `after` counts bytes of that message that pass first; [`usize::MAX`] is all of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fault")]
pub enum Fault {
    /// Nothing; how long it was is noted.
    Watch,
    /// Both connections end.
    Cut {
        /// Of which message.
        side: Side,
        /// After how many bytes.
        after: usize,
        /// How.
        how: Close,
    },
    /// Nothing more comes until [`Armed::release`]; then the rest passes.
    Stall {
        /// Of which message.
        side: Side,
        /// After how many bytes.
        after: usize,
    },
    /// The receiver is told that nothing more comes, and the other direction stays as it is.
    HalfClose {
        /// Of which message.
        side: Side,
        /// After how many bytes.
        after: usize,
    },
    /// The request is delivered twice: over HTTP the second time by a connection of its own whose answer nobody reads.
    Duplicate,
    /// The rest comes so many milliseconds later.
    Delay {
        /// Of which message.
        side: Side,
        /// After how many bytes.
        after: usize,
        /// How many milliseconds.
        ms: u64,
    },
}

impl Fault {
    /// Which message it happens to.
    #[must_use]
    pub fn side(self) -> Side {
        match self {
            Fault::Watch | Fault::Duplicate => Side::Request,
            Fault::Cut { side, .. }
            | Fault::Stall { side, .. }
            | Fault::HalfClose { side, .. }
            | Fault::Delay { side, .. } => side,
        }
    }

    /// The place in the message of `side` where something happens.
    pub(super) fn place(self, side: Side) -> Option<usize> {
        match self {
            Fault::Watch | Fault::Duplicate => None,
            Fault::Cut { side: at, after, .. }
            | Fault::Stall { side: at, after }
            | Fault::HalfClose { side: at, after }
            | Fault::Delay { side: at, after, .. } => (at == side).then_some(after),
        }
    }
}

/// An order: which message, and what becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Bytes that stand in the message, all of them in it.
    pub needles: Vec<Vec<u8>>,
    /// How many messages with these bytes pass first.
    pub skip: u32,
    /// What becomes of it.
    pub fault: Fault,
}

impl Rule {
    /// For the first message that has `needle` in it.
    #[must_use]
    pub fn first(needle: impl AsRef<[u8]>, fault: Fault) -> Rule {
        Rule { needles: vec![needle.as_ref().to_vec()], skip: 0, fault }
    }

    /// Has the message have these bytes too.
    #[must_use]
    pub fn and(mut self, needle: impl AsRef<[u8]>) -> Rule {
        self.needles.push(needle.as_ref().to_vec());
        self
    }
}

/// What is known of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The message came by.
    pub met: bool,
    /// What was ordered happened to it; with [`Fault::Stall`] it may still be waiting.
    pub fired: bool,
    /// How many bytes the request has.
    pub request: usize,
    /// How many bytes of the answer passed so far.
    pub answer: usize,
    /// The whole answer passed.
    pub answered: bool,
}

/// An order that was given.
pub(super) struct Order {
    pub(super) rule: Rule,
    passed: AtomicU32,
    taken: AtomicBool,
    withdrawn: AtomicBool,
    pub(super) progress: watch::Sender<Progress>,
    released: Semaphore,
}

/// An order that was given, in the hands of who gave it. It is withdrawn when this is dropped.
pub struct Armed {
    order: Arc<Order>,
    progress: watch::Receiver<Progress>,
}

impl Order {
    pub(super) fn new(rule: Rule) -> Order {
        Order {
            rule,
            passed: AtomicU32::new(0),
            taken: AtomicBool::new(false),
            withdrawn: AtomicBool::new(false),
            progress: watch::Sender::new(Progress::default()),
            released: Semaphore::new(0),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.taken.load(Ordering::SeqCst) || self.withdrawn.load(Ordering::SeqCst)
    }

    /// Whether this is its message. It is taken once.
    pub(super) fn takes(&self, message: &[u8]) -> bool {
        let has = |needle: &Vec<u8>| message.windows(needle.len().max(1)).any(|window| window == &needle[..]);
        if self.is_done() || !self.rule.needles.iter().all(has) {
            return false;
        }
        if self.passed.fetch_add(1, Ordering::SeqCst) < self.rule.skip {
            return false;
        }
        self.taken.store(true, Ordering::SeqCst);
        self.progress.send_modify(|progress| progress.met = true);
        true
    }

    pub(super) fn fires(&self) {
        self.progress.send_modify(|progress| progress.fired = true);
    }

    pub(super) async fn released(&self) {
        // It is never closed.
        if let Ok(permit) = self.released.acquire().await {
            permit.forget();
        }
    }
}

impl Armed {
    pub(super) fn new(order: Arc<Order>) -> Armed {
        let progress = order.progress.subscribe();
        Armed { order, progress }
    }

    /// What is known of it now.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Waits until something is known of it.
    pub async fn until(&mut self, known: impl FnMut(&Progress) -> bool) -> Progress {
        // The sender lives in the order, which is held here.
        self.progress.wait_for(known).await.map(|progress| *progress).unwrap_or_default()
    }

    /// Lets go on what was stalled.
    pub fn release(&self) {
        self.order.released.add_permits(1);
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.order.withdrawn.store(true, Ordering::SeqCst);
        self.release();
    }
}
