//! A decision on its way to the store: the next version of a record, and the changes that lead to it.

use taskgate_core::operation;
use taskgate_core::task::{self, Refusal};
use taskgate_core::time::UnixMillis;
use taskgate_seeded::Bug;
use taskgate_store::record::{Change, Observed, Record};

/// The next version of a record, while it is decided.
#[derive(Debug)]
pub(crate) struct Draft {
    record: Record,
    changes: Vec<Change>,
    now: UnixMillis,
}

impl Draft {
    pub(crate) fn of(record: &Record, now: UnixMillis) -> Draft {
        Draft { record: record.clone(), changes: Vec::new(), now }
    }

    /// The time of the decision.
    pub(crate) fn now(&self) -> UnixMillis {
        self.now
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Whether the call is still to be carried out: nothing is dispatched once a cancellation is recorded (INV-17).
    pub(crate) fn is_wanted(&self) -> bool {
        let is_wished = self.record.task.cancel_wished_at.is_some();
        self.record.task.ending().is_none() && (!is_wished || taskgate_seeded::is(Bug::DispatchUnwanted))
    }

    /// Has the task machine decide and folds in what it says.
    pub(crate) fn task(&mut self, command: task::Command) -> Result<(), Refusal> {
        for event in self.record.task.decide(self.now, command)? {
            match self.record.task.apply(&event) {
                Ok(()) => self.changes.push(Change::Task(event)),
                // What the machine decides it can also fold; that is tested in `core`.
                Err(corrupt) => tracing::error!(task = ?self.record.id, %corrupt, "task event does not fit"),
            }
        }
        Ok(())
    }

    /// Has the operation decide. Whether the command fitted its stage.
    pub(crate) fn operation(&mut self, command: operation::Command) -> bool {
        let Ok(events) = self.record.operation.decide(self.now, command) else { return false };
        for event in events {
            self.record.operation.apply(&event);
            self.changes.push(Change::Operation(event));
        }
        true
    }

    /// Notes what was seen upstream, if it differs (R3.5).
    pub(crate) fn observe(&mut self, observed: Observed) {
        if self.record.observed.status != observed.status
            || self.record.observed.last_updated_at != observed.last_updated_at
        {
            self.changes.push(Change::Observed(observed.clone()));
        }
        self.record.observed = observed;
    }

    /// The record and changes to append; `None` if nothing changed.
    pub(crate) fn finish(mut self) -> Option<(Record, Vec<Change>)> {
        if self.changes.is_empty() {
            return None;
        }
        self.record.version += 1;
        self.record.updated = self.now.max(self.record.updated);
        Some((self.record, self.changes))
    }
}
