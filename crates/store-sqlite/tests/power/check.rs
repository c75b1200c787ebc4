//! Whether a store that comes back keeps what was promised.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use taskgate_power::Recording;
use taskgate_store::conformance::sample::{self, somebody};
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::record::Record;
use taskgate_store::{Created, Join, Store, law};
use taskgate_store_sqlite::SqliteStore;

use crate::diary::{Diary, Found, Known, Position, Span};
use crate::whole::look_whole;

/// Opens the store in `path` and compares it with what `diary` promised when the power went at `at`.
///
/// # Errors
/// The first promise that was broken, in words.
pub(crate) async fn check(path: &Path, diary: &Diary, at: Position) -> Result<Found, String> {
    // Nothing more is lost here, so nothing need be synced.
    let _unsynced = Recording::start(path.parent().unwrap(), Duration::ZERO);
    let store = SqliteStore::open(path).map_err(|error| format!("it does not open: {error}"))?;
    let found = look(&store, diary, at).await;
    store.close().await;
    let found = found?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let database = Connection::open_with_flags(path, flags).map_err(|error| error.to_string())?;
    look_whole(&database)?;
    evidence(&database, diary, at)?;
    Ok(found)
}

/// As [`check`], in a store that is open.
pub(crate) async fn look(store: &SqliteStore, diary: &Diary, at: Position) -> Result<Found, String> {
    if diary.opened.is_some_and(|opened| opened <= at) && store.secret() != diary.secret {
        return Err("the store has another secret".into());
    }
    let mut found = Found::default();
    let (mut purged, mut retired) = (0, 0);
    for (id, known) in &diary.tasks {
        let record = store.load(&somebody(), &sample::id(id)).await;
        let record = record.map_err(|error| format!("{id} cannot be read: {error}"))?;
        let operation = &known.versions[0].1.operation_id;
        let entry = store.operation(operation).await;
        let entry = entry.map_err(|error| format!("{operation:?} cannot be read: {error}"))?;
        let history = store.history(operation).await.map_err(|error| error.to_string())?;
        if history.len() as u64 != entry.as_ref().map_or(0, |entry| entry.version) {
            return Err(format!("{id} has {} events: {entry:?} (INV-04)", history.len()));
        }
        let was_there = known.promised(at) > 0;
        match (record, entry) {
            (Some(record), entry) => {
                is_one_of(id, known, &record, at)?;
                if entry != Some(LedgerEntry::of(&record)) {
                    return Err(format!("{id} and its operation are not one: {entry:?}"));
                }
                found.tasks.insert(id.clone(), record);
            }
            (None, None) if !was_there => {}
            (None, Some(entry)) => {
                is_left(id, known, &entry, diary, at)?;
                purged += usize::from(was_there && !known.is_gone);
                found.alone.insert(id.clone(), entry);
            }
            (None, None) => {
                let was_retired = diary.retirements.iter().any(|(span, _)| span.may_be(at));
                if !(was_retired && known.may_be_retired(at)) {
                    return Err(format!("{id} was acknowledged and is gone (INV-01, R4.8)"));
                }
                purged += usize::from(!known.is_gone);
                retired += 1;
            }
        }
    }
    let promised = |counts: &[(Span, usize)]| -> usize {
        counts.iter().filter(|(span, _)| span.is_promised(at)).map(|(_, count)| count).sum()
    };
    for (what, gone, counts) in
        [("tasks were purged", purged, &diary.purges), ("operations retired", retired, &diary.retirements)]
    {
        if gone < promised(counts) {
            return Err(format!("{} {what} and {gone} are gone", promised(counts)));
        }
    }
    for (key, values) in &diary.sessions {
        let session = store.session(key).await.map_err(|error| error.to_string())?;
        let first = values.iter().rposition(|(span, _)| span.is_promised(at));
        let possible = values.iter().skip(first.unwrap_or(0)).filter(|(span, _)| span.may_be(at));
        let none = (first.is_none()).then_some(&None);
        if !possible.map(|(_, value)| value).chain(none).any(|value| *value == session) {
            return Err(format!("session {key} is not as it was acknowledged: {session:?}"));
        }
        if let Some(session) = session {
            found.sessions.insert(key.clone(), session);
        }
    }
    again(store, diary, at).await?;
    Ok(found)
}

