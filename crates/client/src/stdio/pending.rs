//! The requests that wait for an answer on one pipe.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::lines::Lines;
use crate::heard::Heard;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, oneshot::Sender<Heard>>,
    over: Option<String>,
}

impl Pending {
    /// Sends a request and gives what to wait on. `Err` is the end already.
    pub(crate) fn send(
        self: &Arc<Self>,
        lines: &Arc<Lines>,
        id: u64,
        message: bytes::Bytes,
    ) -> Result<Waiting, Heard> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.0.lock();
            if let Some(reason) = &state.over {
                return Err(Heard::NeverSent(reason.clone()));
            }
            state.waiting.insert(id, sender);
        }
        let waiting = Waiting { id, receiver, pending: self.clone(), lines: lines.clone() };
        match lines.send(Some(id), message) {
            Ok(()) => Ok(waiting),
            Err(reason) => Err(Heard::NeverSent(reason.to_owned())),
        }
    }

    /// Ends the wait for `id`. `false` if nobody waits for it (any more).
    pub(crate) fn resolve(&self, id: u64, heard: Heard) -> bool {
        let waiting = self.0.lock().waiting.remove(&id);
        waiting.is_some_and(|waiting| waiting.send(heard).is_ok())
    }

    /// Whether somebody waits for `id`.
    pub(crate) fn awaits(&self, id: u64) -> bool {
        self.0.lock().waiting.contains_key(&id)
    }

    /// The process is gone: nothing is answered any more, and what never left us is known not to have.
    pub(crate) fn end(&self, lines: &Lines, reason: &str) {
        let waiting = {
            let mut state = self.0.lock();
            state.over = Some(reason.to_owned());
            std::mem::take(&mut state.waiting)
        };
        for (id, sender) in waiting {
            let heard = if lines.recall(id) {
                Heard::NeverSent(reason.to_owned())
            } else {
                Heard::Lost(reason.to_owned())
            };
            let _ = sender.send(heard);
        }
    }

    /// Why nothing is answered any more, once that is so.
    pub(crate) fn over(&self) -> Option<String> {
        self.0.lock().over.clone()
    }
}

/// The wait for one answer. Dropped, it takes back what has not left yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    id: u64,
    receiver: oneshot::Receiver<Heard>,
    pending: Arc<Pending>,
    lines: Arc<Lines>,
}

impl Waiting {
    /// Takes the request back if no byte of it has left.
    pub(crate) fn recall(&self) -> bool {
        self.lines.recall(self.id)
    }
}

impl Future for Waiting {
    type Output = Heard;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Heard> {
        Pin::new(&mut self.receiver).poll(context).map(|heard| {
            // Whoever removes the sender sends first.
            heard.unwrap_or_else(|_| Heard::Lost(String::from("its process is gone")))
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.pending.0.lock().waiting.remove(&self.id).is_some() {
            self.lines.recall(self.id);
        }
    }
}
