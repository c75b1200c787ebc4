//! H11: the power goes, at any sync of the real store, and what was acknowledged is there.
//!
//! Clients use every command of the store at once while `taskgate_power` records what reaches the disk. Then the power
//! is lost after the first sync, the second, and so on: from the recording, a disk is made that it may leave, the
//! store is opened on it, and compared with what its clients had been told. Each third time it is lost again, while
//! the store recovers or just after; and sometimes the process was killed first and the next one had looked already.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod check;
mod diary;
mod load;
mod old;
#[path = "../it/whole.rs"]
#[expect(dead_code, reason = "shared with the tests beside")]
mod whole;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_power::{Disk, Image, Loss, Random, Recording, Step};
use taskgate_store::Store;
use taskgate_store_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::diary::{Diary, Position};
use crate::load::{Player, Size};

const FILE: &str = "taskgate.db";

/// Few commands, so that each of its syncs is tried; and enough for the log to be moved into the file.
const SMALL: Size = Size { clients: 6, tasks: 10, bytes_max: 300 };
const LARGE: Size = Size { clients: 8, tasks: 16, bytes_max: 250_000 };

/// What was tried.
#[derive(Debug, Default)]
struct Tally {
    crashes: usize,
    by_loss: BTreeMap<Loss, usize>,
    /// The power went while something was unsynced.
    unsettled: usize,
    sectors_arrived: usize,
    sectors_lost: usize,
    in_recovery: usize,
    after_kill: usize,
    before_open: usize,
    promises: usize,
    /// The log went into the file while clients were at work, and began anew.
    checkpoints: usize,
    restarts: usize,
    purged: usize,
    spared: usize,
    settled: usize,
    retired: usize,
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(future)
}

/// Opens the store in `folder` and lets clients play; what they were told.
fn record(
    folder: &Path,
    recording: Recording,
    known: Diary,
    size: Size,
    seed: u64,
    name: &str,
) -> (Vec<Step>, Diary) {
    wait(async {
        let store = SqliteStore::open(&folder.join(FILE)).unwrap();
        let mut diary = known;
        diary.opened = Some(recording.position());
        diary.secret = store.secret();
        let player = Arc::new(Player { store, recording, diary: Mutex::new(diary) });
        player.play(size, seed, name).await;
        player.store.close().await;
        let Ok(player) = Arc::try_unwrap(player) else { panic!("all clients are done") };
        let Player { store, recording, diary } = player;
        drop(store);
        (recording.steps(), diary.into_inner())
    })
}

/// Places where the power may go: one after each sync and before the next.
fn places(steps: &[Step], random: &mut Random) -> Vec<Position> {
    let mut ends: Vec<_> =
        (1..=steps.len()).filter(|end| matches!(steps[end - 1], Step::Sync { .. })).collect();
    ends.insert(0, 0);
    let next = ends.iter().skip(1).map(|end| end - 1).chain([steps.len()]).collect::<Vec<_>>();
    ends.iter().zip(next).map(|(from, to)| from + random.below(to - from + 1)).collect()
}

fn crash(image: &Image, folder: &Path, random: &mut Random) {
    image.write(folder).unwrap();
    // Whatever was in memory is rubbish now.
    let rubbish: Vec<u8> = (0..32_768).map(|_| random.any() as u8).collect();
    std::fs::write(folder.join(format!("{FILE}-shm")), rubbish).unwrap();
}

