//! What was heard on all lines while the matrix was played, judged message by message; and `docs/captures.md`.
//!
//! A fault of ours fails the test. A fault of a peer fails it unless it is listed in [`PEERS`], and so does a listed one
//! that no longer shows. A kind of message that the page says is captured, and that was not seen, fails it too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::capture::judge::{self, Report, Side, Towards};
use crate::cast::{CLIENTS, Client, SERVERS, Server, Speaks, Via};
use crate::rest::{BY_HAND, LEGACY, MODERN};
use crate::stage::Stage;

/// One line, between the gateway and one peer.
#[derive(Debug)]
pub(crate) struct Heard {
    side: Side,
    /// The client, where the line is known to serve only one.
    client: Option<&'static str>,
    server: &'static str,
    /// What the line goes over.
    via: Via,
    report: Report,
}

/// What a peer sends that its own schema does not allow, or HTTP's rules.
struct Peer {
    name: &'static str,
    side: Side,
    /// In what is found.
    words: &'static str,
    what: &'static str,
    breaks: &'static str,
}

const PEERS: &[Peer] = &[
    Peer {
        name: "everything",
        side: Side::Back,
        words: "JSONRPCErrorResponse: null is not of types",
        what: "The TypeScript SDK 1.32 answers what it cannot place with `\"id\": null`.",
        breaks: "2025-11-25, `JSONRPCErrorResponse`: an id is a string or a number, or is left out",
    },
    Peer {
        name: "ts_interactive",
        side: Side::Back,
        words: "JSONRPCErrorResponse: null is not of types",
        what: "The same.",
        breaks: "the same",
    },
    Peer {
        name: "fastmcp_2",
        side: Side::Back,
        words: "no CreateTaskResult",
        what: "FastMCP 2 answers a call that asked for a task with a tool result whose `_meta` names the task.",
        breaks: "2025-11-25, `CreateTaskResult`",
    },
    Peer {
        name: "fastmcp_2",
        side: Side::Back,
        words: "no task for a call that asked for one",
        what: "The same, told by its meaning.",
        breaks: "2025-11-25, Tasks, Creating Tasks",
    },
    Peer {
        name: "fastmcp_2",
        side: Side::Back,
        words: "no related-task of the task",
        what: "FastMCP 2 names the task of a `tasks/result` under a key of its own.",
        breaks: "2025-11-25, Tasks, Related Task Metadata (A-062)",
    },
    Peer {
        name: "python_a",
        side: Side::Back,
        words: "no CallToolResult: \"content\" is a required property",
        what: "Python mcp 1.30 answers `tasks/result` of a task that was cancelled or failed by an exception with a \
               result that has no `content`.",
        breaks: "2025-11-25, `CallToolResult`; Tasks, Task Execution Errors (A-060)",
    },
    Peer {
        name: "tower_odd",
        side: Side::Back,
        words: "a stream without X-Accel-Buffering",
        what: "tower-mcp sends streams without `X-Accel-Buffering: no`.",
        breaks: "2026-07-28, Streamable HTTP, Receiving Messages (B-036, SHOULD)",
    },
    Peer {
        name: "pmcp_odd",
        side: Side::Back,
        words: "TaskResult: ",
        what: "pmcp, at 2025-11-25, nests the task in the results of `tasks/get` and `tasks/cancel`.",
        breaks: "2025-11-25, `GetTaskResult`, `CancelTaskResult`",
    },
    Peer {
        name: "pmcp_odd",
        side: Side::Back,
        words: "no related-task of the task",
        what: "pmcp, at 2025-11-25, does not name the task in the result of `tasks/result`.",
        breaks: "2025-11-25, Tasks, Related Task Metadata (A-062)",
    },
    Peer {
        name: "fastmcp_b",
        side: Side::Front,
        words: "Mcp-Name of tasks/",
        what: "The FastMCP 4 client leaves `Mcp-Name` out of `tasks/get`, `tasks/update` and `tasks/cancel`.",
        breaks: "Tasks extension, Routing Headers (B-042)",
    },
];

