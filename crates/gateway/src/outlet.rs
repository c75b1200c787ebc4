//! Where a request's own messages go: the stream of its answer over HTTP, the pipe over stdio.

use bytes::Bytes;
use taskgate_core::id::TaskId;
use tokio::sync::mpsc;

use crate::pipe::{Outgoing, on_one_line};

/// What a handler sends over HTTP ahead of its answer.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A message for the client.
    Message(Bytes),
    /// From here on the answer can be had again by the task's id, so the stream may break and be resumed.
    Resumable(TaskId),
}

/// How many messages may wait for a slow client before the next ones are dropped (G-024).
pub(crate) const WAITING_MAX: usize = 256;

/// One way to the client, in one direction.
#[derive(Clone, Debug)]
pub(crate) enum Outlet {
    /// The stream of one answer.
    Stream(mpsc::Sender<Piece>),
    /// All that goes to one client.
    Pipe(mpsc::Sender<Outgoing>),
}

impl Outlet {
    pub(crate) fn new() -> (Outlet, mpsc::Receiver<Piece>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Outlet::Stream(sender), receiver)
    }

    /// Sends a message. `false` if nobody reads any more, or too slowly: it went nowhere.
    pub(crate) fn send(&self, message: Bytes) -> bool {
        self.send_with(message, None)
    }

    /// Sends a message that holds the final result of a task, if of any.
    pub(crate) fn send_with(&self, message: Bytes, delivers: Option<TaskId>) -> bool {
        match self {
            Outlet::Stream(sender) => sender.try_send(Piece::Message(message)).is_ok(),
            Outlet::Pipe(sender) => sender.try_send(outgoing(message, delivers)).is_ok(),
        }
    }

    /// Sends a message that must arrive, however slowly its reader reads.
    pub(crate) async fn deliver(&self, message: Bytes) {
        self.deliver_with(message, None).await;
    }

    /// The same, of a message that holds the final result of a task, if of any.
    pub(crate) async fn deliver_with(&self, message: Bytes, delivers: Option<TaskId>) {
        // A reader that is gone wants nothing.
        match self {
            Outlet::Stream(sender) => {
                let _ = sender.send(Piece::Message(message)).await;
            }
            Outlet::Pipe(sender) => {
                let _ = sender.send(outgoing(message, delivers)).await;
            }
        }
    }

    /// Notes by which task the answer can be had again. Over a pipe there is nothing to resume.
    pub(crate) fn resumable(&self, task: &TaskId) {
        match self {
            // A stream that is closed or overfull has no use for it.
            Outlet::Stream(sender) => {
                let _ = sender.try_send(Piece::Resumable(task.clone()));
            }
            Outlet::Pipe(_) => {}
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        match self {
            Outlet::Stream(sender) => !sender.is_closed(),
            Outlet::Pipe(sender) => !sender.is_closed(),
        }
    }

    /// Whether both lead to the same place.
    pub(crate) fn is(&self, other: &Outlet) -> bool {
        match (self, other) {
            (Outlet::Stream(one), Outlet::Stream(other)) => one.same_channel(other),
            (Outlet::Pipe(one), Outlet::Pipe(other)) => one.same_channel(other),
            (Outlet::Stream(_), Outlet::Pipe(_)) | (Outlet::Pipe(_), Outlet::Stream(_)) => false,
        }
    }

    /// Waits until nobody reads any more.
    pub(crate) async fn closed(&self) {
        match self {
            Outlet::Stream(sender) => sender.closed().await,
            Outlet::Pipe(sender) => sender.closed().await,
        }
    }
}

fn outgoing(message: Bytes, delivers: Option<TaskId>) -> Outgoing {
    Outgoing { message: on_one_line(message), delivers }
}
