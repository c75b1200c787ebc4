//! The server's books, what clients were told, and the ledger, held against each other.

use std::sync::Arc;

use taskgate_core::operation::{HandOff, Inquiry, Outcome, Replay, Stage, Verdict};
use taskgate_core::task::Ending;
use taskgate_store::record::Record;

use crate::line::replay;
use crate::mind::Done;
use crate::sim::Sim;
use crate::world::wish_of;

impl Sim {
    /// The server's books against what clients were told, and against the ledger.
    pub(crate) fn judge(&self) -> Result<(), String> {
        if !self.server.is_quiet() {
            return Err("the server is still at work; the simulation is too short".to_owned());
        }
        self.judge_answers()?;
        for mind in &self.world.minds {
            for wish in &mind.lock().wishes {
                let entry = self.server.entry(&wish.name);
                let Some(done) = &wish.done else { return Err(format!("{} has no end", wish.name)) };
                self.count(&format!("it came out: {}", word(done)));
                if !wish.is_free() && entry.effects > wish.licence {
                    return Err(format!("INV-11, INV-12: {wish:?} {entry:?}"));
                }
                match done {
                    Done::Returned(Some(mark)) if !entry.results.contains(mark) => {
                        return Err(format!("INV-13: {wish:?} {entry:?}"));
                    }
                    Done::NotApplied if entry.effects > 0 && wish.calls == 1 => {
                        return Err(format!("INV-13: {wish:?} {entry:?}"));
                    }
                    Done::Returned(_) | Done::NotApplied | Done::Failed | Done::Cancelled | Done::GivenUp => {
                    }
                }
                let misused = self.server.entry(&format!("{}-other", wish.name));
                if misused.sent > 0 {
                    return Err(format!("INV-16: another call under the key of {} was sent", wish.name));
                }
            }
        }
        self.judge_ledger()
    }

    /// INV-20: an answer is taken once, and only for the question that is open.
    pub(crate) fn judge_answers(&self) -> Result<(), String> {
        let book = self.world.book.lock();
        for (name, answers) in self.server.answers() {
            if answers.len() > 1 {
                return Err(format!("INV-20: {name} was answered by {answers:?}"));
            }
            for answer in answers {
                self.count("an answer that reached the server");
                if book.forbidden.contains(&answer) {
                    return Err(format!("INV-20: {name} was answered by {answer}, which answers nothing"));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn judge_ledger(&self) -> Result<(), String> {
        let history = self.history.lock();
        for id in self.world.book.lock().tasks.keys() {
            if !history.contains_key(id) {
                return Err(format!("INV-01: {id} was given and is not on disk"));
            }
        }
        for ((_, key), held) in &self.world.book.lock().keys {
            for pair in held.windows(2) {
                let versions = history.get(&pair[0]).map(Vec::as_slice).unwrap_or_default();
                match versions.last() {
                    Some(record) if did_nothing(record) => {}
                    Some(_) if was_overturned(versions) => {
                        self.count("two effects that a person was told of")
                    }
                    Some(_) | None => return Err(format!("INV-16: {key} stands for {held:?}")),
                }
            }
        }
        for (id, versions) in history.iter() {
            let Some(last) = versions.last() else { continue };
            let name = wish_of(last);
            let entry = self.server.entry(&name);
            match &last.operation.stage {
                Stage::Settled(Outcome::Confirmed(Verdict::NotApplied))
                    if entry.effects > 0 && versions_of(&history, &last.call.params) == 1 =>
                {
                    return Err(format!("INV-13: {id} {name} is confirmed not applied: {entry:?}"));
                }
                Stage::Settled(Outcome::Reported(Verdict::Applied)) if entry.effects == 0 => {
                    return Err(format!("INV-13: {id} {name} is reported applied: {entry:?}"));
                }
                Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } => {
                    return Err(format!(
                        "INV-14: {id} {name} is over and its operation {:?}",
                        last.operation
                    ));
                }
                Stage::Settled(outcome) => self.count(&format!("outcome {outcome:?}")),
                Stage::Unknown(doubt) => self.count(&format!("unknown {doubt:?}")),
            }
            if last.operation.attempts > 1
                && replay(&last.call.tool) == Replay::Never
                && last.call.tool != "read"
            {
                return Err(format!("INV-12: {id} {name}: {:?}", last.operation));
            }
            // INV-17: what was cancelled is not sent any more.
            let is_cancelled = |record: &Record| {
                record.task.ending() == Some(&Ending::Cancelled) || record.task.cancel_wished_at.is_some()
            };
            let cancelled = versions.iter().find(|record| is_cancelled(record));
            if let Some(cancelled) = cancelled
                && last.operation.attempts > cancelled.operation.attempts
            {
                let steps: Vec<_> = versions
                    .iter()
                    .map(|record| {
                        (record.task.cancel_wished_at, &record.operation.stage, record.operation.attempts)
                    })
                    .collect();
                return Err(format!("INV-17: {id} {name} was cancelled and sent: {steps:?}"));
            }
        }
        Ok(())
    }
}

/// Whether it is certain that a call had no effect.
fn did_nothing(record: &Record) -> bool {
    matches!(
        record.operation.stage,
        Stage::Settled(Outcome::Confirmed(Verdict::NotApplied) | Outcome::Attested(Verdict::NotApplied))
    )
}

/// Whether a person said that it did nothing, which was wrong, and somebody was told of the two effects that there may be.
fn was_overturned(versions: &[Arc<Record>]) -> bool {
    let is_told = |record: &Record| {
        matches!(record.operation.inquiry, Inquiry::Person { why: HandOff::Contradiction, .. })
    };
    versions.iter().any(|record| did_nothing(record)) && versions.iter().any(|record| is_told(record))
}

/// How many tasks were made of one call.
fn versions_of(history: &std::collections::BTreeMap<String, Vec<Arc<Record>>>, params: &[u8]) -> usize {
    history
        .values()
        .filter_map(|versions| versions.last())
        .filter(|record| record.call.params == params)
        .count()
}

fn word(done: &Done) -> &'static str {
    match done {
        Done::Returned(_) => "returned",
        Done::NotApplied => "not applied",
        Done::Failed => "failed",
        Done::Cancelled => "cancelled",
        Done::GivenUp => "given up",
    }
}
