use super::*;

fn schema(database: &Connection) -> String {
    let mut statement = database
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type = 'trigger', tbl_name, type DESC, name")
        .unwrap();
    let texts = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    texts.map(|text| text.unwrap() + ";\n").collect::<Vec<_>>().join("\n")
}

fn fresh() -> Connection {
    let mut database = Connection::open_in_memory().unwrap();
    migrate(&mut database, "here").unwrap();
    database
}

/// The whole schema is a reviewed file, so that a step that changes something else shows.
#[test]
fn the_steps_add_up_to_the_committed_schema() {
    insta::assert_snapshot!(schema(&fresh()));
}

#[test]
fn inv_46_from_every_step_the_rest_leads_to_the_same_schema() {
    for done in 0..=STEPS.len() {
        let mut database = Connection::open_in_memory().unwrap();
        run(&mut database, "here", &STEPS[..done]).unwrap();
        migrate(&mut database, "here").unwrap();
        assert_eq!(schema(&database), schema(&fresh()), "from step {done}");
    }
}

#[test]
fn inv_46_each_step_may_run_twice() {
    let database = fresh();
    let secret = |database: &Connection| -> Vec<u8> {
        database.query_row("SELECT secret FROM meta", [], |row| row.get(0)).unwrap()
    };
    let before = (schema(&database), secret(&database));
    for step in STEPS {
        apply(&database, step).unwrap();
    }
    assert_eq!((schema(&database), secret(&database)), before);
}

#[test]
fn inv_46_a_step_that_fails_leaves_the_schema_as_it_was() {
    let mut database = fresh();
    let before = schema(&database);
    let sql = "CREATE TABLE extra (a); CREATE TABLE task (a);";
    let columns = &[Column { table: "meta", name: "more", is: "INTEGER" }];
    let next = STEPS.len() as i64 + 1;
    let broken = [Step { number: next, name: "broken", columns, sql }];
    assert!(run(&mut database, "here", &broken).is_err());
    assert_eq!(schema(&database), before);
    let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, STEPS.len() as i64);
    migrate(&mut database, "here").unwrap();
}

#[test]
fn a_step_that_was_edited_is_refused() {
    let mut database = fresh();
    let sessions = &STEPS[1];
    let columns = &[Column { table: "session", name: "more", is: "INTEGER" }];
    for edited in [Step { sql: "SELECT 1", ..*sessions }, Step { columns, ..*sessions }] {
        let refused = run(&mut database, "here", &[edited]);
        assert!(matches!(refused, Err(Error::Open { .. })), "{refused:?}");
    }
}

#[test]
fn steps_are_numbered_without_a_gap() {
    let numbers: Vec<_> = STEPS.iter().map(|step| step.number).collect();
    assert_eq!(numbers, (1..=STEPS.len() as i64).collect::<Vec<_>>());
}

/// What was written before there were frames is joined by the rule of today.
#[test]
fn design_3_the_steps_say_of_old_records_what_the_same_call_joins() {
    let mut database = Connection::open_in_memory().unwrap();
    run(&mut database, "here", &STEPS[..2]).unwrap();
    // By task id: the phase, the state, the ending, the stage of the operation, its outcome and its doubt.
    for (id, columns) in [
        ("running", "0, 0, NULL, 1, NULL, NULL"),
        ("cancelled-and-open", "0, 2, 0, 1, NULL, NULL"),
        ("lost", "1, 2, 11, 4, NULL, 0"),
        ("tool-error", "1, 2, 2, 4, NULL, 1"),
        ("peer-error", "1, 2, 3, 4, NULL, 2"),
        ("done", "2, 2, 1, 3, 1, NULL"),
        ("found-out", "2, 2, 12, 3, 1, NULL"),
        ("never-sent", "2, 2, 10, 3, 4, NULL"),
    ] {
        database
            .execute_batch(&format!(
                "CREATE TEMP TABLE one (phase, state, ending, stage, outcome, doubt);
                INSERT INTO one VALUES ({columns});
                INSERT INTO task (principal, task_id, version, phase, operation_id, front, server, tool, digest, offers,
                    asking, created_ms, ttl_ms, linger_ms, max_ms, deadline_ms, updated_ms, state, ending, ended_ms,
                    expires_ms, keys_issued, questions)
                SELECT 'somebody', '{id}', 1, phase, 'op-{id}', 2, 's', 't', zeroblob(32), '', 0, 0, 1, 1, 1, 1, 1, state,
                    ending, iif(state = 2, 1, NULL), iif(state = 2, 1, NULL), 0, 0 FROM one;
                INSERT INTO operation (principal, operation_id, task_id, server, tool, digest, created_ms, updated_ms,
                    effect, replay, stage, attempts, dispatched_ms, outcome, doubt)
                SELECT 'somebody', 'op-{id}', '{id}', 's', 't', zeroblob(32), 0, 0, 2, 0, stage, 1, 1, outcome, doubt
                FROM one;
                INSERT INTO payload VALUES ('somebody', '{id}', 0, x'7b7d');
                INSERT INTO payload SELECT 'somebody', '{id}', 1, x'7b7d' FROM one WHERE ending IN (1, 2, 3);
                DROP TABLE one;"
            ))
            .unwrap();
    }
    migrate(&mut database, "here").unwrap();
    let mut statement =
        database.prepare("SELECT task_id FROM task WHERE takes_same_call = 1 ORDER BY task_id").unwrap();
    let joined: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(joined, ["cancelled-and-open", "found-out", "lost", "peer-error", "running"]);
    // And they are records as before, by no frame and not fetched.
    let somebody = taskgate_core::id::Principal::stored("somebody".into());
    let all = crate::row::unfinished(&database, None, 9).unwrap();
    assert_eq!(all.len(), 2);
    for record in all {
        assert_eq!((record.principal(), record.has_frame(), record.fetched()), (&somebody, false, None));
    }
    // Nobody knows who was given the result of a call by no frame; it is none that the next same call is told.
    let done = taskgate_store::conformance::sample::id("done");
    let done = crate::row::load(&database, &somebody, &done).unwrap().unwrap();
    assert!(done.is_returned() && !done.is_unfetched(), "{done:?}");
}

