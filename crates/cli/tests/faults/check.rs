//! Compares two records that know nothing of each other, the bank's books and taskgate's ledger, and with both what
//! clients were told and what servers noted that they said.

use std::collections::BTreeMap;

use taskgate_core::operation::{Doubt, Inquiry, Outcome, Stage, Verdict};
use taskgate_core::task::{Ending, Fault, Found};
use taskgate_faults::books::{Account, Books};
use taskgate_faults::client::Heard;
use taskgate_faults::server::{Said, Word};

use crate::act::{Break, Trial};
use crate::ledger::Entry;
use crate::play::Played;
use crate::tally::Tally;

/// All that is known once it is over.
pub(crate) struct Records<'a> {
    pub(crate) books: &'a Books,
    pub(crate) said: &'a [Said],
    pub(crate) ledger: &'a [Entry],
}

/// What does not fit, call by call.
pub(crate) fn check(played: &[Played], records: &Records<'_>, tally: &Tally) -> Vec<(String, Vec<String>)> {
    let mut ledger: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in records.ledger {
        ledger.entry(&entry.key).or_default().push(entry);
    }
    let mut said: BTreeMap<&str, Vec<Word>> = BTreeMap::new();
    for line in records.said {
        said.entry(&line.key).or_default().push(line.word);
    }
    let mut wrong = Vec::new();
    for one in played {
        let key = one.trial.key.as_str();
        let mut entries = ledger.remove(key).unwrap_or_default();
        entries.sort_by_key(|entry| entry.created);
        let case = Case {
            played: one,
            account: records.books.account(key),
            said: said.get(key).cloned().unwrap_or_default(),
            entries,
        };
        let faults = case.faults(tally);
        if !faults.is_empty() {
            wrong.push((key.to_owned(), faults));
        }
    }
    for (key, entries) in ledger {
        wrong.push((key.to_owned(), vec![format!("{} operations that nobody asked for", entries.len())]));
    }
    wrong
}

struct Case<'a> {
    played: &'a Played,
    account: Account,
    said: Vec<Word>,
    /// In the order in which they were made.
    entries: Vec<&'a Entry>,
}