/// What the page does not promise, since it depends on who is faster, or on what is to change.
const AT_TIMES: &[(&str, Side, &str)] = &[
    // A server that is slow to answer the modern opening is tried with the earlier one meanwhile.
    ("initialize", Side::Back, "B"),
    ("initialize", Side::Back, "no tasks"),
    ("initialize → error -32022", Side::Back, "B"),
    ("initialize → error -32022", Side::Back, "no tasks"),
    ("notifications/cancelled", Side::Front, "A"),
    // A server that changes its tools while its session opens: by the time a client may be told it has often asked.
    ("notifications/tools/list_changed", Side::Front, "A"),
    ("notifications/tools/list_changed", Side::Front, "B"),
    ("notifications/tools/list_changed", Side::Front, "by hand, 2025-11-25"),
    ("subscriptions/listen → error -32000", Side::Back, "no tasks"),
    // What a server asks when its session opens is asked of nobody over HTTP.
    ("roots/list → error -32601", Side::Back, "A"),
];

/// A column of the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    A,
    B,
    Plain(&'static str),
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Kind::A => "A",
            Kind::B => "B",
            Kind::Plain(words) => words,
        }
    }
}

const FRONTS: [Kind; 6] = [
    Kind::A,
    Kind::B,
    Kind::Plain("no tasks, 2025-06-18"),
    Kind::Plain("no tasks, 2026-07-28"),
    Kind::Plain(LEGACY),
    Kind::Plain(MODERN),
];
const BACKS: [Kind; 3] = [Kind::A, Kind::B, Kind::Plain("no tasks")];

fn front(client: &'static str) -> Kind {
    match CLIENTS.iter().find(|known| known.name == client).map(|client| client.speaks) {
        Some(Speaks::A) => Kind::A,
        Some(Speaks::B) => Kind::B,
        Some(Speaks::Plain) if client == "plain_ts" => Kind::Plain("no tasks, 2025-06-18"),
        Some(Speaks::Plain) => Kind::Plain("no tasks, 2026-07-28"),
        None => Kind::Plain(client),
    }
}

fn back(server: &str, via: Via) -> Kind {
    match (server, via) {
        ("fastmcp_b" | "rmcp_b" | "tower_odd", _) | ("pmcp_odd", Via::Http) => Kind::B,
        ("python_plain" | "ts_plain", _) => Kind::Plain("no tasks"),
        _ => Kind::A,
    }
}

impl Heard {
    fn peer(&self) -> &'static str {
        match (self.side, self.client) {
            (Side::Front, Some(client)) => client,
            (Side::Front | Side::Back, _) => self.server,
        }
    }

    fn column(&self) -> (Side, Kind) {
        match (self.side, self.client) {
            (Side::Front, Some(client)) => (Side::Front, front(client)),
            (Side::Front | Side::Back, _) => (Side::Back, back(self.server, self.via)),
        }
    }
}

/// Judges all that was said.
pub(crate) fn gather(stage: &Stage, clients: &[&'static Client], servers: &[&'static Server]) -> Vec<Heard> {
    let mut heard = Vec::new();
    let mut add = |side, client, server, via, report| {
        heard.push(Heard { side, client, server, via, report });
    };
    let players = clients.iter().flat_map(|client| std::iter::once(client.name).chain(client.starter));
    let players: BTreeSet<&'static str> = players.chain(BY_HAND).collect();
    for client in players {
        for (endpoint, exchanges) in stage.heard_of_client(client) {
            let name = endpoint.strip_suffix("-stdio").unwrap_or(&endpoint);
            let Some(server) = servers.iter().find(|known| known.name == name) else { continue };
            let report = judge::over_http(Side::Front, &exchanges);
            add(Side::Front, Some(client), server.name, Via::Http, report);
        }
        for server in servers {
            let (fronts, backs) = stage.heard_of_pair(client, server.name);
            for (side, pipes) in [(Side::Front, fronts), (Side::Back, backs)] {
                for pipe in pipes {
                    add(side, Some(client), server.name, Via::Stdio, judge::over_pipe(side, &pipe));
                }
            }
        }
    }
    for server in servers {
        let report = judge::over_http(Side::Back, &stage.heard_of_server(server.name));
        add(Side::Back, None, server.name, Via::Http, report);
        for pipe in stage.heard_of_child(server.name) {
            add(Side::Back, None, server.name, Via::Stdio, judge::over_pipe(Side::Back, &pipe));
        }
    }
    heard
}

