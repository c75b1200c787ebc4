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
    let broken = [Step { number: 4, name: "broken", columns, sql }];
    assert!(run(&mut database, "here", &broken).is_err());
    assert_eq!(schema(&database), before);
    let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 3);
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
