//! The next version of a record.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use taskgate_core::id::{OperationId, Principal, TaskId};
use taskgate_core::operation::{self, Effect, Outcome, Verdict};
use taskgate_core::time::UnixMillis;
use taskgate_seeded::Bug;
use taskgate_store::codec::columns::{AttemptClass, EndingColumns, StateKind, TaskColumns};
use taskgate_store::codec::event::EventRow;
use taskgate_store::codec::{self, Code, KeyColumns, Part, Place, signed};
use taskgate_store::law::{self, Breach};
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::record::{Change, Front, Record};

use super::operation::update;
use super::{Command, keys, questions};
use crate::fault::Problem;
use crate::row;

pub(crate) struct Append {
    pub(crate) record: Arc<Record>,
    pub(crate) changes: Vec<Change>,
}

pub(crate) enum Appended {
    Done,
    Conflict { found: Option<u64> },
    KeyGiven { to: OperationId },
}

pub(crate) const FIND: &str =
    "SELECT t.version, t.state, t.questions, t.operation_id, t.fetched_ms IS NULL AND (
        o.frame IS NOT NULL OR (t.front = ?3 AND t.idempotency_key IS NULL AND o.effect <> ?4)
    ), o.outcome
    FROM task t LEFT JOIN operation o ON o.principal = t.principal AND o.operation_id = t.operation_id
    WHERE t.principal = ?1 AND t.task_id = ?2";

const UPDATE_TASK: &str = "UPDATE task SET
        version = ?3, phase = ?4, deadline_ms = ?5, updated_ms = ?6, state = ?7, ending = ?8, ending_text = ?9,
        ended_ms = ?10, expires_ms = ?11, message = ?12, cancel_wished_ms = ?13, keys_issued = ?14,
        questions = ?15, seen_status = ?16, seen_updated_at = ?17, next_look_ms = ?18, takes_same_call = ?19
    WHERE principal = ?1 AND task_id = ?2";

const INSERT_PAYLOAD: &str = "INSERT INTO payload (principal, task_id, part, bytes) VALUES (?1, ?2, ?3, ?4)";

const IS_SAME_PAYLOAD: &str =
    "SELECT bytes = ?4 FROM payload WHERE principal = ?1 AND task_id = ?2 AND part = ?3";

const INSERT_EVENT: &str = "INSERT INTO task_event (principal, task_id, version, kind, at_ms, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// Each attempt is closed once; what comes later is in the log.
const CLOSE_ATTEMPT: &str = "INSERT INTO op_attempt (principal, operation_id, attempt, dispatched_ms, ended_ms, class)
    SELECT principal, operation_id, attempts, coalesce(dispatched_ms, first_dispatched_ms), ?3, ?4 FROM operation
    WHERE principal = ?1 AND operation_id = ?2 AND attempts > 0 AND first_dispatched_ms IS NOT NULL
    ON CONFLICT DO NOTHING";

struct Stored {
    version: i64,
    state: i64,
    questions: i64,
    operation_id: String,
    /// Whether a result that is returned is one to be fetched.
    awaits_fetch: bool,
    outcome: Option<i64>,
}

impl Command for Append {
    type Outcome = Appended;

    const DOING: &'static str = "append to a record";

    fn run(&self, database: &Connection) -> Result<Appended, Problem> {
        let record = &*self.record;
        let principal = record.principal.as_str();
        let id = record.id.expose();
        let stored = database
            .prepare_cached(FIND)?
            .query_row((principal, id, Front::Plain.code(), Effect::ReadOnly.code()), |row| {
                Ok(Stored {
                    version: row.get(0)?,
                    state: row.get(1)?,
                    questions: row.get(2)?,
                    operation_id: row.get(3)?,
                    awaits_fetch: row.get(4)?,
                    outcome: row.get(5)?,
                })
            })
            .optional()?;
        let Some(stored) = stored else { return Ok(Appended::Conflict { found: None }) };
        let place = Place { table: "task", row: id };
        let found: u64 = place.count("version", stored.version)?;
        if found.checked_add(1) != Some(record.version) && !taskgate_seeded::is(Bug::StaleWrite) {
            return Ok(Appended::Conflict { found: Some(found) });
        }
        let was = place.code("state", stored.state)?;
        if was == StateKind::Over {
            law::after_the_end(&self.changes).map_err(|breach| breach.refused(Self::DOING))?;
        }
        if let Some(to) = self.key_given(database, &stored)? {
            return Ok(Appended::KeyGiven { to });
        }
        self.task(database, stored.awaits_fetch)?;
        self.ending(database, was)?;
        questions::sync(database, principal, id, stored.questions, &record.task)?;
        self.operation(database, &stored.operation_id)?;
        if record.operation.is_surely_undone()
            && taskgate_seeded::is(Bug::CorrectionFreesAgain)
            && let Some(scope) = KeyColumns::of_record(record)
            && keys::given_to(database, &LedgerEntry::of(record))?.is_some()
        {
            keys::forget(database, &scope)?;
        }
        insert_event(database, record, &EventRow::of(&self.changes))?;
        Ok(Appended::Done)
    }
}

