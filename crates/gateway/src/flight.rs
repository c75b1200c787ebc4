//! An exchange with a server, on behalf of a client that may go away.

use std::time::Duration;

use futures_util::future::BoxFuture;
use taskgate_engine::back::{Answer, BackEvent, InFlight};
use tokio_util::sync::CancellationToken;

/// How long an abandoned exchange is held, so that the server can be told.
const FAREWELL: Duration = Duration::from_secs(5);

/// A read-only call that is not recorded. If it is dropped before its end, a server that is to be told is told:
/// closing a stateless stream cancels what is read-only (B-037, G-019), closing a legacy one nothing (G-020).
pub(crate) struct Flight {
    parts: Option<InFlight>,
    tells: bool,
}

/// What happened next.
pub(crate) enum Next<T> {
    Answer(Answer),
    Event(BackEvent),
    /// What else was waited for.
    Else(T),
}

impl Flight {
    pub(crate) fn new(in_flight: InFlight, tells: bool) -> Flight {
        Flight { parts: Some(in_flight), tells }
    }

    /// Waits for the answer, for something else, and last for what comes before the answer: a server may say more than
    /// there is time for.
    pub(crate) async fn next<T>(&mut self, other: impl Future<Output = T>) -> Next<T> {
        let Some(InFlight { answer, events, .. }) = &mut self.parts else { return Next::Else(other.await) };
        let next = tokio::select! {
            biased;
            answer = answer.as_mut() => Next::Answer(answer),
            other = other => Next::Else(other),
            Some(event) = events.recv() => Next::Event(event),
        };
        if let Next::Answer(_) = next {
            self.parts = None;
        }
        next
    }

    /// Hands it to the engine.
    pub(crate) fn take(mut self) -> Option<InFlight> {
        self.parts.take()
    }

    /// Has the server told that nobody waits any more.
    pub(crate) fn stop(mut self) {
        self.tells = true;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(InFlight { answer, stop, .. }) = self.parts.take().filter(|_| self.tells) {
            stop.cancel();
            hold(
                stop,
                Box::pin(async move {
                    answer.await;
                }),
            );
        }
    }
}

/// Keeps an exchange going for a moment after it was stopped.
pub(crate) fn hold(_stop: CancellationToken, rest: BoxFuture<'static, ()>) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(tokio::time::timeout(FAREWELL, rest));
    }
}
