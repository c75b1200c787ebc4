//! H4 with the fronts: the gateway, its clients and the server in simulated time, by seeds (notes 3.3).
//!
//! Each seed is a few lives of one gateway. Clients of every kind speak to it in bytes, over pipes and over HTTP
//! connections in memory: they call, wait, answer what they are asked, cancel, lose answers, call again, ask for what is not
//! theirs, and come back after each death with what they hold. A person decides what nobody else can tell, is wrong now and
//! then, and takes that back. The promises are checked by what clients read, and by the server's own books.
//!
//! Left out: sockets and processes, which other tests play; the `client` crate, in whose place is a server in memory; SQLite.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod book;
mod client;
mod heard;
mod http;
mod judge;
mod line;
mod mind;
mod own;
mod person;
mod piped;
mod posted;
mod server;
mod sim;
mod steps;
mod understand;
mod world;

use std::sync::Arc;

use taskgate_sim::Tally;

use crate::sim::Sim;

/// What the person at the terminal chose.
#[expect(clippy::disallowed_methods, reason = "a test has no other way to be told")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// What must have happened over all seeds, or nothing was shown.
const SEEN: &[&str] = &[
    "a call made again that must join",
    "a call that joined a finished one",
    "a cancellation promised",
    "a cancellation wished",
    "a cancellation wished by the tool",
    "a clock put back",
    "a clock put forward",
    "a clock that jumped under way",
    "a connection refused",
    "a crash",
    "a failed status read",
    "a foreign id",
    "a handle",
    "a held result",
    "a host that gave up",
    "a key that the server knew",
    "a keyed call made again",
    "a keyed call made again on a person's word",
    "a key that was free again",
    "a late duplicate refused",
    "a late request",
    "a list",
    "a message sent again",
    "a person's word: Applied",
    "a person's word: NotApplied",
    "a question",
    "a question that nobody answered",
    "a request lost",
    "a request that the store failed",
    "a result at once",
    "a result that arrived by a pipe",
    "a round answered",
    "a round of questions",
    "a status told",
    "a stream taken up again",
    "a subscription that ended",
    "a task looked at again",
    "a task of dialect A",
    "a task of dialect B",
    "a task of the server's own",
    "a task pushed",
    "a task that nobody knew of",
    "a wait that ended before its task",
    "a word corrected: Applied",
    "a word corrected: NotApplied",
    "a write refused",
    "an answer acknowledged",
    "an answer lost",
    "an answer that broke off",
    "an answer that came too late",
    "an answer that died with the gateway",
    "an answer that reached the server",
    "an answer to a question that is not open",
    "an effect that nobody waited for",
    "an end in good order",
    "an expired id",
    "another call under a key refused",
    "answered twice",
    "answered twice at once",
    "answered what was not asked",
    "asked on a connection",
    "days pass",
    "it came out: cancelled",
    "it came out: failed",
    "it came out: given up",
    "it came out: not applied",
    "it came out: returned",
    "news on the standing stream",
    "outcome Attested(Applied)",
    "outcome Attested(NotApplied)",
    "outcome Confirmed(NotApplied)",
    "outcome Reported(Applied)",
    "outcome Reported(NotApplied)",
    "progress",
    "refused by the server",
    "stopped when asked to",
    "the same call meant as another one",
    "two effects that a person was told of",
    "two that wait",
    "unknown AnswerLost",
    "unknown Cancelled",
    "unknown ToolError",
];

#[test]
fn h4_inv_01_inv_03_inv_05_inv_06_inv_10_to_inv_13_inv_16_inv_17_inv_20_inv_25_inv_30_inv_35_inv_48_hold_for_clients()
 {
    let tally = Arc::new(Tally::default());
    let only = number("TASKGATE_SEED");
    let seeds = number("TASKGATE_SEEDS").unwrap_or(500);
    for seed in only.map_or(0..seeds, |only| only..only + 1) {
        let mut sim = Sim::new(seed, &tally);
        let played = sim.play();
        if only.is_some() {
            println!("{}", sim.said().join("\n"));
        }
        if let Err(words) = played {
            panic!(
                "seed {seed}: {words}\nagain: TASKGATE_SEED={seed} cargo test -p taskgate-gateway --test sim -- --nocapture"
            );
        }
    }
    println!("{:#?}", tally.all());
    if only.is_none() {
        let seen = tally.all();
        let missing: Vec<_> = SEEN.iter().filter(|what| !seen.contains_key(**what)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}");
    }
}

#[test]
fn h4_a_seed_plays_the_same_again_for_every_client() {
    for seed in 0..30 {
        let tally = Arc::new(Tally::default());
        let told = || {
            let mut sim = Sim::new(seed, &tally);
            sim.play().unwrap();
            sim.said()
        };
        let (first, second) = (told(), told());
        for (one, other) in first.iter().zip(&second) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}