/// What is wrong, one line each.
pub(crate) fn wrong(heard: &[Heard], whole: bool) -> Vec<String> {
    let mut wrong: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut shown = BTreeSet::new();
    let mut checked = 0;
    for line in heard {
        checked += line.report.checked;
        for fault in &line.report.faults {
            let listed = PEERS.iter().position(|peer| {
                !fault.ours
                    && peer.side == line.side
                    && peer.name == line.peer()
                    && fault.what.contains(peer.words)
            });
            if let Some(at) = listed {
                shown.insert(at);
                continue;
            }
            let who = if fault.ours { "taskgate" } else { line.peer() };
            let key =
                format!("{who} on the line to {} over {}: {}", line.peer(), line.via.word(), fault.what);
            wrong.entry(key).or_insert((0, fault.message.clone())).0 += 1;
        }
    }
    eprintln!("{checked} messages on {} lines were checked against the schemas", heard.len());
    let mut wrong: Vec<String> = wrong
        .into_iter()
        .map(|(key, (times, message))| format!("{key} ({times} times)\n    {message}"))
        .collect();
    for (at, peer) in PEERS.iter().enumerate() {
        if whole && !shown.contains(&at) {
            wrong.push(format!("{} no longer does what is listed: {}", peer.name, peer.what));
        }
    }
    wrong
}

type Seen = BTreeMap<(Towards, String), BTreeMap<(Side, Kind), usize>>;

fn seen(heard: &[Heard]) -> Seen {
    let mut seen = Seen::new();
    for line in heard {
        for ((towards, label), count) in &line.report.seen {
            *seen.entry((*towards, label.clone())).or_default().entry(line.column()).or_default() += count;
        }
    }
    seen
}

const HEAD: &str = "# What passes on the lines, checked against the official schemas

While the [matrix](matrix.md) is played, a tap on every line writes down all that passes: between each client and taskgate
and between taskgate and each server, over HTTP and over stdio. Each message is then checked by its own type of the schema
of its session's version (2025-06-18, 2025-11-25, or 2026-07-28 with the tasks extension): a request by its method, a result
by the request that it answers, the result inside a task by the call. Of what taskgate sends it is also checked that nothing
of the other dialect is in it, since the schemas let any member pass; and over HTTP headers, status and the shape of
streams. taskgate sends nothing that is wrong; what peers send that is wrong is listed below.

Clients *by hand* say to server-everything what the SDKs' clients of the matrix do not say. The load test
(`crates/cli/tests/load`) captures clients without tasks at 2025-11-25 before all three kinds of servers in the same way. Its
long form, 16 clients of each kind for five minutes on 2026-11-30, checked 107,107 messages that clients received; none was of
another era, dialect or client.

This page is written by `cargo xtask matrix`. A test fails if a message is wrong, if a peer does what is not listed or no
longer does what is, and if a kind of message that is marked here is not seen.
";

/// Writes the page, or compares it: what it marks has to be seen.
pub(crate) fn check(heard: &[Heard]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/captures.md");
    let seen = seen(heard);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, render(heard, &seen, least)).unwrap();
        return;
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    let rendered = render(heard, &seen, |_| 1);
    let fresh: BTreeMap<&str, Vec<&str>> = sections(&rendered).collect();
    // A message that only comes at times is no news; one that no longer comes is.
    let is_gone = |title: &str, line: &str| {
        !fresh.get(title).is_some_and(|fresh| fresh.iter().any(|other| covers(other, line)))
    };
    let gone: Vec<&str> = sections(&stored)
        .flat_map(|(title, lines)| {
            let is_gone = &is_gone;
            lines.into_iter().filter(move |line| is_gone(title, line))
        })
        .collect();
    assert!(
        gone.is_empty(),
        "docs/captures.md says what was not seen. To write it: cargo xtask matrix\n{}",
        gone.join("\n")
    );
}

/// The parts of a page by their titles.
fn sections(page: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    page.split("\n## ").map(|section| {
        let (title, lines) = section.split_once('\n').unwrap_or((section, ""));
        (title, lines.lines().collect())
    })
}

