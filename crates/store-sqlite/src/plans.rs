//! That every statement finds its rows by an index, whatever else is in the file.

use rusqlite::Connection;

use crate::command::{EXPIRED, FETCHED, FIND, FIND_FRAME, FIND_KEY, FIND_SAME_CALL};
use crate::row::ledger;
use crate::{migrate, row};

fn plan(sql: &str) -> Vec<String> {
    let mut database = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut database, "here").unwrap();
    let mut statement = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let rows = statement.raw_query().mapped(|row| row.get(3));
    rows.map(Result::unwrap).collect()
}

#[test]
fn r5_3_finished_tasks_cost_the_others_nothing() {
    let joins = [
        "SEARCH o USING PRIMARY KEY (principal=? AND operation_id=?) LEFT-JOIN",
        "SEARCH p USING INDEX sqlite_autoindex_payload_1 (principal=? AND task_id=? AND part=?) LEFT-JOIN",
        "SEARCH e USING INDEX sqlite_autoindex_payload_1 (principal=? AND task_id=? AND part=?) LEFT-JOIN",
    ];
    for (sql, first) in [
        (row::LOAD, "SEARCH t USING PRIMARY KEY (principal=? AND task_id=?)"),
        (
            row::LIST_SERVER,
            "SEARCH t USING INDEX task_list (principal=? AND server=? AND (created_ms,task_id)<(?,?))",
        ),
        (
            row::LIST_PRINCIPAL,
            "SEARCH t USING INDEX task_list_principal (principal=? AND (created_ms,task_id)<(?,?))",
        ),
        (row::LIST_EVERYONE, "SEARCH t USING INDEX task_list_everyone ((created_ms,task_id)<(?,?))"),
        (row::UNFINISHED, "SEARCH t USING INDEX task_unfinished (task_id>?)"),
    ] {
        let found = plan(sql);
        assert_eq!(found[0], first);
        // Nothing else: no sorting, no scan; and a list knows nothing of what was called with.
        if sql == row::LOAD {
            assert_eq!(found[1..], joins);
        } else {
            assert_eq!(found[1..], [joins[0], joins[2]]);
            assert!(!sql.contains("part = 0"));
        }
    }
    assert_eq!(plan(FIND), ["SEARCH t USING PRIMARY KEY (principal=? AND task_id=?)", joins[0]]);
    assert_eq!(plan(FIND_FRAME), ["SEARCH operation USING INDEX operation_frame (principal=? AND frame=?)"]);
    assert_eq!(plan(FETCHED), ["SEARCH task USING PRIMARY KEY (principal=? AND task_id=?)"]);
    assert_eq!(plan(row::UNFETCHED), ["SEARCH task USING INDEX task_same_call (principal=?)"]);
    assert_eq!(plan(EXPIRED), ["SEARCH task USING INDEX task_expiry (expires_ms<?)"]);
    assert_eq!(
        plan(FIND_SAME_CALL),
        ["SEARCH task USING INDEX task_same_call (principal=? AND digest=?)", "USE TEMP B-TREE FOR ORDER BY"]
    );
}

#[test]
fn r4_7_a_list_of_operations_costs_what_it_shows() {
    let joins = [
        "SEARCH t USING PRIMARY KEY (principal=? AND task_id=?)",
        "SEARCH v USING PRIMARY KEY (principal=? AND task_id=? AND version=?)",
        "CORRELATED SCALAR SUBQUERY 1",
        "SEARCH task_event USING PRIMARY KEY (principal=? AND task_id=?)",
    ];
    for (sql, first) in [
        (ledger::LEDGER_ONE, "SEARCH o USING PRIMARY KEY (principal=? AND operation_id=?)"),
        (ledger::LEDGER_OF_PRINCIPAL, "SEARCH o USING PRIMARY KEY (principal=? AND operation_id<?)"),
        (ledger::LEDGER_UNKNOWN, "SEARCH o USING INDEX operation_unknown ((operation_id,principal)<(?,?))"),
        (
            ledger::LEDGER_RECONCILING,
            "SEARCH o USING INDEX operation_reconciling ((inquiry_next_ms,operation_id,principal)>(?,?,?))",
        ),
        (
            ledger::LEDGER_WAITING,
            "SEARCH o USING INDEX operation_waiting ((inquiry_since_ms,operation_id,principal)>(?,?,?))",
        ),
    ] {
        let found: Vec<_> = plan(sql).into_iter().map(|step| step.replace(" LEFT-JOIN", "")).collect();
        assert_eq!(found[0], first);
        assert_eq!(found[1..], joins, "{sql}");
    }
    assert_eq!(
        plan(ledger::RETIRABLE),
        [
            "SEARCH o USING PRIMARY KEY (principal=? AND operation_id>? AND operation_id<?)",
            "CORRELATED SCALAR SUBQUERY 1",
            "SEARCH task_event USING PRIMARY KEY (principal=? AND task_id=?)",
            "CORRELATED SCALAR SUBQUERY 2",
            "SEARCH task USING PRIMARY KEY (principal=? AND task_id=?)",
        ]
    );
    // Only what is open is read and sorted.
    let scans = plan(ledger::LEDGER_OPEN).into_iter().filter(|step| step.starts_with("SCAN"));
    assert_eq!(
        scans.collect::<Vec<_>>(),
        [
            "SCAN operation USING COVERING INDEX operation_unknown",
            "SCAN operation USING COVERING INDEX operation_assumed",
            "SCAN task USING INDEX task_unfinished",
            "SCAN open"
        ]
    );
    let keys = "SEARCH idempotency USING PRIMARY KEY (principal=? AND server=? AND tool=?)";
    assert!(plan(ledger::WORKFLOW_KEYS).iter().any(|step| step == keys));
    let whole = plan(ledger::WORKFLOWS_OPEN).into_iter().filter(|step| step.starts_with("SCAN"));
    assert!(
        whole.clone().all(|step| step.contains("INDEX") || step == "SCAN open"),
        "{:?}",
        whole.collect::<Vec<_>>()
    );
    assert_eq!(plan(ledger::NEXT_PRINCIPAL), ["SEARCH operation USING PRIMARY KEY (principal>?)"]);
    assert_eq!(plan(ledger::HISTORY), ["SEARCH task_event USING PRIMARY KEY (principal=? AND task_id=?)"]);
    for sql in [ledger::BESIDE, ledger::AHEAD] {
        let found: Vec<_> = plan(sql).into_iter().map(|step| step.replace("COVERING ", "")).collect();
        assert_eq!(found, ["SEARCH operation USING INDEX operation_object (workflow=? AND object=?)"]);
    }
    assert_eq!(
        plan(FIND_KEY),
        ["SEARCH idempotency USING PRIMARY KEY (principal=? AND server=? AND tool=? AND key=?)"]
    );
}