/// Nothing of the evidence is lost by the step that makes its tables anew, and what was known means what it meant.
#[test]
fn r4_8_the_step_of_the_ledger_keeps_all_that_was_there() {
    let mut database = Connection::open_in_memory().unwrap();
    run(&mut database, "here", &STEPS[..3]).unwrap();
    // By operation: its stage, its outcome and its doubt, and whether it has a key and a frame.
    for (id, columns) in [
        ("prepared", "0, NULL, NULL, 0, NULL"),
        ("sent", "1, NULL, NULL, 1, x'000102030405060708090a0b0c0d0e0f0000000000000007'"),
        ("reported", "3, 1, NULL, 1, NULL"),
        ("confirmed", "3, 4, NULL, 0, NULL"),
        ("unknown", "4, NULL, 0, 0, NULL"),
    ] {
        database
            .execute_batch(&format!(
                "CREATE TEMP TABLE one (stage, outcome, doubt, is_keyed, frame);
                INSERT INTO one VALUES ({columns});
                INSERT INTO operation (principal, operation_id, task_id, server, tool, digest, created_ms, updated_ms,
                    effect, replay, stage, attempts, dispatched_ms, outcome, doubt, frame)
                SELECT 'somebody', 'op-{id}', '{id}', 's', 't', zeroblob(32), 5, 6, 2, 0, stage, 1, 1, outcome, doubt, frame
                FROM one;
                INSERT INTO task_event VALUES ('somebody', '{id}', 1, 12, 5, 'created'),
                    ('somebody', '{id}', 2, 10, 6, 'settled reported_applied');
                INSERT INTO idempotency SELECT 'somebody', 's', 't', 'key-{id}', zeroblob(32), '{id}', 'op-{id}' FROM one
                    WHERE is_keyed;
                DROP TABLE one;"
            ))
            .unwrap();
    }
    let texts = |database: &Connection, sql: &str| -> Vec<String> {
        let mut statement = database.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let rows = "SELECT concat_ws(' ', operation_id, task_id, server, tool, created_ms, updated_ms, effect, replay, stage,
        attempts, dispatched_ms, outcome, doubt, hex(frame)) FROM operation ORDER BY operation_id";
    let log = "SELECT concat_ws(' ', task_id, version, kind, at_ms, body) FROM task_event ORDER BY task_id, version";
    let before = (texts(&database, rows), texts(&database, log));
    migrate(&mut database, "here").unwrap();
    assert_eq!((texts(&database, rows), texts(&database, log)), before);
    assert_eq!(
        texts(
            &database,
            "SELECT concat(operation_id, ' ', key, ' ', key_scope) FROM operation WHERE key IS NOT NULL"
        ),
        ["op-reported key-reported 0", "op-sent key-sent 0"]
    );
    // And they are operations as before: of no workflow, and nothing is being done about them.
    use taskgate_core::operation::{Inquiry, Outcome, Stage, Verdict};
    use taskgate_store::ledger::Which;
    let all = crate::row::operations(&database, Which::All, None, 9).unwrap();
    assert_eq!(all.len(), 5);
    for entry in &all {
        assert_eq!((&entry.intent, entry.operation.inquiry), (&None, Inquiry::Idle));
        assert_eq!((entry.version, entry.updated.0, &entry.kept), (2, 6, &None));
    }
    let confirmed = all.iter().find(|entry| entry.id.0 == "op-confirmed").unwrap();
    assert_eq!(confirmed.operation.stage, Stage::Settled(Outcome::Confirmed(Verdict::NotApplied)));
    let history = crate::row::history(&database, &confirmed.id).unwrap();
    assert_eq!(history[1].lines, ["settled reported_applied"]);
}

/// An operation that was assumed before there was the step keeps its object after it.
#[test]
fn design_7_the_step_of_open_operations_finds_those_that_were_assumed_before() {
    let mut database = Connection::open_in_memory().unwrap();
    run(&mut database, "here", &STEPS[..4]).unwrap();
    for (id, outcome) in [("assumed", 7), ("confirmed", 4)] {
        database
            .execute_batch(&format!(
                "INSERT INTO operation (principal, operation_id, task_id, server, tool, digest, created_ms, updated_ms, effect,
                    replay, stage, attempts, dispatched_ms, outcome, workflow, object, object_conflict)
                VALUES ('somebody', 'op-{id}', '{id}', 's', 't', zeroblob(32), 5, 6, 2, 0, 3, 1, 1, {outcome}, 'pay',
                    'invoice-1', 1);
                INSERT INTO task_event VALUES ('somebody', '{id}', 1, 12, 5, 'created');"
            ))
            .unwrap();
    }
    migrate(&mut database, "here").unwrap();
    use taskgate_store::ledger::Which;
    let open = crate::row::operations(&database, Which::Open, None, 9).unwrap();
    assert_eq!(open.iter().map(|entry| entry.id.0.as_str()).collect::<Vec<_>>(), ["op-assumed"]);
    let mut statement = database.prepare(crate::row::ledger::BESIDE).unwrap();
    let beside: Vec<String> = statement
        .query_map(("pay", "invoice-1", "somebody", "op-new"), |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(beside, ["op-assumed"]);
}