/// One run with all its crashes. `Err` says which promise was broken, and where.
fn run(seed: u64, size: Size, crashes: usize, lies: bool, tally: &mut Tally) -> Result<(), String> {
    let mut random = Random::new(seed);
    let live = TempDir::new().unwrap();
    let crashed = TempDir::new().unwrap();
    let folder = crashed.path().join("disk");
    let sync = Duration::from_micros(300);
    let mut disk = Disk::of(live.path()).unwrap();
    let recording =
        if lies { Recording::start_lying(live.path(), sync) } else { Recording::start(live.path(), sync) };
    let (steps, diary) = record(live.path(), recording, Diary::default(), size, seed, "");
    tally.promises += diary.tasks.values().map(|known| known.versions.len()).sum::<usize>();
    tally.purged += diary.purges.iter().map(|(_, count)| count).sum::<usize>();
    tally.spared += diary.spared;
    tally.settled += diary.tasks.values().map(|known| known.alone.len()).sum::<usize>();
    tally.retired += diary.retirements.iter().map(|(_, count)| count).sum::<usize>();
    let of_file = |step: &&Step| matches!(step, Step::Sync { name } if **name == *FILE);
    // It is synced at its making and at the end, too.
    tally.checkpoints += steps.iter().filter(of_file).count().saturating_sub(2);
    let begins = |step: &&Step| matches!(step, Step::Write { name, offset: 0, .. } if name.ends_with("-wal"));
    tally.restarts += steps.iter().filter(begins).count().saturating_sub(1);

    let mut places = places(&steps, &mut random);
    if lies {
        // It has no syncs to count.
        places = (0..crashes).map(|_| random.below(steps.len() + 1)).collect();
        places.sort_unstable();
    }
    let apart = places.len().div_ceil(crashes).max(1);
    let mut taken = 0;
    for (index, at) in places.into_iter().step_by(apart).enumerate() {
        for step in &steps[taken..at] {
            disk.take(step);
        }
        taken = at;
        let loss = Loss::EACH[random.below(Loss::EACH.len())];
        let said = |error: String| {
            let kept = keep(&folder, seed, at);
            format!(
                "seed {seed}, {loss:?} at step {at} of {}: {error}; the disk is kept in {}",
                steps.len(),
                kept.display()
            )
        };
        if index % 6 == 5 {
            killed_and_lost(&disk, &diary, at, &folder, loss, &mut random, tally).map_err(said)?;
            continue;
        }
        let image = disk.lose(loss, &mut random);
        tally.crashes += 1;
        *tally.by_loss.entry(loss).or_default() += 1;
        tally.unsettled += usize::from(!disk.is_settled());
        tally.sectors_arrived += image.arrived;
        tally.sectors_lost += image.lost;
        tally.before_open += usize::from(diary.opened.is_none_or(|opened| opened > at));
        crash(&image, &folder, &mut random);
        if index % 3 == 2 {
            lost_twice(&diary, at, &folder, loss, &mut random, tally).map_err(said)?;
        } else {
            wait(check::check(&folder.join(FILE), &diary, at)).map_err(said)?;
        }
    }
    Ok(())
}

/// The store recovers from one loss, and the power goes again meanwhile or soon after.
fn lost_twice(
    diary: &Diary,
    at: Position,
    folder: &Path,
    loss: Loss,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut disk = Disk::of(folder).unwrap();
    // What there is must be right before it can be carried over; to look takes a copy.
    let copy = folder.with_file_name("copy");
    disk.visible().write(&copy).unwrap();
    let found = wait(check::check(&copy.join(FILE), diary, at))?;
    let recording = Recording::start(folder, Duration::from_micros(100));
    let size = Size { clients: 2, tasks: 3, bytes_max: 2_000 };
    let (steps, later) =
        record(folder, recording, diary.carried_over(at, &found), size, random.any(), "second-");
    let at = random.below(steps.len() + 1);
    for step in &steps[..at] {
        disk.take(step);
    }
    tally.crashes += 1;
    tally.in_recovery += 1;
    tally.unsettled += usize::from(!disk.is_settled());
    crash(&disk.lose(loss, random), folder, random);
    wait(check::check(&folder.join(FILE), &later, at))
        .map(drop)
        .map_err(|error| format!("the second time, {error}"))
}

/// The process is killed, and the next one reads what the system still has; clients see that. Then the power goes.
fn killed_and_lost(
    before: &Disk,
    diary: &Diary,
    at: Position,
    folder: &Path,
    loss: Loss,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    // Most of what matters here is the moment before the first sync, when all may be lost.
    let loss = if random.one_in(2) { Loss::All } else { loss };
    before.visible().write(folder).unwrap();
    let recording = Recording::start(folder, Duration::ZERO);
    let (found, later) = wait(async {
        let store = SqliteStore::open(&folder.join(FILE)).map_err(|error| error.to_string())?;
        let found = check::look(&store, diary, at).await?;
        let seen = recording.position();
        let mut later = diary.carried_over(at, &found);
        later.opened = Some(seen);
        later.secret = store.secret();
        store.close().await;
        Ok::<_, String>((seen, later))
    })?;
    let steps = recording.steps();
    let end = if loss == Loss::All { found } else { found + random.below(steps.len() - found + 1) };
    let mut disk = before.clone();
    for step in &steps[..end] {
        disk.take(step);
    }
    tally.crashes += 1;
    tally.after_kill += 1;
    tally.unsettled += usize::from(!disk.is_settled());
    crash(&disk.lose(loss, random), folder, random);
    wait(check::check(&folder.join(FILE), &later, end))
        .map(drop)
        .map_err(|error| format!("what clients saw after a kill is lost with the power: {error}"))
}

