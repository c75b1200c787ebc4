//! What a client knows; it outlives the gateway, and the runtime.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use taskgate_core::id::Principal;
use taskgate_core::operation::Replay;
use taskgate_sim::Random;

use crate::line::{TOOLS, replay};

/// How a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Front {
    /// It knows no tasks.
    Plain,
    /// 2025-11-25 with tasks.
    A,
    /// 2026-07-28 with the extension.
    B,
}

/// How a wish came out, as its client was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Done {
    /// With a result that bears the server's mark, if that could be seen.
    Returned(Option<String>),
    /// With an error that says that nothing was done.
    NotApplied,
    /// With another error.
    Failed,
    Cancelled,
    /// Its client gave it up, since it lost the answer and could not ask again without risk.
    GivenUp,
}

/// Something that a client wants done in the world.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) tool: &'static str,
    pub(crate) key: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) done: Option<Done>,
    /// How many effects there may be: one more for each repetition that its client takes upon itself.
    pub(crate) licence: u32,
    pub(crate) calls: u32,
    /// A round of questions before there was a task: the answers, and the state to give back.
    pub(crate) round: Option<(String, String)>,
    /// It was called, and there is no answer yet: one that the gateway's death takes away is lost.
    pub(crate) is_asking: bool,
    /// Another call under the same key was tried.
    pub(crate) was_misused: bool,
}

/// Why a request was sent; its answer is understood by it, also after a restart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Why {
    Open,
    Call(usize),
    /// The same call once more, which is meant to be another one: its result has been read.
    Anew(usize),
    /// Another call under the key of a wish.
    Misuse(usize),
    /// The same call under its key, long after its task is gone.
    Late(usize),
    /// The status of a task.
    Get(String),
    /// Its result, held or by `wait`.
    Result(String),
    Cancel(String),
    /// Question, and answer.
    Answer(String, String, String),
    Listen(String),
    List,
    /// A task that cannot be this client's.
    Spy(String),
}

/// A request of a pipe that has no answer yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) why: Why,
    pub(crate) message: Bytes,
    pub(crate) id: String,
    /// By the time of the world.
    pub(crate) since: i64,
}

/// All that a client knows.
#[derive(Debug)]
pub(crate) struct Mind {
    pub(crate) number: usize,
    pub(crate) front: Front,
    pub(crate) is_piped: bool,
    /// Whether it shows people what a server asks.
    pub(crate) can_ask: bool,
    /// How long it waits for an answer, in seconds.
    pub(crate) patience: u64,
    pub(crate) principal: Principal,
    pub(crate) random: Random,
    pub(crate) session: Option<String>,
    /// The answer to one of its calls is lost, which may have given it an id.
    pub(crate) has_lost: bool,
    pub(crate) wishes: Vec<Wish>,
    pub(crate) next_id: u64,
    pub(crate) sequence: u64,
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// Tokens under which progress may come.
    pub(crate) tokens: BTreeSet<String>,
}

impl Mind {
    pub(crate) fn new(number: usize, front: Front, is_piped: bool, random: &mut Random) -> Mind {
        let can_ask = random.one_in(2);
        let wishes = (0..2)
            .map(|count| {
                let (tool, _, _) = TOOLS[[0, 0, 0, 1, 2, 3][random.below(6)]];
                let name = format!("c{number}n{count}");
                let has_key = tool != "read" && random.one_in(2);
                let key = has_key.then(|| format!("key-{name}"));
                Wish {
                    name,
                    tool,
                    key,
                    id: None,
                    done: None,
                    licence: 1,
                    calls: 0,
                    round: None,
                    is_asking: false,
                    was_misused: false,
                }
            })
            .collect();
        Mind {
            number,
            front,
            is_piped,
            can_ask,
            patience: [3, 25, 60][random.below(3)],
            principal: crate::world::principal(number, is_piped),
            random: Random::new(random.any()),
            session: None,
            has_lost: false,
            wishes,
            next_id: 0,
            sequence: 0,
            pending: BTreeMap::new(),
            tokens: BTreeSet::new(),
        }
    }

    pub(crate) fn name(&self) -> String {
        format!("{}-{:?}-{}", self.number, self.front, if self.is_piped { "pipe" } else { "http" })
    }
}

impl Wish {
    /// Whether its effect may be made any number of times.
    pub(crate) fn is_free(&self) -> bool {
        self.tool == "read" || replay(self.tool) == Replay::Natural
    }
}
