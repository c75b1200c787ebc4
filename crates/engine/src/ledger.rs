//! What is known of effects: written down with the end of an exchange, and learned after it (R4, design 7).

use std::sync::Arc;

use taskgate_core::id::{OperationId, WorkflowName};
use taskgate_core::operation::{
    Attestation, Command as Do, Doubt, Event, HandOff, Inquiry, Operation, OutOfStage, Outcome, Receipt,
    Stage, Text, Verdict,
};
use taskgate_core::task::{Command, Ending, Fault, Found, Refusal};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_store::AppendError;
use taskgate_store::ledger::{After, Happening, LedgerEntry, Which};
use taskgate_store::record::Record;

use crate::draft::Draft;
use crate::engine::Engine;
use crate::handle::Live;
use crate::reconcile::counts;
use crate::rules::{Receipted, RuleFailed, Rules};

/// How often a command is decided anew because somebody else wrote in between.
const TRIES: u32 = 8;

/// What a task says while its effect is looked up.
const LOOKING: &str = "The answer was lost; whether the effect was made is being looked up";

/// Why an operation was not told something.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is no such operation.
    #[error("there is no such operation")]
    Unknown,
    /// Nothing was said that a later reader could weigh.
    #[error("a name and a reason are needed: whoever reads this later must be able to weigh it")]
    NoReason,
    /// Its workflow says nobody who could be asked, or it has none.
    #[error("no workflow says how to look it up; only a person can resolve it")]
    NoRule,
    /// It is under way, or more is known of it already than this would say.
    #[error("it is under way, or more is known of it than this would say")]
    OutOfStage(Box<LedgerEntry>),
    /// The store could not.
    #[error(transparent)]
    Store(#[from] taskgate_store::Error),
}

/// How an exchange ended, before it is written down.
pub(crate) struct End {
    /// What the operation is told.
    pub(crate) told: Do,
    /// How the task ends, if it does.
    pub(crate) ending: Ending,
    /// Whether the exchange is proved over: nothing of it can still be sent.
    pub(crate) is_closed: bool,
    /// What the workflow's rule made of the result.
    pub(crate) receipt: Result<Option<Receipted>, RuleFailed>,
}

impl End {
    /// One without a result that could hold a receipt.
    pub(crate) fn of(told: Do, ending: Ending, is_closed: bool) -> End {
        End { told, ending, is_closed, receipt: Ok(None) }
    }
}

/// Writes down how an exchange ended: for the operation, for what is done to learn more, and for the task. All of it is
/// one commit.
///
/// A task whose answer was lost goes on while the system of record is asked.
///
/// # Errors
/// The task's refusal, where a promise ended it before; the operation hears the news all the same (A-090, R4.4).
pub(crate) fn conclude(draft: &mut Draft, rules: &dyn Rules, end: End) -> Result<(), Refusal> {
    let End { told, ending, is_closed, receipt } = end;
    draft.operation(told);
    let has_rules = draft.record().call.intent.is_some();
    let is_unknown = matches!(draft.record().operation.stage, Stage::Unknown(_));
    if is_closed && (has_rules || is_unknown) {
        draft.operation(Do::Close);
    }
    let failed = receive(draft, receipt);
    let is_asked = inquire(draft, rules, failed);
    if is_asked && may_go_on(draft, &ending) {
        return draft.task(Command::Say(LOOKING.to_owned()));
    }
    draft.task(Command::End(ending))
}

/// Takes a receipt in; the words of a rule that failed.
pub(crate) fn receive(draft: &mut Draft, receipt: Result<Option<Receipted>, RuleFailed>) -> Option<Text> {
    match receipt {
        Ok(None) => None,
        Ok(Some(Receipted::Proof { reference, verdict })) => {
            draft.operation(Do::Receive(Receipt { reference: Text::new(&reference), verdict }));
            None
        }
        Ok(Some(Receipted::Unproved { note })) => {
            draft.operation(Do::Note(Text::new(&note)));
            None
        }
        Err(failed) => {
            let words = Text::new(&format!("the receipt rule failed: {failed}"));
            draft.operation(Do::Note(words.clone()));
            Some(words)
        }
    }
}

