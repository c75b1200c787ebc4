//! How records become columns, and how they come back.
//!
//! The SQL twins share this, so that a number means the same in both, and a new variant stops the build here.
//! Numbers and words are never given a second meaning: old rows keep theirs.
//!
//! - [`Code`]: closed sets as small integers, and as words for the log
//! - [`columns`]: states and operations as flat rows
//! - [`event`]: what happened, as one row of the log

pub mod columns;
pub mod event;

use taskgate_core::gate::Asking;
use taskgate_core::id::{Principal, ServerName};
use taskgate_core::operation::{Doubt, Effect, Finding, HandOff, Outcome, Standing, Verdict, Word};
use taskgate_core::task::QuestionKind;

use crate::Error;
use crate::ledger::LedgerEntry;
use crate::record::{Call, Conflict, Frame, Front, Intent, Key, KeyScope, Phase, Record};

/// A closed set of values, each with a small integer for rows and a word for the log.
pub trait Code: Sized + Copy + 'static {
    /// All of them, by rising number.
    const ALL: &'static [Self];

    /// Its number.
    fn code(self) -> i64;

    /// The value with that number.
    fn from_code(code: i64) -> Option<Self>;

    /// Its word.
    fn word(self) -> &'static str;
}

/// Where values are being read, for [`Error::Corrupt`].
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The table.
    pub table: &'static str,
    /// The row's key. Errors show its first characters only: it may be a task id (B-070).
    pub row: &'a str,
}

impl Place<'_> {
    /// The error for a bad value in `column`.
    #[must_use]
    pub fn corrupt(&self, column: &'static str) -> Error {
        let row = self.row.chars().take(6).chain(['…']).collect();
        Error::Corrupt { table: self.table, column, row }
    }

    /// `value`, if it is there.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: it is not.
    pub fn some<T>(&self, column: &'static str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.corrupt(column))
    }

    /// The value that `code` stands for.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: for none.
    pub fn code<C: Code>(&self, column: &'static str, code: i64) -> Result<C, Error> {
        self.some(column, C::from_code(code))
    }

    /// A count that is never negative.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: it is.
    pub fn count<N: TryFrom<i64>>(&self, column: &'static str, value: i64) -> Result<N, Error> {
        N::try_from(value).map_err(|_| self.corrupt(column))
    }
}

/// A count as a column holds it. Beyond what a column can hold nothing can be told apart: 292 million years.
#[must_use]
pub fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A frame as a column holds it: the attachment, and the sequence with its highest byte first.
#[must_use]
pub fn frame_bytes(frame: Frame) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&frame.attachment);
    bytes[16..].copy_from_slice(&frame.sequence.to_be_bytes());
    bytes
}

/// The frame that [`frame_bytes`] made `bytes` of; `None` for bytes of another length.
#[must_use]
pub fn frame(bytes: &[u8]) -> Option<Frame> {
    let (attachment, sequence) = bytes.split_first_chunk()?;
    Some(Frame { attachment: *attachment, sequence: u64::from_be_bytes(sequence.try_into().ok()?) })
}

/// Why the same call joins a record, as bits: [`UNRESOLVED`] and [`UNFETCHED`]. 0 if it does not (design 3).
///
/// `awaits_fetch` is whether it is stored as one that [notes](Record::notes_fetch) a fetch, and with none: that is not
/// for `record` to change.
#[must_use]
pub fn takes_same_call(record: &Record, awaits_fetch: bool) -> i64 {
    let unresolved = if record.is_unresolved() { UNRESOLVED } else { 0 };
    let unfetched = if awaits_fetch && record.is_returned() { UNFETCHED } else { 0 };
    unresolved | unfetched
}

/// [`Record::is_unresolved`]
pub const UNRESOLVED: i64 = 1;

/// [`Record::is_unfetched`]
pub const UNFETCHED: i64 = 2;

/// Where a key counts, as the columns of its row. Empty texts stand for all: no principal and no server is called so.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyColumns {
    /// The principal; empty for a business key, which counts for all.
    pub principal: String,
    /// The server; empty where a workflow bounds the key.
    pub server: String,
    /// The tool, or the workflow.
    pub tool: String,
    /// The key.
    pub key: String,
}

