//! Plays the matrix: pairs side by side, the scenarios of a pair one after the other in one session.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::captures::{self, Heard};
use crate::cast::Scenario::{self, Cancel, Reconnect, Refuse};
use crate::cast::{Call, Client, SCENARIOS, Server, VIAS, Via};
use crate::drivers::{Drivers, Said};
use crate::faults::{FAULTS, fault};
use crate::page::{Cell, Outcome};
use crate::rest;
use crate::stage::{self, Stage};

/// Pairs that are played at the same time. Most of them wait: for a tool, or for the next read.
const SIDE_BY_SIDE: usize = 10;
/// One step, on a busy machine.
const STEP: Duration = Duration::from_secs(60);
/// A step that is known to wait for ever.
const VAIN: Duration = Duration::from_secs(8);

type Pair = (&'static Client, &'static Server, Via);

struct Game {
    stage: Stage,
    drivers: Drivers,
    marks: AtomicU32,
    /// Held by the pair that plays with a server which takes one client at a time.
    alone: Mutex<()>,
}

pub(crate) fn all(
    clients: &[&'static Client],
    servers: &[&'static Server],
) -> (BTreeMap<Cell, Outcome>, Vec<Heard>) {
    let began = Instant::now();
    let stage = stage::set(servers.to_vec());
    // Drivers live as long as the thread that starts them, which is this one.
    let starters = clients.iter().filter_map(|client| client.starter);
    let names: std::collections::BTreeSet<_> =
        clients.iter().map(|client| client.name).chain(starters).collect();
    let game = Game {
        drivers: Drivers::start(names, stage.folder()),
        stage,
        marks: AtomicU32::new(0),
        alone: Mutex::new(()),
    };

    let outcomes: Mutex<BTreeMap<_, _>> =
        Mutex::new(crate::cells(clients, servers).into_iter().map(|cell| (cell, Outcome::Absent)).collect());
    // Server by server would have all clients wait for the same slow one.
    let mut pairs: Vec<Pair> = Vec::new();
    for turn in 0..servers.len() {
        for (at, client) in clients.iter().enumerate() {
            let server = servers[(turn + at) % servers.len()];
            pairs.extend(
                VIAS.iter().filter(|via| server.speaks_over(**via)).map(|via| (*client, server, *via)),
            );
        }
    }
    let pairs = Mutex::new(pairs.into_iter());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let Some((client, server, via)) = pairs.lock().unwrap().next() else { break };
                    let pair_began = Instant::now();
                    let played = game.pair(client, server, via);
                    let failed: Vec<_> = played
                        .iter()
                        .filter_map(|(scenario, outcome)| match outcome {
                            Outcome::Failed(why) => Some(format!("\n    {}: {why}", scenario.word())),
                            Outcome::Passed | Outcome::Absent => None,
                        })
                        .collect();
                    eprintln!(
                        "{:>4} s  {:<13} {:<15} {:<6} {} of {} in {} s{}",
                        began.elapsed().as_secs(),
                        client.name,
                        server.name,
                        via.word(),
                        played.len() - failed.len(),
                        played.len(),
                        pair_began.elapsed().as_secs(),
                        failed.concat()
                    );
                    let mut outcomes = outcomes.lock().unwrap();
                    for (scenario, outcome) in played {
                        outcomes.insert(
                            Cell { client: client.name, server: server.name, via, scenario },
                            outcome,
                        );
                    }
                }
            });
        }
    });
    // Alone: a question that comes late, on a busy machine, is asked by a handle instead.
    if servers.contains(&rest::server()) {
        rest::say(&game.stage);
    }
    let heard = captures::gather(&game.stage, clients, servers);
    if std::env::var_os("MATRIX_KEEP").is_some() {
        eprintln!("logs: {}", game.stage.keep().display());
    }
    (outcomes.into_inner().unwrap(), heard)
}

/// A step that was planned: its mark in the journal, its call, and what the driver is told.
struct Planned {
    scenario: Scenario,
    mark: String,
    call: Call,
    timeout: Duration,
}

impl Planned {
    fn step(&self, word: &str, via: Via) -> Value {
        json!({
            "scenario": word,
            "tool": self.call.tool,
            "args": self.call.args,
            "expect": self.call.expect,
            "size": self.call.size,
            "timeout": self.timeout.as_secs(),
            // Over HTTP a client without tasks is first given a handle, and cancels that; over stdio it gives up a
            // call that nobody has answered, once the server has it for certain.
            "after": if via == Via::Http { 2.0 } else { 1.0 },
        })
    }
}

