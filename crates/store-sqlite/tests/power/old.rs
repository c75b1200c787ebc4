//! The power goes while a file of an older schema is brought up to date (INV-46).
//!
//! `old/` has files as the taskgate of then left them, dumped: tasks in every state and at every stage, with questions,
//! keys, frames, attempts and logs, some of them purged. Schema 1 was never left alone; its file is that of schema 2
//! without what the second step adds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use sha2::{Digest, Sha256};
use taskgate_core::id::{OperationId, Principal};
use taskgate_power::{Disk, Image, Loss, Random, Recording, Step};
use taskgate_store::codec::columns::OperationColumns;
use taskgate_store::conformance::sample;
use taskgate_store::ledger::{LedgerEntry, Which};
use taskgate_store::record::Key;
use taskgate_store::{Created, Join, Store, law};
use taskgate_store_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::whole::look_whole;
use crate::{FILE, crash, places, wait};

/// So many rows more of each kind make a step larger than SQLite's memory: it writes to the log before it commits.
const MANY: usize = 120;

/// Steps behind the newest file that is kept, which take that one further. They add no columns.
const LATER: [(i64, &str, &str); 3] = [
    (5, "untold", include_str!("../../migrations/0005_untold.sql")),
    (6, "open", include_str!("../../migrations/0006_open.sql")),
    (7, "workflows", include_str!("../../migrations/0007_workflows.sql")),
];

/// The rows of each table, by the columns that it had.
type Tables = BTreeMap<String, (Vec<String>, BTreeSet<String>)>;

/// A file of an older schema.
struct Old {
    schema: i64,
    is_unclean: bool,
    tables: Tables,
    disk: Disk,
}

/// What was tried.
#[derive(Debug, Default)]
struct Tally {
    crashes: usize,
    kills: usize,
    twice: usize,
    /// By the schema that the file had when it was opened again.
    by_schema: BTreeMap<i64, usize>,
    unsettled: usize,
    /// A step was so large that it was in the log before its commit.
    spilled: usize,
    operations: usize,
}

/// Makes the file of `schema` in `folder`, with `copies` of each row beside. If it `is_unclean`, its process was killed: all of it
/// is in the log still.
fn make(folder: &Path, schema: i64, copies: usize, is_unclean: bool) -> Old {
    let database = Connection::open(folder.join(FILE)).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    let dump = match schema {
        1 | 2 => include_str!("old/schema-2.sql"),
        3 => include_str!("old/schema-3.sql"),
        _ => include_str!("old/schema-4.sql"),
    };
    database.execute_batch(&format!("BEGIN; {dump} COMMIT;")).unwrap();
    if schema == 1 {
        let undo = "DROP TABLE session; DELETE FROM migration WHERE number = 2; PRAGMA user_version = 1;";
        database.execute_batch(undo).unwrap();
    }
    for (number, name, sql) in LATER.iter().filter(|(number, _, _)| *number <= schema) {
        database.execute_batch(sql).unwrap();
        let checksum = Sha256::digest(sql).to_vec();
        database.execute("INSERT INTO migration VALUES (?1, ?2, ?3)", (number, name, checksum)).unwrap();
        database.pragma_update(None, "user_version", number).unwrap();
    }
    multiply(&database, copies);
    look_at(&database, schema);
    let tables = tables(&database);
    let disk = if is_unclean {
        Disk::of(folder).unwrap()
    } else {
        drop(database);
        Disk::of(folder).unwrap()
    };
    Old { schema, is_unclean, tables, disk }
}

/// What a test of old files stands on.
fn look_at(database: &Connection, schema: i64) {
    let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, schema);
    let number = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    for (what, sql) in [
        ("unfinished", "SELECT count(*) FROM task WHERE phase = 0"),
        ("doubtful", "SELECT count(*) FROM task WHERE phase = 1"),
        (
            "purged",
            "SELECT count(*) FROM operation o WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.operation_id = o.operation_id)",
        ),
        ("keys", "SELECT count(*) FROM idempotency"),
        ("questions", "SELECT count(*) FROM input_request WHERE phase < 2"),
        ("attempts", "SELECT count(*) FROM op_attempt WHERE attempt > 1"),
        ("logs", "SELECT count(*) FROM task_event WHERE version > 3"),
    ] {
        assert!(number(sql) > 0, "{what}");
    }
}