impl Case<'_> {
    fn faults(&self, tally: &Tally) -> Vec<String> {
        let mut faults = Vec::new();
        self.effects(&mut faults, tally);
        for entry in &self.entries {
            tally.count(format!("ledger: {}", entry.stage()));
            tally.count(format!("inquiry: {}", entry.inquiry()));
            self.operation(entry, &mut faults);
        }
        self.client(&mut faults, tally);
        faults
    }

    /// How often the effect was made, and who answers for it.
    fn effects(&self, faults: &mut Vec<String>, tally: &Tally) {
        let (trial, account) = (&self.played.trial, &self.account);
        let attempts: u32 = self.entries.iter().map(|entry| entry.operation.attempts).sum();
        if account.arrived > 0 && attempts == 0 {
            faults.push("INV-10: an effect was asked for that no operation was dispatched for".to_owned());
        }
        let doubled = is_doubled_behind(trial);
        if account.arrived > attempts + doubled {
            faults.push(format!("it was asked for {} times by {attempts} attempts", account.arrived));
        }
        // Without a key nothing tells a repetition from a second wish once the first is over and was not in doubt.
        let mut may = 1;
        for pair in self.entries.windows(2) {
            let first = pair[0];
            let over = first.ended.is_some_and(|ended| ended <= pair[1].created);
            // What was found out later was not known when the call was repeated.
            let known = match &first.ending {
                Some(Ending::Returned { .. } | Ending::Raised { .. }) => true,
                Some(Ending::Faulted(
                    Fault::NeverSent(_) | Fault::Found(Found::Applied | Found::NotApplied),
                )) => true,
                Some(Ending::Cancelled | Ending::Faulted(_)) | None => false,
            };
            if !trial.keyed && trial.front.repeats_unkeyed() && over && known {
                tally.count("edge: a call without a key was repeated after its end and made anew".to_owned());
                may += 1;
            } else if trial.keyed && over && first.operation.is_surely_undone() {
                tally.count("a key given free by what certainly did nothing, and taken again".to_owned());
            } else {
                faults.push(format!(
                    "INV-16: a repeated call became a second operation, {}",
                    pair[1].operation_id
                ));
            }
        }
        if account.applied > may {
            faults.push(format!("INV-11: the effect was made {} times, and may be {may}", account.applied));
        }
        tally.count(format!("effects: {}", account.applied.min(2)));
    }

    fn operation(&self, entry: &Entry, faults: &mut Vec<String>) {
        let (id, alone) = (&entry.operation_id, self.entries.len() == 1);
        let applied = self.account.applied;
        if entry.unfinished {
            faults.push(format!("{id} is left {} for ever", entry.stage()));
        }
        match &entry.operation.stage {
            Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } => {
                faults.push(format!("INV-14: {id} is neither settled nor in doubt: {}", entry.stage()));
            }
            Stage::Settled(Outcome::NoneExpected) => {
                faults.push(format!("{id} counts as read-only"));
            }
            Stage::Settled(Outcome::Confirmed(Verdict::Applied)) if applied == 0 => {
                faults.push(format!("INV-13: {id} is confirmed applied, and the bank knows nothing of it"));
            }
            Stage::Settled(Outcome::Confirmed(Verdict::NotApplied)) if applied > 0 && alone => {
                faults.push(format!(
                    "INV-13: {id} is confirmed not applied, and the bank did it {applied} times"
                ));
            }
            Stage::Settled(Outcome::Attested(verdict))
                if alone && (*verdict == Verdict::Applied) != (applied > 0) =>
            {
                faults.push(format!("{id}: the person looked, and saw something else than the bank has"));
            }
            Stage::Settled(Outcome::Reported(Verdict::Applied)) if !self.said.contains(&Word::Success) => {
                faults.push(format!("{id} is reported applied, and no server said so: {:?}", self.said));
            }
            Stage::Settled(Outcome::Reported(Verdict::NotApplied))
                if !self.said.contains(&Word::NotUnderstood) =>
            {
                faults.push(format!("{id} is reported not applied, and no server said so: {:?}", self.said));
            }
            Stage::Settled(_) | Stage::Unknown(_) => {}
        }
        // A server's own error is an answer, and is shown as open; what nobody answered waits for a person.
        let is_unanswered = match &entry.operation.stage {
            Stage::Unknown(doubt) => !matches!(doubt, Doubt::ToolError | Doubt::PeerError),
            Stage::Settled(outcome) => *outcome == Outcome::Assumed,
            Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } => false,
        };
        if is_unanswered && !matches!(entry.operation.inquiry, Inquiry::Person { .. }) {
            faults.push(format!("INV-14: {id} is {} and in no person's list", entry.stage()));
        }
        match &entry.ending {
            Some(Ending::Faulted(Fault::NeverSent(_))) if applied > 0 && alone => {
                faults.push(format!("{id} was never sent, it says, and the bank did it"));
            }
            Some(Ending::Returned { is_error: false, .. }) if !self.said.contains(&Word::Success) => {
                faults.push(format!("{id} completed, and no server said so: {:?}", self.said));
            }
            Some(_) => {}
            None => faults.push(format!("INV-02: the task of {id} is left working")),
        }
    }

    /// What the client was given must be kept, and what it was told must be so.
    fn client(&self, faults: &mut Vec<String>, tally: &Tally) {
        let trial = &self.played.trial;
        let mut told = None;
        for heard in &self.played.heard {
            match heard {
                Heard::Handle { task } if !self.entries.iter().any(|entry| entry.task_id == *task) => {
                    faults.push(format!("INV-01: a client holds task {task}, and nothing is known of it"));
                }
                Heard::Odd { what } => faults.push(format!("a client was answered oddly: {what}")),
                Heard::GaveUp => faults.push("nothing came of it for its client".to_owned()),
                Heard::Result { .. } | Heard::Error { .. } => told = Some(heard),
                Heard::Lost { why, .. } if why.contains("server \\\"") => {
                    tally
                        .count("edge: a call was refused because its server could not be reached".to_owned());
                }
                Heard::Sends | Heard::Handle { .. } | Heard::Lost { .. } => {}
            }
        }
        let Some(told) = told else {
            let gives_up = !trial.keyed && !trial.front.repeats_unkeyed();
            let lost = self
                .played
                .heard
                .iter()
                .any(|heard| matches!(heard, Heard::Lost { method, .. } if method == "tools/call"));
            if !(self.played.killed || gives_up && lost) {
                faults.push("its client was told nothing".to_owned());
            }
            return tally.count(format!(
                "told: nothing ({})",
                if self.played.killed { "killed" } else { "lost the answer" }
            ));
        };
        let last = self.entries.last();
        let (outcome, name) = match told {
            Heard::Result { is_error, outcome, .. } => {
                (outcome.as_deref(), if *is_error { "tool error" } else { "result" })
            }
            Heard::Error { outcome, .. } => (outcome.as_deref(), "error"),
            Heard::Sends | Heard::Handle { .. } | Heard::Lost { .. } | Heard::Odd { .. } | Heard::GaveUp => {
                return;
            }
        };
        tally.count(format!(
            "told: {name}{}",
            outcome.map(|word| format!(", outcome {word}")).unwrap_or_default()
        ));
        match outcome {
            Some("applied") if self.account.applied == 0 => {
                faults.push("its client was told that it was done, and it was not".to_owned());
            }
            Some("not_applied") if self.account.applied > 0 => {
                faults.push("its client was told that nothing happened, and it did".to_owned());
            }
            _ => {}
        }
        if let Heard::Result { is_error: false, .. } = told
            && !self.said.contains(&Word::Success)
        {
            faults.push("its client was told of a success that no server spoke of".to_owned());
        }
        // The copy of a request that was delivered twice may be the one that is carried out.
        let is_copy = trial.before.as_ref().is_some_and(is_doubled);
        if let Heard::Error { code: -32600, outcome: None, .. } = told
            && is_copy
        {
            tally.count("edge: of a request that came twice the second was refused".to_owned());
        } else if let Heard::Error { text, outcome: None, .. } = told
            && let Some(last) = last
            // Only a peer's own error may come without our word on the outcome.
            && !matches!(last.ending, Some(Ending::Raised { .. }))
        {
            faults.push(format!("its client was given an error that does not say what is known: {text}"));
        }
    }
}

/// How often the line delivered a call twice by itself.
fn is_doubled_behind(trial: &Trial) -> u32 {
    u32::from(trial.behind.as_ref().is_some_and(is_doubled))
}

fn is_doubled(broken: &Break) -> bool {
    broken.fault == taskgate_faults::proxy::Fault::Duplicate
}
