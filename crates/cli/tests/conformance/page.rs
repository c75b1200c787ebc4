//! `docs/conformance.md`, and whether it is what was seen.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::cast::{Before, Front, Job, V2025, V2026};
use crate::expected::{self, ENTRIES};
use crate::suite::{Outcome, Scenario, Status};

const HEAD: &str = "# The official conformance suite

What `@modelcontextprotocol/conformance` 0.2.0-alpha.12 finds: its server scenarios at the front of taskgate, its client
scenarios at the back. A figure is the number of checks that pass, of those that came to a verdict. A check for what a
version only recommends (the suite's *warning*) counts like any other. Each message is checked against the schema of its
version besides.

A gateway has nothing of its own to offer, so there is a server behind it, and each scenario is run against that server
alone, too: what fails there is not taskgate's doing. The servers are fixtures of ours on SDKs of other people, over
HTTP: Python mcp 2.3.0 for what the versions require, FastMCP 4.1.4 with its tasks extension for tasks. taskgate is
`taskgate serve` as it comes; five tools are declared with `mode = \"task\"`, since the suite wants a task of them
however soon they end.

This page is written by `cargo xtask conformance`, and a test compares it with what it sees.
";

const TASKS: &str = "The extension `io.modelcontextprotocol/tasks` of 2026-07-28. The suite has no scenarios for the tasks \
of 2025-11-25; for those see\n[matrix.md](matrix.md).";

const SERVER: &str = "What the version requires of a server, and what the suite runs beside that without counting it. The \
server behind taskgate\nspeaks the version in the column's head, which need not be the client's.";

const CLIENT: &str = "The suite's own server is behind taskgate here, and a client on somebody's SDK calls through it: \
TypeScript SDK 1.32.2 at\n2025-11-25, TypeScript SDK 2.4.0 at 2026-07-28. What is judged is how taskgate speaks to servers.";

const NOT_RUN: &str = "## What is not run

- Client scenarios `auth/*`, the authorization server scenarios: taskgate does not log in at servers yet. It sends the
  credentials that it is given.
- `sep-2640-*`: skills, an extension that is about what a server offers or a client does with it; taskgate passes their
  messages on like any others.
";

/// Why a row is not the same in all its columns, or has checks that were skipped.
const NOTES: [(&str, &str); 5] = [
    (
        "tasks-mrtr-composition",
        "The scenario wants a question before the task is made. FastMCP makes the task first and asks in it, so the tool is an \
         ordinary one there and no task comes of it. taskgate makes the task.",
    ),
    ("tasks-status-notifications", "The suite skips it: its authors have to write it anew."),
    (
        "server-sse-multiple-streams",
        "Three requests at once, and whether their streams work. taskgate answers a request that ends soon with plain JSON, so \
         there are no streams to judge.",
    ),
    (
        "server-sse-polling",
        "Whether a stream that its server breaks off can be taken up. taskgate does not break its streams off: it takes up its \
         server's and goes on. Where nothing was told before the result (the server at 2026-07-28), it answers with plain JSON.",
    ),
    (
        "http-standard-headers",
        "A client of 2026-07-28 sends neither `initialize` nor `notifications/initialized`, so their two checks are skipped.",
    ),
];

/// One row of a table: a scenario in each column, where it was run.
struct Row<'o> {
    name: &'o str,
    not_scored: Option<&'o str>,
    cells: Vec<Option<&'o Scenario>>,
}

struct Table<'o> {
    title: String,
    text: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Row<'o>>,
}

pub(crate) fn check(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, page).unwrap();
        return;
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/conformance.md is out of date. To write it: cargo xtask conformance\n{page}"
    );
}

