//! The one edge that the README names: over HTTP nobody can tell whether an answer that was sent was also read, so a plain
//! client that loses one and repeats the call without a key has it done again.
//!
//! Whether something is that edge is said by the bank's books and the client's own log. The ledger is not asked.

use taskgate_faults::books::Account;
use taskgate_faults::client::Heard;

use crate::act::Trial;
use crate::ledger::Entry;

/// A client lost the answer to its call, and made the call again: when it lost it, and when it called again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Repeat {
    pub(crate) lost: i64,
    pub(crate) sent: i64,
}

/// How often a client repeated a call without a key because its answer was lost; empty where it has one, or holds a task.
pub(crate) fn repeats(trial: &Trial, heard: &[Heard]) -> Vec<Repeat> {
    if trial.keyed || !trial.front.repeats_unkeyed() {
        return Vec::new();
    }
    heard
        .windows(2)
        .filter_map(|pair| match pair {
            [Heard::Lost { at: lost, method, .. }, Heard::Sends { at: sent }] if method == "tools/call" => {
                Some(Repeat { lost: *lost, sent: *sent })
            }
            _ => None,
        })
        .collect()
}

/// How many of the effects after the first are the edge: the bank had been asked before the client lost the answer, and
/// was asked again after the client had called again. Each repetition explains one.
pub(crate) fn explained(account: &Account, repeats: &[Repeat]) -> u32 {
    let mut unused = repeats.to_vec();
    let mut explained = 0;
    for made in account.effects.iter().skip(1) {
        let is_cause = |repeat: &Repeat| {
            account.arrivals.iter().any(|arrival| *arrival <= repeat.lost)
                && account.arrivals.iter().any(|arrival| repeat.sent <= *arrival && arrival <= made)
        };
        if let Some(at) = unused.iter().position(is_cause) {
            unused.remove(at);
            explained += 1;
        }
    }
    explained
}

/// Whether an operation may follow another one of the same call: the client had lost an answer and called again by then,
/// and the first one was over.
pub(crate) fn may_follow(first: &Entry, second: &Entry, repeats: &[Repeat]) -> bool {
    first.ended.is_some_and(|ended| ended <= second.created)
        && repeats.iter().any(|repeat| first.created <= repeat.lost && repeat.sent <= second.created)
}
