//! One look after an operation of which nobody is certain.

use std::sync::Arc;

use taskgate_core::budget::{Allowance, Budget, Purpose};
use taskgate_core::id::OperationId;
use taskgate_core::operation::{
    Command as Do, Finding, HandOff, Inquiry, Outcome, Probed, Stage, Standing, Text,
};
use taskgate_core::task::{Command, Ending, Fault};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_store::AppendError;
use taskgate_store::ledger::LedgerEntry;

use crate::engine::Engine;
use crate::handle::Live;
use crate::ledger::ResolveError;
use crate::rules::{About, Asks, Look, RuleFailed};

/// How long to wait for a driver to let go of a task whose exchange has just ended.
const LET_GO: Millis = Millis(50);

/// How long one whose rules are not here is left alone, unless they come.
const ASIDE: Millis = Millis::hours(24);

/// Something to be told to an operation, or something that must be asked again later.
enum Found {
    /// A look-up was made.
    Looked { finding: Finding, what: String },
    /// A person is to decide.
    Person { why: HandOff, note: String },
}

/// An operation that is asked after, as it is on disk.
pub(super) struct Subject {
    pub(super) entry: LedgerEntry,
    /// Its task, if that is kept.
    pub(super) live: Option<Arc<Live>>,
}

impl Engine {
    /// Does what is due about an operation.
    pub(super) async fn look(self: &Arc<Self>, id: &OperationId) -> Result<(), taskgate_store::Error> {
        let Some(subject) = self.subject(id).await? else { return Ok(()) };
        let Inquiry::Reconciling { since, tries, next, last } = subject.entry.operation.inquiry else {
            // If it came to that by a write of which the store could not say at once that it was done.
            if let Inquiry::Person { .. } = subject.entry.operation.inquiry {
                self.remind(&subject.entry);
            }
            return Ok(());
        };
        let now = self.parts.clock.now();
        if subject.live.as_ref().is_some_and(|live| live.is_driven()) {
            // Its exchange ended in this moment.
            self.reconciler.looks.again(id, now + LET_GO);
            return Ok(());
        }
        self.end_at_deadline(&subject, now).await?;
        if now < next {
            let deadline = subject
                .live
                .as_ref()
                .map(|live| live.record())
                .and_then(|record| record.task.ending().is_none().then_some(record.deadline));
            self.reconciler.looks.again(id, deadline.map_or(next, |deadline| deadline.min(next)));
            return Ok(());
        }
        let workflow = subject.entry.intent.as_ref().map(|intent| &intent.workflow);
        if let Some(workflow) = workflow
            && self.parts.rules.is_awaited(workflow)
        {
            self.put_aside(&subject, now);
            return Ok(());
        }
        // Time in which nobody could ask is no reason to ask nobody: then one look is made whatever the time.
        let was_awaited = self.reconciler.awaited.lock().remove(id);
        let Some(asks) = workflow.and_then(|workflow| self.parts.rules.asks(workflow)) else {
            let note = "its workflow does not say any more how it can be looked up".to_owned();
            return self.say(id, &Found::Person { why: HandOff::NoRule, note }.told(Millis(0))).await;
        };
        let allowance = asks.budget.unwrap_or(self.parts.limits.reconcile);
        let mut budget = Budget::resumed(Purpose::Reconcile, allowance, since, tries);
        let found = match budget.spend(now) {
            Err(spent) if !was_awaited => {
                let note = format!("{spent}; the last look-up {}", last_words(last));
                Found::Person { why: HandOff::BudgetSpent, note }
            }
            Ok(()) | Err(_) => match self.inquire_once(&subject, &asks).await {
                // They went while it was asked by them.
                Found::Person { why: HandOff::RuleFailed, .. }
                    if workflow.is_some_and(|workflow| self.parts.rules.is_awaited(workflow)) =>
                {
                    self.put_aside(&subject, now);
                    return Ok(());
                }
                found @ (Found::Looked { .. } | Found::Person { .. }) => found,
            },
        };
        if let Found::Looked { finding: Finding::NotApplied(standing), what } = &found
            && asks.resend
            && self.resend(&subject, *standing, what).await?
        {
            return Ok(());
        }
        let again = self.pause(&subject.entry, &asks, allowance, since, tries);
        self.say(id, &found.told(again)).await
    }