/// What a reader would ask and the page does not answer, and what it answers and nobody asks.
pub(crate) fn missing(outcomes: &[Outcome]) -> Vec<String> {
    let tables = tables(outcomes);
    let rows = || tables.iter().flat_map(|table| &table.rows);
    let mut missing = Vec::new();
    for row in rows().filter(|row| row.wants_note() && note(row.name).is_none()) {
        missing.push(format!("{}: its columns differ, or it was skipped, and no note says why", row.name));
    }
    for (name, _) in NOTES {
        if !rows().any(|row| row.name == name && row.wants_note()) {
            missing.push(format!("{name}: a note says what is not so"));
        }
    }
    for (at, entry) in ENTRIES.iter().enumerate() {
        let is_seen = outcomes.iter().filter(|outcome| !outcome.job.is_direct()).any(|outcome| {
            outcome.scenarios.iter().any(|scenario| unexpected_or(scenario).contains(&Some(at)))
        });
        if !is_seen {
            missing.push(format!("{}:{} is expected to fail and does not", entry.scenario, entry.check));
        }
    }
    missing
}

pub(crate) fn render(outcomes: &[Outcome], wanted: &[&str]) -> String {
    let is_whole = wanted.is_empty();
    let tables: Vec<_> = tables(outcomes).into_iter().filter(|table| !table.rows.is_empty()).collect();
    let mut page = if is_whole { format!("{HEAD}\n{}", summary(&tables)) } else { String::new() };
    for table in &tables {
        let _ = write!(page, "\n## {}\n\n{}\n\n| scenario |", table.title, table.text);
        for column in &table.columns {
            let _ = write!(page, " {column} |");
        }
        let _ = writeln!(page, "\n| --- |{}", " --- |".repeat(table.columns.len()));
        for row in &table.rows {
            let reason = row.not_scored.filter(|reason| *reason != "extension");
            let not_scored = reason.map(|reason| format!(" (not counted: {reason})")).unwrap_or_default();
            let _ = write!(page, "| `{}`{not_scored}{} |", row.name, mark(row));
            for cell in &row.cells {
                let _ = write!(page, " {} |", cell.map_or_else(|| "–".to_owned(), figure));
            }
            page.push('\n');
        }
    }
    page.push_str("\n## Notes\n\n| | |\n| --- | --- |\n");
    for (at, (name, text)) in NOTES.iter().enumerate() {
        if tables.iter().any(|table| table.rows.iter().any(|row| row.name == *name)) {
            let _ = writeln!(page, "| {} | `{name}`: {text} |", letter(at));
        }
    }
    page.push_str("\n## What fails and is to fail\n\nNothing here is a fault of taskgate's. The suite is told of it by\n\
                   [expected-failures.yaml](../tests/peers/conformance/expected-failures.yaml).\n\n\
                   | | check | reason |\n| --- | --- | --- |\n");
    for (at, entry) in ENTRIES.iter().enumerate() {
        let _ = writeln!(page, "| [{}] | `{}:{}` | {} |", at + 1, entry.scenario, entry.check, entry.reason);
    }
    if is_whole {
        let _ = write!(page, "\n{NOT_RUN}");
    }
    page
}

fn summary(tables: &[Table<'_>]) -> String {
    let mut text = String::from("| | scenarios | checks | pass |\n| --- | --- | --- | --- |\n");
    for table in tables {
        for (at, column) in table.columns.iter().enumerate() {
            let cells: Vec<_> = table.rows.iter().filter_map(|row| row.cells[at]).collect();
            let judged: usize = cells.iter().map(|scenario| scenario.judged()).sum();
            let passed: usize = cells.iter().map(|scenario| scenario.count(Status::Success)).sum();
            let _ = writeln!(text, "| {}: {column} | {} | {judged} | {passed} |", table.title, cells.len());
        }
    }
    text
}

fn tables(outcomes: &[Outcome]) -> Vec<Table<'_>> {
    let tasks = |before| move |job: &Job| matches!(job, Job::Tasks { before: of, .. } if *of == before);
    let server = |version, before| move |job: &Job| matches!(job, Job::Server { revision, before: of, .. } if *revision == version && *of == before);
    let client = |version, front| move |job: &Job| matches!(job, Job::Client { revision, front: of, .. } if *revision == version && *of == front);
    let title = |before| match before {
        Before::Direct => "the server alone",
        Before::Modern => "taskgate, server at 2026-07-28",
        Before::Legacy => "taskgate, server at 2025-11-25",
    };
    let before = |version: &'static str, all: &[Before]| {
        let columns: Vec<_> =
            all.iter().map(|before| (title(*before), picked(outcomes, server(version, *before)))).collect();
        Table::new(format!("Server scenarios of {version}"), SERVER, columns)
    };
    let fronts = |version: &'static str| {
        let columns = [(Front::Legacy, "client at 2025-11-25"), (Front::Modern, "client at 2026-07-28")];
        let columns =
            columns.map(|(front, title)| (title, picked(outcomes, client(version, front)))).to_vec();
        Table::new(format!("Client scenarios of {version}"), CLIENT, columns)
    };
    vec![
        Table::new(
            "Tasks".to_owned(),
            TASKS,
            vec![
                ("the server alone", picked(outcomes, tasks(Before::Direct))),
                ("taskgate", picked(outcomes, tasks(Before::Modern))),
            ],
        ),
        before(V2026, &[Before::Direct, Before::Modern]),
        before(V2025, &Before::all()),
        fronts(V2026),
        fronts(V2025),
    ]
}