/// Puts a disk that breaks a promise where it stays.
fn keep(folder: &Path, seed: u64, at: Position) -> PathBuf {
    let kept = std::env::temp_dir().join(format!("taskgate-power-{seed}-{at}"));
    Disk::of(folder).and_then(|disk| disk.visible().write(&kept)).unwrap();
    kept
}

/// What the person at the terminal chose.
#[expect(clippy::disallowed_methods, reason = "a test has no other way to be told")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn h11_inv_01_inv_04_whatever_was_acknowledged_survives_a_loss_of_power_at_any_sync() {
    let mut tally = Tally::default();
    let began = tokio::time::Instant::now();
    let only = number("TASKGATE_SEED");
    let crashes_min = number("TASKGATE_CRASHES").unwrap_or(500) as usize;
    for seed in only.unwrap_or(0).. {
        if tally.crashes >= crashes_min || only.is_some_and(|only| seed > only) {
            break;
        }
        let (size, crashes) = if seed % 5 == 4 { (LARGE, 25) } else { (SMALL, 80) };
        if let Err(broken) = run(seed, size, crashes, false, &mut tally) {
            panic!("{broken}\n{tally:#?}");
        }
    }
    println!("{tally:#?}\n{:?}", began.elapsed());
    if only.is_some() {
        return;
    }
    for loss in Loss::EACH {
        assert!(tally.by_loss.get(&loss).is_some_and(|count| *count > 40), "{tally:#?}");
    }
    for count in [
        tally.unsettled / 100,
        tally.sectors_arrived / 100,
        tally.sectors_lost / 100,
        tally.in_recovery / 50,
        tally.after_kill / 20,
        tally.before_open,
        tally.promises / 500,
        tally.checkpoints,
        tally.restarts,
        tally.purged / 50,
        tally.spared / 20,
        tally.settled / 20,
        tally.retired / 20,
    ] {
        assert!(count > 0, "something was hardly tried: {tally:#?}");
    }
}

/// A process that was killed between a commit and its sync leaves what the next one reads, tells of, and could lose.
#[test]
fn h11_inv_05_what_is_read_after_a_kill_is_not_lost_with_the_power() {
    let live = TempDir::new().unwrap();
    let crashed = TempDir::new().unwrap();
    let mut disk = Disk::of(live.path()).unwrap();
    let recording = Recording::start(live.path(), Duration::from_micros(300));
    let size = Size { clients: 2, tasks: 8, bytes_max: 300 };
    let (steps, diary) = record(live.path(), recording, Diary::default(), size, 1, "");
    let (mut random, mut tally) = (Random::new(1), Tally::default());
    for (at, step) in steps.iter().enumerate() {
        let is_commit = matches!(step, Step::Sync { name } if name.ends_with("-wal"));
        if is_commit && diary.opened.is_some_and(|opened| opened < at) {
            let folder = crashed.path().join("disk");
            killed_and_lost(&disk, &diary, at, &folder, Loss::All, &mut random, &mut tally)
                .unwrap_or_else(|error| panic!("step {at}: {error}"));
        }
        disk.take(step);
    }
    assert!(tally.unsettled == 0 && tally.after_kill > 10, "{tally:#?}");
}

/// The first test can fail.
#[test]
fn h11_a_disk_that_ignores_syncs_breaks_the_promise() {
    let mut tally = Tally::default();
    let broken = run(0, SMALL, 60, true, &mut tally);
    assert!(broken.is_err(), "nothing was lost: {tally:#?}");
}
