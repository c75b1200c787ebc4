//! After a crash, before anything else: the crash table of the design (section 6), carried out.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use taskgate_core::operation::{Command as Do, Doubt, Effect};
use taskgate_core::recovery::{Recovery, recover};
use taskgate_core::task::{Command, Ending, Fault};
use taskgate_store::record::Record;

use crate::drive::Start;
use crate::engine::Engine;
use crate::handle::Live;
use crate::slots::Waiting;

/// Records read, and decided on, at a time; enough for commits to be shared.
const PAGE: usize = 256;

/// What recovery found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Never sent, and sent now.
    pub sent: usize,
    /// Never sent, and too late.
    pub given_up: usize,
    /// Sent before, and sent again.
    pub sent_again: usize,
    /// Observed again.
    pub resumed: usize,
    /// Left in doubt: unknown.
    pub doubted: usize,
}

/// The words that a client reads of a call that a crash left in doubt.
const IN_DOUBT: &str = "the gateway stopped after the call was sent and before its answer came";

impl Engine {
    /// Takes up the work that a crash interrupted. When this returns, the first read of every task is right.
    ///
    /// # Errors
    /// The store's; then nothing must be served.
    ///
    /// # Source
    /// design 6, *What each crash costs*; R3.3, R4.5, INV-01, INV-11
    pub async fn recover(self: &Arc<Self>) -> Result<Recovered, taskgate_store::Error> {
        let mut report = Recovered::default();
        let mut after = None;
        loop {
            let page = self.parts.store.unfinished(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id.clone());
            let is_last_page = page.len() < PAGE;
            let decided: Vec<_> = page.into_iter().map(|record| (self.decide(&record), record)).collect();
            // Decisions that only need writing share their commits.
            let mut writes =
                stream::iter(decided.into_iter().map(|(what, record)| self.clone().take_up(what, record)))
                    .buffer_unordered(PAGE);
            while let Some(done) = writes.next().await {
                match done? {
                    Recovery::Send => report.sent += 1,
                    Recovery::GiveUpUnsent => report.given_up += 1,
                    Recovery::SendAgain => report.sent_again += 1,
                    Recovery::Resume => report.resumed += 1,
                    Recovery::Doubt => report.doubted += 1,
                    Recovery::Leave => {}
                }
            }
            if is_last_page {
                break;
            }
        }
        Ok(report)
    }

    fn decide(&self, record: &Record) -> Recovery {
        recover(
            &record.operation,
            self.parts.backs.survival(&record.call.server),
            record.task.lifetime.created,
            self.parts.limits.start_by,
            self.parts.clock.now(),
        )
    }

    async fn take_up(
        self: Arc<Self>,
        what: Recovery,
        record: Record,
    ) -> Result<Recovery, taskgate_store::Error> {
        let server = record.call.server.clone();
        let principal = record.principal.clone();
        // Work that a promise cancelled is not begun again; what it did is still found out where it can be. Nor is work
        // whose client wished it stopped.
        let is_over = record.task.ending().is_some();
        let is_unwanted = is_over || record.task.cancel_wished_at.is_some();
        let what = if what == Recovery::SendAgain && is_unwanted { Recovery::Doubt } else { what };
        let live = Arc::new(Live::new(Arc::new(record)));
        let running_max = self.parts.limits.running_max;
        match what {
            Recovery::Send | Recovery::SendAgain if !is_over => {
                // Counted, whatever the bound: these were admitted before.
                self.registry.admit(&principal, usize::MAX);
                self.registry.insert(&live);
                let waiting = Waiting { live, back: None };
                self.turns(self.slots.queue(&server, waiting, false, running_max));
            }
            Recovery::Resume => {
                self.void_questions(&live).await?;
                self.registry.admit(&principal, usize::MAX);
                self.registry.insert(&live);
                self.slots.force(&server);
                self.start(live, None, Start::Resume);
            }
            Recovery::GiveUpUnsent | Recovery::Send => {
                let why = "the gateway was stopped for longer than calls may wait to be begun".to_owned();
                self.close(&live, Do::NeverSent, Fault::NeverSent(why)).await?;
            }
            Recovery::Doubt | Recovery::SendAgain => {
                self.close(&live, Do::Lose(Doubt::AnswerLost), self.in_doubt(&live)).await?;
            }
            Recovery::Leave => {
                self.close(&live, Do::Lose(Doubt::AnswerLost), self.in_doubt(&live)).await?;
            }
        }
        Ok(what)
    }

    /// Nobody can tell whether an answer of before got through, so what is still open is asked again, under a new key
    /// (G-011). It is done before anybody reads: an answer to the old key would be taken and lost.
    async fn void_questions(&self, live: &Live) -> Result<(), taskgate_store::Error> {
        let voided = self.change(live, |draft| {
            let task = &draft.record().task;
            let open = task.outstanding().into_iter().flat_map(|asked| asked.questions().keys());
            let keys: Vec<_> = open.chain(task.answering.keys()).cloned().collect();
            keys.into_iter().try_for_each(|key| draft.task(Command::Withdraw(key)))
        });
        if voided.await?.is_err() {
            tracing::error!(task = ?live.record().id, "recovery met a question that it could not void");
        }
        Ok(())
    }

    fn in_doubt(&self, live: &Live) -> Fault {
        match live.record().operation.effect {
            Effect::ReadOnly => Fault::UpstreamFault(IN_DOUBT.to_owned()),
            Effect::Reversible | Effect::Consequential => Fault::OutcomeUnknown(IN_DOUBT.to_owned()),
        }
    }

    async fn close(&self, live: &Live, told: Do, fault: Fault) -> Result<(), taskgate_store::Error> {
        let changed = self
            .change(live, |draft| {
                draft.operation(told);
                if draft.record().task.ending().is_none() {
                    return draft.task(Command::End(Ending::Faulted(fault)));
                }
                Ok(())
            })
            .await?;
        if changed.is_err() {
            tracing::error!(task = ?live.record().id, "recovery met a task that it could not close");
        }
        Ok(())
    }
}