impl Append {
    /// The operation that has the key of this one, if that must be told together with this change.
    fn key_given(&self, database: &Connection, stored: &Stored) -> Result<Option<OperationId>, Problem> {
        let attested = Outcome::Attested(Verdict::NotApplied).code();
        if stored.outcome != Some(attested) {
            return Ok(None);
        }
        let Some(old) = row::entry(database, &self.record.principal, &stored.operation_id)? else {
            return Ok(None);
        };
        if law::overturns(&old.operation, &self.record.operation) {
            return keys::given_to(database, &old);
        }
        Ok(None)
    }

    fn task(&self, database: &Connection, awaits_fetch: bool) -> Result<(), Problem> {
        let record = &*self.record;
        let task = TaskColumns::of(&record.task);
        database.prepare_cached(UPDATE_TASK)?.execute(params![
            record.principal.as_str(),
            record.id.expose(),
            signed(record.version),
            record.phase().code(),
            record.deadline.0,
            record.updated.0,
            task.state,
            task.ending,
            task.ending_text,
            task.ended_ms,
            task.expires_ms,
            task.message,
            task.cancel_wished_ms,
            task.keys_issued,
            questions::count(&record.task),
            record.observed.status,
            record.observed.last_updated_at,
            record.observed.next_look.map(|at| at.0),
            codec::takes_same_call(record, awaits_fetch),
        ])?;
        Ok(())
    }

    /// The payload of the ending: written once, and afterwards the same byte for byte (INV-03).
    fn ending(&self, database: &Connection, was: StateKind) -> Result<(), Problem> {
        let record = &*self.record;
        let payload = record.task.ending().and_then(|ending| EndingColumns::of(ending).payload);
        let Some(payload) = payload else { return Ok(()) };
        let (principal, id) = (record.principal.as_str(), record.id.expose());
        match was {
            StateKind::Working | StateKind::InputRequired => {
                insert_payload(database, principal, id, Part::Ending, payload)
            }
            StateKind::Over => {
                let is_same: Option<bool> = database
                    .prepare_cached(IS_SAME_PAYLOAD)?
                    .query_row((principal, id, Part::Ending.code(), &**payload), |row| row.get(0))
                    .optional()?;
                if is_same == Some(true) {
                    return Ok(());
                }
                Err(Breach::OverIsFinal.refused(Self::DOING).into())
            }
        }
    }

    fn operation(&self, database: &Connection, id: &str) -> Result<(), Problem> {
        let record = &*self.record;
        let principal = record.principal.as_str();
        let dispatches =
            |change: &Change| matches!(change, Change::Operation(operation::Event::Dispatched { .. }));
        if record.operation.attempts > 1 && self.changes.iter().any(dispatches) {
            // The attempt before is given up, if nothing closed it.
            close_attempt(database, principal, id, record.updated, AttemptClass::NoReply)?;
        }
        update(database, principal, id, record.updated, &record.operation)?;
        match AttemptClass::of(&self.changes) {
            Some(class) => close_attempt(database, principal, id, record.updated, class),
            None => Ok(()),
        }
    }
}

pub(super) fn insert_payload(
    database: &Connection,
    principal: &str,
    id: &str,
    part: Part,
    bytes: &[u8],
) -> Result<(), Problem> {
    database.prepare_cached(INSERT_PAYLOAD)?.execute((principal, id, part.code(), bytes))?;
    Ok(())
}

pub(super) fn insert_event(database: &Connection, record: &Record, event: &EventRow) -> Result<(), Problem> {
    log(database, &record.principal, &record.id, record.version, record.updated, event)
}

pub(super) fn log(
    database: &Connection,
    principal: &Principal,
    task: &TaskId,
    version: u64,
    at: UnixMillis,
    event: &EventRow,
) -> Result<(), Problem> {
    database.prepare_cached(INSERT_EVENT)?.execute((
        principal.as_str(),
        task.expose(),
        signed(version),
        event.kind.code(),
        at.0,
        &event.body,
    ))?;
    Ok(())
}

pub(super) fn close_attempt(
    database: &Connection,
    principal: &str,
    operation: &str,
    ended: UnixMillis,
    class: AttemptClass,
) -> Result<(), Problem> {
    database.prepare_cached(CLOSE_ATTEMPT)?.execute((principal, operation, ended.0, class.code()))?;
    Ok(())
}
