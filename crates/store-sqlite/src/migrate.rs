//! From an empty file to the present schema, in numbered steps.
//!
//! A step is one transaction together with the line that says it was taken, so a crash leaves the schema before
//! it or after it (INV-46). Columns are added only where they are missing, so a step may run twice. Steps are never edited once released: their checksums would not fit any more.

use rusqlite::{Connection, TransactionBehavior};
use sha2::{Digest, Sha256};
use taskgate_store::Error;

use crate::fault::error_for;

/// Marks our files, so that another program's database is left alone: `tgat`.
pub(crate) const APPLICATION_ID: i32 = 0x7467_6174;

const DOING: &str = "bring the schema up to date";

struct Step {
    number: i64,
    name: &'static str,
    /// Added before `sql` runs.
    columns: &'static [Column],
    sql: &'static str,
}

/// A column that a step adds to a table of an earlier one.
struct Column {
    table: &'static str,
    name: &'static str,
    is: &'static str,
}

const STEPS: &[Step] = &[
    Step { number: 1, name: "tasks", columns: &[], sql: include_str!("../migrations/0001_tasks.sql") },
    Step { number: 2, name: "sessions", columns: &[], sql: include_str!("../migrations/0002_sessions.sql") },
    Step {
        number: 3,
        name: "frames",
        columns: &[
            Column { table: "operation", name: "frame", is: "BLOB CHECK (length(frame) = 24)" },
            Column {
                table: "task",
                name: "fetched_ms",
                is: "INTEGER CHECK (fetched_ms IS NULL OR state = 2)",
            },
            Column {
                table: "task",
                name: "takes_same_call",
                is: "INTEGER NOT NULL DEFAULT 0 CHECK (takes_same_call BETWEEN 0 AND 3 AND (
        takes_same_call & 2 = 0 OR (coalesce(ending IN (1, 2), 0) AND fetched_ms IS NULL)))",
            },
        ],
        sql: include_str!("../migrations/0003_frames.sql"),
    },
    Step {
        number: 4,
        name: "ledger",
        // Without their checks: the table that they end up in is made by the step itself.
        columns: &[
            Column { table: "operation", name: "workflow", is: "TEXT" },
            Column { table: "operation", name: "object", is: "TEXT" },
            Column { table: "operation", name: "object_version", is: "TEXT" },
            Column { table: "operation", name: "object_conflict", is: "INTEGER" },
            Column { table: "operation", name: "effect_text", is: "TEXT" },
            Column { table: "operation", name: "key", is: "TEXT" },
            Column { table: "operation", name: "key_scope", is: "INTEGER" },
            Column { table: "operation", name: "receipt", is: "TEXT" },
            Column { table: "operation", name: "cleared", is: "INTEGER NOT NULL DEFAULT 0" },
            Column { table: "operation", name: "closed_ms", is: "INTEGER" },
            Column { table: "operation", name: "inquiry", is: "INTEGER NOT NULL DEFAULT 0" },
            Column { table: "operation", name: "inquiry_since_ms", is: "INTEGER" },
            Column { table: "operation", name: "inquiry_tries", is: "INTEGER" },
            Column { table: "operation", name: "inquiry_next_ms", is: "INTEGER" },
            Column { table: "operation", name: "inquiry_last", is: "INTEGER" },
            Column { table: "operation", name: "inquiry_why", is: "INTEGER" },
            // Of a business key, which counts for all: whose it is. `NULL` where `principal` says it.
            Column { table: "idempotency", name: "owner", is: "TEXT" },
        ],
        sql: include_str!("../migrations/0004_ledger.sql"),
    },
    Step { number: 5, name: "untold", columns: &[], sql: include_str!("../migrations/0005_untold.sql") },
    Step { number: 6, name: "open", columns: &[], sql: include_str!("../migrations/0006_open.sql") },
    Step {
        number: 7,
        name: "workflows",
        columns: &[],
        sql: include_str!("../migrations/0007_workflows.sql"),
    },
    Step { number: 8, name: "payloads", columns: &[], sql: include_str!("../migrations/0008_payloads.sql") },
];

const STEPS_TABLE: &str = "CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum BLOB NOT NULL CHECK (length(checksum) = 32)
) STRICT;";

/// Refuses what is not ours or too new, before anything is written.
pub(crate) fn check(database: &Connection, place: &str) -> Result<(), Error> {
    let said = |error| error_for(place, "read the schema version", &error);
    let number = |pragma| database.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(said);
    let application = number("application_id")?;
    let found = number("user_version")?;
    let tables: i64 =
        database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(said)?;
    let is_new = application == 0 && found == 0 && tables == 0;
    if !is_new && application != i64::from(APPLICATION_ID) {
        let reason = "it is the database of another program; give taskgate another file".into();
        return Err(Error::Open { place: place.to_owned(), reason });
    }
    let known = STEPS.iter().map(|step| step.number).max().unwrap_or(0);
    if found > known {
        return Err(Error::Newer { place: place.to_owned(), found, known });
    }
    Ok(())
}

/// Takes every step that was not taken, and makes sure that those taken were ours.
pub(crate) fn migrate(database: &mut Connection, place: &str) -> Result<(), Error> {
    run(database, place, STEPS)
}

fn run(database: &mut Connection, place: &str, steps: &[Step]) -> Result<(), Error> {
    let said = |error| error_for(place, DOING, &error);
    for step in steps {
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(said)?;
        let taken: i64 =
            transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(said)?;
        if taken < step.number {
            take(&transaction, step).map_err(said)?;
            transaction.commit().map_err(said)?;
            tracing::info!(number = step.number, name = step.name, "schema step taken");
        } else {
            was_ours(&transaction, place, step)?;
        }
    }
    Ok(())
}

fn take(transaction: &Connection, step: &Step) -> rusqlite::Result<()> {
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.execute_batch(STEPS_TABLE)?;
    apply(transaction, step)?;
    transaction.execute(
        "INSERT INTO migration (number, name, checksum) VALUES (?1, ?2, ?3)",
        (step.number, step.name, checksum(step)),
    )?;
    transaction.pragma_update(None, "user_version", step.number)
}

fn apply(database: &Connection, step: &Step) -> rusqlite::Result<()> {
    for Column { table, name, is } in step.columns {
        let is_there: bool = database.query_row(
            "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2)",
            (table, name),
            |row| row.get(0),
        )?;
        if !is_there {
            database.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {name} {is}"))?;
        }
    }
    database.execute_batch(step.sql)
}

fn was_ours(transaction: &Connection, place: &str, step: &Step) -> Result<(), Error> {
    let kept: Vec<u8> = transaction
        .query_row("SELECT checksum FROM migration WHERE number = ?1", [step.number], |row| row.get(0))
        .map_err(|error| error_for(place, DOING, &error))?;
    if kept == checksum(step) {
        return Ok(());
    }
    let reason = format!(
        "schema step {} is not the one that this taskgate knows; use the taskgate that made the file",
        step.number
    );
    Err(Error::Open { place: place.to_owned(), reason })
}

fn checksum(step: &Step) -> Vec<u8> {
    let mut digest = Sha256::new();
    for Column { table, name, is } in step.columns {
        digest.update(format!("{table}.{name} {is}\n"));
    }
    digest.update(step.sql);
    digest.finalize().to_vec()
}

#[cfg(test)]
mod tests;
