//! The fault campaign: the real gateway between real clients, servers and a bank, all processes of their own, while lines
//! are cut at every byte and processes are killed and stopped at every step. At the end two records that know nothing of
//! each other are compared: the bank's books, and the ledger.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `FAULTS_TRIALS` | how many faults (2,000) |
//! | `FAULTS_SEED` | which of them, and in which order |
//! | `FAULTS_REPLAY` | play the act of this file, which a failed campaign wrote, and nothing else |
//! | `FAULTS_EVERY_BYTE` | cut at every byte of every message there is, whatever the number of faults is |
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
mod edge;
mod forwarded;
mod ledger;
mod owed;
mod person;
mod places;
mod plan;
mod play;
mod policy;
#[allow(dead_code, reason = "that test waits in its own way too")]
#[path = "../kill/process.rs"]
mod process;
mod sight;
mod tally;
mod user;
mod world;

use std::collections::{BTreeMap, BTreeSet};
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
use crate::ledger::Entry;
use crate::person::Person;
use crate::places::Planned;
use crate::plan::{Keys, Lane, Plays};
use crate::play::{Came, Played};
use crate::tally::Tally;
use crate::world::World;

const KEPT: &str = "a_kept_failure_fails_again_from_its_file";
const NAME: &str = "no_effect_is_made_twice_and_both_records_agree";
/// How many there must be if nobody says.
const FAULTS: usize = 2_000;
/// How often an act is played, each time with new keys, until what was to go wrong in it does.
const ROUNDS: usize = 5;

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
        for name in [forwarded::NAME, KEPT, NAME] {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let filters: Vec<_> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let is_wanted =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let passed = runtime.block_on(async {
        if let Ok(file) = env::var("FAULTS_REPLAY")
            && !file.is_empty()
        {
            return replay(Path::new(&file)).await;
        }
        if is_wanted(forwarded::NAME) {
            forwarded::test().await;
        }
        let failed_again = !is_wanted(KEPT) || kept().await;
        (!is_wanted(NAME) || campaign().await) && failed_again
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().filter(|text| !text.is_empty()).map(|text| text.parse().unwrap())
}

async fn campaign() -> bool {
    let seed = number("FAULTS_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    let faults = number("FAULTS_TRIALS").map_or(FAULTS, |number| usize::try_from(number).unwrap());

    let every_byte = env::var("FAULTS_EVERY_BYTE").is_ok_and(|value| !value.is_empty());
    let only = env::var("FAULTS_LANE").unwrap_or_default();
    let more = if every_byte { " --every-byte" } else { "" };
    println!("faults: seed {seed}; the same again: cargo xtask faults --trials {faults} --seed {seed}{more}");
    sight::test();
    let begun = Instant::now();
    let tally = Arc::new(Tally::default());
    let mut running = Vec::new();
    // Some do not meet what they are for.
    for (number, lane) in plan::lanes(faults * 11 / 10).into_iter().enumerate() {
        if lane.name.starts_with(&only) {
            let dice = Dice::new(seed.wrapping_add(number as u64));
            running.push(tokio::spawn(run(lane, dice, seed, every_byte, tally.clone())));
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
        for (name, times) in owed::owed(&tally) {
            if times == 0 {
                println!("FAILED: never happened: {name}");
                passed = false;
            }
        }
        if tally.faults() < faults as u64 {
            println!("FAILED: {} faults are fewer than {faults}", tally.faults());
            passed = false;
        }
        let (kills, again) = tally.kills();
        if again * 3 < kills {
            println!("FAILED: of {kills} kills of the gateway only {again} were in a recovery");
            passed = false;
        }
    }
    passed
}

async fn run(lane: Lane, mut dice: Dice, seed: u64, every_byte: bool, tally: Arc<Tally>) -> (usize, usize) {
    let begun = Instant::now();
    let world = World::set(&lane.backs).await;
    let mut keys = Keys::new(&lane.name);
    let Planned { acts, measured, lengths } = lane.acts(&world, &mut keys, &mut dice, every_byte).await;
    tally.measured(lengths);
    let mut played: Vec<(Act, Vec<Played>)> = Vec::new();
    let mut next = acts;
    for _ in 0..ROUNDS {
        let mut unmet = Vec::new();
        let (world, tally) = (&world, &*tally);
        let mut playing = futures_util::stream::iter(next)
            .map(|act| async move {
                let came = play::act(world, &act, tally).await;
                (act, came)
            })
            .buffer_unordered(lane.width);
        while let Some((act, came)) = playing.next().await {
            if !came.is_met {
                unmet.push(act.renewed(&mut keys));
            }
            played.push((act, came.played));
        }
        next = unmet;
    }
    let trials = played.iter().map(|(_, played)| played.len()).sum();
    let ignored = measured.iter().flat_map(|act| &act.trials).map(ledger::digest).collect();
    let took = begun.elapsed();
    let judging = Judging {
        world: &world,
        backs: &lane.backs,
        ignored,
        seed,
        commands: match lane.plays {
            Plays::Breaks => (lane.share / 20).max(40),
            Plays::Blows => (lane.share / 5).max(24),
            Plays::Line | Plays::Openings => 6,
        },
        is_struck: lane.plays == Plays::Blows,
        tally: &tally,
    };
    let failures = judging.judge(played).await;
    for failure in &failures {
        println!("FAILED: {}", failure.wrong.join("; "));
        println!("  again: cargo xtask faults --replay {}", save(failure).display());
    }
    println!(
        "faults: {}: {trials} calls in {:.0?}, and a person's part and the comparison in {:.0?}",
        lane.name,
        took,
        begun.elapsed() - took
    );
    (trials, failures.len())
}

/// What is needed for comparing the records of a world.
struct Judging<'a> {
    world: &'a World,
    backs: &'a [Back],
    /// Digests of calls that were made for measuring.
    ignored: BTreeSet<String>,
    seed: u64,
    /// How many operations a person deals with.
    commands: usize,
    is_struck: bool,
    tally: &'a Tally,
}

impl Judging<'_> {
    /// Has a person do what is a person's, reads the ledger as a user does, closes the world, reads it again, and compares.
    async fn judge(self, acts: Vec<(Act, Vec<Played>)>) -> Vec<Failure> {
        let Judging { world, seed, tally, .. } = self;
        let mut played: Vec<Played> = acts.iter().flat_map(|(_, played)| played.clone()).collect();
        play::until_bank_is_quiet(world).await;
        user::until_rest(world).await;
        let trials = played.iter().map(|one| (ledger::digest(&one.trial), one.trial.clone())).collect();
        let person = Person { world, seed, tally, is_struck: self.is_struck, trials };
        let decided = person.decide(self.commands).await;
        for trial in &decided.undone {
            let again = play::again(world, trial).await;
            if let Some(one) = played.iter_mut().find(|one| one.trial.key == trial.key) {
                one.again = again;
            }
        }
        play::until_bank_is_quiet(world).await;
        let mut shown = user::until_rest(world).await;
        let mut listed: Vec<Entry> = user::waiting(world).await.into_iter().map(|(entry, _)| entry).collect();
        let mut wrong = decided.wrong;
        for id in decided.touched.iter().take(12) {
            let one = user::show(world, id).await;
            if !shown.contains(&one) {
                wrong.push((
                    one.0.digest.clone(),
                    format!("`ops export` leaves out what `op show` has: {one:?}"),
                ));
            }
        }
        let (mut stored, unfinished) = ledger::close(world).await;
        let counts = |entry: &Entry| !self.ignored.contains(&entry.digest);
        shown.retain(|(entry, _)| counts(entry));
        listed.retain(counts);
        stored.retain(counts);
        wrong.extend(check::agree(&shown, &listed, &stored));
        wrong.extend(unfinished.into_iter().filter_map(|id| {
            let entry = stored.iter().find(|entry| entry.operation_id == id)?;
            Some((entry.digest.clone(), format!("{id} is left {} for ever", entry.stands)))
        }));
        let books = Books::read(&world.path("books")).unwrap();
        let said = server::said(&world.path("said")).unwrap_or_default();
        let exported: Vec<Entry> = shown.into_iter().map(|(entry, _)| entry).collect();
        let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (digest, words) in wrong {
            let one = played.iter().find(|one| ledger::digest(&one.trial) == digest);
            by_key.entry(one.map_or(digest, |one| one.trial.key.clone())).or_default().push(words);
        }
        for (source, ledger) in check::SOURCES.into_iter().zip([&exported, &stored]) {
            let records = Records { source, books: &books, said: &said, ledger };
            for (key, words) in check::check(&played, &records, tally) {
                by_key.entry(key).or_default().extend(words);
            }
        }
        let failures: Vec<Failure> = by_key
            .into_iter()
            .map(|(key, words)| {
                let act = acts.iter().find(|(act, _)| act.trials.iter().any(|trial| trial.key == key));
                let mut known = vec![format!("{:?}", books.account(&key))];
                known.extend(said.iter().filter(|said| said.key == key).map(|said| format!("{said:?}")));
                for one in played.iter().filter(|one| one.trial.key == key) {
                    let digest = ledger::digest(&one.trial);
                    let entries = stored.iter().filter(|entry| entry.digest == digest);
                    known.extend(entries.map(|entry| format!("{entry:?}")));
                    known.extend(one.heard.iter().chain(&one.again).map(|heard| format!("{heard:?}")));
                }
                Failure {
                    seed,
                    backs: self.backs.to_vec(),
                    act: act.map_or(Act { trials: Vec::new(), blow: None, opening: false }, |(act, _)| {
                        act.clone()
                    }),
                    wrong: words.into_iter().map(|words| format!("{key}: {words}")).collect(),
                    known,
                }
            })
            .collect();
        if !failures.is_empty() {
            let kept = folder().join(format!("{seed}-{}.log", self.backs[0].name()));
            if fs::copy(world.path("log"), &kept).is_ok() {
                println!("faults: what the gateway said is in {}", kept.display());
            }
        }
        failures
    }
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
    let (tally, failures) = play_again(file).await;
    for (what, times) in tally.happened() {
        println!("{times:>6}  {what}");
    }
    for failure in &failures {
        println!("FAILED: {}\n  {}", failure.wrong.join("; "), failure.known.join("\n  "));
    }
    println!("faults: {}", if failures.is_empty() { "it went well this time" } else { "it failed again" });
    failures.is_empty()
}

/// Plays the act of a file in a world of its own.
async fn play_again(file: &Path) -> (Tally, Vec<Failure>) {
    let failure = read(file);
    let world = World::set(&failure.backs).await;
    let tally = Tally::default();
    let Came { played, is_met: _ } = play::act(&world, &failure.act, &tally).await;
    let judging = Judging {
        world: &world,
        backs: &failure.backs,
        ignored: BTreeSet::new(),
        seed: failure.seed,
        commands: 100,
        is_struck: failure.act.blow.is_some(),
        tally: &tally,
    };
    let failures = judging.judge(vec![(failure.act.clone(), played)]).await;
    (tally, failures)
}

fn read(file: &Path) -> Failure {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap()
}

/// A kept act in which it is the bank that pays twice: the whole campaign must see it, and a file must play it again.
async fn kept() -> bool {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/kept/twice.json");
    let (_, failures) = play_again(&file).await;
    let seen: Vec<_> = failures.into_iter().flat_map(|failure| failure.wrong).collect();
    let wanted = read(&file).wrong;
    if seen != wanted {
        println!("FAILED: of {} {wanted:?} was to be seen, and that was {seen:?}", file.display());
    }
    seen == wanted
}

fn report(tally: &Tally, trials: usize, begun: Instant) {
    for (what, times) in tally.happened() {
        println!("{times:>6}  {what}");
    }
    println!("{}", owed::blows(tally));
    let (mut cut, mut length) = (0, 0);
    for (place, bytes) in tally.bytes() {
        println!("{:>6} of {:>5} bytes cut at: {place}", bytes.cut.len(), bytes.length);
        cut += bytes.cut.len();
        length += bytes.length;
    }
    println!("{cut:>6} of {length:>5} bytes cut at, of all messages");
    let faults = tally.faults();
    println!(
        "faults: {faults} faults in {trials} calls, {:.0?}; if none failed, the rate of failures is below {:.5} (3/n, at 95 %)",
        begun.elapsed(),
        3.0 / f64::from(u32::try_from(faults.max(1)).unwrap())
    );
}
