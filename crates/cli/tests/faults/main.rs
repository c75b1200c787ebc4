//! The fault campaign: the real gateway between real clients, servers and a bank, all processes of their own, while lines
//! are cut at every byte and processes are killed and stopped at every step. At the end two records that know nothing of
//! each other are compared: the bank's books, and the ledger.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `FAULTS_TRIALS` | how many faults (2,000) |
//! | `FAULTS_SEED` | which of them, and in which order |
//! | `FAULTS_REPLAY` | play the act of this file, which a failed campaign wrote, and nothing else |
//! | `FAULTS_LANE` | only the lanes whose names begin so; then nothing is owed |
//!
//! `cargo xtask faults` sets them. This is no ordinary test binary, since it is also the processes that it starts.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test that meets what it does not expect fails; this one takes real time, and is told what to play"
)]

mod act;
mod check;
mod dice;
mod ledger;
mod plan;
mod play;
mod policy;
#[allow(dead_code, reason = "that test waits in its own way too")]
#[path = "../kill/process.rs"]
mod process;
mod sight;
mod tally;
mod world;

use std::env;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use taskgate_faults::books::Books;
use taskgate_faults::{parts, server};
use tokio::time::Instant;

use crate::act::{Act, Back};
use crate::check::Records;
use crate::dice::Dice;
use crate::plan::{Keys, Lane};
use crate::play::Played;
use crate::tally::Tally;
use crate::world::World;

const NAME: &str = "no_effect_is_made_twice_and_both_records_agree";
const FAULTS: usize = 2_000;

