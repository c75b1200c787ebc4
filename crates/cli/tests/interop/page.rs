//! `docs/matrix.md`, and whether it is what was seen.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs;
use std::path::Path;

use crate::cast::{CLIENTS, SCENARIOS, SERVERS, Scenario, Server, Speaks, VIAS, Via};
use crate::faults::{FAULTS, fault};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Cell {
    pub(crate) client: &'static str,
    pub(crate) server: &'static str,
    pub(crate) via: Via,
    pub(crate) scenario: Scenario,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    /// The server has nothing to play it with.
    Absent,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}, {}, {}", self.client, self.server, self.via.word(), self.scenario.word())
    }
}

const HEAD: &str = "# Every client with every server

Each figure is the number of cells that pass, of those that there are. A cell is one scenario, over HTTP or over stdio,
played by a real client with a real server and taskgate in between. The clients and the SDKs of the servers are other
people's, unchanged; few of these pairs can run a task together without a gateway. A number in brackets is a cell that
cannot pass because of what a peer does: see below.

This page is written by `cargo xtask matrix`, and a test compares it with what it sees.
";

const SCENARIO_TEXT: &str = "## What is played

| scenario | what has to happen |
| --- | --- |
| run | a call of 1.5 s over HTTP, 0.4 s over stdio, is followed to its result |
| input | the server asks by a form, once; the answer decides the result |
| cancel | a call of a minute is cancelled and its client sees that; over HTTP it is seen that the server's work stops, too |
| error | a tool error arrives as one, with the server's words |
| refuse | a JSON-RPC error arrives as one, with the server's words; or the task fails with it. A server that never answers so is called with a tool that it does not have |
| big | 1 MiB of text arrives whole; a client without tasks reads it page by page where it has a handle |
| reconnect | the client starts a call and leaves without a goodbye; a new session follows it to the result |

Servers that are fixtures of ours on somebody's SDK write down each call: in every cell it arrived exactly once. Over
stdio taskgate takes the place of the server's command (`taskgate run --foreground`); coming back is over HTTP to a
gateway that runs the server as its child. Inspector never tells the id of its task, so another client starts what
Inspector cancels or comes back to.
";

pub(crate) fn check(outcomes: &BTreeMap<Cell, Outcome>) {
    let page = render(outcomes);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/matrix.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, page).unwrap();
        return;
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == page, "docs/matrix.md is out of date. To write it: cargo xtask matrix\n{page}");
}

fn render(outcomes: &BTreeMap<Cell, Outcome>) -> String {
    let mut page = format!("{HEAD}\n| client ↓ server → |");
    for server in &SERVERS {
        let _ = write!(page, " {}<br>({}) |", server.title, server.speaks);
    }
    page.push_str("\n| --- |");
    page.push_str(&" --- |".repeat(SERVERS.len()));
    page.push('\n');
    for client in &CLIENTS {
        let speaks = match client.speaks {
            Speaks::A => "A",
            Speaks::B => "B",
            Speaks::Plain => "no tasks",
        };
        let _ = write!(page, "| {}<br>({speaks}) |", client.title);
        for server in &SERVERS {
            let _ = write!(page, " {} |", pair(outcomes, client.name, server));
        }
        page.push('\n');
    }
    page.push_str(
        "\nA: tasks of MCP 2025-11-25. B: the tasks extension of MCP 2026-07-28. Where a server lacks what a \
         scenario needs,\nor does not speak stdio, there are fewer cells.\n\n",
    );
    page.push_str(SCENARIO_TEXT);
    page.push_str("\n## What cannot pass\n\n| | who does what | what that breaks | cells |\n| --- | --- | --- | --- |\n");
    for (at, listed) in FAULTS.iter().enumerate() {
        let count = outcomes
            .iter()
            .filter(|(cell, outcome)| **outcome != Outcome::Absent && of(cell) == Some(at))
            .count();
        let _ = writeln!(page, "| [{}] | {} | {} | {count} |", at + 1, listed.what, listed.breaks);
    }
    let played = outcomes.values().filter(|outcome| **outcome != Outcome::Absent).count();
    let passed = outcomes.values().filter(|outcome| **outcome == Outcome::Passed).count();
    let _ = write!(page, "\nOf {played} cells {passed} pass.\n");
    page
}

fn of(cell: &Cell) -> Option<usize> {
    fault(cell.client, cell.server, cell.scenario, cell.via)
}

fn pair(outcomes: &BTreeMap<Cell, Outcome>, client: &'static str, server: &'static Server) -> String {
    let (mut passed, mut played, mut faults) = (0, 0, Vec::new());
    for via in VIAS {
        for scenario in SCENARIOS {
            let cell = Cell { client, server: server.name, via, scenario };
            match outcomes.get(&cell) {
                Some(Outcome::Passed) => (passed, played) = (passed + 1, played + 1),
                Some(Outcome::Failed(_)) => {
                    played += 1;
                    faults.extend(of(&cell));
                }
                Some(Outcome::Absent) | None => {}
            }
        }
    }
    faults.sort_unstable();
    faults.dedup();
    let notes: String = faults.iter().map(|at| format!(" [{}]", at + 1)).collect();
    format!("{passed}/{played}{notes}")
}