/// As many rows more under other names.
fn multiply(database: &Connection, copies: usize) {
    database
        .execute_batch(&format!(
            "CREATE TEMP TABLE numbers AS WITH RECURSIVE n(n) AS
                (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {copies}) SELECT n FROM n WHERE n <= {copies};"
        ))
        .unwrap();
    for (table, columns) in [
        ("operation", &["task_id", "operation_id"][..]),
        ("task_event", &["task_id"]),
        ("op_attempt", &["operation_id"]),
        ("task", &["task_id", "operation_id"]),
        ("payload", &["task_id"]),
        ("input_request", &["task_id"]),
    ] {
        let values: Vec<_> = names(database, table)
            .into_iter()
            .map(|name| match &*name {
                // Keys and frames are unique, and stay the first's.
                "frame" | "idempotency_key" | "key_scope" => "NULL".to_owned(),
                "key" if table == "operation" => "NULL".to_owned(),
                "takes_same_call" => "takes_same_call & 1".to_owned(),
                _ if columns.contains(&&*name) => format!("{name} || '-' || n"),
                _ => name,
            })
            .collect();
        let sql = format!("INSERT INTO {table} SELECT {} FROM {table}, numbers", values.join(", "));
        database.execute_batch(&sql).unwrap();
    }
}

fn names(database: &Connection, table: &str) -> Vec<String> {
    let mut statement = database.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
    statement.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn texts(database: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    database.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

fn tables(database: &Connection) -> Tables {
    let tables = texts(database, "SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let with_rows = |table: String| {
        let mut columns = names(database, &table);
        // They say by the rules of today what they said by older ones; that they do is for `look_whole`.
        columns.retain(|column| column != "takes_same_call" && column != "fetched_ms");
        let rows = rows(database, &table, &columns).unwrap();
        (table, (columns, rows))
    };
    tables.into_iter().map(with_rows).collect()
}

fn rows(database: &Connection, table: &str, columns: &[String]) -> rusqlite::Result<BTreeSet<String>> {
    let quoted: Vec<_> = columns.iter().map(|column| format!("quote({column})")).collect();
    let sql = format!("SELECT concat_ws(' ', {}) FROM {table}", quoted.join(", "));
    Ok(texts(database, &sql)?.into_iter().collect())
}

#[derive(PartialEq, Eq, Debug)]
struct Schema {
    version: i64,
    lines: Vec<String>,
}

fn schema(database: &Connection) -> rusqlite::Result<Schema> {
    let mut lines = texts(database, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY sql")?;
    lines.extend(texts(
        database,
        "SELECT concat(number, name, hex(checksum)) FROM migration ORDER BY number",
    )?);
    Ok(Schema { version: database.pragma_query_value(None, "user_version", |row| row.get(0))?, lines })
}

/// As a new file has it.
fn newest() -> Schema {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(FILE);
    drop(SqliteStore::open(&path).unwrap());
    schema(&Connection::open(path).unwrap()).unwrap()
}

/// Opens the file in `path` with the store of today, and finds there all that `old` had.
async fn check(path: &Path, old: &Old, newest: &Schema, tally: &mut Tally) -> Result<(), String> {
    let _unsynced = Recording::start(path.parent().unwrap(), Duration::ZERO);
    let store = SqliteStore::open(path).map_err(|error| format!("it does not open: {error}"))?;
    let asked = ask(&store, path, tally).await;
    store.close().await;
    asked?;
    drop(store);
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let database = database.map_err(|error| error.to_string())?;
    look_whole(&database)?;
    if schema(&database).map_err(|error| error.to_string())? != *newest {
        return Err("its schema is not that of a new file (INV-46)".into());
    }
    for (table, (columns, old_rows)) in &old.tables {
        let found = rows(&database, table, columns).map_err(|error| format!("{table}: {error}"))?;
        // Steps that were taken are noted there.
        let is_same = if table == "migration" { found.is_superset(old_rows) } else { found == *old_rows };
        if !is_same {
            let (lost, new) = (old_rows.difference(&found).next(), found.difference(old_rows).next());
            return Err(format!("{table} is not as it was: without {lost:?}, with {new:?}"));
        }
    }
    Ok(())
}

/// The store says of each operation what its row says, and of each task what its operation says; and what comes again is
/// known.
async fn ask(store: &SqliteStore, path: &Path, tally: &mut Tally) -> Result<(), String> {
    let said = |error: taskgate_store::Error| error.to_string();
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut statement = database
        .prepare(
            "SELECT o.operation_id, o.principal, o.task_id, i.key,
                concat_ws(' ', o.stage, o.attempts, o.outcome, o.doubt, o.inquiry),
                (SELECT count(*) FROM task_event e WHERE e.principal = o.principal AND e.task_id = o.task_id)
            FROM operation o LEFT JOIN idempotency i USING (principal, operation_id)
            WHERE length(o.operation_id) < 20 OR o.operation_id LIKE '%-7'",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let id = OperationId(row.get(0).unwrap());
        let principal = Principal::stored(row.get(1).unwrap());
        let task = sample::id(&row.get::<_, String>(2).unwrap());
        let entry = store.operation(&id).await.map_err(said)?.ok_or_else(|| format!("{id:?} is gone"))?;
        let OperationColumns { stage, attempts, outcome, doubt, inquiry, .. } =
            OperationColumns::of(&entry.operation);
        let numbers = [Some(stage), Some(attempts), outcome, doubt, Some(inquiry)];
        let numbers: Vec<_> = numbers.into_iter().flatten().map(|number| number.to_string()).collect();
        if numbers.join(" ") != row.get::<_, String>(4).unwrap() {
            return Err(format!("{id:?} is not as it was: {entry:?}"));
        }
        let events: i64 = row.get(5).unwrap();
        let history = store.history(&id).await.map_err(said)?;
        if (history.len() as i64, entry.version as i64) != (events, events) {
            return Err(format!("{id:?} has {} events of {events}", history.len()));
        }
        let record = store.load(&principal, &task).await.map_err(said)?;
        let is_one = match &record {
            Some(record) => entry == LedgerEntry::of(record),
            None => entry.kept.is_none(),
        };
        if !is_one {
            return Err(format!("{id:?} and its task are not one: {entry:?}, {record:?}"));
        }
        if let Some(key) = row.get::<_, Option<String>>(3).unwrap() {
            again(store, &entry, key, record.is_some()).await?;
        }
        tally.operations += 1;
    }
    let listed = store.operations(Which::Unknown, None, usize::MAX).await.map_err(said)?.len();
    let unknown: i64 =
        database.query_row("SELECT count(*) FROM operation WHERE stage = 4", [], |row| row.get(0)).unwrap();
    if listed as i64 == unknown {
        Ok(())
    } else {
        Err(format!("{listed} are listed as unknown of {unknown}"))
    }
}

/// A call under the same key is the same call (INV-16), as long as anything may have been done.
async fn again(store: &SqliteStore, entry: &LedgerEntry, key: String, is_kept: bool) -> Result<(), String> {
    if law::gives_key_free(entry) {
        return Ok(());
    }
    let mut again = sample::record(&format!("again-{}", entry.id.0));
    again.principal = entry.principal.clone();
    again.call.key = Some(Key::of_caller(key));
    again.call.digest = entry.digest;
    again.call.intent = entry.intent.clone();
    let created = store.create(Arc::new(again), Join::SameKey).await.map_err(|error| error.to_string())?;
    match created {
        Created::Joined(joined) if joined.id == entry.task && is_kept => Ok(()),
        Created::Known(known) if known.task == entry.task && !is_kept => Ok(()),
        Created::Joined(_) | Created::Known(_) | Created::New => {
            Err(format!("{:?} was called again under its key and is {created:?} (INV-16)", entry.id))
        }
    }
}

/// Brings the file in `folder` up to date; what was done to it.
fn migrate(folder: &Path, sync: Duration) -> Result<Vec<Step>, String> {
    let recording = Recording::start(folder, sync);
    let store = SqliteStore::open(&folder.join(FILE)).map_err(|error| error.to_string())?;
    drop(store);
    Ok(recording.steps())
}

/// Puts the image there, and looks which schema it has.
fn put(image: &Image, folder: &Path, random: &mut Random, tally: &mut Tally) {
    let copy = folder.with_file_name("copy");
    image.write(&copy).unwrap();
    let database = Connection::open(copy.join(FILE)).unwrap();
    let schema = database.pragma_query_value(None, "user_version", |row| row.get(0));
    *tally.by_schema.entry(schema.unwrap_or(-1)).or_default() += 1;
    crash(image, folder, random);
}

/// All crashes of one file.
fn run(old: &Old, newest: &Schema, seed: u64, lies: bool, tally: &mut Tally) -> Result<(), String> {
    let mut random = Random::new(seed);
    let (live, crashed) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (live, folder) = (live.path().join("live"), crashed.path().join("disk"));
    old.disk.visible().write(&live).unwrap();
    let sync = Duration::from_micros(100);
    let steps = if lies {
        let recording = Recording::start_lying(&live, sync);
        drop(SqliteStore::open(&live.join(FILE)).map_err(|error| error.to_string())?);
        recording.steps()
    } else {
        migrate(&live, sync)?
    };
    let is_large = longest(&steps) > 500;
    tally.spilled += usize::from(is_large);
    // Of the five losses.
    let share = if is_large {
        1
    } else if old.is_unclean {
        2
    } else {
        4
    };
    let mut disk = old.disk.clone();
    let mut taken = 0;
    let spots: Vec<_> = if lies {
        (0..steps.len()).step_by(steps.len().div_ceil(20)).collect()
    } else {
        places(&steps, &mut random)
    };
    for (index, at) in spots.into_iter().enumerate() {
        for step in &steps[taken..at] {
            disk.take(step);
        }
        taken = at;
        for loss in Loss::EACH {
            if random.below(5) >= share {
                continue;
            }
            let said =
                |error| format!("schema {}, {loss:?} at step {at} of {}: {error}", old.schema, steps.len());
            put(&disk.lose(loss, &mut random), &folder, &mut random, tally);
            tally.crashes += 1;
            tally.unsettled += usize::from(!disk.is_settled());
            if random.one_in(3) {
                twice(&folder, loss, &mut random, tally).map_err(said)?;
            }
            wait(check(&folder.join(FILE), old, newest, tally)).map_err(said)?;
        }
        if is_large {
            continue;
        }
        // The process is killed, and the next one has what was written.
        let said = |error| format!("schema {}, killed at step {at} of {}: {error}", old.schema, steps.len());
        put(&disk.visible(), &folder, &mut random, tally);
        tally.kills += 1;
        if index % 2 == 1 {
            twice(&folder, Loss::Scattered, &mut random, tally).map_err(said)?;
        }
        wait(check(&folder.join(FILE), old, newest, tally)).map_err(said)?;
    }
    Ok(())
}

/// The next start goes on with the steps, and the power goes again.
fn twice(folder: &Path, loss: Loss, random: &mut Random, tally: &mut Tally) -> Result<(), String> {
    let mut disk = Disk::of(folder).unwrap();
    let steps = migrate(folder, Duration::ZERO)?;
    for step in &steps[..random.below(steps.len() + 1)] {
        disk.take(step);
    }
    tally.crashes += 1;
    tally.twice += 1;
    tally.unsettled += usize::from(!disk.is_settled());
    put(&disk.lose(loss, random), folder, random, tally);
    Ok(())
}

/// The most writes between two syncs.
fn longest(steps: &[Step]) -> usize {
    steps.split(|step| matches!(step, Step::Sync { .. })).map(<[Step]>::len).max().unwrap_or(0)
}

#[test]
fn h11_inv_46_a_file_of_any_older_schema_survives_a_loss_of_power_at_any_sync_of_its_migration() {
    let (newest, mut tally) = (newest(), Tally::default());
    let began = tokio::time::Instant::now();
    let small = (1..newest.version).flat_map(|schema| [(schema, 0, false), (schema, 0, true)]);
    for (schema, copies, is_unclean) in small.chain([(2, MANY, false)]) {
        let folder = TempDir::new().unwrap();
        let old = make(folder.path(), schema, copies, is_unclean);
        run(&old, &newest, schema as u64, false, &mut tally)
            .unwrap_or_else(|error| panic!("{copies} copies, unclean {is_unclean}: {error}\n{tally:#?}"));
    }
    println!("{tally:#?}\n{:?}", began.elapsed());
    for count in [
        tally.crashes / 200,
        tally.kills / 30,
        tally.twice / 50,
        tally.unsettled / 50,
        tally.spilled,
        tally.operations / 5_000,
    ] {
        assert!(count > 0, "something was hardly tried: {tally:#?}");
    }
    for schema in 1..=newest.version {
        assert!(tally.by_schema.contains_key(&schema), "no file was found at schema {schema}: {tally:#?}");
    }
}

/// The test above can fail.
#[test]
fn h11_inv_46_a_disk_that_ignores_syncs_loses_a_file_in_its_migration() {
    let folder = TempDir::new().unwrap();
    let old = make(folder.path(), 2, 0, false);
    let broken = run(&old, &newest(), 0, true, &mut Tally::default());
    assert!(broken.is_err(), "nothing was lost");
}
