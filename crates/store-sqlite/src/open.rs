//! From a path to a checked database that nobody else has open.

mod files;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use taskgate_seeded::Bug;
use taskgate_store::Error;

use crate::fault::error_for;
use crate::{Options, migrate};
pub(crate) use files::Lock;

/// Older ones can lose commits with two connections in WAL mode (notes 0.7).
const SQLITE_OLDEST: i32 = 3_051_003;

/// How long to wait for another program that looks into the file. Ours never wait for each other.
const BUSY: Duration = Duration::from_secs(5);

/// Files up to here are checked at every start, which takes up to a tenth of a second.
const ALWAYS_CHECKED_BYTES: u64 = 32 << 20;

/// Files up to here are checked after an unclean end: 200,000 finished tasks, and a start within the second.
const CHECKED_AFTER_CRASH_BYTES: u64 = 256 << 20;

const PAGE_BYTES: u64 = 4096;

/// The log is never cut below this in service, since a file that grows costs up to twice the time (notes 2.11).
/// What one huge payload made of it is given back.
const LOG_KEPT_BYTES: i64 = 64 << 20;

pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) place: String,
    pub(crate) secret: [u8; 32],
    pub(crate) database: Connection,
    pub(crate) lock: Lock,
}

pub(crate) fn open(path: &Path, options: Options) -> Result<Opened, Error> {
    let place = path.display().to_string();
    if rusqlite::version_number() < SQLITE_OLDEST {
        let reason = format!("SQLite {} can lose commits; build with 3.51.3 or newer", rusqlite::version());
        return Err(Error::Open { place, reason });
    }
    let path = files::prepare(path, &place)?;
    let lock = Lock::take(&path, &place)?;
    files::make_private(&path, &place)?;
    if !files::has_content(&path) {
        files::make_names_durable(&path, &place)?;
    }
    let ended_uncleanly = files::has_content(&files::beside(&path, "-wal"));
    let said = |error: rusqlite::Error| error_for(&place, "open the database", &error);

    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(&path, flags).map_err(said)?;
    database.busy_timeout(BUSY).map_err(said)?;
    migrate::check(&database, &place)?;
    if database.is_readonly("main").map_err(said)? {
        return Err(Error::ReadOnly { place });
    }
    set_up(&database, options, &place)?;
    check(&database, &path, ended_uncleanly, &place)?;
    if ended_uncleanly && !taskgate_seeded::is(Bug::ReadsUnsynced) {
        settle(&database, &place)?;
    }
    migrate::migrate(&mut database, &place)?;
    let secret = database.query_row("SELECT secret FROM meta", [], |row| row.get(0)).map_err(said)?;
    Ok(Opened { path, place, secret, database, lock })
}

fn set_up(database: &Connection, options: Options, place: &str) -> Result<(), Error> {
    let said = |error: rusqlite::Error| error_for(place, "set the database up", &error);
    let mode: String =
        database.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(said)?;
    if mode != "wal" {
        let reason = "its file system cannot hold a write-ahead log; use a local disk".into();
        return Err(Error::Open { place: place.to_owned(), reason });
    }
    let full = if taskgate_seeded::is(Bug::SyncNormal) { "normal" } else { "full" };
    database.pragma_update(None, "synchronous", full).map_err(said)?;
    // The writer decides when; see there.
    database.pragma_update(None, "wal_autocheckpoint", 0).map_err(said)?;
    database.pragma_update(None, "journal_size_limit", LOG_KEPT_BYTES).map_err(said)?;
    // Evidence outlives what it speaks of, so no row hangs on another.
    database.pragma_update(None, "foreign_keys", false).map_err(said)?;
    database.pragma_update(None, "trusted_schema", false).map_err(said)?;
    if let Some(bytes) = options.bytes_max {
        let pages = i64::try_from(bytes / PAGE_BYTES).unwrap_or(i64::MAX).max(1);
        database.pragma_update(None, "max_page_count", pages).map_err(said)?;
    }
    database.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Looks for damage as far as time allows. Beyond that, SQLite itself reports a bad page when it meets one.
fn check(database: &Connection, path: &Path, ended_uncleanly: bool, place: &str) -> Result<(), Error> {
    let bytes = files::size(path);
    let bytes_max = if ended_uncleanly { CHECKED_AFTER_CRASH_BYTES } else { ALWAYS_CHECKED_BYTES };
    if bytes > bytes_max {
        tracing::info!(bytes, "the file is too large to be checked at the start");
        return Ok(());
    }
    let found: String = database
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| error_for(place, "check the database", &error))?;
    if found == "ok" {
        return Ok(());
    }
    let detail = found.lines().next_back().unwrap_or_default().to_owned();
    Err(Error::Damaged { place: place.to_owned(), detail })
}

/// Makes durable what the process before left in the log. It may have been killed between the write of a commit and
/// its sync: then we read what a loss of power can still take away, and whoever we tell of it would see it go back
/// (INV-05). To move the log into the file syncs the log first. A disk that is full then changes nothing more.
fn settle(database: &Connection, place: &str) -> Result<(), Error> {
    let moved = database.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    match moved.map_err(|error| error_for(place, "make the log durable", &error)) {
        Ok(()) => Ok(()),
        Err(Error::Full { .. }) => {
            tracing::warn!("the log could not be moved into the file, since the disk is full");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