/// Begins to ask the system of record, or hands the operation to a person; whether it is asked.
///
/// Of a call without a workflow, only a lost answer goes to a person: an error that was answered is known to whoever made
/// the call.
pub(crate) fn inquire(draft: &mut Draft, rules: &dyn Rules, failed: Option<Text>) -> bool {
    let record = draft.record();
    let asks = record.call.intent.as_ref().and_then(|intent| rules.asks(&intent.workflow));
    let is_for_somebody = match (&record.operation.stage, &failed) {
        (Stage::Unknown(Doubt::ToolError | Doubt::PeerError), _) => record.call.intent.is_some(),
        (
            Stage::Unknown(
                Doubt::AnswerLost | Doubt::DeadlinePassed | Doubt::UpstreamLost | Doubt::Cancelled,
            ),
            _,
        ) => true,
        // The peer's word stands, but the rule that should have weighed it could not.
        (Stage::Settled(Outcome::Reported(_)), Some(_)) => true,
        // It stands, and its caller has it. The system of record confirms it where it can be asked (R4.3).
        (Stage::Settled(Outcome::Reported(Verdict::Applied)), None) => asks.is_some(),
        (Stage::Settled(_), _)
        | (Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. }, _) => false,
    };
    match (is_for_somebody, asks) {
        (false, _) => false,
        (true, Some(asks)) => draft.operation(Do::Reconcile { first: asks.first }),
        (true, None) => {
            let why = if failed.is_some() { HandOff::RuleFailed } else { HandOff::NoRule };
            draft.operation(Do::HandOff { why, note: failed });
            false
        }
    }
}

/// Whether a task goes on though its exchange is over: its answer was lost, and there is time to find out.
fn may_go_on(draft: &Draft, ending: &Ending) -> bool {
    let is_lost = match ending {
        Ending::Faulted(
            Fault::OutcomeUnknown(_) | Fault::UpstreamLost | Fault::UpstreamFault(_) | Fault::BudgetSpent(_),
        ) => true,
        Ending::Faulted(
            Fault::NeverSent(_) | Fault::DeadlinePassed | Fault::NoAnswer(_) | Fault::Found(_),
        )
        | Ending::Cancelled
        | Ending::Returned { .. }
        | Ending::Raised { .. } => false,
    };
    let record = draft.record();
    is_lost && record.task.ending().is_none() && draft.now() < record.deadline
}

/// How a task ends of which nothing more will be learned before somebody decides.
pub(crate) fn found(operation: &Operation, why: Option<&Text>) -> Fault {
    let mut unknown = "it could not be found out, and a person is to decide".to_owned();
    if let Some(why) = why {
        unknown = format!("{unknown}: {why}");
    }
    match &operation.stage {
        Stage::Settled(Outcome::Assumed) => Fault::Found(Found::AssumedNotApplied),
        Stage::Settled(outcome) => match outcome.verdict() {
            Some(Verdict::Applied) => Fault::Found(Found::Applied),
            Some(Verdict::NotApplied) => Fault::Found(Found::NotApplied),
            None => Fault::OutcomeUnknown(unknown),
        },
        Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Unknown(_) => {
            Fault::OutcomeUnknown(unknown)
        }
    }
}

/// Hands an operation to a person whose effect was made after all, though its key was given to the operation `to` in the
/// belief that it was not: there may be two effects where there should be one.
pub(crate) fn twice(
    operation: &mut Operation,
    now: UnixMillis,
    id: &OperationId,
    to: &OperationId,
) -> Vec<Event> {
    tracing::error!(
        operation = %id, key_given_to = %to,
        "an effect was made after all, though its key was given to another operation: it may have been made twice"
    );
    let note = Text::new(&format!("its key was given to {to} meanwhile, so this may have been done twice"));
    let events = operation.decide(now, Do::HandOff { why: HandOff::Contradiction, note: Some(note) });
    let events = events.unwrap_or_default();
    events.iter().for_each(|event| operation.apply(event));
    events
}

impl Engine {
    /// Reads one operation, whether its task is kept or not: for the person at this machine, never for a caller (R6.1).
    ///
    /// # Errors
    /// The store's.
    pub async fn operation(&self, id: &OperationId) -> Result<Option<LedgerEntry>, taskgate_store::Error> {
        self.parts.store.operation(id).await
    }

