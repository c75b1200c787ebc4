//! Clients of every kind at once on the same endpoints, before servers of every kind: each message that comes back has
//! the shape of its client's era and dialect, answers what this client asked, and has nobody else's payload in it.
//!
//! Sixteen seconds by default. `cargo xtask load` plays longer and prints the figures; the seed is printed, and
//! `LOAD_SEED` makes the clients choose alike again. `LOAD_GATEWAY` names another binary than the one built beside.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that meets what it does not expect fails; this one takes real time, and is told what to play"
)]

#[path = "../capture/mod.rs"]
#[allow(dead_code, reason = "the matrix uses what is not used here")]
mod capture;
mod plain;
mod player;
mod stage;
mod tasks;
mod wire;

use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use capture::judge::{self, Side};
use player::{Counts, KINDS, Kind, Player};
use stage::{Held, Line, Place, Stage};

/// How many plays a client makes before it goes to the next server.
const PLAYS_PER_PLACE: u64 = 4;

/// What passes is kept in memory, and judged at the end, in a run of at most so many seconds.
const TAPPED_MAX: u64 = 30;

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Plays until time is over, and gives what was counted.
fn play(kind: Kind, number: usize, seed: u64, places: &[Place], stop: &AtomicBool) -> Counts {
    let mut at = number;
    let mut player = Player::new(kind, number, seed, &places[at % places.len()]);
    player.open();
    let mut plays = 0;
    // Its first plays are those that nobody else may get round to.
    while plays < player::PLANNED || !stop.load(Ordering::SeqCst) {
        let place = &places[at % places.len()];
        match kind {
            Kind::A => tasks::a(&mut player, place),
            Kind::B => tasks::b(&mut player, place),
            Kind::Legacy | Kind::Modern => plain::plain(&mut player, place),
        }
        player.renew();
        plays += 1;
        if plays % PLAYS_PER_PLACE == 0 {
            at += 1;
            player.reconnect(&places[at % places.len()]);
        }
    }
    player.counts
}

/// Stops everybody when one has failed.
struct Bell<'s>(&'s AtomicBool);

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn b_025_g_001_old_and_new_clients_side_by_side_on_one_endpoint_never_see_each_others_shapes() {
    let seconds = setting("LOAD_SECONDS", 16);
    let clients = usize::try_from(setting("LOAD_CLIENTS", 16)).unwrap();
    let seed = setting("LOAD_SEED", RandomState::new().hash_one(0));
    eprintln!("{clients} clients of each kind for {seconds} s; LOAD_SEED={seed}");
    let stage = Stage::set(seconds <= TAPPED_MAX);
    let stop = AtomicBool::new(false);
    let before = stage.held();
    let began = Instant::now();
    let counts: Vec<(Kind, Counts)> = thread::scope(|scope| {
        let mut playing = Vec::new();
        for number in 0..clients {
            for (which, kind) in KINDS.into_iter().enumerate() {
                let (places, stop) = (&stage.places, &stop);
                let own = seed.wrapping_add(u64::try_from(number * KINDS.len() + which).unwrap());
                playing.push((
                    kind,
                    scope.spawn(move || {
                        let _bell = Bell(stop);
                        play(kind, number, own, places, stop)
                    }),
                ));
            }
        }
        let until = began + Duration::from_secs(seconds);
        while Instant::now() < until && !stop.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(100));
        }
        stop.store(true, Ordering::SeqCst);
        let ended: Vec<_> = playing.into_iter().map(|(kind, player)| (kind, player.join())).collect();
        let failed = ended.iter().filter(|(_, counts)| counts.is_err()).count();
        assert_eq!(failed, 0, "players failed, LOAD_SEED={seed}:\n{}", stage.log());
        ended.into_iter().map(|(kind, counts)| (kind, counts.unwrap())).collect()
    });
    let took = began.elapsed();
    let after = stage.held();
    figures(&counts, took, before, after);
    covers(&counts);
    captured(&stage);
}

