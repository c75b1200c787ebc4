//! A new record, or the one that it joins.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use taskgate_core::id::{OperationId, TaskId};
use taskgate_seeded::Bug;
use taskgate_store::codec::columns::{AttemptClass, EndingColumns, TaskColumns};
use taskgate_store::codec::event::{self, EventRow};
use taskgate_store::codec::{self, Code, KeyColumns, Part, Place};
use taskgate_store::law::Breach;
use taskgate_store::ledger::Busy;
use taskgate_store::record::Record;
use taskgate_store::{Created, Join};

use super::append::{close_attempt, insert_event, insert_payload};
use super::{Command, keys, operation, questions};
use crate::fault::Problem;
use crate::row;

pub(crate) struct Create {
    pub(crate) record: Arc<Record>,
    pub(crate) join: Join,
}

pub(crate) enum CreatedOr {
    Created(Created),
    KeyReused,
    KeyElsewhere,
    ObjectBusy(Busy),
}

pub(crate) const FIND_FRAME: &str =
    "SELECT task_id, operation_id FROM operation WHERE principal = ?1 AND frame = ?2";

/// Left to itself, SQLite would read all tasks of that server to save the sorting of one or two.
pub(crate) const FIND_SAME_CALL: &str = "SELECT task_id, operation_id FROM task INDEXED BY task_same_call
    WHERE principal = ?1 AND digest = ?2 AND server = ?3 AND tool = ?4 AND takes_same_call > 0
        AND idempotency_key IS NULL
    ORDER BY created_ms, task_id LIMIT 1";

const INSERT_TASK: &str = "INSERT INTO task (
        principal, task_id, version, phase, operation_id, front, server, tool, digest, idempotency_key, offers,
        asking, created_ms, ttl_ms, linger_ms, max_ms, deadline_ms, updated_ms, state, ending, ending_text,
        ended_ms, expires_ms, message, cancel_wished_ms, keys_issued, questions, seen_status, seen_updated_at,
        next_look_ms, takes_same_call
    ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
        ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31)";

/// Written once for each tool; then it only looks.
const INSERT_WORKFLOW_TOOL: &str =
    "INSERT OR IGNORE INTO workflow_tool (workflow, server, tool) VALUES (?1, ?2, ?3)";

impl Command for Create {
    type Outcome = CreatedOr;

    const DOING: &'static str = "create a record";

    fn run(&self, database: &Connection) -> Result<CreatedOr, Problem> {
        if self.record.version != 1 {
            return Err(Breach::NotTheFirst.refused(Self::DOING).into());
        }
        let key_of = match self.earlier(database)? {
            Earlier::Nothing { key_of } => key_of,
            Earlier::Call(found) => return Ok(found),
        };
        if let Some(busy) = row::beside(database, &self.record)? {
            return Ok(CreatedOr::ObjectBusy(busy));
        }
        self.insert(database, key_of.as_ref())?;
        Ok(CreatedOr::Created(Created::New))
    }
}

/// What there is that a new record would repeat.
pub(crate) enum Earlier {
    /// Nothing, but perhaps an operation that gives its key free.
    Nothing { key_of: Option<OperationId> },
    /// A call that it joins, or that refuses it.
    Call(CreatedOr),
}

/// An earlier call.
struct Found {
    task: String,
    operation: String,
}

impl Found {
    fn read(row: &Row<'_>) -> rusqlite::Result<Found> {
        Ok(Found { task: row.get(0)?, operation: row.get(1)? })
    }
}

impl Create {
    /// Looks for it, and writes nothing.
    pub(crate) fn earlier(&self, database: &Connection) -> Result<Earlier, Problem> {
        let call = &self.record.call;
        let principal = self.record.principal.as_str();
        if let Some(frame) = call.frame
            && !taskgate_seeded::is(Bug::FrameIgnored)
        {
            let found = database
                .prepare_cached(FIND_FRAME)?
                .query_row((principal, codec::frame_bytes(frame)), Found::read)
                .optional()?;
            if let Some(found) = found {
                return self.joined(database, &found, "operation");
            }
        }
        if let Some(scope) = KeyColumns::of_record(&self.record) {
            let Some(key) = keys::find(database, &scope)? else {
                return Ok(Earlier::Nothing { key_of: None });
            };
            if keys::is_free(database, &key)? {
                return Ok(Earlier::Nothing { key_of: Some(OperationId(key.operation)) });
            }
            if key.owner != principal {
                return Ok(Earlier::Call(CreatedOr::KeyElsewhere));
            }
            if key.digest != call.digest && !taskgate_seeded::is(Bug::DigestIgnored) {
                return Ok(Earlier::Call(CreatedOr::KeyReused));
            }
            let found = Found { task: key.task, operation: key.operation };
            return self.joined(database, &found, "idempotency");
        }
        let found = match self.join {
            Join::SameCall => database
                .prepare_cached(FIND_SAME_CALL)?
                .query_row((principal, call.digest, &call.server.0, &call.tool), Found::read)
                .optional()?,
            Join::Never | Join::SameKey => None,
        };
        match found {
            Some(found) => self.joined(database, &found, "task"),
            None => Ok(Earlier::Nothing { key_of: None }),
        }
    }

    fn joined(&self, database: &Connection, found: &Found, table: &'static str) -> Result<Earlier, Problem> {
        let Found { task, operation } = found;
        let id = TaskId::parse(task).map_err(|_| Place { table, row: task }.corrupt("task_id"))?;
        let principal = &self.record.principal;
        if let Some(record) = row::load(database, principal, &id)? {
            return Ok(Earlier::Call(CreatedOr::Created(Created::Joined(Box::new(record)))));
        }
        let entry = row::entry(database, principal, operation)?;
        let entry = Place { table, row: operation }.some("operation_id", entry)?;
        Ok(Earlier::Call(CreatedOr::Created(Created::Known(Box::new(entry)))))
    }

    fn insert(&self, database: &Connection, key_of: Option<&OperationId>) -> Result<(), Problem> {
        let record = &*self.record;
        let principal = record.principal.as_str();
        let id = record.id.expose();
        let call = &record.call;
        let task = TaskColumns::of(&record.task);
        database.prepare_cached(INSERT_TASK)?.execute(params![
            principal,
            id,
            1,
            record.phase().code(),
            record.operation_id.0,
            record.front.code(),
            call.server.0,
            call.tool,
            call.digest,
            call.key.as_ref().map(|key| &key.text),
            call.offers,
            call.asking.code(),
            task.created_ms,
            task.ttl_ms,
            task.linger_ms,
            task.max_ms,
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
            codec::takes_same_call(record, record.notes_fetch()),
        ])?;
        operation::insert(database, record)?;
        if let Some(intent) = &call.intent {
            database.prepare_cached(INSERT_WORKFLOW_TOOL)?.execute(params![
                intent.workflow.0,
                call.server.0,
                call.tool
            ])?;
        }
        if let Some(scope) = KeyColumns::of_record(record) {
            if key_of.is_some() {
                keys::forget(database, &scope)?;
            }
            keys::insert(database, &scope, record)?;
        }
        insert_payload(database, principal, id, Part::Params, &call.params)?;
        if let Some(payload) = record.task.ending().and_then(|ending| EndingColumns::of(ending).payload) {
            insert_payload(database, principal, id, Part::Ending, payload)?;
        }
        questions::sync(database, principal, id, 0, &record.task)?;
        let changes = event::creation(record, key_of);
        if let Some(class) = AttemptClass::of(&changes) {
            close_attempt(database, principal, &record.operation_id.0, record.updated, class)?;
        }
        insert_event(database, record, &EventRow::of(&changes))
    }
}
