//! Telling people that an operation waits for them: a line in the log, and the workflow's webhook.
//!
//! A notice is delivered at least once: until it is acknowledged, which the history remembers, so that a restart neither
//! forgets one nor repeats one that arrived.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_core::budget::{Allowance, Budget, Purpose};
use taskgate_core::id::OperationId;
use taskgate_core::operation::{Command as Do, HandOff, Inquiry, Operation, Outcome, Stage, Text, Verdict};
use taskgate_core::time::UnixMillis;
use taskgate_store::ledger::LedgerEntry;

use crate::engine::Engine;
use crate::ledger::ResolveError;
use crate::web::Notice;

/// The deliveries that were tried and failed, by operation: how often, and since when.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<HashMap<OperationId, (String, Budget)>>);

impl Engine {
    /// An operation may have come to wait for a person: those who are to know are told.
    pub(super) fn handed_off(&self, before: Option<&Operation>, after: &LedgerEntry) {
        let was_waiting = before.is_some_and(|before| matches!(before.inquiry, Inquiry::Person { .. }));
        let Inquiry::Person { why, .. } = after.operation.inquiry else {
            self.reconciler.notices.remove(&after.id);
            return;
        };
        if was_waiting {
            return;
        }
        let workflow = after.intent.as_ref().map(|intent| intent.workflow.0.as_str());
        let (outcome, reason) = (outcome(&after.operation), words(why).0);
        tracing::warn!(
            operation = %after.id, workflow, server = %after.server, tool = after.tool, outcome, reason,
            "an operation waits for a person"
        );
        self.remind(after);
    }

    /// Has the workflow's webhook told of an operation that waits, unless it knows.
    pub(super) fn remind(&self, entry: &LedgerEntry) {
        let Some(intent) = &entry.intent else { return };
        if self.parts.rules.webhook(&intent.workflow).is_some() {
            self.reconciler.notices.put(&entry.id, &intent.workflow.0, self.parts.clock.now());
        }
    }

    /// Delivers the notice of an operation, once.
    pub(super) async fn notify(self: &Arc<Self>, id: &OperationId) -> Result<(), taskgate_store::Error> {
        let Some(entry) = self.parts.store.operation(id).await? else { return Ok(()) };
        let Some(notice) = self.notice(&entry) else {
            self.reconciler.told.0.lock().remove(id);
            return Ok(());
        };
        let Some(hook) = self.parts.rules.webhook(&notice.workflow) else { return Ok(()) };
        let limits = self.parts.limits.notices;
        if self.is_acknowledged(&notice).await? {
            return Ok(());
        }
        let mut budget = self.reconciler.told.budget(&notice, limits.budget);
        if let Err(spent) = budget.spend(self.parts.clock.now()) {
            self.reconciler.told.0.lock().remove(id);
            tracing::error!(
                operation = %id, tries = spent.attempts,
                "a webhook never acknowledged that an operation waits for a person"
            );
            return Ok(());
        }
        match self.parts.web.notify(&hook, &notice, limits.answer.duration()).await {
            Ok(()) => {
                self.reconciler.told.0.lock().remove(id);
                match self.tell(id, Do::Note(acknowledgement(&notice))).await {
                    Ok(_) => Ok(()),
                    Err(ResolveError::Store(error)) => Err(error),
                    Err(
                        ResolveError::Unknown
                        | ResolveError::NoReason
                        | ResolveError::NoRule
                        | ResolveError::OutOfStage(_),
                    ) => Ok(()),
                }
            }
            Err(why) => {
                let pause = budget.backoff(self.parts.random.jitter());
                tracing::warn!(operation = %id, why, again_in_ms = pause.0, "a webhook could not be told");
                self.reconciler.told.0.lock().insert(id.clone(), (notice.id, budget));
                self.reconciler.notices.again(id, self.parts.clock.now() + pause);
                Ok(())
            }
        }
    }

    async fn is_acknowledged(&self, notice: &Notice) -> Result<bool, taskgate_store::Error> {
        let known = acknowledgement(notice);
        let history = self.parts.store.history(&notice.operation).await?;
        Ok(history
            .iter()
            .rev()
            .flat_map(|happening| &happening.lines)
            .any(|line| line.contains(known.as_str())))
    }

    /// What is to be told of an operation; `None` if it does not wait any more.
    fn notice(&self, entry: &LedgerEntry) -> Option<Notice> {
        let Inquiry::Person { since, why } = entry.operation.inquiry else { return None };
        let intent = entry.intent.as_ref()?;
        let (reason, why) = words(why);
        let object = intent.object.as_ref();
        Some(Notice {
            id: notice_id(&entry.id, since),
            operation: entry.id.clone(),
            workflow: intent.workflow.clone(),
            server: entry.server.clone(),
            tool: entry.tool.clone(),
            object: object.map(|object| (object.name.clone(), object.version.clone())),
            outcome: outcome(&entry.operation),
            reason,
            why,
            since,
            owners: self.parts.rules.owners(&intent.workflow),
        })
    }
}

impl Told {
    fn budget(&self, notice: &Notice, allowance: Allowance) -> Budget {
        let fresh = Budget::new(Purpose::Reconcile, allowance);
        match self.0.lock().get(&notice.operation) {
            Some((id, budget)) if *id == notice.id => *budget,
            Some(_) | None => fresh,
        }
    }
}

/// One operation comes to wait at most once in a millisecond.
fn notice_id(operation: &OperationId, since: UnixMillis) -> String {
    format!("{operation}.{}", since.0)
}

/// What the history says of an acknowledged notice.
fn acknowledgement(notice: &Notice) -> Text {
    Text::new(&format!("the webhook acknowledged notice {}", notice.id))
}

/// What is known of an effect, in a word for machines.
fn outcome(operation: &Operation) -> &'static str {
    match &operation.stage {
        Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } => "pending",
        Stage::Unknown(_) => "unknown",
        Stage::Settled(outcome) => match outcome {
            Outcome::NoneExpected => "none_expected",
            Outcome::Reported(Verdict::Applied) => "reported_applied",
            Outcome::Reported(Verdict::NotApplied) => "reported_not_applied",
            Outcome::Confirmed(Verdict::Applied) => "confirmed_applied",
            Outcome::Confirmed(Verdict::NotApplied) => "confirmed_not_applied",
            Outcome::Attested(Verdict::Applied) => "attested_applied",
            Outcome::Attested(Verdict::NotApplied) => "attested_not_applied",
            Outcome::Assumed => "assumed_not_applied",
        },
    }
}

/// Why a person is to decide: a word for machines, and words for people.
fn words(why: HandOff) -> (&'static str, &'static str) {
    match why {
        HandOff::NoRule => ("no_rule", "no workflow says how to find out what became of it"),
        HandOff::BudgetSpent => {
            ("budget_spent", "its system of record was asked for as long as the reconciliation budget lasts")
        }
        HandOff::Assumed => (
            "assumed",
            "its system of record was asked and has no effect, but that does not prove that none comes",
        ),
        HandOff::Contradiction => ("contradiction", "one source says the opposite of another"),
        HandOff::RuleFailed => ("rule_failed", "a rule of its workflow could not be evaluated"),
        HandOff::Wished => ("wished", "a person asked for it"),
    }
}
