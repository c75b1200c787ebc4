//! The server's own books against the ledger, and both against the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::FutureExt;
use taskgate_core::operation::{Doubt, Inquiry, Operation, Outcome, Stage, Verdict};
use taskgate_core::task::{Ending, QuestionKey};
use taskgate_sim::{Entry, Flow};
use taskgate_store::Store;
use taskgate_store::ledger::{LedgerEntry, Which};
use taskgate_store::record::Record;

use crate::client::Gave;
use crate::sim::Sim;
use crate::wish::Wish;

type Judged = Result<(), String>;

impl Sim {
    /// After the last life: everything is over, and settled or with a person.
    pub(crate) fn judge(&self) -> Judged {
        if !self.world.server.is_quiet() {
            return Err("the server is still at work; the simulation is too short".to_owned());
        }
        self.graves()?;
        self.answers()?;
        let ledger = self.ledger();
        let history = self.world.history.lock();
        for versions in history.values() {
            let Some(entry) = ledger.get(versions[0].id.expose()) else {
                return Err(format!("INV-30: {:?} has no evidence", versions[0].call.params));
            };
            self.versions(versions, entry)?;
            questions(versions)?;
            self.settled(&entry.operation)?;
        }
        for wish in self.world.wishes.lock().iter() {
            let Some(id) = &wish.id else { return Err(format!("{} was never taken", wish.name())) };
            let (Some(versions), Some(entry)) = (history.get(id.expose()), ledger.get(id.expose())) else {
                return Err(format!("INV-01: {} was given an id that is not on disk", wish.name()));
            };
            self.effect(wish, &entry.operation)?;
            self.ending(versions)?;
            for name in wish.given_up() {
                let entry = self.world.server.entry(&name);
                let is_twice = wish.is_once() && entry.requests > 1;
                if is_twice || !wish.may_repeat() && entry.effects > 1 {
                    return Err(format!("INV-45: {name}, which nobody could speak of, {entry:?}"));
                }
            }
        }
        Ok(())
    }

    /// All operations, by their task's ids.
    fn ledger(&self) -> BTreeMap<String, LedgerEntry> {
        // The store in memory answers at once.
        let found = self.world.store.operations(Which::All, None, 1_000).now_or_never();
        let entries = found.unwrap().unwrap();
        entries.into_iter().map(|entry| (entry.task.expose().to_owned(), entry)).collect()
    }

    fn versions(&self, versions: &[Arc<Record>], entry: &LedgerEntry) -> Judged {
        let name = &versions[0].call.params;
        for (index, record) in versions.iter().enumerate() {
            if record.version != index as u64 + 1 {
                return Err(format!(
                    "INV-04: {name:?} has version {} as number {}",
                    record.version,
                    index + 1
                ));
            }
        }
        let happened = self.world.store.history(&entry.id).now_or_never().unwrap().unwrap();
        if happened.len() as u64 != entry.version || entry.version < versions.len() as u64 {
            return Err(format!(
                "INV-04: {name:?} is at version {} and has {} events and {} versions",
                entry.version,
                happened.len(),
                versions.len()
            ));
        }
        let endings =
            versions.windows(2).filter(|pair| pair[0].task.ending() != pair[1].task.ending()).count();
        let last = &versions[versions.len() - 1];
        if last.task.ending().is_none() || endings > 1 {
            return Err(format!("INV-06: {name:?} has {endings} endings: {last:#?}"));
        }
        for pair in versions.windows(2) {
            let (old, new) = (&pair[0], &pair[1]);
            let dispatched = new.operation.attempts > old.operation.attempts;
            if dispatched && (old.task.cancel_wished_at.is_some() || old.task.ending().is_some()) {
                return Err(format!("INV-17: {name:?} was dispatched after it was cancelled: {new:#?}"));
            }
        }
        Ok(())
    }

