//! H4: the whole engine in simulated time, by seeds (notes 3.3).
//!
//! Each seed is a few lives of one gateway. In each a new engine recovers over what the store kept, clients call, wait, answer,
//! cancel and come back, and at some moment the process is gone with all that it had under way, shut down, or stopped in the
//! middle and continued when another has taken over (INV-15). The server and the line to it outlive it: what was sent may
//! still arrive. The store takes its time, refuses, does what it says it could not (INV-45), and stops in the middle of a
//! write. The wall clock jumps by an hour either way. Effects in doubt are looked up, fenced off, sent again or decided by a
//! person, as the tool's workflow says. In the end the server's own books are held against the ledger; two days later all that
//! expired must be gone and nothing run by late duplicates (INV-30), and after a year the evidence.
//!
//! Left out: fronts and transports, which the simulation of the gateway and tests with real processes play. SQLite, whose disk
//! has its own test (H11), and which is held against the store in memory, command by command, by the differential test of
//! `store-sqlite` (INV-50).
//!
//! - `sim`: a seed
//! - `life`: one life of the gateway
//! - `wish`, `client`: what clients want, and how they go about it
//! - `person`: who decides what nothing else can
//! - `judge`: the books against the ledger

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod client;
mod judge;
mod life;
mod person;
mod sim;
mod wish;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use taskgate_sim::Tally;

use crate::sim::Sim;

/// What the person at the terminal chose.
#[expect(clippy::disallowed_methods, reason = "a test has no other way to be told")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// What must have happened in some seed, or nothing was tested.
const SEEN: &[&str] = &[
    "a change that was done and said to have failed",
    "a call in doubt",
    "a call joined",
    "a call made anew because nobody could say",
    "a call sent again after it was confirmed not applied",
    "a cancel: Promise",
    "a cancel: Wish",
    "a clock put back",
    "a clock put forward",
    "a clock that jumped under way",
    "a connection refused",
    "a crash",
    "a create that was done and said to have failed",
    "a duplicate whose task was gone",
    "a failed status read",
    "a fence",
    "a key given free and taken again",
    "a key that the server knew",
    "a late duplicate that was told what is known",
    "a late request",
    "a look-up that found it",
    "a look-up that found nothing",
    "a look-up that makes no sense",
    "a look-up that says neither",
    "a look-up that was lost",
    "a person who has it asked again",
    "a person who was told",
    "a person's word",
    "a process that was stopped",
    "a purge that was done and said to have failed",
    "a question in a task of the server's",
    "a question on a connection",
    "a question that nobody answers any more",
    "a read that failed",
    "a recovery that failed",
    "a request behind a fence",
    "a request lost",
    "a retire that was done and said to have failed",
    "a server that denies what it did",
    "a server that loses what it did not do",
    "a server that says what it did not do",
    "a settle that was done and said to have failed",
    "a shutdown",
    "a stopped process that went on",
    "a stopped process that was refused",
    "a task purged",
    "a task that the server cancelled",
    "a task that was gone before its client looked",
    "a write refused",
    "an answer consumed",
    "an answer lost",
    "an answer taken",
    "an answer that arrived and was not acknowledged",
    "an answer to what was not asked",
    "an object that was busy",
    "ending cancelled",
    "ending faulted",
    "ending raised",
    "ending returned",
    "evidence retired",
    "outcome Attested(Applied)",
    "outcome Attested(NotApplied)",
    "outcome Confirmed(Applied)",
    "outcome Confirmed(NotApplied)",
    "outcome NoneExpected",
    "outcome Reported(Applied)",
    "outcome Reported(NotApplied)",
    "refused by the server",
    "unknown ToolError",
];

#[test]
fn h4_inv_01_to_inv_06_inv_10_to_inv_17_inv_20_inv_30_inv_35_inv_45_inv_48_hold_for_every_seed() {
    let tally = Arc::new(Tally::default());
    let only = number("TASKGATE_SEED");
    let seeds = number("TASKGATE_SEEDS").unwrap_or(1_500);
    let seeds: Vec<u64> = only.map_or(0..seeds, |only| only..only + 1).collect();
    // One thread plays one seed from beginning to end; two play side by side, and the first that fails ends both.
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::SeqCst))
                    && failed.lock().is_none()
                {
                    if let Err(words) = Sim::new(*seed, &tally).play() {
                        failed.lock().get_or_insert((*seed, words));
                    }
                }
            });
        }
    });
    if let Some((seed, words)) = failed.into_inner() {
        panic!(
            "seed {seed}: {words}\nagain: TASKGATE_SEED={seed} cargo test -p taskgate-engine --test sim -- --nocapture"
        );
    }
    println!("{:#?}", tally.all());
    if only.is_none() {
        let seen = tally.all();
        let missing: Vec<_> = SEEN.iter().filter(|what| !seen.contains_key(**what)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}");
    }
}

#[test]
fn h4_a_seed_plays_the_same_again() {
    for seed in 0..20 {
        let tally = Arc::new(Tally::default());
        let told = || {
            let mut sim = Sim::new(seed, &tally);
            sim.play().unwrap();
            sim.told()
        };
        assert_eq!(told(), told(), "seed {seed}");
    }
}
