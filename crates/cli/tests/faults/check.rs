//! Compares two records that know nothing of each other, the bank's books and taskgate's ledger, and with both what
//! clients were told and what servers noted that they said.

use std::collections::BTreeMap;

use taskgate_faults::books::{Account, Books};
use taskgate_faults::client::Heard;
use taskgate_faults::server::{Said, Word};

use crate::act::{Break, Line, Trial};
use crate::edge;
use crate::ledger::{Entry, digest};
use crate::play::Played;
use crate::tally::Tally;
use crate::user::Shown;

/// Where the ledger is read: what a user reads of the gateway that runs, and its store once that is closed.
pub(crate) const SOURCES: [&str; 2] = ["ops export", "closed store"];

/// All that is known once it is over.
pub(crate) struct Records<'a> {
    /// One of [`SOURCES`].
    pub(crate) source: &'static str,
    pub(crate) books: &'a Books,
    pub(crate) said: &'a [Said],
    pub(crate) ledger: &'a [Entry],
}

/// What does not fit, call by call.
pub(crate) fn check(played: &[Played], records: &Records<'_>, tally: &Tally) -> Vec<(String, Vec<String>)> {
    let mut ledger: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in records.ledger {
        ledger.entry(&entry.digest).or_default().push(entry);
    }
    let mut said: BTreeMap<&str, Vec<Word>> = BTreeMap::new();
    for line in records.said {
        said.entry(&line.key).or_default().push(line.word);
    }
    let mut wrong = Vec::new();
    for one in played {
        let key = one.trial.key.as_str();
        let mut entries = ledger.remove(digest(&one.trial).as_str()).unwrap_or_default();
        entries.sort_by_key(|entry| entry.created);
        let case = Case {
            played: one,
            account: records.books.account(key),
            said: said.get(key).cloned().unwrap_or_default(),
            entries,
            repeats: edge::repeats(&one.trial, &one.heard),
        };
        let mut faults = case.ledger(records, tally);
        if records.source == SOURCES[0] {
            case.client(&mut faults, tally);
        }
        if !faults.is_empty() {
            let faults = faults.into_iter().map(|fault| format!("by {}: {fault}", records.source));
            wrong.push((key.to_owned(), faults.collect()));
        }
    }
    for (digest, entries) in ledger {
        let fault = format!("by {}: {} operations that nobody asked for", records.source, entries.len());
        wrong.push((digest.to_owned(), vec![fault]));
    }
    wrong
}

/// What the running gateway said, held against what it left in its store: both are of the same operations, and say the
/// same.
pub(crate) fn agree(shown: &[Shown], waiting: &[Entry], stored: &[Entry]) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let mut stored: BTreeMap<&str, &Entry> =
        stored.iter().map(|entry| (entry.operation_id.as_str(), entry)).collect();
    let mut listed: BTreeMap<&str, &Entry> =
        waiting.iter().map(|entry| (entry.operation_id.as_str(), entry)).collect();
    for (entry, history) in shown {
        let mut say = |words: String| wrong.push((entry.digest.clone(), words));
        let id = entry.operation_id.as_str();
        match stored.remove(id) {
            Some(stored) if *stored == *entry => {}
            other => say(format!("`ops export` has {entry:?}, and the closed store {other:?}")),
        }
        match (listed.remove(id), entry.waits_for_a_person()) {
            (Some(listed), true) if listed == entry => {}
            (None, false) => {}
            (other, _) => say(format!("`ops export` has {entry:?}, and `ops --waiting` {other:?}")),
        }
        if history.iter().map(|event| event.version).ne(1..=history.len() as u64) {
            say(format!("INV-04: the history of {id} has a gap"));
        }
        if history.last().is_none_or(|event| event.at > entry.updated) {
            say(format!("the history of {id} is newer than it"));
        }
    }
    wrong.extend(
        stored
            .values()
            .map(|entry| (entry.digest.clone(), format!("`ops export` leaves out {}", entry.operation_id))),
    );
    wrong.extend(
        listed
            .values()
            .map(|entry| (entry.digest.clone(), format!("only `ops --waiting` has {}", entry.operation_id))),
    );
    wrong
}

struct Case<'a> {
    played: &'a Played,
    account: Account,
    said: Vec<Word>,
    /// In the order in which they were made.
    entries: Vec<&'a Entry>,
    repeats: Vec<edge::Repeat>,
}