impl KeyColumns {
    /// Those of `key`.
    #[must_use]
    pub fn of(
        principal: &Principal,
        server: &ServerName,
        tool: &str,
        key: &Key,
        intent: Option<&Intent>,
    ) -> KeyColumns {
        let principal = match key.scope {
            KeyScope::Caller => principal.as_str().to_owned(),
            KeyScope::Tenant => String::new(),
        };
        let (server, tool) = match intent {
            Some(intent) => (String::new(), intent.workflow.0.clone()),
            None => (server.0.clone(), tool.to_owned()),
        };
        KeyColumns { principal, server, tool, key: key.text.clone() }
    }

    /// Those of the key of `record`, if it has one.
    #[must_use]
    pub fn of_record(record: &Record) -> Option<KeyColumns> {
        let Call { server, tool, key, intent, .. } = &record.call;
        let of = |key| KeyColumns::of(&record.principal, server, tool, key, intent.as_ref());
        key.as_ref().map(of)
    }

    /// Those of the key of `entry`, if it has one.
    #[must_use]
    pub fn of_entry(entry: &LedgerEntry) -> Option<KeyColumns> {
        let of =
            |key| KeyColumns::of(&entry.principal, &entry.server, &entry.tool, key, entry.intent.as_ref());
        entry.key.as_ref().map(of)
    }
}

macro_rules! codes {
    ($of:ty { $([$($value:tt)+] $code:literal $word:literal)+ }) => {
        impl Code for $of {
            const ALL: &'static [Self] = &[$($($value)+),+];

            fn code(self) -> i64 {
                match self { $($($value)+ => $code),+ }
            }

            fn from_code(code: i64) -> Option<Self> {
                match code {
                    $($code => Some($($value)+),)+
                    _ => None,
                }
            }

            fn word(self) -> &'static str {
                match self { $($($value)+ => $word),+ }
            }
        }
    };
}
pub(crate) use codes;

codes!(Front {
    [Front::A] 0 "a"
    [Front::B] 1 "b"
    [Front::Plain] 2 "plain"
});

codes!(Asking {
    [Asking::Held] 0 "held"
    [Asking::Augmented] 1 "augmented"
    [Asking::Directed] 2 "directed"
});

codes!(Effect {
    [Effect::ReadOnly] 0 "read_only"
    [Effect::Reversible] 1 "reversible"
    [Effect::Consequential] 2 "consequential"
});

codes!(Outcome {
    [Outcome::NoneExpected] 0 "none_expected"
    [Outcome::Reported(Verdict::Applied)] 1 "reported_applied"
    [Outcome::Reported(Verdict::NotApplied)] 2 "reported_not_applied"
    [Outcome::Confirmed(Verdict::Applied)] 3 "confirmed_applied"
    [Outcome::Confirmed(Verdict::NotApplied)] 4 "confirmed_not_applied"
    [Outcome::Attested(Verdict::Applied)] 5 "attested_applied"
    [Outcome::Attested(Verdict::NotApplied)] 6 "attested_not_applied"
    [Outcome::Assumed] 7 "assumed_not_applied"
});

codes!(KeyScope {
    [KeyScope::Caller] 0 "caller"
    [KeyScope::Tenant] 1 "tenant"
});

codes!(Conflict {
    [Conflict::Allow] 0 "allow"
    [Conflict::Refuse] 1 "refuse"
    [Conflict::Queue] 2 "queue"
});

codes!(HandOff {
    [HandOff::NoRule] 0 "no_rule"
    [HandOff::BudgetSpent] 1 "budget_spent"
    [HandOff::Assumed] 2 "assumed"
    [HandOff::Contradiction] 3 "contradiction"
    [HandOff::RuleFailed] 4 "rule_failed"
    [HandOff::Wished] 5 "wished"
});

codes!(Finding {
    [Finding::Applied] 0 "applied"
    [Finding::NotApplied(Standing::Fenced)] 1 "not_applied_fenced"
    [Finding::NotApplied(Standing::Settled)] 2 "not_applied_settled"
    [Finding::NotApplied(Standing::Open)] 3 "not_applied_open"
    [Finding::Unclear] 4 "unclear"
    [Finding::Failed] 5 "failed"
});

