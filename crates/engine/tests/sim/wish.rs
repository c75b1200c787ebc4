//! What clients want done, and what they know of it.

use bytes::Bytes;
use taskgate_core::gate::Asking;
use taskgate_core::id::{Principal, ServerName, TaskId};
use taskgate_core::operation::{Effect, Replay};
use taskgate_core::task::Ending;
use taskgate_core::time::Millis;
use taskgate_engine::engine::NewCall;
use taskgate_sim::{Flow, PAY, Random};
use taskgate_store::Join;
use taskgate_store::record::{Call, Conflict, Frame, Front, Key, Object, Record};

/// How a client says that a call is the one it made before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    Key,
    Frame,
    /// It cannot. What it lost the answer to is gone for it, and it may call anew.
    Nothing,
}

/// What a client wants done, and what it knows of it. It survives the gateway.
pub(crate) struct Wish {
    pub(crate) client: usize,
    number: usize,
    pub(crate) effect: Effect,
    pub(crate) replay: Replay,
    pub(crate) flow: Option<Flow>,
    conflict: Option<Conflict>,
    pub(crate) by: Told,
    /// Its handle is short-lived: it may be gone before anybody looks.
    pub(crate) is_short: bool,
    /// How often it was called anew, because nobody could say what became of the call before.
    anew: u32,
    /// The call may have been recorded, and its client knows no id.
    pub(crate) is_begun: bool,
    pub(crate) id: Option<TaskId>,
    /// The tasks whose key was given free before, since they certainly did nothing.
    pub(crate) earlier: Vec<TaskId>,
    /// The newest version that its client saw, and the ending, once there was one.
    version: u64,
    pub(crate) ending: Option<Ending>,
}

impl Wish {
    pub(crate) fn new(random: &mut Random, client: usize, number: usize, favourite: Flow) -> Wish {
        let flow = match random.below(10) {
            0 | 1 => Some(favourite),
            2 | 3 => Some(Flow::ALL[random.below(Flow::ALL.len())]),
            _ => None,
        };
        let (effect, replay) = match (flow, random.below(6)) {
            (Some(_), _) => (Effect::Consequential, Replay::Never),
            (None, 0) => (Effect::ReadOnly, Replay::Never),
            (None, 1) => (Effect::Consequential, Replay::Natural),
            (None, 2) => (Effect::Consequential, Replay::Keyed { window: Millis::hours(12) }),
            (None, _) => (Effect::Consequential, Replay::Never),
        };
        let conflict = match random.below(6) {
            0 => Some(Conflict::Queue),
            1 => Some(Conflict::Refuse),
            _ => None,
        };
        let by = match random.below(4) {
            0 => Told::Frame,
            1 => Told::Nothing,
            _ => Told::Key,
        };
        Wish {
            client,
            number,
            effect,
            replay,
            flow,
            conflict: conflict.filter(|_| flow.is_some()),
            by,
            is_short: random.one_in(5),
            anew: 0,
            is_begun: false,
            id: None,
            earlier: vec![],
            version: 0,
            ending: None,
        }
    }

    pub(crate) fn who(&self) -> Principal {
        who(self.client)
    }

    /// By this the server's books have it.
    pub(crate) fn name(&self) -> String {
        format!("c{}n{}a{}", self.client, self.number, self.anew)
    }

    /// The names under which it was called before, and given up.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = String> {
        (0..self.anew).map(|anew| format!("c{}n{}a{anew}", self.client, self.number))
    }

    /// Its key was given free, and another task has it.
    pub(crate) fn begin_anew(&mut self) {
        self.earlier.extend(self.id.take());
        (self.version, self.ending) = (0, None);
    }

    /// Nobody can say what became of the call, and its client has no way to ask.
    pub(crate) fn give_up(&mut self) {
        self.anew += 1;
        self.is_begun = false;
    }

    pub(crate) fn call(&self) -> NewCall {
        let name = self.name();
        let mut intent = self.flow.map(|flow| flow.intent(&name));
        if let (Some(intent), Some(conflict)) = (&mut intent, self.conflict) {
            intent.object = Some(Object { name: "o".to_owned(), version: None, conflict });
        }
        NewCall {
            principal: self.who(),
            front: Front::B,
            call: Call {
                server: ServerName("s".to_owned()),
                tool: if self.flow.is_some() { PAY } else { "t" }.to_owned(),
                params: Bytes::from(name.clone().into_bytes()),
                digest: [name.len() as u8; 32],
                key: (self.by == Told::Key).then(|| Key::of_caller(name)),
                intent,
                offers: String::new(),
                asking: Asking::Held,
                frame: (self.by == Told::Frame)
                    .then_some(Frame { attachment: [self.client as u8; 16], sequence: self.number as u64 }),
            },
            effect: self.effect,
            replay: self.replay,
            ttl: Some(if self.is_short { Millis::secs(20) } else { Millis::hours(48) }),
            join: if self.by == Told::Key { Join::SameKey } else { Join::Never },
        }
    }

    /// Whether it must not be done twice, whatever happens, and may not be sent twice either.
    pub(crate) fn is_once(&self) -> bool {
        self.effect == Effect::Consequential
            && self.replay == Replay::Never
            && self.flow != Some(Flow::SendsAgain)
    }

    /// Whether twice is no worse than once.
    pub(crate) fn may_repeat(&self) -> bool {
        self.replay == Replay::Natural || self.effect == Effect::ReadOnly
    }

    /// Its client looks: nothing goes back, and what is over stays as it is (INV-03, INV-05).
    pub(crate) fn see(&mut self, record: &Record) -> Result<(), String> {
        let name = self.name();
        if record.version < self.version {
            return Err(format!("INV-05: {name} went from version {} to {}", self.version, record.version));
        }
        self.version = record.version;
        match (&self.ending, record.task.ending()) {
            (Some(ending), found) if found != Some(ending) => {
                Err(format!("INV-03: {name} ended as {ending:?} and is {found:?}"))
            }
            (_, found) => {
                self.ending = found.cloned();
                Ok(())
            }
        }
    }
}

pub(crate) fn who(client: usize) -> Principal {
    Principal::stored(format!("client-{client}"))
}
