//! Every kind of client against every kind of server, with the gateway in between: real peers, real processes.
//!
//! `tests/peers` has the peers, and its README says what each gets wrong. A cell is one scenario that a client driver
//! plays with a server; the servers' own journals say how often each call arrived, and that one which was cancelled
//! stopped. `docs/matrix.md` is the outcome: a cell that passes where the page says that it does not fails the test,
//! and the other way round. `cargo xtask matrix` writes the page, and plays a part of the matrix only if asked.
//!
//! All that passes on the lines meanwhile is judged by the official schemas; `docs/captures.md` says what was seen.
//!
//! The peers must be installed (`tests/peers/install`): a cell whose peer is missing fails.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that meets what it does not expect fails; this one takes real time, and is told what to play"
)]

#[path = "../capture/mod.rs"]
mod capture;
mod captures;
mod cast;
mod drivers;
mod faults;
mod page;
mod play;
mod rest;
mod stage;
#[path = "../load/wire.rs"]
mod wire;

use std::collections::BTreeMap;
use std::env;

use cast::{CLIENTS, Client, SCENARIOS, SERVERS, Server, VIAS};
use page::{Cell, Outcome};

/// What is played: everything, or what these variables name, separated by commas.
fn named<T>(all: &'static [T], variable: &str, name: impl Fn(&T) -> &str) -> Vec<&'static T> {
    let wanted = env::var(variable).unwrap_or_default();
    let wanted: Vec<_> = wanted.split(',').filter(|word| !word.is_empty()).collect();
    let found: Vec<_> = all.iter().filter(|one| wanted.is_empty() || wanted.contains(&name(one))).collect();
    assert!(wanted.is_empty() || found.len() == wanted.len(), "{variable} names what there is not");
    found
}

#[test]
fn every_client_gets_along_with_every_server_as_the_page_says() {
    let clients: Vec<&'static Client> = named(&CLIENTS, "MATRIX_CLIENTS", |client| client.name);
    let servers: Vec<&'static Server> = named(&SERVERS, "MATRIX_SERVERS", |server| server.name);
    let whole = clients.len() == CLIENTS.len() && servers.len() == SERVERS.len();
    let (mut outcomes, heard) = play::all(&clients, &servers);

    let mut wrong = Vec::new();
    for (cell, outcome) in &outcomes {
        let fault =
            faults::fault(cell.client, cell.server, cell.scenario, cell.via).map(|at| &faults::FAULTS[at]);
        match (outcome, fault) {
            (Outcome::Passed, None) | (Outcome::Absent, _) => {}
            (Outcome::Failed(why), Some(fault)) if why.contains(fault.words) => {}
            (Outcome::Failed(why), None) => wrong.push(format!("{cell}: {why}")),
            (Outcome::Failed(why), Some(fault)) => {
                wrong.push(format!("{cell}: fails otherwise than \"{}\": {why}", fault.words));
            }
            (Outcome::Passed, Some(fault)) if fault.sometimes => {}
            (Outcome::Passed, Some(fault)) => {
                wrong.push(format!("{cell}: passes, but is listed as a fault: {}", fault.what));
            }
        }
    }
    wrong.extend(captures::wrong(&heard, whole));
    let unheard = unheard(&outcomes, whole);
    assert!(wrong.is_empty() && unheard.is_empty(), "{}\n{}", wrong.join("\n"), unheard.join("\n"));
    if whole {
        for (cell, outcome) in &mut outcomes {
            let fault = faults::fault(cell.client, cell.server, cell.scenario, cell.via);
            if *outcome == Outcome::Passed && fault.is_some_and(|at| faults::FAULTS[at].sometimes) {
                *outcome = Outcome::Failed("at times".to_owned());
            }
        }
        page::check(&outcomes);
        captures::check(&heard);
    }
}

/// Listed faults that no cell shows.
fn unheard(outcomes: &BTreeMap<Cell, Outcome>, whole: bool) -> Vec<String> {
    let shown = |at: usize| {
        outcomes.iter().any(|(cell, outcome)| {
            *outcome != Outcome::Absent
                && faults::fault(cell.client, cell.server, cell.scenario, cell.via) == Some(at)
        })
    };
    (0..faults::FAULTS.len())
        .filter(|at| whole && !shown(*at))
        .map(|at| format!("no cell shows this fault: {}", faults::FAULTS[at].what))
        .collect()
}

/// All cells of some clients and servers, whether or not there is anything to play.
fn cells(clients: &[&'static Client], servers: &[&'static Server]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for client in clients {
        for server in servers {
            for via in VIAS {
                for scenario in SCENARIOS {
                    cells.push(Cell { client: client.name, server: server.name, via, scenario });
                }
            }
        }
    }
    cells
}
