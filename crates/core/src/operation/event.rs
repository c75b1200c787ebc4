//! What happened to an operation, and what says so.

use alloc::string::String;
use core::fmt;

use super::{Doubt, Finding, HandOff, Outcome, Upstream, Verdict, Word};
use crate::time::UnixMillis;

/// The size of the largest [`Text`] in bytes.
pub const TEXT_BYTES_MAX: usize = 256;

/// A short text of somebody else for the log of evidence: on one line, and cut to [`TEXT_BYTES_MAX`] (R5.5, R6.3).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Text(String);

impl Text {
    /// Takes `text` over: control characters become spaces, the ends are trimmed, and what is too long is cut between two
    /// characters.
    #[must_use]
    pub fn new(text: &str) -> Text {
        let mut kept = String::new();
        for char in text.trim().chars().map(|char| if char.is_control() { ' ' } else { char }) {
            if kept.len() + char.len_utf8() > TEXT_BYTES_MAX {
                break;
            }
            kept.push(char);
        }
        Text(kept)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What says so. Never a payload (R5.5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// Nothing: a read-only call needs none when its answer is lost.
    None,
    /// The peer's answer.
    Answer(Word),
    /// No byte of it left us.
    NeverSent,
    /// A receipt of the system of record.
    Receipt {
        /// Its own name for the effect.
        reference: Text,
    },
    /// A look-up in the system of record.
    Probe {
        /// What it found.
        finding: Finding,
        /// In its own words.
        what: Text,
    },
    /// Look-ups that found nothing, of which none proves anything.
    Silence {
        /// How many look-ups there were.
        tries: u32,
    },
    /// A person.
    Person {
        /// Who.
        name: Text,
        /// How they know.
        reason: Text,
    },
}

/// What happened to an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An attempt was made durable and may now be sent.
    Dispatched {
        /// When.
        at: UnixMillis,
    },
    /// The back's task is known.
    Accepted {
        /// Which.
        upstream: Upstream,
    },
    /// It is closed, or closed anew by better evidence.
    Settled {
        /// With this.
        outcome: Outcome,
        /// What says so.
        evidence: Evidence,
    },
    /// Nothing certain can be said.
    Doubted {
        /// Why.
        doubt: Doubt,
    },
    /// The last attempt's exchange was proved over.
    Closed {
        /// When.
        at: UnixMillis,
    },
    /// The system of record is asked from here on.
    Reconciling {
        /// Since when.
        since: UnixMillis,
        /// When first, or next.
        next: UnixMillis,
    },
    /// A look-up that decided nothing.
    Probed {
        /// What it found.
        finding: Finding,
        /// In its own words.
        what: Text,
        /// When the next is due.
        next: UnixMillis,
    },
    /// A person is to decide.
    HandedOff {
        /// When.
        at: UnixMillis,
        /// Why.
        why: HandOff,
        /// What they should know beyond that.
        note: Option<Text>,
    },
    /// Two sources say opposite things. By itself it changes nothing.
    Contradicted {
        /// What was held.
        held: Outcome,
        /// What was told.
        told: Verdict,
        /// By this.
        evidence: Evidence,
    },
    /// A person has seen that sources disagree, and leaves the outcome as it is.
    Acknowledged {
        /// Who.
        name: Text,
        /// What they say of it.
        reason: Text,
    },
    /// The attempts so far did nothing for certain; it may be sent again.
    Cleared {
        /// The look-up that confirms it.
        finding: Finding,
        /// In its own words.
        what: Text,
    },
    /// Something to be remembered.
    Noted {
        /// What.
        text: Text,
    },
}
