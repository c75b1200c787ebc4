//! Whether clients were given the results of their calls, and what they may still want to hear of (design 3, 4).

use std::sync::Arc;

use taskgate_core::id::{Principal, TaskId};
use taskgate_store::Unfetched;
use taskgate_store::record::Record;

use crate::engine::Engine;

impl Engine {
    /// Notes that a client was given the final result of a task. The first time counts. It is no change of the task:
    /// nobody who watches it is woken. An error is logged and no more: the worst that comes of it is that the result is
    /// offered again.
    pub async fn fetched(self: &Arc<Self>, principal: &Principal, id: &TaskId) {
        if self.known(principal, id).is_some_and(|live| live.record().fetched.is_some()) {
            return;
        }
        let (engine, principal, id) = (self.clone(), principal.clone(), id.clone());
        self.detached(async move {
            if let Err(error) = engine.fetched_now(&principal, &id).await {
                tracing::warn!(task = ?id, %error, "could not note that a result was fetched");
            }
        })
        .await;
    }

    async fn fetched_now(
        self: &Arc<Self>,
        principal: &Principal,
        id: &TaskId,
    ) -> Result<(), taskgate_store::Error> {
        let at = self.parts.clock.now();
        let Some(live) = self.known(principal, id) else {
            return self.parts.store.fetched(principal, id, at).await;
        };
        // A late word on the operation must not be decided on the record as it was before this.
        let _turn = self.turn(&live).await?;
        let current = live.record();
        if current.task.ending().is_none() || current.fetched.is_some() {
            return Ok(());
        }
        self.parts.store.fetched(principal, id, at).await?;
        live.amend(Arc::new(Record { fetched: Some(at), ..Record::clone(&current) }));
        Ok(())
    }

    /// Counts what a principal's clients may still want to hear of: tasks that run, and results that nobody fetched.
    ///
    /// # Errors
    /// The store's.
    pub async fn unfetched(&self, principal: &Principal) -> Result<Unfetched, taskgate_store::Error> {
        self.parts.store.unfetched(principal, self.parts.clock.now()).await
    }
}
