//! What it costs to let old evidence go where most of it must stay. Counted are the steps of SQLite's machine.

use rusqlite::{Connection, StatementStatus};
use taskgate_core::id::OperationId;
use taskgate_core::time::UnixMillis;

use super::*;
use crate::command::keys::{DELETE as FORGET, FIND_KEY};
use crate::migrate;
use crate::row::ledger::{LEDGER_ONE, NEXT_PRINCIPAL, RETIRABLE};
use crate::row::{self, Retirable};

const PAGE: usize = 64;

const READ: [&str; 2] = [RETIRABLE, NEXT_PRINCIPAL];
const WRITTEN: [&str; 6] = [LEDGER_ONE, FIND_KEY, FORGET, DELETE[0], DELETE[1], DELETE[2]];

/// Adds so many operations whose ids begin so, and that have no task any more.
fn add(database: &Connection, count: u32, begin: &str, stands: &str) {
    let numbered = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)";
    let operations = format!(
        "{numbered} INSERT INTO operation (principal, operation_id, task_id, server, tool, digest, created_ms, updated_ms,
            effect, replay, attempts, first_dispatched_ms, dispatched_ms, stage, outcome, doubt, inquiry, inquiry_since_ms,
            inquiry_why)
        SELECT 'me', ?2 || printf('%06d', n), 't-' || ?2 || printf('%06d', n), 's', 't', zeroblob(32), 0, 0, 2, 0, 1, 0, 0,
            {stands} FROM numbers"
    );
    database.execute(&operations, (count, begin)).unwrap();
    let events = format!(
        "{numbered} INSERT INTO task_event (principal, task_id, version, kind, at_ms, body)
        SELECT 'me', 't-' || ?2 || printf('%06d', n), 1, 0, 0, '' FROM numbers"
    );
    database.execute(&events, (count, begin)).unwrap();
}

fn steps(database: &Connection, statements: &[&str]) -> i32 {
    let steps = |sql: &&str| database.prepare_cached(sql).unwrap().reset_status(StatementStatus::VmStep);
    statements.iter().map(steps).sum()
}

/// Lets go what may; the most steps for one look, all steps of the writer, and the pages that were looked at.
fn retire_all(waiting: u32) -> (i32, i32, u32) {
    let mut database = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut database, "here").unwrap();
    add(&database, waiting, "op-a", "4, NULL, 0, 2, 0, 0");
    add(&database, 10, "op-b", "3, 1, NULL, 0, NULL, NULL");
    let (before, below) = (UnixMillis(1_000), OperationId("op-c".into()));
    let (mut after, mut looked, mut written, mut pages) = (None, 0, 0, 0);
    steps(&database, &READ);
    steps(&database, &WRITTEN);
    loop {
        let Retirable { named, next } =
            row::retirable(&database, before, &below, after.as_ref(), PAGE).unwrap();
        looked = looked.max(steps(&database, &READ));
        if !named.is_empty() {
            let count = named.len();
            assert_eq!(Retire { before, named }.run(&database).unwrap(), count);
        }
        written += steps(&database, &WRITTEN);
        pages += 1;
        after = next;
        if after.is_none() {
            break;
        }
    }
    let left: u32 = database.query_row("SELECT count(*) FROM operation", [], |row| row.get(0)).unwrap();
    assert_eq!(left, waiting);
    (looked, written, pages)
}

#[test]
fn r4_8_evidence_that_must_stay_costs_the_writer_nothing_and_a_reader_a_page_at_a_time() {
    let few = retire_all(128);
    let many = retire_all(5_120);
    assert!(few.1 > 0 && few.0 > 0);
    assert_eq!((few.0, few.1), (many.0, many.1), "the most for a page, and all of the writer");
    assert_eq!((few.2, many.2), (3, 81));
}

#[test]
fn r4_8_what_was_looked_into_meanwhile_is_kept() {
    let mut database = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut database, "here").unwrap();
    add(&database, 3, "op-b", "3, 1, NULL, 0, NULL, NULL");
    let before = UnixMillis(1_000);
    let page = row::retirable(&database, before, &OperationId("op-c".into()), None, PAGE).unwrap();
    assert_eq!((page.named.len(), page.next), (3, None));
    // A person is asked about the second one, and something is learned of the third.
    let asked = "UPDATE operation SET inquiry = 2, inquiry_since_ms = 5, inquiry_why = 3 WHERE operation_id = 'op-b000002'";
    database.execute(asked, []).unwrap();
    let learned = "INSERT INTO task_event (principal, task_id, version, kind, at_ms, body)
        VALUES ('me', 't-op-b000003', 2, 0, 1000, '')";
    database.execute(learned, []).unwrap();
    assert_eq!(Retire { before, named: page.named }.run(&database).unwrap(), 1);
    let left: String =
        database.query_row("SELECT group_concat(operation_id) FROM operation", [], |row| row.get(0)).unwrap();
    assert_eq!(left, "op-b000002,op-b000003");
}
