//! Logs that turn by size, readable for their owner alone.
//!
//! Written by hand: the crates that do this panic when somebody moved a file away, or know no size. A log that cannot
//! be written, on a full disk for instance, loses lines; it never stops the keeper.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use taskgate_core::time::UnixMillis;
use taskgate_wire::time;

use crate::place::Place;

/// Size of one file of the keeper's log, and how many older ones are kept.
pub const KEEPER: Turn = Turn { bytes_max: 2 << 20, kept: 5 };
/// The same for each server's.
pub const SERVER: Turn = Turn { bytes_max: 1 << 20, kept: 3 };

/// Lines that may wait for the disk; above it they are dropped.
const WAITING_MAX: usize = 4_096;

/// How long the last lines may take.
const FINISH: Duration = Duration::from_secs(1);

/// Servers whose files stay open.
const OPEN_MAX: usize = 32;

/// When a log turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// A file that has reached this size gets no more lines.
    pub bytes_max: u64,
    /// How many of those are kept, as `NAME.1` (the newest) and so on.
    pub kept: u32,
}

/// A log that turns.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    turn: Turn,
    file: Option<File>,
    bytes: u64,
}

impl Log {
    /// The log at `path`; nothing is opened yet.
    #[must_use]
    pub fn new(path: PathBuf, turn: Turn) -> Log {
        Log { path, turn, file: None, bytes: 0 }
    }

    fn open(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            self.bytes = file.metadata()?.len();
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn turn(&mut self) {
        self.file = None;
        // Whatever of this fails, lines go on into the file that is there.
        for number in (1..self.turn.kept).rev() {
            let _ = fs::rename(older(&self.path, number), older(&self.path, number + 1));
        }
        let _ = fs::rename(&self.path, older(&self.path, 1));
    }
}

impl Write for Log {
    /// Takes all of `line` in every case: what cannot be written is lost.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.bytes >= self.turn.bytes_max {
            self.turn();
        }
        let written = self.open().and_then(|file| file.write_all(line));
        match written {
            Ok(()) => self.bytes += line.len() as u64,
            // The file may be gone, or the disk full: it is opened anew for the next line.
            Err(_) => self.file = None,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file of a log that turned `number` times since.
#[must_use]
pub fn older(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// The logs of all servers, written by a thread of their own: whoever has a line never waits for the disk.
#[derive(Clone, Debug)]
pub struct ServerLogs(SyncSender<Order>);

#[derive(Debug)]
enum Order {
    /// A line of a server's.
    Line(String, String),
    /// Say when everything before is written.
    Tell(SyncSender<()>),
}

impl ServerLogs {
    /// Those of a place.
    ///
    /// # Errors
    /// The system's: no thread.
    pub fn begin(place: &Place) -> io::Result<ServerLogs> {
        let (sender, lines) = sync_channel(WAITING_MAX);
        let place = place.clone();
        thread::Builder::new().name("server logs".into()).spawn(move || write_all(&place, &lines))?;
        Ok(ServerLogs(sender))
    }

    /// Adds a line to the log of `server`.
    pub fn line(&self, server: &str, at: UnixMillis, line: &str) {
        // A server that prints faster than the disk takes loses lines of its log.
        let _ = self.0.try_send(Order::Line(server.to_owned(), format!("{} {line}\n", time::write(at))));
    }

    /// Waits a moment until everything is written. It blocks.
    pub fn finish(&self) {
        let (written, told) = sync_channel(1);
        if self.0.try_send(Order::Tell(written)).is_ok() {
            let _ = told.recv_timeout(FINISH);
        }
    }
}

fn write_all(place: &Place, orders: &Receiver<Order>) {
    let mut logs: HashMap<String, Log> = HashMap::new();
    for order in orders {
        let (server, line) = match order {
            Order::Line(server, line) => (server, line),
            Order::Tell(written) => {
                // Whoever asked may have given up.
                let _ = written.try_send(());
                continue;
            }
        };
        if logs.len() >= OPEN_MAX && !logs.contains_key(&server) {
            logs.clear();
        }
        let log = logs.entry(server).or_insert_with_key(|server| Log::new(place.server_log(server), SERVER));
        let _ = log.write(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_log_turns_by_size_and_keeps_so_many() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        let mut log = Log::new(path.clone(), Turn { bytes_max: 10, kept: 2 });
        for number in 0..8 {
            log.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        assert_eq!(read(&path), "line 6\nline 7\n");
        assert_eq!(read(&older(&path, 1)), "line 4\nline 5\n");
        assert_eq!(read(&older(&path, 2)), "line 2\nline 3\n");
        assert!(!older(&path, 3).exists());
        for made in [path.clone(), older(&path, 1)] {
            assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_loses_lines_and_takes_them_again_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone/x.log");
        let mut log = Log::new(path.clone(), SERVER);
        log.write_all(b"lost\n").unwrap();
        fs::create_dir(folder.path().join("gone")).unwrap();
        log.write_all(b"kept\n").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "kept\n");
    }
}
