//! Cells that cannot pass, because of what a peer does wrong. A cell that is listed here has to fail in just the way
//! that is said: a peer that healed is noticed, and so is a cell that fails for another reason.

use crate::cast::Scenario::{self, Input, Reconnect, Refuse};
use crate::cast::Via;

pub(crate) struct Fault {
    /// Names of clients; none for every one. The same of servers, scenarios and transports.
    pub(crate) clients: &'static [&'static str],
    pub(crate) servers: &'static [&'static str],
    pub(crate) scenarios: &'static [Scenario],
    pub(crate) vias: &'static [Via],
    /// A race in the peer: the cell passes or fails so, and counts as one that cannot pass.
    pub(crate) sometimes: bool,
    /// In what the driver says about its failure.
    pub(crate) words: &'static str,
    /// The peer and what it does.
    pub(crate) what: &'static str,
    /// What that breaks: a requirement of the specification, or the peer's own limit.
    pub(crate) breaks: &'static str,
}

const NONE: Fault = Fault {
    clients: &[],
    servers: &[],
    scenarios: &[],
    vias: &[],
    sometimes: false,
    words: "",
    what: "",
    breaks: "",
};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        clients: &["ext_a"],
        servers: &["ts_interactive"],
        scenarios: &[Input],
        sometimes: true,
        words: "the server asked nothing",
        what: "The ext-tasks client refuses a question about its task if it comes within moments of the task's \
               creation, before it has taken note of it. This server asks at once.",
        breaks: "2025-11-25, Tasks, Input Required Status: a request may arrive on any stream at any time (A-068)",
        ..NONE
    },
    Fault {
        clients: &["ext_a"],
        servers: &["ts_interactive"],
        scenarios: &[Reconnect],
        words: "timed out",
        what: "The ext-tasks client, at 2025-11-25, sends `tasks/result` only when the task has ended. A question that \
               was asked while it was away never reaches it.",
        breaks: "2025-11-25, Tasks, Input Required Status: on `input_required` the requestor calls `tasks/result` \
                 without waiting for the end (A-067, SHOULD)",
        ..NONE
    },
    Fault {
        servers: &["pmcp_odd"],
        scenarios: &[Input],
        vias: &[Via::Stdio],
        words: "timed out",
        what: "The pmcp server, at 2025-11-25 (all that it speaks over stdio), says `input_required` and never sends \
               its question.",
        breaks: "2025-11-25, Tasks, Input Required Status: the receiver sends its request, with the task's key in it \
                 (A-066, MUST)",
        ..NONE
    },
    Fault {
        servers: &["pmcp_odd"],
        scenarios: &[Refuse],
        vias: &[Via::Stdio],
        words: "The task failed, and its server does not say why",
        what: "The pmcp server, at 2025-11-25, keeps no error of a task: `tasks/result` of one that failed says that \
               it is not completed. That it failed arrives, and why is lost.",
        breaks: "2025-11-25, Tasks, Task Execution Errors: `tasks/result` answers with the error that the call was \
                 answered with (A-060, MUST)",
        ..NONE
    },
];

impl Fault {
    pub(crate) fn is_of(&self, client: &str, server: &str, scenario: Scenario, via: Via) -> bool {
        (self.clients.is_empty() || self.clients.contains(&client))
            && (self.servers.is_empty() || self.servers.contains(&server))
            && (self.scenarios.is_empty() || self.scenarios.contains(&scenario))
            && (self.vias.is_empty() || self.vias.contains(&via))
    }
}

/// The first listed fault of a cell, by its place in the list.
pub(crate) fn fault(client: &str, server: &str, scenario: Scenario, via: Via) -> Option<usize> {
    FAULTS.iter().position(|fault| fault.is_of(client, server, scenario, via))
}