/// An act that went wrong, with all that is needed to play it again and all that is known of it.
#[derive(Serialize, Deserialize)]
struct Failure {
    seed: u64,
    backs: Vec<Back>,
    act: Act,
    wrong: Vec<String>,
    #[serde(default)]
    known: Vec<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().collect();
    if parts::named(&arguments) {
        return parts::main(arguments);
    }
    let words: Vec<String> = env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        println!("{NAME}: test");
        return ExitCode::SUCCESS;
    }
    let mut filters = words.iter().filter(|word| !word.starts_with('-')).peekable();
    if filters.peek().is_some() && !filters.any(|filter| NAME.contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let passed = runtime.block_on(async {
        match env::var("FAULTS_REPLAY") {
            Ok(file) if !file.is_empty() => replay(Path::new(&file)).await,
            _ => campaign().await,
        }
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().filter(|text| !text.is_empty()).map(|text| text.parse().unwrap())
}

async fn campaign() -> bool {
    let seed = number("FAULTS_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    let faults = number("FAULTS_TRIALS").map_or(FAULTS, |number| usize::try_from(number).unwrap());
    let only = env::var("FAULTS_LANE").unwrap_or_default();
    println!("faults: seed {seed}; the same again: cargo xtask faults --trials {faults} --seed {seed}");
    sight::test();
    let begun = Instant::now();
    let tally = Arc::new(Tally::default());
    let mut running = Vec::new();
    for (number, lane) in plan::lanes(faults).into_iter().enumerate() {
        if lane.name.starts_with(&only) {
            let dice = Dice::new(seed.wrapping_add(number as u64));
            running.push(tokio::spawn(run(lane, dice, seed, tally.clone())));
        }
    }
    let (mut trials, mut failed) = (0, 0);
    for lane in running {
        let (count, failures) = lane.await.unwrap();
        trials += count;
        failed += failures;
    }
    report(&tally, trials, begun);
    let mut passed = failed == 0;
    if only.is_empty() {
        for (name, times) in plan::owed(&tally) {
            if times == 0 {
                println!("FAILED: never happened: {name}");
                passed = false;
            }
        }
    }
    passed
}

async fn run(lane: Lane, mut dice: Dice, seed: u64, tally: Arc<Tally>) -> (usize, usize) {
    let begun = Instant::now();
    let world = World::set(&lane.backs).await;
    let mut keys = Keys::new(&lane.name);
    let (acts, measured) = lane.acts(&world, &mut keys, &mut dice).await;
    let mut played: Vec<(Act, Vec<Played>)> = Vec::new();
    {
        let (world, tally) = (&world, &*tally);
        let mut playing = futures_util::stream::iter(acts)
            .map(|act| async move {
                let came = play::act(world, &act, tally).await;
                (act, came)
            })
            .buffer_unordered(lane.width);
        while let Some(one) = playing.next().await {
            played.push(one);
        }
    }
    let trials = played.iter().map(|(_, played)| played.len()).sum();
    let ignored = measured.iter().flat_map(|act| &act.trials).map(|trial| trial.key.clone()).collect();
    let took = begun.elapsed();
    let failures = judge(&world, &lane.backs, played, ignored, seed, &tally).await;
    for failure in &failures {
        println!("FAILED: {}", failure.wrong.join("; "));
        println!("  again: cargo xtask faults --replay {}", save(failure).display());
    }
    eprintln!(
        "faults: {}: {trials} calls in {:.0?}, and closed in {:.0?}",
        lane.name,
        took,
        begun.elapsed() - took
    );
    (trials, failures.len())
}

/// Closes the world and compares what is left of it.
async fn judge(
    world: &World,
    backs: &[Back],
    acts: Vec<(Act, Vec<Played>)>,
    ignored: Vec<String>,
    seed: u64,
    tally: &Tally,
) -> Vec<Failure> {
    play::until_bank_is_quiet(world).await;
    let mut ledger = ledger::close(world).await;
    play::until_bank_is_quiet(world).await;
    ledger.retain(|entry| !ignored.contains(&entry.key));
    let books = Books::read(&world.path("books")).unwrap();
    let said = server::said(&world.path("said")).unwrap_or_default();
    let records = Records { books: &books, said: &said, ledger: &ledger };
    let played: Vec<Played> = acts.iter().flat_map(|(_, played)| played.clone()).collect();
    let mut failures: Vec<Failure> = Vec::new();
    for (key, wrong) in check::check(&played, &records, tally) {
        let act = acts.iter().find(|(act, _)| act.trials.iter().any(|trial| trial.key == key));
        let mut known: Vec<String> =
            ledger.iter().filter(|entry| entry.key == key).map(|entry| format!("{entry:?}")).collect();
        known.push(format!("{:?}", books.account(&key)));
        known.extend(said.iter().filter(|said| said.key == key).map(|said| format!("{said:?}")));
        known.extend(
            played
                .iter()
                .filter(|played| played.trial.key == key)
                .flat_map(|played| played.heard.iter().map(|heard| format!("{heard:?}"))),
        );
        failures.push(Failure {
            seed,
            backs: backs.to_vec(),
            act: act.map_or(Act { trials: Vec::new(), blow: None }, |(act, _)| act.clone()),
            wrong: wrong.into_iter().map(|words| format!("{key}: {words}")).collect(),
            known,
        });
    }
    if !failures.is_empty() {
        let log = world.path("log");
        let kept = folder().join(format!("{seed}-{}.log", backs[0].name()));
        if fs::copy(log, &kept).is_ok() {
            println!("faults: what the gateway said is in {}", kept.display());
        }
    }
    failures
}

/// Where failed acts are kept.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn save(failure: &Failure) -> PathBuf {
    let name = failure.wrong[0].split(':').next().unwrap_or_default().to_owned();
    let file = folder().join(format!("{}-{name}.json", failure.seed));
    fs::write(&file, serde_json::to_string_pretty(failure).unwrap()).unwrap();
    file
}

async fn replay(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let failure: Failure = serde_json::from_str(&text).unwrap();
    let world = World::set(&failure.backs).await;
    let tally = Tally::default();
    let played = play::act(&world, &failure.act, &tally).await;
    for (what, times) in tally.happened() {
        println!("{times:>6}  {what}");
    }
    let acts = vec![(failure.act.clone(), played)];
    let failures = judge(&world, &failure.backs, acts, Vec::new(), failure.seed, &tally).await;
    for failure in &failures {
        println!("FAILED: {}\n  {}", failure.wrong.join("; "), failure.known.join("\n  "));
    }
    println!("faults: {}", if failures.is_empty() { "it went well this time" } else { "it failed again" });
    failures.is_empty()
}

fn report(tally: &Tally, trials: usize, begun: Instant) {
    for (what, times) in tally.happened() {
        println!("{times:>6}  {what}");
    }
    for (place, bytes) in tally.bytes() {
        let places = bytes.iter().filter(|after| **after != usize::MAX).count();
        println!("{places:>6}  bytes cut at: {place}");
    }
    let faults = tally.faults();
    println!(
        "faults: {faults} faults in {trials} calls, {:.0?}; if none failed, the rate of failures is below {:.5} (3/n, at 95 %)",
        begun.elapsed(),
        3.0 / f64::from(u32::try_from(faults.max(1)).unwrap())
    );
}
