//! The official conformance suite against the gateway: its server scenarios at our front, its client scenarios at our
//! back. What it finds is `docs/conformance.md`, which `cargo xtask conformance` writes.
//!
//! The servers behind the gateway are `tests/peers/servers/conformance_*.py`, on SDKs that other people wrote. The same
//! scenarios are run against them without us, so that a reader sees whose failure is whose. The suite is told what to
//! expect by `tests/peers/conformance/expected-failures.yaml` and says so by its exit code.
//!
//! The peers must be installed (`tests/peers/install`).
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that meets what it does not expect fails; this one takes real time, and is told what to run"
)]

mod cast;
mod expected;
mod page;
mod stage;
mod suite;

use std::collections::VecDeque;
use std::env;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use cast::Job;
use stage::Stage;
use suite::Outcome;

/// Runs of the suite at the same time. Most of a run is waiting for the suite's own pauses.
const SIDE_BY_SIDE: usize = 4;

#[test]
fn the_official_conformance_suite_finds_what_the_page_says() {
    let wanted = env::var("CONFORMANCE_SCENARIOS").unwrap_or_default();
    let wanted: Vec<_> = wanted.split(',').filter(|name| !name.is_empty()).collect();
    let is_direct = env::var_os("CONFORMANCE_DIRECT").is_some();
    let jobs: Vec<_> = cast::jobs(&wanted).into_iter().filter(|job| !is_direct || job.is_direct()).collect();
    let is_whole = wanted.is_empty() && !is_direct;

    let stage = stage::set();
    let outcomes = run(&stage, jobs);
    let mut wrong: Vec<String> = outcomes.iter().flat_map(Outcome::faults).collect();
    let seen = page::render(&outcomes, &wanted);
    if is_whole {
        wrong.extend(page::missing(&outcomes));
    }
    if env::var_os("CONFORMANCE_KEEP").is_some() || !wrong.is_empty() {
        eprintln!("logs and the suite's own results: {}", stage.keep().display());
    }
    if !is_whole {
        eprintln!("{seen}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if is_whole {
        page::check(&seen);
    }
}

fn run(stage: &Stage, jobs: Vec<Job>) -> Vec<Outcome> {
    let began = Instant::now();
    // What measures time is run before the others crowd the machine.
    let (alone, together): (VecDeque<_>, VecDeque<_>) =
        jobs.into_iter().enumerate().partition(|(_, job)| job.measures_time());
    let outcomes = Mutex::new(Vec::new());
    for (queue, workers) in [(alone, 1), (together, SIDE_BY_SIDE)] {
        let queue = Mutex::new(queue);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let Some((at, job)) = queue.lock().unwrap().pop_front() else { break };
                        let outcome = suite::run(stage, job);
                        eprintln!("{:>4} s  {outcome}", began.elapsed().as_secs());
                        outcomes.lock().unwrap().push((at, outcome));
                    }
                });
            }
        });
    }
    let mut outcomes = outcomes.into_inner().unwrap();
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
