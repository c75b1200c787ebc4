//! The operations whose system of record is being asked: who has to look after which, and when (R4.5, R5.4, design 7).
//!
//! An operation comes here in the moment in which it is on disk that it is asked after; after a restart all of them do.
//! What is to be done next is read from disk each time, so that nothing is done on what was known once.
//!
//! - `agenda`: what is due when
//! - `look`: one look after an operation: budget, fence, look-up, verdict
//! - `ask`: one question to a system of record
//! - `steps`: a wall clock that is set meanwhile
//! - `resend`: sending again what is confirmed not applied
//! - `tell`: telling people that an operation waits for them

mod agenda;
mod ask;
mod look;
mod resend;
mod steps;
mod tell;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_core::id::{OperationId, WorkflowName};
use taskgate_core::operation::{Inquiry, Operation, Stage};
use taskgate_core::task::Task;
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_store::ledger::{LedgerEntry, Which};
use taskgate_store::record::{Intent, Record};

use self::agenda::Agenda;
use self::ask::Systems;
use self::steps::Steps;
use self::tell::Told;
use crate::engine::Engine;
use crate::limits::Limits;

/// How long to wait before the store is tried again.
const STORE_PAUSE: Millis = Millis::secs(5);

/// Entries read at a time after a restart.
const PAGE: usize = 256;

/// What waits to be looked after.
#[derive(Debug)]
pub(crate) struct Reconciler {
    /// Operations that are asked after.
    looks: Agenda,
    /// Operations of which somebody is to be told.
    notices: Agenda,
    systems: Systems,
    told: Told,
    /// Operations that were due while their workflow's rules were not here.
    awaited: Mutex<HashSet<OperationId>>,
    pub(crate) steps: Steps,
}

impl Reconciler {
    pub(crate) fn new(limits: &Limits, now: UnixMillis) -> Reconciler {
        Reconciler {
            looks: Agenda::new(limits.lookups.workflow_max),
            notices: Agenda::new(limits.notices.workflow_max),
            systems: Systems::new(limits.lookups.system_max),
            told: Told::default(),
            awaited: Mutex::default(),
            steps: Steps::new(now),
        }
    }
}

/// Of which kind of work an agenda is.
#[derive(Clone, Copy)]
enum Work {
    Look,
    Notice,
}

/// Gives an operation back to its agenda, whatever becomes of the work.
struct UnderWay {
    engine: Arc<Engine>,
    work: Work,
    id: OperationId,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.engine.agenda(self.work).done(&self.id);
    }
}

impl Engine {
    /// Asks systems of record what became of effects in doubt, as each is due, and tells people of what waits for them,
    /// until the engine stops. What is under way then is cut off: it only asks, and is asked again after the restart.
    ///
    /// # Source
    /// design 7; R4.5, R5.1, R5.4; notes 3.4
    pub async fn reconcile(self: &Arc<Self>) {
        tokio::join!(self.tend(Work::Look), self.tend(Work::Notice));
    }

    fn agenda(&self, work: Work) -> &Agenda {
        match work {
            Work::Look => &self.reconciler.looks,
            Work::Notice => &self.reconciler.notices,
        }
    }

    async fn tend(self: &Arc<Self>, work: Work) {
        let agenda = self.agenda(work);
        while !self.closing.is_cancelled() {
            for id in agenda.take(self.parts.clock.now()) {
                let under_way = UnderWay { engine: self.clone(), work, id };
                self.drivers.spawn(async move {
                    let UnderWay { engine, id, .. } = &under_way;
                    let closing = engine.closing.clone();
                    tokio::select! {
                        biased;
                        () = closing.cancelled() => {}
                        () = engine.work(work, id) => {}
                    }
                });
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                () = agenda.wait(|| self.parts.clock.now()) => {}
            }
        }
    }

    async fn work(self: &Arc<Self>, work: Work, id: &OperationId) {
        let done = match work {
            Work::Look => self.look(id).await,
            Work::Notice => self.notify(id).await,
        };
        if let Err(error) = done {
            tracing::warn!(operation = %id, %error, "could not look after an operation");
            self.agenda(work).again(id, self.parts.clock.now() + STORE_PAUSE);
        }
    }

