//! How the bank deals with the requests of one key.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// What happens to one request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "turn")]
pub enum Turn {
    /// What was asked for.
    Ordinary,
    /// The connection breaks and nothing was done.
    LoseBefore,
    /// It is done and the connection breaks.
    LoseAfter,
    /// It is done after so many milliseconds, and then answered.
    Slow {
        /// How many.
        ms: u64,
    },
    /// It is refused with words, and not done.
    Refuse,
    /// It is accepted with 202, and done so many milliseconds later.
    Late {
        /// How many.
        ms: u64,
    },
    /// The connection breaks, and it is done so many milliseconds later.
    LateClosed {
        /// How many.
        ms: u64,
    },
    /// The answer is rubbish, and nothing was done.
    NonsenseBefore,
    /// It is done, and the answer is rubbish.
    NonsenseAfter,
    /// It is done, and the answer says that it was refused. To a question the opposite of the truth is answered.
    Contradict,
    /// It is not done, and the answer says that it was.
    Claim,
    /// 503, and nothing is done.
    Down,
    /// It is done twice. No bank does that; it is for seeing that it would be noticed.
    Twice,
}

/// The turns of the next requests, first come first served; after them all are ordinary.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Script {
    /// Of `POST /effects`.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub effects: VecDeque<Turn>,
    /// Of `GET /effects/KEY`.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub probes: VecDeque<Turn>,
    /// Of `POST /fence/KEY`.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub fences: VecDeque<Turn>,
}

impl Script {
    pub(super) fn next_effect(&mut self) -> Option<Turn> {
        self.effects.pop_front()
    }

    pub(super) fn next_probe(&mut self) -> Option<Turn> {
        self.probes.pop_front()
    }

    pub(super) fn next_fence(&mut self) -> Option<Turn> {
        self.fences.pop_front()
    }
}