/// Both sides of the gateway, message by message.
fn captured(stage: &Stage) {
    for (line, heard) in stage.heard() {
        let side = if line == Line::Front { Side::Front } else { Side::Back };
        let report = judge::over_http(side, &heard);
        eprintln!("{line:?}: {} messages, {} types", report.checked, report.seen.len());
        assert!(report.checked > 0, "nothing passed at {line:?}");
        // What players do wrong, such as to ask for what their era has not, they do on purpose.
        let is_wrong = |fault: &&judge::Fault| fault.ours || side == Side::Back;
        let wrong: Vec<_> = report.faults.iter().filter(is_wrong).take(5).collect();
        assert!(wrong.is_empty(), "{line:?}: {wrong:#?}");
    }
}

/// Plays that everybody of that kind has.
fn due(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::A => &[
            "a quick call",
            "a task, read until it is over",
            "a task, waited for",
            "a question, yes",
            "a question, no: a tool error",
            "a cancel",
            "a task, after a new connection",
            "errors",
            "a list of tools",
            "a ping",
        ],
        Kind::B => &[
            "a quick call",
            "a task, read until it is over",
            "a task, listened to",
            "a question, yes",
            "a question, no: a tool error",
            "a cancel",
            "a task, after a new connection",
            "errors",
            "a list of tools",
        ],
        Kind::Legacy | Kind::Modern => &[
            "a quick call",
            "a call that is waited for",
            "a question, yes",
            "a question, no: a tool error",
            "a cancel",
            "a handle, after a new connection",
            "errors",
            "a list of tools",
        ],
    }
}

/// Everything that there is to play was played by every kind.
fn covers(counts: &[(Kind, Counts)]) {
    for kind in KINDS {
        for play in due(kind) {
            let times: u64 = counts
                .iter()
                .filter(|(of, _)| *of == kind)
                .filter_map(|(_, counts)| counts.plays.get(play))
                .sum();
            assert!(times > 0, "{kind:?} never played {play:?}");
        }
    }
}

fn figures(counts: &[(Kind, Counts)], took: Duration, before: Held, after: Held) {
    let checked: u64 = counts.iter().map(|(_, counts)| counts.checked).sum();
    let seconds = took.as_secs_f64();
    eprintln!(
        "{checked} messages checked in {seconds:.0} s, {:.0} a second",
        f64::from(u32::try_from(checked).unwrap()) / seconds
    );
    eprintln!(
        "gateway: {} KiB before, {} KiB after; {} descriptors before, {} after",
        before.memory, after.memory, before.descriptors, after.descriptors
    );
    for kind in KINDS {
        let (mut plays, mut messages) = (BTreeMap::new(), BTreeMap::new());
        let mut times: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (_, counts) in counts.iter().filter(|(of, _)| *of == kind) {
            for (play, count) in &counts.plays {
                *plays.entry(*play).or_insert(0) += count;
            }
            for (message, count) in &counts.messages {
                *messages.entry(message.as_str()).or_insert(0) += count;
            }
            for (method, taken) in &counts.times {
                times.entry(method).or_default().extend(taken);
            }
        }
        eprintln!("{kind:?}");
        eprintln!("  plays: {}", listed(&plays));
        eprintln!("  messages: {}", listed(&messages));
        for (method, mut taken) in times {
            taken.sort_unstable();
            let at = |percent: usize| taken[(taken.len() - 1) * percent / 100] / 10;
            let in_ms = |hundredths: u64| format!("{}.{:02} ms", hundredths / 100, hundredths % 100);
            eprintln!("  {method}: {} times, p50 {}, p99 {}", taken.len(), in_ms(at(50)), in_ms(at(99)));
        }
    }
}

fn listed(counts: &BTreeMap<&str, u64>) -> String {
    let words: Vec<String> = counts.iter().map(|(what, count)| format!("{what} {count}")).collect();
    words.join(", ")
}
