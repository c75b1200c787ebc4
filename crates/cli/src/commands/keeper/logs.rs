//! `keeper logs`: reads files, so it works also when no keeper runs.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use taskgate_keeper::logs::{KEEPER, SERVER, Turn, older};
use taskgate_keeper::place::Place;

use crate::exit;
use crate::failure::Failure;
use crate::ui::Ui;

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(super) fn main(
    places: &[Place],
    server: Option<&str>,
    follow: bool,
    lines: usize,
    ui: Ui,
) -> Result<(), Failure> {
    let (path, turn) = find(places, server)?;
    let mut file = tail(&path, turn, lines, ui)?;
    if server.is_none() {
        hint(places, ui);
    }
    if !follow {
        return Ok(());
    }
    loop {
        thread::sleep(LOOK);
        file = more(&path, file, ui)?;
    }
}

/// The log that is meant, in the place where a keeper wrote last.
fn find(places: &[Place], server: Option<&str>) -> Result<(PathBuf, Turn), Failure> {
    // A folder that is not ours alone holds nothing of ours.
    let ours: Vec<&Place> = places.iter().filter(|place| matches!(place.check(), Ok(true))).collect();
    let newest = |paths: Vec<PathBuf>| {
        paths.into_iter().max_by_key(|path| fs::metadata(path).and_then(|found| found.modified()).ok())
    };
    let Some(server) = server else {
        let logs = ours.iter().map(|place| place.log()).filter(|path| path.exists()).collect();
        return newest(logs).map(|path| (path, KEEPER)).ok_or_else(|| {
            Failure::new(exit::FAILED, "no keeper has written a log yet", "`taskgate run` starts it")
        });
    };
    let exact: Vec<PathBuf> =
        ours.iter().map(|place| place.server_log(server)).filter(|path| path.exists()).collect();
    if let Some(path) = newest(exact) {
        return Ok((path, SERVER));
    }
    let all = servers(&ours);
    let begun: Vec<_> = all.iter().filter(|(name, _)| name.starts_with(server)).cloned().collect();
    match begun.as_slice() {
        [(_, path)] => Ok((path.clone(), SERVER)),
        several => {
            let what = if several.is_empty() {
                format!("no server {server:?} has written a log")
            } else {
                format!("several servers begin with {server:?}")
            };
            let names: Vec<_> = all.into_iter().map(|(name, _)| name).collect();
            Err(Failure::new(exit::FAILED, what, format!("these have: {}", names.join(", "))))
        }
    }
}

/// All servers' logs by name, newest place first.
fn servers(places: &[&Place]) -> Vec<(String, PathBuf)> {
    let mut all: Vec<(String, PathBuf)> = Vec::new();
    for place in places {
        let Ok(entries) = fs::read_dir(place.server_logs()) else { continue };
        for entry in entries.flatten() {
            if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_suffix(".log")) {
                all.push((name.to_owned(), entry.path()));
            }
        }
    }
    all.sort();
    all
}

fn hint(places: &[Place], ui: Ui) {
    let ours: Vec<&Place> = places.iter().filter(|place| matches!(place.check(), Ok(true))).collect();
    let names: Vec<_> = servers(&ours).into_iter().map(|(name, _)| name).collect();
    if !names.is_empty() {
        ui.note(&format!(
            "servers with a log of their own (taskgate keeper logs NAME): {}",
            names.join(", ")
        ));
    }
}

/// Shows the last lines, also those in a file that has turned; the file to go on with.
fn tail(path: &Path, turn: Turn, lines: usize, ui: Ui) -> Result<File, Failure> {
    let cannot = |error: &io::Error| {
        let what = format!("could not read {}: {error}", path.display());
        Failure::new(exit::FAILED, what, "make it readable for this user")
    };
    let mut file = File::open(path).map_err(|error| cannot(&error))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    for number in 1..=turn.kept {
        if text.lines().count() >= lines {
            break;
        }
        let Ok(before) = fs::read(older(path, number)) else { break };
        text = String::from_utf8_lossy(&before).into_owned() + &text;
    }
    let skipped = text.lines().count().saturating_sub(lines);
    for line in text.lines().skip(skipped) {
        ui.out(line);
    }
    Ok(file)
}

/// Shows what came since; the file to go on with, which is another once the log has turned.
fn more(path: &Path, mut file: File, ui: Ui) -> Result<File, Failure> {
    let mut bytes = Vec::new();
    // A file that cannot be read just now has nothing new.
    let _ = file.read_to_end(&mut bytes);
    if !bytes.is_empty() {
        ui.raw(&String::from_utf8_lossy(&bytes));
        return Ok(file);
    }
    let (Ok(now), Ok(at)) = (fs::metadata(path), file.stream_position()) else { return Ok(file) };
    if now.len() >= at {
        return Ok(file);
    }
    match File::open(path) {
        Ok(mut turned) => {
            let _ = turned.seek(SeekFrom::Start(0));
            Ok(turned)
        }
        Err(_) => Ok(file),
    }
}