    /// Reads operations from behind `after` on, in the order of [`Which`]: for the person at this machine.
    ///
    /// # Errors
    /// The store's.
    pub async fn operations(
        &self,
        which: Which,
        after: Option<After>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, taskgate_store::Error> {
        self.parts.store.operations(which, after, limit).await
    }

    /// Reads all that happened to an operation and its task, first things first, with the evidence (R4.1).
    ///
    /// # Errors
    /// The store's.
    pub async fn history(&self, id: &OperationId) -> Result<Vec<Happening>, taskgate_store::Error> {
        self.parts.store.history(id).await
    }

    /// A person says what became of an effect. What is confirmed stands against it (R4.3), and so does what a person said
    /// before: see [`Engine::correct`].
    ///
    /// # Errors
    /// [`ResolveError`]; then nothing was written.
    pub async fn attest(
        self: &Arc<Self>,
        id: &OperationId,
        attestation: Attestation,
    ) -> Result<LedgerEntry, ResolveError> {
        if attestation.name.is_empty() || attestation.reason.is_empty() {
            return Err(ResolveError::NoReason);
        }
        self.tell(id, Do::Attest(attestation)).await
    }

    /// As [`Engine::attest`], in the place of what a person said before. The history keeps both.
    ///
    /// # Errors
    /// [`ResolveError`]; then nothing was written.
    pub async fn correct(
        self: &Arc<Self>,
        id: &OperationId,
        attestation: Attestation,
    ) -> Result<LedgerEntry, ResolveError> {
        if attestation.name.is_empty() || attestation.reason.is_empty() {
            return Err(ResolveError::NoReason);
        }
        self.tell(id, Do::Correct(attestation)).await
    }

    /// The operation that the key of `entry` stands for now, if that is another: it was given free since, because it was
    /// certain that `entry` did nothing. For the person at this machine.
    ///
    /// # Errors
    /// The store's.
    pub async fn key_given_to(
        &self,
        entry: &LedgerEntry,
    ) -> Result<Option<OperationId>, taskgate_store::Error> {
        self.parts.store.key_given_to(entry).await
    }

    /// Has the system of record asked now: sooner than it was due, or again though a person was to decide.
    ///
    /// # Errors
    /// [`ResolveError`]; then nothing was written.
    pub async fn reconcile_now(self: &Arc<Self>, id: &OperationId) -> Result<LedgerEntry, ResolveError> {
        let entry = self.parts.store.operation(id).await?.ok_or(ResolveError::Unknown)?;
        let asks = entry.intent.as_ref().and_then(|intent| self.parts.rules.asks(&intent.workflow));
        if asks.is_none() {
            return Err(ResolveError::NoRule);
        }
        self.tell(id, Do::Reconcile { first: Millis(0) }).await
    }

    /// Who decides about operations of a workflow when nothing else can, by name.
    #[must_use]
    pub fn owners(&self, workflow: &WorkflowName) -> Vec<String> {
        self.parts.rules.owners(workflow)
    }

    /// Whether a workflow says how its system of record is asked.
    #[must_use]
    pub fn can_ask(&self, workflow: &WorkflowName) -> bool {
        self.parts.rules.asks(workflow).is_some()
    }

    /// Tells an operation something, durably, whether its task is kept or not. If nothing more is done to learn of its
    /// effect then, its task ends with what is known, in the same commit.
    ///
    /// # Errors
    /// [`ResolveError`]; then nothing was written.
    pub(crate) async fn tell(
        self: &Arc<Self>,
        id: &OperationId,
        command: Do,
    ) -> Result<LedgerEntry, ResolveError> {
        let (engine, id) = (self.clone(), id.clone());
        self.detached(async move { engine.tell_now(&id, command).await }).await
    }

    async fn tell_now(self: &Arc<Self>, id: &OperationId, command: Do) -> Result<LedgerEntry, ResolveError> {
        for _ in 0..TRIES {
            let entry = self.parts.store.operation(id).await?.ok_or(ResolveError::Unknown)?;
            let told = if entry.kept.is_none() {
                self.tell_alone(entry, command.clone()).await
            } else {
                self.tell_kept(entry, command.clone()).await
            };
            match told {
                Ok(Some(entry)) => return Ok(entry),
                // Its task went, or somebody else was first.
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
        let source = Box::from("others kept writing it");
        Err(taskgate_store::Error::Backend { doing: "append to an operation", source }.into())
    }

    /// `None` if it must be read again.
    async fn tell_alone(
        self: &Arc<Self>,
        entry: LedgerEntry,
        command: Do,
    ) -> Result<Option<LedgerEntry>, ResolveError> {
        let now = self.parts.clock.now();
        let events = match entry.operation.decide(now, command) {
            Ok(events) if events.is_empty() => return Ok(Some(entry)),
            Ok(events) => events,
            Err(OutOfStage) => return Err(ResolveError::OutOfStage(Box::new(entry))),
        };
        let mut next = entry.clone();
        events.iter().for_each(|event| next.operation.apply(event));
        next.version += 1;
        next.updated = now.max(entry.updated);
        let mut settled = self.parts.store.settle(next.clone(), events.clone()).await;
        if let Err(AppendError::KeyGiven { to }) = &settled {
            let told = twice(&mut next.operation, next.updated, &next.id, to);
            settled = self.parts.store.settle(next.clone(), [events, told].concat()).await;
        }
        match settled {
            Ok(()) => {
                self.learned(&entry, &next);
                Ok(Some(next))
            }
            // Who has the key changed in between.
            Err(AppendError::Conflict { .. } | AppendError::KeyGiven { .. }) => Ok(None),
            // It may have been done all the same (INV-45).
            Err(AppendError::Store(error)) => match self.parts.store.operation(&next.id).await {
                Ok(Some(found)) if found == next => {
                    self.learned(&entry, &next);
                    Ok(Some(next))
                }
                Ok(_) | Err(_) => Err(error.into()),
            },
        }
    }

    /// `None` if it must be read again.
    async fn tell_kept(
        self: &Arc<Self>,
        entry: LedgerEntry,
        command: Do,
    ) -> Result<Option<LedgerEntry>, ResolveError> {
        let known = self.known(&entry.principal, &entry.task);
        let live = match known {
            Some(live) => live,
            None => match self.parts.store.load(&entry.principal, &entry.task).await? {
                Some(record) => Arc::new(Live::new(Arc::new(record))),
                None => return Ok(None),
            },
        };
        let why = match &command {
            Do::HandOff { note, .. } => note.clone(),
            Do::Dispatch
            | Do::Repeat
            | Do::Accept(_)
            | Do::Hear(_)
            | Do::NeverSent
            | Do::Lose(_)
            | Do::Close
            | Do::Receive(_)
            | Do::Reconcile { .. }
            | Do::Probed(_)
            | Do::Attest(_)
            | Do::Correct(_)
            | Do::Clear { .. }
            | Do::Note(_) => None,
        };
        let told = self
            .attempt(&live, |draft| {
                if !draft.operation(command) {
                    return Err(());
                }
                let record = draft.record();
                if record.task.ending().is_none() && !record.operation.is_active() && !live.is_driven() {
                    let ending = Ending::Faulted(found(&record.operation, why.as_ref()));
                    // The task is not over, so this is not refused.
                    let _ = draft.task(Command::End(ending));
                }
                Ok(())
            })
            .await;
        match told {
            Ok(Ok(record)) => {
                self.keep(&live);
                Ok(Some(LedgerEntry::of(&record)))
            }
            Ok(Err(())) => Err(ResolveError::OutOfStage(Box::new(LedgerEntry::of(&live.record())))),
            Err(AppendError::Conflict { .. } | AppendError::KeyGiven { .. }) => Ok(None),
            Err(AppendError::Store(error)) => {
                self.once_known(&live, async move |engine, live| engine.keep(&live));
                Err(error.into())
            }
        }
    }

    /// Ends a task whose effect became known while its driver was just about to let go of it: see [`Engine::tell`].
    pub(crate) async fn end_if_found(self: &Arc<Self>, live: &Arc<Live>) {
        let is_found = |record: &Record| record.task.ending().is_none() && !record.operation.is_active();
        if !is_found(&live.record()) {
            return;
        }
        let ended = self.change(live, |draft| {
            if !is_found(draft.record()) {
                return Ok(());
            }
            let fault = found(&draft.record().operation, None);
            draft.task(Command::End(Ending::Faulted(fault)))
        });
        if let Err(error) = ended.await {
            tracing::warn!(task = ?live.record().id, %error, "could not end a task whose effect is known");
        }
    }

    /// Keeps a task in memory for as long as something is done about it, and no longer.
    pub(crate) fn keep(&self, live: &Arc<Live>) {
        let record = live.record();
        let is_known = self.registry.get(&record.id).is_some_and(|known| Arc::ptr_eq(&known, live));
        if counts(&record) {
            if !is_known {
                self.registry.admit(&record.principal, usize::MAX);
                self.registry.insert(live);
            } else if live.revive() {
                self.registry.admit(&record.principal, usize::MAX);
            }
        } else if is_known && !live.is_driven() {
            self.registry.retire(live);
        }
    }

    /// A version of a record is on disk: whoever waits for what it says is told.
    pub(crate) fn published(self: &Arc<Self>, before: &Record, after: &Record) {
        self.closed(&after.operation_id, &before.operation, &after.operation);
        if before.operation.inquiry != after.operation.inquiry {
            let task = Some((&after.task, after.deadline));
            self.inquired(Some(&before.operation), &LedgerEntry::of(after), task);
        }
        self.heed(&before.operation, &after.operation, after.call.intent.as_ref());
    }

    fn learned(self: &Arc<Self>, before: &LedgerEntry, after: &LedgerEntry) {
        self.closed(&after.id, &before.operation, &after.operation);
        if before.operation.inquiry != after.operation.inquiry {
            self.inquired(Some(&before.operation), after, None);
        }
        self.heed(&before.operation, &after.operation, after.intent.as_ref());
    }

    /// The time to settle begins in this moment, whatever the clock is set to later.
    fn closed(&self, id: &OperationId, before: &Operation, after: &Operation) {
        if before.closed_at != after.closed_at && matches!(after.inquiry, Inquiry::Reconciling { .. }) {
            self.reconciler.steps.close(id, self.parts.clock.now());
        }
    }

    fn heed(
        self: &Arc<Self>,
        before: &Operation,
        after: &Operation,
        intent: Option<&taskgate_store::record::Intent>,
    ) {
        if before.is_open() && !after.is_open() {
            self.freed(intent);
        }
    }
}