/// How often a message has to be seen to be promised: what SDKs say once in a whole run they may not say in the next.
fn least(kind: Kind) -> usize {
    if BY_HAND.contains(&kind.words()) { 1 } else { 3 }
}

/// Whether a line of the page has all the marks of another, and is it otherwise.
fn covers(fresh: &str, stored: &str) -> bool {
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let (fresh, stored) = (cells(fresh), cells(stored));
    fresh.len() == stored.len()
        && fresh
            .iter()
            .zip(&stored)
            .all(|(fresh, stored)| fresh == stored || (fresh == MARK && stored.is_empty()))
}

const MARK: &str = "x";

fn render(heard: &[Heard], seen: &Seen, least: impl Fn(Kind) -> usize) -> String {
    let mut page = format!("{HEAD}\n## Each front with each back\n\n| client ↓ server → |");
    for kind in BACKS {
        let _ = write!(page, " {} |", kind.words());
    }
    let _ = write!(page, "\n| --- |{}\n", " --- |".repeat(BACKS.len()));
    for front_kind in FRONTS {
        let _ = write!(page, "| {} |", front_kind.words());
        for back_kind in BACKS {
            let vias: BTreeSet<&str> = heard
                .iter()
                .filter(|line| line.side == Side::Front && line.report.checked > 0)
                .filter(|line| line.column().1 == front_kind && back(line.server, line.via) == back_kind)
                .map(|line| line.via.word())
                .collect();
            let _ = write!(page, " {} |", vias.into_iter().collect::<Vec<_>>().join(", "));
        }
        page.push('\n');
    }
    let columns: Vec<(Side, Kind)> = FRONTS
        .map(|kind| (Side::Front, kind))
        .into_iter()
        .chain(BACKS.map(|kind| (Side::Back, kind)))
        .collect();
    for (towards, title) in [
        (Towards::Server, "From clients to taskgate, and from taskgate to servers"),
        (Towards::Client, "From taskgate to clients, and from servers to taskgate"),
    ] {
        let _ = write!(page, "\n## {title}\n\n| message |");
        for (side, kind) in &columns {
            let side = if *side == Side::Front { "client" } else { "server" };
            let _ = write!(page, " {side}:<br>{} |", kind.words());
        }
        let _ = write!(page, "\n| --- |{}\n", " --- |".repeat(columns.len()));
        for ((_, label), counts) in seen.iter().filter(|((to, _), _)| *to == towards) {
            let is_marked = |column: &(Side, Kind)| {
                counts.get(column).is_some_and(|count| *count >= least(column.1))
                    && !AT_TIMES.contains(&(label.as_str(), column.0, column.1.words()))
            };
            if !columns.iter().any(is_marked) {
                continue;
            }
            let _ = write!(page, "| {label} |");
            for column in &columns {
                let _ = write!(page, " {} |", if is_marked(column) { MARK } else { "" });
            }
            page.push('\n');
        }
    }
    page.push_str(
        "\n## What peers send that is wrong\n\n| who | what | what that breaks |\n| --- | --- | --- |\n",
    );
    for peer in PEERS {
        let name = SERVERS
            .iter()
            .map(|server| (Side::Back, server.name, server.title))
            .chain(CLIENTS.iter().map(|client| (Side::Front, client.name, client.title)))
            .find(|(side, name, _)| *side == peer.side && *name == peer.name)
            .map_or(peer.name, |(_, _, title)| title);
        let side = if peer.side == Side::Back { "server" } else { "client" };
        let _ = writeln!(page, "| {name}, {side} | {} | {} |", peer.what, peer.breaks);
    }
    page
}

#[test]
fn a_mark_that_is_gone_is_noticed_and_one_that_is_new_is_not() {
    assert!(covers("| ping | x | x |", "| ping | x |  |"));
    assert!(!covers("| ping | x |  |", "| ping | x | x |"));
    assert!(!covers("| pong | x | x |", "| ping | x | x |"));
    let page = "# a\n| ping | x |\n\n## b\n| ping |  |\n";
    let titles: Vec<_> = sections(page).map(|(title, lines)| (title, lines.len())).collect();
    assert_eq!(titles, [("# a", 1), ("b", 1)]);
}
