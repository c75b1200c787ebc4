//! Whether a file holds whole records only.

use rusqlite::Connection;

/// Nothing is torn: each task has its operation, its params, and one event for each of its versions; and it is over
/// exactly if it says so everywhere.
pub(crate) fn look_whole(database: &Connection) -> Result<(), String> {
    let ok: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| error.to_string())?;
    if ok != "ok" {
        return Err(ok);
    }
    for (what, sql) in [
        (
            "a task without its operation",
            "SELECT count(*) FROM task t LEFT JOIN operation o USING (principal, operation_id)
                WHERE o.task_id IS NOT t.task_id",
        ),
        (
            "a task without its params",
            "SELECT count(*) FROM task t LEFT JOIN payload p
                ON p.principal = t.principal AND p.task_id = t.task_id AND p.part = 0 WHERE p.bytes IS NULL",
        ),
        (
            "a result without an ending, or an ending without its result (INV-06)",
            "SELECT count(*) FROM task t LEFT JOIN payload p
                ON p.principal = t.principal AND p.task_id = t.task_id AND p.part = 1
                WHERE (p.bytes IS NOT NULL) <> coalesce(t.ending IN (1, 2, 3), 0)",
        ),
        (
            "a log with a gap (INV-04)",
            "SELECT count(*) FROM (SELECT count(*) AS events, min(version) AS first, max(version) AS last
                FROM task_event GROUP BY principal, task_id) WHERE first <> 1 OR events <> last",
        ),
        (
            "a log that is not the task's",
            "SELECT count(*) FROM task t WHERE version <> (SELECT max(version) FROM task_event e
                WHERE e.principal = t.principal AND e.task_id = t.task_id)",
        ),
        (
            "not exactly one terminal event (INV-06)",
            "SELECT count(*) FROM task t WHERE (state = 2) <> (SELECT count(*) FROM task_event e
                WHERE e.principal = t.principal AND e.task_id = t.task_id
                AND (e.body LIKE 'ended %' OR e.body LIKE '%' || char(10) || 'ended %'))",
        ),
        (
            "a phase that is not that of task and operation",
            "SELECT count(*) FROM task t JOIN operation o USING (principal, operation_id)
                WHERE phase <> iif(o.stage < 3 OR o.inquiry = 1 OR t.state < 2, 0,
                    iif(o.stage = 4 OR o.outcome IS 7, 1, 2))",
        ),
        (
            "a flag for the same call that is not that of task, operation, front, frame and fetch",
            "SELECT count(*) FROM task t JOIN operation o USING (principal, operation_id)
                WHERE takes_same_call <> ((phase = 0 AND NOT (t.state = 2 AND o.stage = 3 AND o.outcome IS NOT 7))
                        OR (phase = 1 AND o.doubt IS NOT 1)
                        OR (coalesce(ending >= 4, 0) AND coalesce(o.outcome IN (1, 3, 5), 0)))
                    + 2 * (coalesce(ending IN (1, 2), 0) AND fetched_ms IS NULL AND (o.frame IS NOT NULL
                        OR (t.front = 2 AND idempotency_key IS NULL AND o.effect <> 0)))",
        ),
        (
            "a count of questions that is wrong",
            "SELECT count(*) FROM task t WHERE questions <> (SELECT count(*) FROM input_request i
                WHERE i.principal = t.principal AND i.task_id = t.task_id AND i.phase < 2)",
        ),
        (
            "a payload or question of no task",
            "SELECT count(*) FROM (SELECT principal, task_id FROM payload
                UNION SELECT principal, task_id FROM input_request
                EXCEPT SELECT principal, task_id FROM task)",
        ),
        (
            "a key of no operation",
            "SELECT count(*) FROM idempotency i LEFT JOIN operation o
                ON o.principal = coalesce(i.owner, i.principal) AND o.operation_id = i.operation_id
                WHERE o.key IS NOT i.key OR o.digest <> i.digest",
        ),
        (
            "an event of no operation",
            "SELECT count(*) FROM (SELECT principal, task_id FROM task_event
                EXCEPT SELECT principal, task_id FROM operation)",
        ),
    ] {
        let count: i64 =
            database.query_row(sql, [], |row| row.get(0)).map_err(|error| format!("{what}: {error}"))?;
        if count != 0 {
            return Err(format!("{count} times: {what}"));
        }
    }
    Ok(())
}

/// As [`look_whole`], for a test that ends with it.
pub(crate) fn assert_whole(database: &Connection) {
    assert_eq!(look_whole(database), Ok(()));
}
