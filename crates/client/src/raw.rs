//! Requests of other methods, passed through as they are.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use taskgate_engine::back::BackEvent;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A request that is under way.
pub struct RawInFlight {
    /// Resolves once, with the end. It is sent when this is first polled.
    pub answer: BoxFuture<'static, RawAnswer>,
    /// What comes before the end.
    pub events: mpsc::UnboundedReceiver<BackEvent>,
    /// Cancel it to have the server told that nobody waits any more.
    pub stop: CancellationToken,
}

/// How it ended. The bytes are as the server sent them, in its own era.
#[derive(Clone, Debug)]
pub enum RawAnswer {
    /// The result object.
    Result(Bytes),
    /// The error object.
    Error(Bytes),
    /// No byte of the request left us.
    NeverSent(String),
    /// It may have arrived; no answer can come.
    Lost(String),
    /// The answer is none that the protocol allows.
    Nonsense(String),
}
