//! Whether clients were given the results of their calls, and what they may still want to hear of (design 3, 4).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_core::id::{Principal, TaskId};
use taskgate_store::record::Record;
use taskgate_store::{CreateError, Created, Join, Unfetched};
use tokio::sync::watch;

use crate::engine::Engine;

/// Results that clients were given and of which that is not on disk yet.
#[derive(Debug, Default)]
pub(crate) struct Noting(Mutex<HashMap<TaskId, watch::Sender<()>>>);

impl Noting {
    /// Ends when it is on disk, or could not be written; `None` if nothing is being noted of this one.
    fn of(&self, id: &TaskId) -> Option<watch::Receiver<()>> {
        self.0.lock().get(id).map(watch::Sender::subscribe)
    }
}

impl Engine {
    /// Notes that a client was given the final result of a task, and returns when that is on disk. The first time
    /// counts. It is no change of the task: nobody who watches it is woken. An error is logged and no more: the worst
    /// that comes of it is that the result is offered again.
    pub async fn fetched(self: &Arc<Self>, principal: &Principal, id: &TaskId) {
        self.handed_over(principal, id);
        if let Some(mut noted) = self.noting.of(id) {
            // Its sender goes when it is done.
            let _ = noted.changed().await;
        }
    }

    /// The same for who has no time to wait: from now on the same call is a new one, and what is made of it meanwhile
    /// waits for the disk.
    pub fn handed_over(self: &Arc<Self>, principal: &Principal, id: &TaskId) {
        let known = self.known(principal, id).map(|live| live.record());
        if known.is_some_and(|record| record.fetched.is_some() || !record.notes_fetch()) {
            return;
        }
        let mut noting = self.noting.0.lock();
        if noting.contains_key(id) {
            return;
        }
        noting.insert(id.clone(), watch::Sender::new(()));
        drop(noting);
        let (engine, principal, id) = (self.clone(), principal.clone(), id.clone());
        self.drivers.spawn(async move {
            if let Err(error) = engine.note(&principal, &id).await {
                tracing::warn!(task = ?id, %error, "could not note that a result was fetched");
            }
            engine.noting.0.lock().remove(&id);
        });
    }

    async fn note(self: &Arc<Self>, principal: &Principal, id: &TaskId) -> Result<(), taskgate_store::Error> {
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

    /// Creates a record, or finds the one that it joins. A result that is on its way to a client is no longer one that
    /// nobody was given, though the store does not know it yet.
    pub(crate) async fn create_noted(
        &self,
        record: &Arc<Record>,
        join: Join,
    ) -> Result<Created, CreateError> {
        let created = self.parts.store.create(record.clone(), join).await?;
        if join == Join::SameCall
            && let Created::Joined(earlier) = &created
            && earlier.is_unfetched()
        {
            if let Some(mut noted) = self.noting.of(&earlier.id) {
                let _ = noted.changed().await;
            }
            // Also if none is being noted: it may have come to the disk in this moment.
            return self.parts.store.create(record.clone(), join).await;
        }
        Ok(created)
    }

    /// Counts what a principal's clients may still want to hear of: tasks that run, and results that nobody fetched.
    ///
    /// # Errors
    /// The store's.
    pub async fn unfetched(&self, principal: &Principal) -> Result<Unfetched, taskgate_store::Error> {
        self.parts.store.unfetched(principal, self.parts.clock.now()).await
    }
}
