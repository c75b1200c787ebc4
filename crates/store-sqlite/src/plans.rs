//! That every statement finds its rows by an index, whatever else is in the file.

use rusqlite::Connection;

use crate::command::{EXPIRED, FETCHED, FIND, FIND_FRAME, FIND_SAME_CALL};
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
        "SEARCH p USING PRIMARY KEY (principal=? AND task_id=? AND part=?) LEFT-JOIN",
        "SEARCH e USING PRIMARY KEY (principal=? AND task_id=? AND part=?) LEFT-JOIN",
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
        // Nothing else: no sorting, no scan.
        assert_eq!(found[1..], joins);
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