codes!(Verdict {
    [Verdict::Applied] 0 "applied"
    [Verdict::NotApplied] 1 "not_applied"
});

codes!(Word {
    [Word::Success] 0 "success"
    [Word::ToolError] 1 "tool_error"
    [Word::NotUnderstood] 2 "not_understood"
    [Word::OtherError] 3 "other_error"
});

codes!(Doubt {
    [Doubt::AnswerLost] 0 "answer_lost"
    [Doubt::ToolError] 1 "tool_error"
    [Doubt::PeerError] 2 "peer_error"
    [Doubt::DeadlinePassed] 3 "deadline_passed"
    [Doubt::UpstreamLost] 4 "upstream_lost"
    [Doubt::Cancelled] 5 "cancelled"
});

codes!(QuestionKind {
    [QuestionKind::Form] 0 "form"
    [QuestionKind::Url] 1 "url"
    [QuestionKind::Sampling] 2 "sampling"
    [QuestionKind::Roots] 3 "roots"
});

codes!(Phase {
    [Phase::Unfinished] 0 "unfinished"
    [Phase::Doubtful] 1 "doubtful"
    [Phase::Finished] 2 "finished"
});

/// How far a question has come. Each moves on only; a key is never asked twice (INV-20).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QuestionPhase {
    /// It waits for an answer.
    Asked,
    /// Its answer is on its way to the back. The answer itself is nowhere in the store (R6.5).
    Answering,
    /// It is settled or void; its params are gone.
    Closed,
}

codes!(QuestionPhase {
    [QuestionPhase::Asked] 0 "asked"
    [QuestionPhase::Answering] 1 "answering"
    [QuestionPhase::Closed] 2 "closed"
});

/// The payloads of a task, each apart from the hot row (R5.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// The params of the call.
    Params,
    /// The result, or the error that the back sent.
    Ending,
}

codes!(Part {
    [Part::Params] 0 "params"
    [Part::Ending] 1 "ending"
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::columns::{AttemptClass, EndingKind, InquiryKind, ReplayKind, StageKind, StateKind};
    use crate::codec::event::EventKind;

    fn round_trip<C: Code + PartialEq + std::fmt::Debug>() {
        for (value, next) in C::ALL.iter().zip(C::ALL.iter().skip(1)) {
            assert!(value.code() < next.code(), "{value:?}");
            assert_ne!(value.word(), next.word());
        }
        for value in C::ALL {
            assert_eq!(C::from_code(value.code()), Some(*value));
        }
        assert_eq!(C::from_code(-1), None);
        assert_eq!(C::from_code(99), None);
    }

    #[test]
    fn inv_50_every_number_stands_for_one_value() {
        round_trip::<Front>();
        round_trip::<Asking>();
        round_trip::<Effect>();
        round_trip::<Outcome>();
        round_trip::<Doubt>();
        round_trip::<KeyScope>();
        round_trip::<Conflict>();
        round_trip::<HandOff>();
        round_trip::<Finding>();
        round_trip::<Verdict>();
        round_trip::<Word>();
        round_trip::<InquiryKind>();
        round_trip::<QuestionKind>();
        round_trip::<QuestionPhase>();
        round_trip::<Part>();
        round_trip::<Phase>();
        round_trip::<StateKind>();
        round_trip::<EndingKind>();
        round_trip::<StageKind>();
        round_trip::<ReplayKind>();
        round_trip::<AttemptClass>();
        round_trip::<EventKind>();
    }

    #[test]
    fn every_frame_comes_back_from_its_bytes() {
        for sequence in [0, 1, 256, u64::MAX] {
            let some = Frame { attachment: *b"0123456789abcdef", sequence };
            assert_eq!(frame(&frame_bytes(some)), Some(some));
        }
        for length in [0, 15, 16, 23, 25] {
            assert_eq!(frame(&vec![7; length]), None, "{length}");
        }
    }

    #[test]
    fn b_070_a_corrupt_row_is_named_without_giving_its_id_away() {
        let error = Place { table: "task", row: "abcdefghijkl" }.corrupt("state");
        assert_eq!(error.to_string(), "task.state of row abcdef… holds a value that taskgate never writes");
    }
}