fn picked(outcomes: &[Outcome], is_of: impl Fn(&Job) -> bool) -> Vec<&Scenario> {
    outcomes.iter().filter(|outcome| is_of(&outcome.job)).flat_map(|outcome| &outcome.scenarios).collect()
}

impl<'o> Table<'o> {
    /// The first column that has anything says which rows there are, and in which order.
    fn new(title: String, text: &'static str, columns: Vec<(&'static str, Vec<&'o Scenario>)>) -> Table<'o> {
        let first = columns.iter().map(|(_, scenarios)| scenarios).find(|scenarios| !scenarios.is_empty());
        let row = |scenario: &&'o Scenario| Row {
            name: &scenario.name,
            not_scored: scenario.not_scored.as_deref(),
            cells: columns
                .iter()
                .map(|(_, scenarios)| scenarios.iter().copied().find(|other| other.name == scenario.name))
                .collect(),
        };
        let rows = first.into_iter().flatten().map(row).collect();
        Table { title, text, columns: columns.iter().map(|(title, _)| *title).collect(), rows }
    }
}

impl Row<'_> {
    /// Whether its figures raise a question that the list of expected failures does not answer.
    fn wants_note(&self) -> bool {
        let plain = |scenario: &Scenario| {
            let expected = unexpected_or(scenario).iter().flatten().count();
            (scenario.count(Status::Success), scenario.judged() - expected, scenario.count(Status::Skipped))
        };
        let cells: Vec<_> = self.cells.iter().flatten().map(|scenario| plain(scenario)).collect();
        let is_even = cells.iter().all(|cell| *cell == cells[0] || self.is_expected());
        !is_even || cells.iter().any(|(_, _, skipped)| *skipped > 0)
    }

    fn is_expected(&self) -> bool {
        self.cells.iter().flatten().any(|scenario| unexpected_or(scenario).iter().any(Option::is_some))
    }
}

/// For each check that fails, which entry of the list says so.
fn unexpected_or(scenario: &Scenario) -> Vec<Option<usize>> {
    let fails =
        scenario.checks.iter().filter(|check| matches!(check.status, Status::Failure | Status::Warning));
    fails.map(|check| expected::reason(&scenario.name, &check.id)).collect()
}

fn note(name: &str) -> Option<usize> {
    NOTES.iter().position(|(of, _)| *of == name)
}

fn mark(row: &Row<'_>) -> String {
    note(row.name).map(|at| format!(" ({})", letter(at))).unwrap_or_default()
}

fn letter(at: usize) -> char {
    char::from(b'a' + u8::try_from(at).unwrap())
}

fn figure(scenario: &Scenario) -> String {
    let mut text = format!("{}/{}", scenario.count(Status::Success), scenario.judged());
    let mut numbers: Vec<_> = unexpected_or(scenario).into_iter().flatten().collect();
    numbers.dedup();
    for at in numbers {
        let _ = write!(text, " [{}]", at + 1);
    }
    match scenario.count(Status::Skipped) {
        0 => {}
        skipped => {
            let _ = write!(text, ", {skipped} skipped");
        }
    }
    text
}
