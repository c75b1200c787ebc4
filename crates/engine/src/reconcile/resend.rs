//! Sending again what is confirmed not applied, where the workflow wants that (notes 2.3, R4.5).

use std::sync::Arc;

use taskgate_core::operation::{Command as Do, Stage, Standing, Text};
use taskgate_core::recovery::Recovery;
use taskgate_core::task::Command;
use taskgate_core::time::UnixMillis;
use taskgate_store::AppendError;
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::record::Record;

use super::look::Subject;
use crate::draft::Draft;
use crate::engine::Engine;
use crate::handle::Live;

/// What a task says when its call is sent again.
const AGAIN: &str = "It is certain that nothing was done; the call is being sent again";

impl Engine {
    /// Clears the attempts so far and sends the call again: the same operation under the same key. `false` if the look-up
    /// does not prove enough, or nobody waits for the call any more; then nothing was written.
    pub(super) async fn resend(
        self: &Arc<Self>,
        subject: &Subject,
        standing: Standing,
        what: &str,
    ) -> Result<bool, taskgate_store::Error> {
        let Some(live) = subject.live.clone() else { return Ok(false) };
        if standing == Standing::Open || !self.may_be_sent(&live.record(), self.parts.clock.now()) {
            return Ok(false);
        }
        let (engine, what) = (self.clone(), Text::new(what));
        // Written and begun in one go: what is cleared must not be left lying.
        self.detached(async move {
            let cleared = engine.attempt(&live, |draft| engine.clear(draft, standing, what)).await;
            match cleared {
                Ok(Ok(record)) => {
                    tracing::info!(operation = %record.operation_id, "confirmed not applied, sending again");
                    engine.keep(&live);
                    engine.begin(&live).await?;
                    Ok(true)
                }
                // Somebody else wrote it: it is read again.
                Ok(Err(())) | Err(AppendError::Conflict { .. } | AppendError::KeyGiven { .. }) => Ok(false),
                Err(AppendError::Store(error)) => {
                    engine.once_known(&live, async move |engine, live| {
                        engine.keep(&live);
                        if live.record().operation.stage == Stage::Prepared
                            && let Err(error) = engine.begin(&live).await
                        {
                            tracing::error!(task = ?live.record().id, %error, "could not send a call again");
                        }
                    });
                    Err(error)
                }
            }
        })
        .await
    }

    fn clear(&self, draft: &mut Draft, standing: Standing, what: Text) -> Result<(), ()> {
        if !self.may_be_sent(draft.record(), draft.now()) || !draft.operation(Do::Clear { standing, what }) {
            return Err(());
        }
        draft.task(Command::Say(AGAIN.to_owned())).map_err(|_| ())
    }

    /// Whether somebody waits for the call, and there is time left to carry it out.
    fn may_be_sent(&self, record: &Record, now: UnixMillis) -> bool {
        let limits = &self.parts.limits;
        matches!(record.operation.stage, Stage::Unknown(_))
            && record.task.ending().is_none()
            && record.task.cancel_wished_at.is_none()
            && record.deadline.since(now) > limits.create.time
            // A server that loses every call is not sent it for a day.
            && record.operation.attempts < limits.create.attempts
    }

    async fn begin(self: &Arc<Self>, live: &Arc<Live>) -> Result<(), taskgate_store::Error> {
        if self.parts.backs.is_known(&live.record().call.server) {
            return self.carry_out(Recovery::Send, live).await;
        }
        self.parked.add(live.clone());
        Ok(())
    }

    /// The task of an operation, if it is kept.
    pub(crate) async fn kept(&self, entry: &LedgerEntry) -> Result<Option<Arc<Live>>, taskgate_store::Error> {
        if entry.kept.is_none() {
            return Ok(None);
        }
        if let Some(live) = self.known(&entry.principal, &entry.task) {
            return Ok(Some(live));
        }
        let stored = self.parts.store.load(&entry.principal, &entry.task).await?;
        Ok(stored.map(|record| Arc::new(Live::new(Arc::new(record)))))
    }
}