/// The record is one that was written, to the byte, and none older than what was promised.
fn is_one_of(id: &str, known: &Known, record: &Record, at: Position) -> Result<(), String> {
    if known.is_gone || known.alone.iter().any(|(span, _)| span.is_promised(at)) {
        return Err(format!("{id} was purged and is back"));
    }
    let Some((span, asked)) = known.versions.get(record.version as usize - 1) else {
        return Err(format!("{id} is at version {} that nobody wrote", record.version));
    };
    if !span.may_be(at) {
        return Err(format!("{id} is at version {} that was not written yet", record.version));
    }
    let plain = Record { fetched: None, ..record.clone() };
    if plain != *asked {
        return Err(format!("{id} is not what was written as version {} (INV-03)", record.version));
    }
    is_new_enough(id, known, record.version, at)?;
    match (&known.fetched, record.fetched) {
        (Some((_, at)), Some(found)) if found == *at => Ok(()),
        (Some((span, _)), None) if !span.is_promised(at) => Ok(()),
        (None, None) => Ok(()),
        (expected, found) => Err(format!("{id} was fetched {expected:?} and says {found:?}")),
    }
}

fn is_new_enough(id: &str, known: &Known, version: u64, at: Position) -> Result<(), String> {
    let promised = known.promised(at);
    if version >= promised as u64 {
        return Ok(());
    }
    Err(format!("{id} is at version {version}, and {promised} was acknowledged (INV-01)"))
}

/// What is left of a task that may have been purged is its operation, as it was or as it was settled since (INV-30).
fn is_left(id: &str, known: &Known, entry: &LedgerEntry, diary: &Diary, at: Position) -> Result<(), String> {
    let was_purged = known.is_gone || diary.purges.iter().any(|(span, _)| span.may_be(at));
    if !(was_purged && known.may_be_purged(at)) {
        return Err(format!("{id} was acknowledged and is gone (INV-01, INV-30)"));
    }
    if !known.may_be_left(at).iter().any(|(_, left)| left == entry) {
        return Err(format!("of {id} something is left that nobody wrote: {entry:?}"));
    }
    is_new_enough(id, known, entry.version, at)
}

/// A call that comes again after the restart is the one that was acknowledged: by its frame, and by its key (INV-16).
async fn again(store: &SqliteStore, diary: &Diary, at: Position) -> Result<(), String> {
    for (id, known) in &diary.tasks {
        let (span, first) = &known.versions[0];
        let entry = store.operation(&first.operation_id).await.map_err(|error| error.to_string())?;
        // What was not done gives its key free, and evidence that goes takes it along.
        let has_key = entry.is_some_and(|entry| !law::gives_key_free(&entry));
        if !span.is_promised(at) || first.call.key.is_none() || !has_key {
            continue;
        }
        for by_key in [false, true] {
            let mut again = first.clone();
            again.id = sample::id(&format!("later-{id}"));
            again.operation_id.0 += "-later";
            if by_key {
                again.call.frame = None;
            } else {
                again.call.key = None;
            }
            let created = store.create(Arc::new(again), Join::SameKey).await;
            match created.map_err(|error| error.to_string())? {
                Created::Joined(joined) if joined.id == first.id => {}
                Created::Known(known) if known.task == first.id => {}
                other @ (Created::New | Created::Joined(_) | Created::Known(_)) => {
                    return Err(format!("{id} was called again and is {other:?} (INV-16)"));
                }
            }
        }
    }
    Ok(())
}

/// What was acknowledged has its operation and its events, also if the task was purged since (INV-30); and where the
/// evidence went, it went whole.
fn evidence(database: &Connection, diary: &Diary, at: Position) -> Result<(), String> {
    let sql = "SELECT (SELECT count(*) FROM operation WHERE task_id = ?1),
        (SELECT count(*) FROM task_event WHERE task_id = ?1)";
    let mut statement = database.prepare(sql).map_err(|error| error.to_string())?;
    for (id, known) in &diary.tasks {
        let promised = known.promised(at) as i64;
        let (operations, events): (i64, i64) = statement
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(|error| error.to_string())?;
        let is_retired = (operations, events) == (0, 0) && known.may_be_retired(at);
        if promised > 0 && !is_retired && (operations != 1 || events < promised) {
            return Err(format!("{id} has {operations} operations and {events} events of {promised}"));
        }
    }
    Ok(())
}