impl Case<'_> {
    fn ledger(&self, records: &Records<'_>, tally: &Tally) -> Vec<String> {
        let mut faults = Vec::new();
        let is_first = records.source == SOURCES[0];
        self.effects(&mut faults, tally, is_first);
        for entry in &self.entries {
            tally.count(format!("{}: {}", records.source, entry.stands));
            tally.count(format!("{}: {}", records.source, entry.inquiry));
            self.operation(entry, &mut faults);
            if records.books.account(&entry.operation_id).noticed == 0
                && entry.tool == "pay_person"
                && entry.waits_for_a_person()
            {
                faults.push(format!("{} waits for a person, and nobody was told", entry.operation_id));
            }
        }
        self.verdicts(&mut faults);
        faults
    }

    /// How often the effect was made, and who answers for it.
    fn effects(&self, faults: &mut Vec<String>, tally: &Tally, is_first: bool) {
        let (trial, account) = (&self.played.trial, &self.account);
        let attempts: u32 = self.entries.iter().map(|entry| entry.attempts).sum();
        if account.arrived > 0 && attempts == 0 {
            faults.push("INV-10: an effect was asked for that no operation was dispatched for".to_owned());
        }
        if account.arrived > attempts + is_doubled_behind(trial) {
            faults.push(format!("it was asked for {} times by {attempts} attempts", account.arrived));
        }
        let explained = edge::explained(account, &self.repeats);
        if account.applied > 1 + explained {
            faults.push(format!(
                "INV-11: the effect was made {} times, and may be {}",
                account.applied,
                1 + explained
            ));
        }
        for pair in self.entries.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            // What nobody knows, and what was found out to have been made, is joined.
            let is_answered = ["returned", "returned_error", "raised", "never_sent", "found_not_applied"]
                .contains(&first.ending.as_deref().unwrap_or_default());
            if is_answered && edge::may_follow(first, second, &self.repeats) {
                continue;
            }
            if trial.keyed && first.is_known_undone() && first.updated <= second.created {
                if is_first {
                    tally
                        .count("key: given free by what is known not to have been done, and used".to_owned());
                }
                continue;
            }
            faults
                .push(format!("INV-16: a repeated call became a second operation, {}", second.operation_id));
        }
        if is_first {
            tally.count(format!("effects: {}", account.applied.min(2)));
            if account.applied > 1 {
                tally.count(
                    "edge: without a key, its answer lost after its end, called again: made again (by the bank's \
                     books and the client's log)"
                        .to_owned(),
                );
            } else if self.entries.len() > 1 && !trial.keyed {
                tally.count(
                    "without a key, called again after an error or what was not done: made once".to_owned(),
                );
            }
        }
    }

    /// What is certain, or a person's word, against the bank: over all operations of this call.
    fn verdicts(&self, faults: &mut Vec<String>) {
        let applied = usize::try_from(self.account.applied).unwrap();
        let count = |words: &[&str]| {
            self.entries.iter().filter(|entry| words.contains(&entry.stands.as_str())).count()
        };
        let made = count(&["confirmed: applied", "attested: applied"]);
        let undone = count(&["confirmed: not_applied", "attested: not_applied"]);
        if made > applied {
            faults
                .push(format!("INV-13: {made} are known to be applied, and the bank did it {applied} times"));
        }
        if undone > 0 && applied > self.entries.len() - undone {
            faults.push(format!(
                "INV-13: {undone} of {} are known not to be applied, and the bank did it {applied} times",
                self.entries.len()
            ));
        }
    }

    fn operation(&self, entry: &Entry, faults: &mut Vec<String>) {
        let (id, stands) = (&entry.operation_id, entry.stands.as_str());
        match stands {
            "prepared" | "dispatched" | "observing" => {
                faults.push(format!("INV-14: {id} is neither settled nor in doubt: {stands}"));
            }
            "none_expected" => faults.push(format!("{id} counts as read-only")),
            "reported: applied" if !self.said.contains(&Word::Success) => {
                faults.push(format!("{id} is reported applied, and no server said so: {:?}", self.said));
            }
            "reported: not_applied" if !self.said.contains(&Word::NotUnderstood) => {
                faults.push(format!("{id} is reported not applied, and no server said so: {:?}", self.said));
            }
            _ => {}
        }
        // A server's own error is an answer, and is shown as open; what nobody answered waits for a person.
        let is_unanswered = match stands.split_once(": ") {
            Some(("unknown", doubt)) => doubt != "tool_error" && doubt != "peer_error",
            Some(("assumed", _)) => true,
            _ => false,
        };
        if entry.inquiry == "reconciling" {
            faults.push(format!("INV-14: {id} is looked into for ever"));
        } else if is_unanswered && !entry.waits_for_a_person() {
            faults.push(format!("INV-14: {id} is {stands} and in no person's list"));
        }
        match entry.ending.as_deref() {
            Some("never_sent") if self.account.applied > 0 && self.entries.len() == 1 => {
                faults.push(format!("{id} was never sent, it says, and the bank did it"));
            }
            Some("returned") if !self.said.contains(&Word::Success) => {
                faults.push(format!("{id} completed, and no server said so: {:?}", self.said));
            }
            Some(_) => {}
            None => faults.push(format!("INV-02: the task of {id} is left working")),
        }
    }

    /// What the client was given must be kept, and what it was told must be so.
    fn client(&self, faults: &mut Vec<String>, tally: &Tally) {
        let trial = &self.played.trial;
        self.told(&self.played.heard, self.played.killed, faults, tally);
        if !self.played.again.is_empty() {
            self.told(&self.played.again, false, faults, tally);
            match (self.played.again.last(), self.account.applied) {
                (Some(Heard::Result { is_error: false, .. }), 1) => {
                    tally.count("key: called again after a person's word, and made once".to_owned());
                }
                (last, applied) => faults.push(format!(
                    "INV-16: a person said that nothing was done, the key is free, and the same call came to {last:?} with \
                     {applied} effects; keyed: {}",
                    trial.keyed
                )),
            }
        }
    }

    fn told(&self, all: &[Heard], killed: bool, faults: &mut Vec<String>, tally: &Tally) {
        let trial = &self.played.trial;
        let mut told = None;
        for heard in all {
            match heard {
                Heard::Handle { task } if !self.entries.iter().any(|entry| entry.task_id == *task) => {
                    faults.push(format!("INV-01: a client holds task {task}, and nothing is known of it"));
                }
                Heard::Odd { what } => faults.push(format!("a client was answered oddly: {what}")),
                Heard::GaveUp => faults.push("nothing came of it for its client".to_owned()),
                Heard::Result { .. } | Heard::Error { .. } => told = Some(heard),
                Heard::Away { .. } => {
                    tally.count("told: its server could not be reached, so it was called again".to_owned());
                }
                Heard::Sends { .. } | Heard::Handle { .. } | Heard::Lost { .. } => {}
            }
        }
        let Some(told) = told else {
            let gives_up = !trial.keyed && !trial.front.repeats_unkeyed();
            let lost = all.iter().any(|heard| match heard {
                Heard::Lost { method, .. } => method == "tools/call",
                // It was told that nothing was sent, and calls without a key are not for it to repeat.
                Heard::Away { .. } => true,
                Heard::Sends { .. }
                | Heard::Handle { .. }
                | Heard::Result { .. }
                | Heard::Error { .. }
                | Heard::Odd { .. }
                | Heard::GaveUp => false,
            });
            if !(killed || gives_up && lost) {
                faults.push("its client was told nothing".to_owned());
            }
            return tally
                .count(format!("told: nothing ({})", if killed { "killed" } else { "lost the answer" }));
        };
        let (outcome, name) = match told {
            Heard::Result { is_error, outcome, .. } => {
                (outcome.as_deref(), if *is_error { "tool error" } else { "result" })
            }
            Heard::Error { outcome, .. } => (outcome.as_deref(), "error"),
            Heard::Sends { .. }
            | Heard::Handle { .. }
            | Heard::Lost { .. }
            | Heard::Away { .. }
            | Heard::Odd { .. }
            | Heard::GaveUp => return,
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
        let is_copy = trial.breaks.iter().any(|broken| broken.line == Line::Client && is_doubled(broken));
        if let Heard::Error { code: -32600, outcome: None, .. } = told
            && is_copy
        {
            tally.count("told: of a request that came twice the second was refused".to_owned());
        } else if let Heard::Error { text, outcome: None, .. } = told
            && let Some(last) = self.entries.last()
            // Only a peer's own error may come without our word on the outcome.
            && last.ending.as_deref() != Some("raised")
        {
            faults.push(format!("its client was given an error that does not say what is known: {text}"));
        }
    }
}

/// How often the line delivered a call twice by itself.
fn is_doubled_behind(trial: &Trial) -> u32 {
    let doubled =
        |broken: &&Break| broken.line == Line::Server && broken.message == "tools/call" && is_doubled(broken);
    u32::from(trial.breaks.iter().any(|broken| doubled(&broken)))
}

fn is_doubled(broken: &Break) -> bool {
    broken.fault == taskgate_faults::proxy::Fault::Duplicate
}
