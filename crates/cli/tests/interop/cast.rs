//! Who plays: the clients and the servers of `tests/peers`, and what is asked of each.

use serde_json::{Value, json};

use Scenario::{Big, Cancel, Error, Input, Reconnect, Refuse, Run};

/// One of the drivers of `tests/peers/drive`.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) speaks: Speaks,
    /// Who starts what this client cancels and comes back to, where it never tells the id of its own task.
    pub(crate) starter: Option<&'static str>,
}

/// What a client can do with tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    /// Core tasks of 2025-11-25.
    A,
    /// The tasks extension of 2026-07-28.
    B,
    Plain,
}

/// One of the servers of `tests/peers/serve`.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) speaks: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Has the tools that `tests/peers/README.md` lists, and a journal.
    Fixture,
    /// The same, but it makes a tool error of every refusal.
    Fastmcp3,
    /// The same, and its tasks cannot ask.
    Fastmcp2,
    /// Not ours: it does what it does.
    Everything,
    /// Not ours. It speaks HTTP only, and all that its tools do is ask.
    Interactive,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Scenario {
    Run,
    Input,
    Cancel,
    Error,
    Refuse,
    Big,
    Reconnect,
}

/// Which transports a cell goes over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Via {
    Http,
    Stdio,
}

const fn client(
    name: &'static str,
    title: &'static str,
    speaks: Speaks,
    starter: Option<&'static str>,
) -> Client {
    Client { name, title, speaks, starter }
}

pub(crate) const CLIENTS: [Client; 9] = [
    client("python_a", "Python mcp 1.30.0", Speaks::A, None),
    client("fastmcp_a", "FastMCP 3.4.11", Speaks::A, None),
    client("ext_a", "ext-tasks 0.2.2", Speaks::A, None),
    client("inspector_a", "Inspector 2.12.0", Speaks::A, Some("python_a")),
    client("fastmcp_b", "FastMCP 4.1.4", Speaks::B, None),
    client("ext_b", "ext-tasks 0.2.2", Speaks::B, None),
    client("inspector_b", "Inspector 2.12.0", Speaks::B, Some("fastmcp_b")),
    client("plain_ts", "TypeScript SDK 1.32.2 at 2025-06-18", Speaks::Plain, None),
    client("python_plain", "Python mcp 2.3.0 at 2026-07-28", Speaks::Plain, None),
];

const fn server(name: &'static str, title: &'static str, speaks: &'static str, kind: Kind) -> Server {
    Server { name, title, speaks, kind }
}

pub(crate) const SERVERS: [Server; 11] = [
    server("everything", "server-everything 2026.8.31", "A", Kind::Everything),
    server("ts_interactive", "TypeScript SDK 1.32.2, its interactive example", "A", Kind::Interactive),
    server("python_a", "Python mcp 1.30.0", "A", Kind::Fixture),
    server("fastmcp_a", "FastMCP 3.4.11", "A", Kind::Fastmcp3),
    server("fastmcp_2", "FastMCP 2.14.7", "nearly A", Kind::Fastmcp2),
    server("fastmcp_b", "FastMCP 4.1.4", "B", Kind::Fixture),
    server("rmcp_b", "rmcp 3.11.0", "B", Kind::Fixture),
    server("tower_odd", "tower-mcp 0.25.0", "B, with deviations", Kind::Fixture),
    server("pmcp_odd", "pmcp 2.23.0", "A over stdio, B over HTTP, with deviations", Kind::Fixture),
    server("python_plain", "Python mcp 2.3.0", "no tasks", Kind::Fixture),
    server("ts_plain", "TypeScript SDK 2.4.0", "no tasks", Kind::Fixture),
];

pub(crate) const SCENARIOS: [Scenario; 7] = [Run, Input, Cancel, Error, Refuse, Big, Reconnect];
pub(crate) const VIAS: [Via; 2] = [Via::Http, Via::Stdio];

impl Scenario {
    /// As the drivers call it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Run => "run",
            Input => "input",
            Cancel => "cancel",
            Error => "error",
            Refuse => "refuse",
            Big => "big",
            Reconnect => "reconnect",
        }
    }
}

impl Via {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Via::Http => "http",
            Via::Stdio => "stdio",
        }
    }
}

/// A call, and what has to come of it.
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) args: Value,
    /// Text that the result has to contain, or the error.
    pub(crate) expect: Option<String>,
    /// Characters that the result has to have.
    pub(crate) size: Option<u64>,
}