    /// What is done to learn of the effect changed, and is on disk: `task` is the operation's, if it is kept.
    pub(crate) fn inquired(
        &self,
        before: Option<&Operation>,
        after: &LedgerEntry,
        task: Option<(&Task, UnixMillis)>,
    ) {
        let Some(Intent { workflow, .. }) = &after.intent else {
            self.handed_off(before, after);
            return;
        };
        match after.operation.inquiry {
            Inquiry::Reconciling { next, .. } => {
                // A task whose effect is asked after must be over by its deadline, whatever comes of it.
                let deadline = task.filter(|(task, _)| task.ending().is_none()).map(|(_, deadline)| deadline);
                let due = deadline.map_or(next, |deadline| deadline.min(next));
                self.reconciler.looks.put(&after.id, &workflow.0, due);
            }
            Inquiry::Idle | Inquiry::Person { .. } => {
                self.reconciler.looks.remove(&after.id);
                self.reconciler.steps.forget(&after.id);
                self.reconciler.awaited.lock().remove(&after.id);
            }
        }
        self.handed_off(before, after);
    }

    /// The rules of these workflows are here now: what waited for them is asked after at once, and who is to be told of an
    /// operation that waits for a person is told, unless that was acknowledged.
    ///
    /// # Errors
    /// The store's; then some are told only when the next process starts.
    pub async fn rules_came(
        self: &Arc<Self>,
        workflows: &[WorkflowName],
    ) -> Result<(), taskgate_store::Error> {
        let now = self.parts.clock.now();
        for workflow in workflows {
            self.reconciler.looks.hasten(&workflow.0, now);
        }
        if workflows.iter().all(|workflow| self.parts.rules.webhook(workflow).is_none()) {
            return Ok(());
        }
        let mut after = None;
        loop {
            let page = self.parts.store.operations(Which::Waiting, after, PAGE).await?;
            let theirs = |entry: &&LedgerEntry| {
                entry.intent.as_ref().is_some_and(|intent| workflows.contains(&intent.workflow))
            };
            page.iter().filter(theirs).for_each(|entry| self.remind(entry));
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.after()),
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Whether an operation of a workflow is being asked after, or is to be.
    #[must_use]
    pub fn asks_after(&self, workflow: &WorkflowName) -> bool {
        self.reconciler.looks.holds(&workflow.0)
    }

    /// Whether a workflow's rules are not here now, and may still come.
    #[must_use]
    pub fn awaits(&self, workflow: &WorkflowName) -> bool {
        self.parts.rules.is_awaited(workflow)
    }

    /// Takes up all that is being asked after, and all of which somebody is to be told, after a restart. How many are
    /// asked after whose tasks are gone.
    pub(crate) async fn take_up_inquiries(self: &Arc<Self>) -> Result<usize, taskgate_store::Error> {
        let mut asked = 0;
        for which in [Which::Reconciling, Which::Waiting] {
            let mut after = None;
            loop {
                let page = self.parts.store.operations(which, after, PAGE).await?;
                for entry in &page {
                    self.close_of_before(entry).await?;
                    match (which, &entry.intent, entry.operation.inquiry) {
                        (Which::Reconciling, Some(intent), Inquiry::Reconciling { next, .. }) => {
                            asked += usize::from(entry.kept.is_none());
                            // A task that is not over has a deadline, which may have passed: that one is seen to now.
                            let is_over = entry.kept.is_none_or(|kept| kept.ended.is_some());
                            let due = if is_over { next } else { self.parts.clock.now() };
                            self.reconciler.looks.put(&entry.id, &intent.workflow.0, due);
                        }
                        (Which::Waiting, _, Inquiry::Person { .. }) => self.remind(entry),
                        (
                            Which::Reconciling | Which::Waiting | Which::All | Which::Open | Which::Unknown,
                            _,
                            _,
                        ) => {}
                    }
                }
                match page.last() {
                    Some(last) if page.len() == PAGE => after = Some(last.after()),
                    Some(_) | None => break,
                }
            }
        }
        Ok(asked)
    }
}

/// Whether a principal's call still counts among those that are under way: one that is over and was only reported is
/// asked after for the ledger's sake, and its caller may call again meanwhile.
pub(crate) fn counts(record: &Record) -> bool {
    let is_under_way = match record.operation.stage {
        Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } => true,
        Stage::Settled(_) | Stage::Unknown(_) => false,
    };
    record.task.ending().is_none() || is_under_way
}