impl Game {
    fn pair(&self, client: &Client, server: &Server, via: Via) -> Vec<(Scenario, Outcome)> {
        let (apart, together): (Vec<_>, Vec<_>) = SCENARIOS
            .iter()
            .filter_map(|scenario| self.plan(client, server, *scenario, via))
            .partition(|planned| {
                // Coming back is to a gateway that is still there, also where the server is its child.
                planned.scenario == Reconnect || (planned.scenario == Cancel && client.starter.is_some())
            });
        let _alone = (via == Via::Http && server.confuses_clients()).then(|| self.alone.lock());
        let mut outcomes = Vec::new();
        let job = match via {
            Via::Http => self.stage.over_http(client.name, server, via),
            Via::Stdio => self.stage.over_stdio(client.name, server),
        };
        let steps: Vec<_> =
            together.iter().map(|planned| planned.step(planned.scenario.word(), via)).collect();
        let within = together.iter().map(|planned| planned.timeout).sum::<Duration>() + STEP;
        let mut said = self.drivers.play(client.name, job, steps, within).into_iter();
        for planned in together {
            outcomes.push((planned.scenario, self.judge(server, via, &planned, said.next())));
        }
        for planned in apart {
            outcomes.push((planned.scenario, self.apart(client, server, &planned, via)));
        }
        outcomes
    }

    fn plan(&self, client: &Client, server: &Server, scenario: Scenario, via: Via) -> Option<Planned> {
        let mark = format!("m{}x", self.marks.fetch_add(1, Ordering::SeqCst));
        let call = server.call(scenario, &mark, client, via)?;
        let vain = fault(client.name, server.name, scenario, via)
            .is_some_and(|at| FAULTS[at].words.starts_with("timed out"));
        Some(Planned { scenario, mark, call, timeout: if vain { VAIN } else { STEP } })
    }

    /// A scenario in sessions of its own.
    fn apart(&self, client: &Client, server: &Server, planned: &Planned, via: Via) -> Outcome {
        let job = |client| self.stage.over_http(client, server, via);
        let mut word = planned.scenario.word();
        let mut task = None;
        if let Some(starter) = client.starter {
            let step = planned.step("start", Via::Http);
            let said = self.drivers.play(starter, job(starter), vec![step], STEP * 2).pop();
            task = said.as_ref().and_then(|said| said["task_id"].as_str().map(str::to_owned));
            if task.is_none() {
                return Outcome::Failed(format!("{starter} could not start it: {}", words(said.as_ref())));
            }
            if planned.scenario == Reconnect {
                word = "resume";
            }
        }
        let mut step = planned.step(word, Via::Http);
        step["task"] = json!(task);
        let said = self.drivers.play(client.name, job(client.name), vec![step], planned.timeout + STEP).pop();
        self.judge(server, via, planned, said)
    }

    fn judge(&self, server: &Server, via: Via, planned: &Planned, said: Option<Said>) -> Outcome {
        if !said.as_ref().is_some_and(|said| said["ok"] == true) {
            return Outcome::Failed(words(said.as_ref()));
        }
        if server.has_journal() {
            // What is refused because there is no such tool never begins.
            let unknown = planned.scenario == Refuse && server.refuses_only_the_unknown();
            let times = self.stage.begun(server, &planned.mark, !unknown);
            if times != usize::from(!unknown) {
                return Outcome::Failed(format!("the server was called {times} times"));
            }
            // Over stdio the server ends with its client, and stops for that reason too.
            if planned.scenario == Cancel
                && via == Via::Http
                && !self.stage.was_cancelled(server, &planned.mark)
            {
                return Outcome::Failed("the work was not given up".to_owned());
            }
        }
        Outcome::Passed
    }
}

fn words(said: Option<&Said>) -> String {
    let Some(said) = said else { return "nothing was heard of it".to_owned() };
    let error = said["error"].as_str().unwrap_or("no word");
    let statuses = &said["statuses"];
    if statuses.as_array().is_some_and(|list| !list.is_empty()) {
        format!("{error}; seen: {statuses}")
    } else {
        error.to_owned()
    }
}