    /// Every unknown is resolved, or a person has it (INV-14).
    fn settled(&self, operation: &Operation) -> Judged {
        match (&operation.stage, operation.inquiry) {
            (Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. }, _)
            | (_, Inquiry::Reconciling { .. }) => Err(format!("INV-14: nobody sees to {operation:?}")),
            (Stage::Unknown(doubt @ (Doubt::ToolError | Doubt::PeerError)), _) => {
                self.world.tally.count(format!("unknown {doubt:?}"));
                Ok(())
            }
            (Stage::Unknown(doubt), Inquiry::Person { .. }) => {
                self.world.tally.count(format!("unknown {doubt:?}"));
                Ok(())
            }
            (Stage::Unknown(_), Inquiry::Idle) => {
                Err(format!("INV-14: an unknown that nobody has: {operation:?}"))
            }
            (Stage::Settled(outcome), _) => {
                self.world.tally.count(format!("outcome {outcome:?}"));
                Ok(())
            }
        }
    }

    /// What was done against what is said to be done.
    fn effect(&self, wish: &Wish, operation: &Operation) -> Judged {
        let name = wish.name();
        let entry = self.world.server.entry(&name);
        let of = |what: &str| Err(format!("{what}: {name} {entry:?}, {operation:?}"));
        let earlier: Vec<_> = wish.earlier.iter().filter_map(|id| self.world.entry(id)).collect();
        let attempts = operation.attempts + earlier.iter().map(|entry| entry.operation.attempts).sum::<u32>();
        if wish.is_once() && (entry.requests as usize > 1 + earlier.len() || operation.attempts > 1) {
            return of("INV-11, INV-12: a call that may be made once");
        }
        if !wish.may_repeat() && entry.effects > 1 {
            return of("INV-11: an effect that was made more than once");
        }
        if entry.requests > attempts {
            return of("INV-10: requests that are not on disk");
        }
        if wish.flow == Some(Flow::SendsAgain) && operation.cleared > 0 {
            self.world.tally.count("a call sent again after it was confirmed not applied");
        }
        if wish.flow != Some(Flow::SendsAgain) && operation.cleared > 0 {
            return of("INV-12: a call that was cleared without anybody's word");
        }
        let Entry { effects, boasted, denied, .. } = entry;
        match operation.stage {
            Stage::Settled(Outcome::Confirmed(Verdict::NotApplied)) if effects > 0 => {
                of("INV-13: confirmed not applied")
            }
            Stage::Settled(Outcome::Confirmed(Verdict::Applied)) if effects == 0 => {
                of("INV-13: confirmed applied")
            }
            Stage::Settled(Outcome::Reported(Verdict::Applied)) if effects == 0 && !boasted => {
                of("INV-13: reported applied")
            }
            Stage::Settled(Outcome::Reported(Verdict::NotApplied)) if effects > 0 && !denied => {
                of("INV-13: reported not applied")
            }
            Stage::Settled(Outcome::Attested(verdict)) if (verdict == Verdict::Applied) != (effects > 0) => {
                of("INV-13: a person looked, and something was done after that")
            }
            Stage::Settled(_)
            | Stage::Unknown(_)
            | Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. } => Ok(()),
        }
    }

    fn ending(&self, versions: &[Arc<Record>]) -> Judged {
        let kind = match versions.last().and_then(|last| last.task.ending()) {
            Some(Ending::Cancelled) => "cancelled",
            Some(Ending::Returned { .. }) => "returned",
            Some(Ending::Raised { .. }) => "raised",
            Some(Ending::Faulted(_)) => "faulted",
            None => "not over",
        };
        self.world.tally.count(format!("ending {kind}"));
        Ok(())
    }

    /// Nothing goes before its time, or while something is still done about it (INV-30).
    fn graves(&self) -> Judged {
        for grave in self.world.history.graves() {
            let purged = &grave.task;
            self.world.tally.count("a task purged");
            let is_active = match (&purged.operation().stage, purged.operation().inquiry) {
                (Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. }, _)
                | (_, Inquiry::Reconciling { .. }) => true,
                (Stage::Settled(_) | Stage::Unknown(_), Inquiry::Idle | Inquiry::Person { .. }) => false,
            };
            let is_expired = purged.task().expires().is_some_and(|expires| expires < grave.now);
            let told = purged.task().lifetime.created + purged.task().lifetime.ttl;
            if is_active || !is_expired || told > grave.now || purged.task().ending().is_none() {
                return Err(format!("INV-30: purged at {:?}: {purged:#?}", grave.now));
            }
        }
        Ok(())
    }

    /// An answer is consumed at most once, and one that was refused never (INV-20).
    fn answers(&self) -> Judged {
        let gave = self.world.answers.lock();
        let mut consumed = BTreeSet::new();
        for (call, entry) in self.world.server.books() {
            for (question, replies) in entry.questions {
                if replies.len() > 1 {
                    return Err(format!("INV-20: {call} had {replies:?} to {question}"));
                }
                for reply in replies {
                    // At the deadline the server is answered in the client's place.
                    let is_clients = reply.contains("\"n\":");
                    if is_clients && gave.get(&reply).is_none_or(|gave| *gave == Gave::Refused) {
                        return Err(format!("INV-20: {call} had {reply}, which was refused"));
                    }
                    if is_clients && !consumed.insert(reply.clone()) {
                        return Err(format!("INV-20: {reply} was consumed twice"));
                    }
                    self.world.tally.count("an answer consumed");
                }
            }
        }
        Ok(())
    }

    /// All that expired is gone, its evidence is not, and nothing was carried out by late duplicates (INV-30).
    pub(crate) fn judge_the_night(&self) -> Judged {
        self.graves()?;
        let ledger = self.ledger();
        for versions in self.world.history.lock().values() {
            let first = &versions[0];
            let Some(entry) = ledger.get(first.id.expose()) else {
                return Err(format!("INV-30: {:?} has no evidence any more", first.call.params));
            };
            if entry.kept.is_some() {
                return Err(format!("INV-30: {:?} is still there long after its time", first.call.params));
            }
            let happened = self.world.store.history(&entry.id).now_or_never().unwrap().unwrap();
            if happened.len() as u64 != entry.version {
                return Err(format!("INV-30: of {:?} {} events are left", first.call.params, happened.len()));
            }
        }
        for wish in self.world.wishes.lock().iter() {
            if let Some(entry) = wish.id.as_ref().and_then(|id| ledger.get(id.expose())) {
                self.effect(wish, &entry.operation)?;
            }
        }
        Ok(())
    }

    /// Evidence goes when it is old enough and settled, and nothing else does.
    pub(crate) fn judge_the_year(&self) -> Judged {
        for retired in self.world.history.retired() {
            self.world.tally.count("evidence retired");
            let entry = &retired.entry;
            self.settled(&entry.operation)?;
            let is_waiting = matches!(entry.operation.inquiry, Inquiry::Person { .. });
            if is_waiting || entry.kept.is_some() || entry.updated >= retired.before {
                return Err(format!("INV-30: retired too early: {entry:#?}"));
            }
        }
        for entry in self.ledger().values() {
            if entry.may_retire() {
                return Err(format!("evidence that nobody needs any more is kept: {entry:#?}"));
            }
            self.world.tally.count("evidence kept for a person");
        }
        Ok(())
    }
}

/// Keys of questions are never used again (INV-20).
fn questions(versions: &[Arc<Record>]) -> Judged {
    let open = |record: &Record| -> BTreeSet<QuestionKey> {
        let asked = record.task.outstanding().into_iter().flat_map(|asked| asked.questions().keys());
        asked.chain(record.task.answering.keys()).cloned().collect()
    };
    let mut closed = BTreeSet::new();
    let mut before = BTreeSet::new();
    for record in versions {
        let now = open(record);
        closed.extend(before.difference(&now).cloned());
        if let Some(key) = now.intersection(&closed).next() {
            return Err(format!("INV-20: {} was asked again: {record:#?}", key.0));
        }
        before = now;
    }
    Ok(())
}
