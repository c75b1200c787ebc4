//! What is played: one act is a few calls and what goes wrong meanwhile. It is all in here, so that an act which was
//! written down can be played again.

use serde::{Deserialize, Serialize};
use taskgate_faults::bank::Script;
use taskgate_faults::client::Front;
use taskgate_faults::proxy::{Fault, Side};
use taskgate_faults::server::Kind;

/// How a server is reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// A process of its own, through a proxy.
    Http,
    /// The gateway's child, which is a bridge to a proxy and behind it to the server.
    Line,
    /// The gateway's child is the server itself.
    Child,
}

/// A server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct Back {
    pub(crate) kind: Kind,
    pub(crate) over: Over,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Plain, Kind::PlainModern, Kind::A, Kind::B];
pub(crate) const FRONTS: [Front; 4] = [Front::Plain, Front::PlainModern, Front::A, Front::B];

impl Back {
    /// Its name in the configuration.
    pub(crate) fn name(self) -> String {
        let kind = match self.kind {
            Kind::Plain => "plain",
            Kind::PlainModern => "modern",
            Kind::A => "a",
            Kind::B => "b",
        };
        let over = match self.over {
            Over::Http => "http",
            Over::Line => "line",
            Over::Child => "child",
        };
        format!("{kind}-{over}")
    }

    /// The messages by which it is opened.
    pub(crate) fn opening(self) -> &'static [&'static str] {
        match self.kind {
            Kind::Plain | Kind::A => {
                &["server/discover", "initialize", "notifications/initialized", "tools/list"]
            }
            Kind::PlainModern | Kind::B => &["server/discover", "tools/list"],
        }
    }

    /// The messages by which a call is sent and followed, and those by which it is found out what became of it.
    pub(crate) fn messages(self) -> &'static [&'static str] {
        match self.kind {
            Kind::Plain | Kind::PlainModern => &["tools/call", LOOK, FENCE],
            Kind::A => &["tools/call", "tasks/get", "tasks/result", LOOK, FENCE],
            Kind::B => &["tools/call", "tasks/get", LOOK, FENCE],
        }
    }
}

/// The call of the tool by which the bank is asked.
pub(crate) const LOOK: &str = "payment_status";
/// The call of the tool by which the bank is told to take nothing more.
pub(crate) const FENCE: &str = "fence_payment";
/// The call of taskgate's own tool.
pub(crate) const WAIT: &str = "taskgate_task";

/// The messages of a client of this front that is given a task.
pub(crate) fn client_messages(front: Front) -> &'static [&'static str] {
    match front {
        Front::Plain => &["initialize", "tools/call", WAIT],
        Front::PlainModern => &["tools/call", WAIT],
        Front::A => &["initialize", "tools/call", "tasks/get", "tasks/result"],
        Front::B => &["tools/call", "tasks/get"],
    }
}

/// A call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// What its effect is called; no two trials of a world have the same.
    pub(crate) key: String,
    pub(crate) back: Back,
    pub(crate) front: Front,
    /// The tool, and with it the policy.
    pub(crate) tool: String,
    /// Whether it has an idempotency key.
    pub(crate) keyed: bool,
    /// How the server is told to answer, beside the bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) word: Option<String>,
    /// What the bank does.
    #[serde(default)]
    pub(crate) script: Script,
    /// What happens on the lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) breaks: Vec<Break>,
    /// Its client opens a session of its own, where its front has sessions.
    #[serde(default)]
    pub(crate) opens: bool,
}

/// What happens to one message on a line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Break {
    pub(crate) line: Line,
    /// Which: a method, the name of a tool that is called, or of HTTP.
    pub(crate) message: String,
    pub(crate) fault: Fault,
    /// After how many milliseconds a stalled message goes on.
    #[serde(default)]
    pub(crate) release: u64,
}

/// A few calls at one time, and what happens to a process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Act {
    pub(crate) trials: Vec<Trial>,
    /// What happens while the first of them is at that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) blow: Option<Blow>,
    /// The gateway is killed and started before them, so that it opens its servers anew.
    #[serde(default)]
    pub(crate) opening: bool,
}

/// What happens to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Blow {
    pub(crate) whom: Whom,
    pub(crate) how: How,
    pub(crate) step: Step,
    /// How long after the step was reached, in microseconds.
    pub(crate) delay: u64,
    /// The gateway is killed again so many microseconds after it was started again, or a while after it listened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) again: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Whom {
    Gateway,
    /// The server of the first call.
    Server,
    /// The client of the first call.
    Client,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// `kill -9`, and it is started again.
    Kill,
    /// SIGSTOP, and SIGCONT so many milliseconds later.
    Stop { ms: u64 },
}

/// Where a call is, as the lines show it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// The client has said it, and the gateway has heard nothing.
    Arriving,
    /// The gateway has heard it: its record is being written.
    Creating,
    /// It left the gateway, and the server has heard nothing.
    Dispatching,
    /// Half of it reached the server.
    HalfSent,
    /// The server has it.
    Delivered,
    /// The first byte of its answer reached the gateway.
    Answering,
    /// All of its answer did: the end is being written.
    Answered,
    /// The first byte of the gateway's own answer reached the client.
    Telling,
    /// The server is asked about its task.
    Following,
    /// The client asks for its result.
    Fetching,
}

pub(crate) const STEPS: [Step; 10] = [
    Step::Arriving,
    Step::Creating,
    Step::Dispatching,
    Step::HalfSent,
    Step::Delivered,
    Step::Answering,
    Step::Answered,
    Step::Telling,
    Step::Following,
    Step::Fetching,
];

impl Step {
    /// On the client's line or the server's, at which message, and at which byte of it.
    pub(crate) fn place(self) -> (Line, &'static str, Side, usize) {
        match self {
            Step::Arriving => (Line::Client, "tools/call", Side::Request, 0),
            Step::Creating => (Line::Client, "tools/call", Side::Request, usize::MAX),
            Step::Dispatching => (Line::Server, "tools/call", Side::Request, 0),
            Step::HalfSent => (Line::Server, "tools/call", Side::Request, 100),
            Step::Delivered => (Line::Server, "tools/call", Side::Request, usize::MAX),
            Step::Answering => (Line::Server, "tools/call", Side::Answer, 1),
            Step::Answered => (Line::Server, "tools/call", Side::Answer, usize::MAX),
            Step::Telling => (Line::Client, "tools/call", Side::Answer, 1),
            Step::Following => (Line::Server, "tasks/get", Side::Request, usize::MAX),
            Step::Fetching => (Line::Client, "tasks/result", Side::Request, usize::MAX),
        }
    }

    /// Whether a call of this front to this back comes by here.
    pub(crate) fn fits(self, front: Front, back: Back) -> bool {
        match self {
            Step::Arriving | Step::Creating | Step::Telling => true,
            Step::Dispatching | Step::HalfSent | Step::Delivered | Step::Answering | Step::Answered => {
                back.over != Over::Child
            }
            Step::Following => back.over != Over::Child && matches!(back.kind, Kind::A | Kind::B),
            Step::Fetching => front == Front::A,
        }
    }
}

/// Between whom.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// Client and gateway.
    Client,
    /// Gateway and server.
    Server,
    /// The gateway and the bank, which it looks at itself.
    Books,
    /// The gateway and those who are told that a person is to decide.
    Hook,
}
