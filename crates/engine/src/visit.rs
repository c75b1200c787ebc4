//! A call that cannot run before a URL was visited: it is visited, and the call made again under the same task (G-022).
//!
//! Only where the operator lets the call be sent again. That a server answers so says that it did nothing, but it is the
//! server's word, and of a call that may have consequences we take no word for proof.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use taskgate_core::operation::{Command as Do, Doubt, Stage};
use taskgate_core::task::{Command, Ending, Fault, QuestionKey};
use taskgate_store::record::Front;
use tokio::time::sleep_until;

use crate::back::Visit;
use crate::drive::Driver;
use crate::handle::{Order, Signal};

/// A server that wants yet another URL each time is not followed for ever.
const REPEATS_MAX: u32 = 8;

/// What became of URLs that had to be visited.
pub(crate) enum Visited {
    /// The server said of each that it is done.
    All,
    /// The client does not want to.
    Declined,
    /// The task ended meanwhile, or we are going down.
    Ended,
}

impl Driver {
    /// What must be visited before the call can be made again, if that may be done: its client has a task to be asked in,
    /// can visit URLs, and the operator lets the call be sent again.
    pub(crate) fn visits_first(&self, error: &Bytes) -> Option<Vec<Visit>> {
        let record = self.live.record();
        let has_task = match (record.front, &record.operation.stage) {
            (Front::A, _) | (Front::B, Stage::Observing { .. }) => true,
            // Its client is told by its own call, in its own way (E-009, X-033).
            (Front::B | Front::Plain, _) => false,
        };
        let may = has_task
            && !self.is_cancelled()
            && self.repeats < REPEATS_MAX
            && record.operation.may_resend(self.now());
        if !may {
            return None;
        }
        let visits = self.back.as_ref()?.visits(error);
        let is_able = visits.iter().all(|visit| self.refuses(&visit.question).is_none());
        (is_able && !visits.is_empty()).then_some(visits)
    }

    /// Asks for the visits, and waits until the server says that they are done: consent alone says nothing (R6.4).
    pub(crate) async fn visit(&mut self, visits: Vec<Visit>) -> Visited {
        // Nothing of ours runs at the server meanwhile.
        self.release();
        self.repeats += 1;
        let (questions, overs): (Vec<_>, Vec<_>) =
            visits.into_iter().map(|visit| (visit.question, visit.over)).unzip();
        let keys = self.ask_all(questions).await;
        let mut left: BTreeSet<QuestionKey> = keys.iter().cloned().collect();
        let mut overs: FuturesUnordered<_> = keys
            .into_iter()
            .zip(overs)
            .map(|(key, over)| async move {
                over.await;
                key
            })
            .collect();
        let deadline = self.until(self.live.record().deadline);
        let stopping = self.engine.stopping.clone();
        while !left.is_empty() {
            if self.is_cancelled() {
                self.end(Do::Lose(Doubt::Cancelled), Ending::Cancelled).await;
                return Visited::Ended;
            }
            tokio::select! {
                biased;
                Some(key) = overs.next() => {
                    left.remove(&key);
                    self.live.signal(Signal::Visited(key.clone()));
                    // Somebody went there without a word to us.
                    self.write(|draft| { let _ = draft.task(Command::Withdraw(key)); }).await;
                }
                order = self.next_order() => match order {
                    Order::Cancel(_) => {}
                    Order::Forward { key, reply, settled } => {
                        let agrees = self.back.as_ref().is_some_and(|back| back.agrees(&reply));
                        self.write(|draft| { let _ = draft.task(Command::SettleAnswer(key)); }).await;
                        let _ = settled.send(());
                        if !agrees {
                            return Visited::Declined;
                        }
                    }
                },
                () = sleep_until(deadline) => {
                    self.end(Do::Lose(Doubt::DeadlinePassed), Ending::Faulted(Fault::DeadlinePassed)).await;
                    return Visited::Ended;
                }
                () = stopping.cancelled() => return Visited::Ended,
            }
        }
        Visited::All
    }

    /// Records another dispatch, and makes the call again.
    pub(crate) fn call_anew(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut fits = false;
            let written = self
                .write_down(|draft| {
                    fits = draft.is_wanted() && draft.operation(Do::Repeat);
                })
                .await;
            if written.is_none() {
                // The next start decides by what is on disk.
                return;
            }
            if !fits {
                let lost = "a URL was visited, and the call can no longer be sent again".to_owned();
                return self.ended(crate::back::Answer::Lost(lost)).await;
            }
            let (lane, _) = self.engine.parts.limits.lane(&self.live.record().call);
            self.engine.slots.force(&lane);
            self.holds_place = true;
            self.call(None).await;
        })
    }
}
