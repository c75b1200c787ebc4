//! Where a request's own messages go: the stream of its answer over HTTP, the pipe over stdio.

use bytes::Bytes;
use taskgate_core::id::TaskId;
use tokio::sync::mpsc;

/// What a handler sends ahead of its answer.
#[derive(Debug)]
pub(crate) enum Frame {
    /// A message for the client.
    Message(Bytes),
    /// From here on the answer can be had again by the task's id, so the stream may break and be resumed.
    Resumable(TaskId),
}

/// How many messages may wait for a slow client before the next ones are dropped (G-024).
const WAITING_MAX: usize = 256;

/// One way to the client, in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Outlet(mpsc::Sender<Frame>);

impl Outlet {
    pub(crate) fn new() -> (Outlet, mpsc::Receiver<Frame>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Outlet(sender), receiver)
    }

    /// Sends a message. `false` if nobody reads any more, or too slowly: it went nowhere.
    pub(crate) fn send(&self, message: Bytes) -> bool {
        self.0.try_send(Frame::Message(message)).is_ok()
    }

    /// Sends a message that must arrive, however slowly its reader reads.
    pub(crate) async fn deliver(&self, message: Bytes) {
        // A reader that is gone wants nothing.
        let _ = self.0.send(Frame::Message(message)).await;
    }

    /// Notes by which task the answer can be had again.
    pub(crate) fn resumable(&self, task: &TaskId) {
        // A stream that is closed or overfull has no use for it.
        let _ = self.0.try_send(Frame::Resumable(task.clone()));
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.0.is_closed()
    }

    /// Whether both lead to the same place.
    pub(crate) fn is(&self, other: &Outlet) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Waits until nobody reads any more.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}
