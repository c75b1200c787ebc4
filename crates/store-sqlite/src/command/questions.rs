//! The questions of a task, brought to where the record says they are.

use std::collections::BTreeMap;

use rusqlite::Connection;
use taskgate_core::task::{Asked, Question, Task};
use taskgate_store::codec::{Code, Place, QuestionPhase};
use taskgate_store::law;

use crate::fault::Problem;

const OPEN: &str = "SELECT key, phase FROM input_request WHERE principal = ?1 AND task_id = ?2 AND phase < 2";

const INSERT: &str = "INSERT INTO input_request (principal, task_id, key, phase, kind, params, back_key)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

const MOVE: &str = "UPDATE input_request SET phase = ?4 WHERE principal = ?1 AND task_id = ?2 AND key = ?3";

const CLOSE: &str = "UPDATE input_request SET phase = 2, params = NULL
    WHERE principal = ?1 AND task_id = ?2 AND key = ?3";

/// How many are open.
pub(super) fn count(task: &Task) -> i64 {
    law::open_keys(task).fold(0, |count, _| count + 1)
}

/// Writes what changed since `stored` of them were open. A key that was closed cannot be opened again: its row is
/// still there (INV-20).
pub(super) fn sync(
    database: &Connection,
    principal: &str,
    id: &str,
    stored: i64,
    task: &Task,
) -> Result<(), Problem> {
    if stored == 0 && count(task) == 0 {
        return Ok(());
    }
    let mut before = if stored == 0 { BTreeMap::new() } else { open(database, principal, id)? };
    for (key, phase, question) in questions(task) {
        match before.remove(key) {
            Some(was) if was == phase => {}
            Some(_) => {
                database.prepare_cached(MOVE)?.execute((principal, id, key, phase.code()))?;
            }
            None => {
                database.prepare_cached(INSERT)?.execute((
                    principal,
                    id,
                    key,
                    phase.code(),
                    question.kind.code(),
                    &*question.params,
                    &question.back_key,
                ))?;
            }
        }
    }
    for key in before.into_keys() {
        database.prepare_cached(CLOSE)?.execute((principal, id, key))?;
    }
    Ok(())
}

fn open(
    database: &Connection,
    principal: &str,
    id: &str,
) -> Result<BTreeMap<String, QuestionPhase>, Problem> {
    let mut statement = database.prepare_cached(OPEN)?;
    let mut rows = statement.query((principal, id))?;
    let mut open = BTreeMap::new();
    let place = Place { table: "input_request", row: id };
    while let Some(row) = rows.next()? {
        open.insert(row.get(0)?, place.code("phase", row.get(1)?)?);
    }
    Ok(open)
}

fn questions(task: &Task) -> impl Iterator<Item = (&String, QuestionPhase, &Question)> {
    let asked = task.outstanding().map(Asked::questions).into_iter().flatten();
    let asked = asked.map(|(key, question)| (&key.0, QuestionPhase::Asked, question));
    let answering = task.answering.iter();
    asked.chain(answering.map(|(key, question)| (&key.0, QuestionPhase::Answering, question)))
}