/// A tool that no server has.
const UNKNOWN: &str = "no_such_tool";
const KIB: u64 = 1024;
/// `mcpdo` takes no command longer than 1 MiB, and this server's long result is what it was sent.
const ECHOED: u64 = 1000 * KIB;
const ECHO: &str = "Echo: ";

impl Server {
    pub(crate) fn speaks_over(&self, via: Via) -> bool {
        via == Via::Http || self.kind != Kind::Interactive
    }

    /// Whether it writes down what it does.
    pub(crate) fn has_journal(&self) -> bool {
        matches!(self.kind, Kind::Fixture | Kind::Fastmcp3 | Kind::Fastmcp2)
    }

    /// Whether it asks without saying for which task. Where several are followed in one session, as over HTTP by
    /// clients that nobody tells apart, it cannot be known whose question that is.
    pub(crate) fn confuses_clients(&self) -> bool {
        self.kind == Kind::Fastmcp3
    }

    /// Whether all that it refuses by the protocol is a tool that it has not.
    pub(crate) fn refuses_only_the_unknown(&self) -> bool {
        self.kind != Kind::Fixture
    }

    /// The call of a scenario; none where the server has nothing to do it with. `mark` tells this call from all
    /// others.
    pub(crate) fn call(&self, scenario: Scenario, mark: &str, client: &Client, via: Via) -> Option<Call> {
        let say = |tool, args, expect: String| {
            Some(Call { tool, args, expect: Some(expect).filter(|text| !text.is_empty()), size: None })
        };
        if scenario == Refuse && self.refuses_only_the_unknown() {
            return say(UNKNOWN, json!({ "message": mark }), UNKNOWN.to_owned());
        }
        match self.kind {
            Kind::Fixture | Kind::Fastmcp3 | Kind::Fastmcp2 => {
                // Over HTTP it outlasts what a client without tasks is kept waiting for; over stdio it does not.
                let seconds = if via == Via::Http { 1.5 } else { 0.4 };
                match scenario {
                    Run => {
                        say("charge", json!({ "seconds": seconds, "order": mark }), format!("charged {mark}"))
                    }
                    Reconnect => {
                        say("charge", json!({ "seconds": 3, "order": mark }), format!("charged {mark}"))
                    }
                    Cancel => say("charge", json!({ "seconds": 60, "order": mark }), String::new()),
                    Input if self.kind == Kind::Fastmcp2 => None,
                    Input => say("confirm_deploy", json!({ "target": mark }), format!("deployed {mark}")),
                    Error => say("fail", json!({ "message": mark }), mark.to_owned()),
                    Refuse => say("refuse", json!({ "message": mark }), mark.to_owned()),
                    Big => Some(Call {
                        tool: "big_report",
                        args: json!({ "kib": 1024, "label": mark, "seconds": seconds }),
                        expect: Some(mark.to_owned()),
                        size: Some(1024 * KIB),
                    }),
                }
            }
            Kind::Everything => {
                let research = |ambiguous: bool| {
                    let mut args = json!({ "topic": mark });
                    if ambiguous {
                        args["ambiguous"] = json!(true);
                    }
                    say("simulate-research-query", args, mark.to_owned())
                };
                match scenario {
                    // Its work ends in four seconds, and who was not there at the start needs longer to come back and
                    // cancel it; so that one cancels what waits for an answer.
                    Cancel => research(client.starter.is_some()),
                    Run | Reconnect => research(false),
                    Input => research(true),
                    // It has no tool that fails, but one that refuses its arguments by a tool error.
                    Error => say("get-sum", json!({ "a": mark, "b": 1 }), "nvalid".to_owned()),
                    Refuse => None,
                    Big => Some(Call {
                        tool: "echo",
                        args: json!({ "message": "x".repeat(usize::try_from(ECHOED).unwrap() - ECHO.len()) }),
                        expect: Some(ECHO.to_owned()),
                        size: Some(ECHOED),
                    }),
                }
            }
            Kind::Interactive => {
                let comes_back = client.speaks != Speaks::Plain && client.starter.is_none();
                match scenario {
                    Input => say("confirm_delete", json!({ "filename": mark }), format!("Deleted '{mark}'")),
                    // Without tasks, or without its task's id, a client is asked at once and has nothing to come back
                    // to.
                    Reconnect if comes_back => {
                        say("confirm_delete", json!({ "filename": mark }), format!("Deleted '{mark}'"))
                    }
                    // It offers no cancellation of tasks.
                    Run | Error | Big | Refuse | Reconnect | Cancel => None,
                }
            }
        }
    }
}