    /// Its rules are not here: it is looked at again when they come ([`Engine::rules_came`]), or its task must end.
    fn put_aside(&self, subject: &Subject, now: UnixMillis) {
        let id = &subject.entry.id;
        self.reconciler.awaited.lock().insert(id.clone());
        let record = subject.live.as_ref().map(|live| live.record());
        let deadline = record.filter(|record| record.task.ending().is_none()).map(|record| record.deadline);
        let longest = now + ASIDE;
        self.reconciler.looks.again(id, deadline.map_or(longest, |deadline| deadline.min(longest)));
    }

    async fn subject(self: &Arc<Self>, id: &OperationId) -> Result<Option<Subject>, taskgate_store::Error> {
        let Some(entry) = self.parts.store.operation(id).await? else { return Ok(None) };
        let live = self.kept(&entry).await?;
        let entry = live.as_ref().map_or(entry, |live| LedgerEntry::of(&live.record()));
        Ok(Some(Subject { entry, live }))
    }

    /// Fences and asks.
    async fn inquire_once(&self, subject: &Subject, asks: &Asks) -> Found {
        let record = subject.live.as_ref().map(|live| live.record());
        let about = record.as_deref().map_or_else(|| About::entry(&subject.entry), About::record);
        let Some(about) = about else {
            return Found::Person { why: HandOff::NoRule, note: "it has no workflow".to_owned() };
        };
        let rules = &*self.parts.rules;
        let is_fenced = match self.fence(subject, &about).await {
            Ok(is_fenced) => is_fenced,
            Err(failed) => return failed,
        };
        let request = match rules.probe(&about) {
            Ok(request) => request,
            Err(RuleFailed(why)) => {
                return Found::Person {
                    why: HandOff::RuleFailed,
                    note: format!("the probe's rule failed: {why}"),
                };
            }
        };
        let id = &subject.entry.id;
        let asked = self.reconciler.steps.since_closed(id, self.parts.clock.now());
        let heard = match self.ask(&request).await {
            Ok(heard) => heard,
            Err(what) => return Found::Looked { finding: Finding::Failed, what },
        };
        let (finding, what) = match rules.judge(&about, &heard.said()) {
            Ok(Look::Applied) => (Finding::Applied, "the system of record has the effect".to_owned()),
            Ok(Look::NotApplied) => {
                let standing = if is_fenced {
                    Standing::Fenced
                } else {
                    subject.entry.operation.standing(asked, asks.settle)
                };
                (Finding::NotApplied(standing), not_applied(standing).to_owned())
            }
            Ok(Look::Unclear(why)) => (Finding::Unclear, why),
            Err(RuleFailed(why)) => (Finding::Failed, format!("the probe's rule failed: {why}")),
        };
        Found::Looked { finding, what }
    }

