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
    /// The answer, while what was said before it is shown.
    answer: Option<Answer>,
    /// How much of that was shown.
    shown: usize,
}

/// How much is shown of what was said before an answer and not shown yet. A server may go on saying more.
pub(crate) const SHOWN_MAX: usize = 64;

/// What happened next.
pub(crate) enum Next<T> {
    Answer(Answer),
    Event(BackEvent),
    /// What else was waited for.
    Else(T),
}

/// Whether it is only to be shown. Nobody is asked what its server has given up waiting for.
pub(crate) fn only_tells(event: &BackEvent) -> bool {
    match event {
        BackEvent::Progress(_) | BackEvent::Log(_) => true,
        BackEvent::Asked { .. }
        | BackEvent::Unasked { .. }
        | BackEvent::Visited { .. }
        | BackEvent::Nudge => false,
    }
}

impl Flight {
    pub(crate) fn new(in_flight: InFlight, tells: bool) -> Flight {
        Flight { parts: Some(in_flight), tells, answer: None, shown: 0 }
    }

    /// Waits for the answer, for something else, and last for what comes before the answer: a server may say more than
    /// there is time for. What was said before an answer is shown before it.
    pub(crate) async fn next<T>(&mut self, other: impl Future<Output = T>) -> Next<T> {
        let Some(InFlight { answer, events, .. }) = &mut self.parts else { return Next::Else(other.await) };
        if self.answer.is_none() {
            tokio::select! {
                biased;
                answer = answer.as_mut() => self.answer = Some(answer),
                other = other => return Next::Else(other),
                Some(event) = events.recv() => return Next::Event(event),
            }
        }
        while self.shown < SHOWN_MAX
            && let Ok(event) = events.try_recv()
        {
            self.shown += 1;
            if only_tells(&event) {
                return Next::Event(event);
            }
        }
        self.parts = None;
        match self.answer.take() {
            Some(answer) => Next::Answer(answer),
            None => std::future::pending().await,
        }
    }

    /// Hands it to the engine.
    pub(crate) fn take(mut self) -> Option<InFlight> {
        let parts = self.parts.take()?;
        Some(match self.answer.take() {
            Some(answer) => InFlight { answer: Box::pin(std::future::ready(answer)), ..parts },
            None => parts,
        })
    }

    /// Has the server told that nobody waits any more.
    pub(crate) fn stop(mut self) {
        self.tells = true;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let is_over = self.answer.is_some();
        if let Some(InFlight { answer, stop, .. }) = self.parts.take().filter(|_| self.tells && !is_over) {
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