    /// Has the system of record take the request no more; whether it agreed. What a peer reported is left alone: a fence
    /// might undo what its caller was told of.
    async fn fence(&self, subject: &Subject, about: &About<'_>) -> Result<bool, Found> {
        let is_in_doubt = match subject.entry.operation.stage {
            Stage::Unknown(_) | Stage::Settled(Outcome::Assumed) => true,
            Stage::Settled(
                Outcome::Reported(_) | Outcome::NoneExpected | Outcome::Confirmed(_) | Outcome::Attested(_),
            )
            | Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. } => false,
        };
        if !is_in_doubt {
            return Ok(false);
        }
        let rules = &*self.parts.rules;
        let request = match rules.fence(about) {
            Ok(None) => return Ok(false),
            Ok(Some(request)) => request,
            Err(RuleFailed(why)) => {
                return Err(Found::Person {
                    why: HandOff::RuleFailed,
                    note: format!("the fence's rule failed: {why}"),
                });
            }
        };
        // Without its word nothing is fenced; the look-up that follows may still find the effect.
        let agreed = match self.ask(&request).await {
            Ok(heard) => rules.is_fenced(about, &heard.said()).map_err(|RuleFailed(why)| why),
            Err(why) => Err(why),
        };
        if let Err(why) = &agreed {
            tracing::info!(operation = %subject.entry.id, why, "a system of record did not agree to a fence");
        }
        Ok(agreed.unwrap_or(false))
    }

    /// Ends a task whose deadline has passed; its effect is asked after all the same.
    async fn end_at_deadline(
        self: &Arc<Self>,
        subject: &Subject,
        now: UnixMillis,
    ) -> Result<(), taskgate_store::Error> {
        let Some(live) = subject.live.clone() else { return Ok(()) };
        let record = live.record();
        if record.task.ending().is_some() || now < record.deadline {
            return Ok(());
        }
        let engine = self.clone();
        self.detached(async move {
            let ended = engine
                .attempt(&live, |draft| draft.task(Command::End(Ending::Faulted(Fault::DeadlinePassed))))
                .await;
            match ended {
                // Refused if it ended in this moment.
                Ok(_) => engine.keep(&live),
                // Somebody else wrote it, and it is read again.
                Err(AppendError::Conflict { .. } | AppendError::KeyGiven { .. }) => {}
                Err(AppendError::Store(error)) => {
                    engine.once_known(&live, async move |engine, live| engine.keep(&live));
                    return Err(error);
                }
            }
            Ok(())
        })
        .await
    }

    /// Tells an operation what came of it.
    async fn say(self: &Arc<Self>, id: &OperationId, told: &Do) -> Result<(), taskgate_store::Error> {
        match self.tell(id, told.clone()).await {
            Ok(_) => Ok(()),
            // A person, or a late answer, was faster.
            Err(ResolveError::OutOfStage(_) | ResolveError::Unknown) => Ok(()),
            Err(error @ (ResolveError::NoReason | ResolveError::NoRule)) => {
                tracing::error!(operation = %id, %error, "an operation could not be told what was found");
                Ok(())
            }
            Err(ResolveError::Store(error)) => Err(error),
        }
    }

    /// How long until the next look-up: doubling from what the workflow says, with jitter, but no later than when a
    /// negative answer begins to prove something, and than when the budget is spent.
    fn pause(
        &self,
        entry: &LedgerEntry,
        asks: &Asks,
        allowance: Allowance,
        since: UnixMillis,
        tries: u32,
    ) -> Millis {
        let longest = self.parts.limits.lookups.pause_max.max(asks.every);
        let base = asks.every.0.max(1).saturating_mul(1 << tries.min(20)).min(longest.0);
        let mut pause = Millis(base + base * u64::from(self.parts.random.jitter() % 256) / 1024);
        let now = self.parts.clock.now();
        let until = |at: UnixMillis| at.since(now);
        if let (Some(closed), Some(settle)) = (entry.operation.closed_at, asks.settle) {
            let left = (closed + settle).since(self.reconciler.steps.since_closed(&entry.id, now));
            pause = if left > Millis(0) { pause.min(left) } else { pause };
        }
        let spent = since + allowance.time + Millis(1);
        if until(spent) > Millis(0) { pause.min(until(spent)) } else { pause }
    }
}

impl Found {
    fn told(self, again: Millis) -> Do {
        match self {
            Found::Looked { finding, what } => Do::Probed(Probed { finding, what: Text::new(&what), again }),
            Found::Person { why, note } => Do::HandOff { why, note: Some(Text::new(&note)) },
        }
    }
}

fn not_applied(standing: Standing) -> &'static str {
    match standing {
        Standing::Fenced => "the system of record agreed to take the request no more, and has no such effect",
        Standing::Settled => {
            "the system of record has no such effect, and what could still arrive has had its time"
        }
        Standing::Open => "the system of record has no such effect, and the request may still arrive",
    }
}

fn last_words(last: Option<Finding>) -> &'static str {
    match last {
        None => "was never made",
        Some(Finding::Applied) => "found the effect",
        Some(Finding::NotApplied(_)) => "found no effect, which proves nothing",
        Some(Finding::Unclear) => "had an answer that says neither",
        Some(Finding::Failed) => "failed",
    }
}
