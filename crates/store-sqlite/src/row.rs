//! From rows to records.

mod cursor;
pub(crate) mod ledger;

use bytes::Bytes;
use rusqlite::{Connection, Row, Rows, ToSql, params_from_iter};
use taskgate_core::id::{OperationId, Principal, ServerName, TaskId, WorkflowName};
use taskgate_core::operation::Operation;
use taskgate_core::task::{Question, QuestionKey};
use taskgate_core::time::UnixMillis;
use taskgate_store::codec::columns::{OperationColumns, TaskColumns};
use taskgate_store::codec::{self, Place, QuestionPhase};
use taskgate_store::record::{Call, Intent, Key, Object, Observed, Record, Session};
use taskgate_store::summary::Summary;
use taskgate_store::{Unfetched, Whose};

use crate::fault::Problem;
use cursor::Cursor;
pub(crate) use ledger::{
    Retirable, ahead_of, beside, entry, held, history, operation_by_id, operations, retirable,
};

/// What is known of an operation and what was made of its call, in the order in which [`operation`] and [`intent`] take it.
macro_rules! operation_columns {
    () => {
        "o.effect, o.replay, o.replay_window_ms, o.stage, o.attempts, o.first_dispatched_ms,
            o.dispatched_ms, o.upstream_task, o.upstream_session, o.outcome, o.doubt, o.cleared, o.closed_ms,
            o.inquiry, o.inquiry_since_ms, o.inquiry_tries, o.inquiry_next_ms, o.inquiry_last, o.inquiry_why,
            o.receipt, o.workflow, o.object, o.object_version, o.object_conflict, o.effect_text, o.key, o.key_scope"
    };
}
use operation_columns;

/// Everything that makes a record but its questions, in the order in which [`read`] takes it; `$payloads` are its two, and from where
/// they come. The operation and the params cannot be missing; if they are, that is for `read` to find and not for a join to hide.
macro_rules! rows {
    ($payloads:literal, $from:literal, $from_where:literal) => {
        concat!(
            "SELECT t.task_id, t.principal, t.version, t.front, t.server, t.tool, t.digest,
                t.offers, t.asking, t.state, t.ending, t.ending_text, t.ended_ms, t.cancel_wished_ms, t.message,
                t.keys_issued, t.created_ms, t.ttl_ms, t.linger_ms, t.max_ms, t.expires_ms, t.deadline_ms,
                t.updated_ms, t.fetched_ms, t.seen_status, t.seen_updated_at, t.next_look_ms, t.questions, t.operation_id,
                ",
            operation_columns!(),
            ", o.frame, ",
            $payloads,
            " FROM task t
            LEFT JOIN operation o ON o.principal = t.principal AND o.operation_id = t.operation_id ",
            $from,
            $from_where
        )
    };
}

/// Whole records.
macro_rules! records {
    ($from_where:literal) => {
        rows!(
            "p.bytes, e.bytes",
            "LEFT JOIN payload p ON p.principal = t.principal AND p.task_id = t.task_id AND p.part = 0
            LEFT JOIN payload e ON e.principal = t.principal AND e.task_id = t.task_id AND e.part = 1 ",
            $from_where
        )
    };
}

/// Records without their payloads: of errors alone it is asked how long they are, which reads no more than the length, and only those
/// that are short are read ([`Summary::SAID_BYTES_MAX`], [`EndingKind::ReturnedError`], [`EndingKind::Raised`]).
///
/// [`EndingKind::ReturnedError`]: taskgate_store::codec::columns::EndingKind::ReturnedError
/// [`EndingKind::Raised`]: taskgate_store::codec::columns::EndingKind::Raised
macro_rules! summaries {
    ($from_where:literal) => {
        rows!(
            "x'', CASE WHEN length(e.bytes) <= 4096 THEN e.bytes ELSE x'' END",
            "LEFT JOIN payload e ON t.ending IN (2, 3)
                AND e.principal = t.principal AND e.task_id = t.task_id AND e.part = 1 ",
            $from_where
        )
    };
}

pub(crate) const LOAD: &str = records!("WHERE t.principal = ?1 AND t.task_id = ?2");

pub(crate) const LIST_SERVER: &str = summaries!(
    "WHERE t.principal = ?4 AND t.server = ?5 AND (t.created_ms, t.task_id) < (?1, ?2)
    ORDER BY t.created_ms DESC, t.task_id DESC LIMIT ?3"
);

pub(crate) const LIST_PRINCIPAL: &str = summaries!(
    "WHERE t.principal = ?4 AND (t.created_ms, t.task_id) < (?1, ?2)
    ORDER BY t.created_ms DESC, t.task_id DESC LIMIT ?3"
);

pub(crate) const LIST_EVERYONE: &str = summaries!(
    "WHERE (t.created_ms, t.task_id) < (?1, ?2) ORDER BY t.created_ms DESC, t.task_id DESC LIMIT ?3"
);

/// What is not over is unresolved, so one index has all that is counted.
pub(crate) const UNFETCHED: &str = "SELECT count(*) FILTER (WHERE state < 2),
        count(*) FILTER (WHERE takes_same_call & 2 AND expires_ms > ?2)
    FROM task INDEXED BY task_same_call WHERE principal = ?1 AND takes_same_call > 0";

pub(crate) const UNFINISHED: &str =
    summaries!("WHERE t.phase = 0 AND t.task_id > ?1 ORDER BY t.task_id, t.principal LIMIT ?2");

const QUESTIONS: &str = "SELECT key, phase, kind, params, back_key FROM input_request
    WHERE principal = ?1 AND task_id = ?2 AND phase < 2";

const SESSION: &str =
    "SELECT key, principal, server, version, offers, client_info, log_level, created_ms, seen_ms
    FROM session WHERE key = ?1";

/// Behind every id: they are letters, digits, `-` and `_`.
const BEHIND_IDS: &str = "~";

pub(crate) fn load(
    database: &Connection,
    principal: &Principal,
    id: &TaskId,
) -> Result<Option<Record>, Problem> {
    let mut statement = database.prepare_cached(LOAD)?;
    let mut rows = statement.query((principal.as_str(), id.expose()))?;
    match rows.next()? {
        Some(row) => read(database, row).map(Some),
        None => Ok(None),
    }
}

pub(crate) fn list(
    database: &Connection,
    whose: Whose<'_>,
    after: Option<(UnixMillis, TaskId)>,
    limit: usize,
) -> Result<Vec<Summary>, Problem> {
    let (created, id) = match &after {
        Some((created, id)) => (created.0, id.expose()),
        None => (i64::MAX, BEHIND_IDS),
    };
    let (sql, principal, server) = match whose {
        Whose::Server(principal, server) => (LIST_SERVER, Some(principal.as_str()), Some(&*server.0)),
        Whose::Principal(principal) => (LIST_PRINCIPAL, Some(principal.as_str()), None),
        Whose::Everyone => (LIST_EVERYONE, None, None),
    };
    let limit = at_most(limit);
    let page: [&dyn ToSql; 3] = [&created, &id, &limit];
    let whose = [&principal, &server].into_iter().flatten().map(|text| text as &dyn ToSql);
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(page.into_iter().chain(whose)))?;
    summaries(database, &mut rows)
}

pub(crate) fn unfetched(
    database: &Connection,
    principal: &Principal,
    now: UnixMillis,
) -> Result<Unfetched, Problem> {
    let mut statement = database.prepare_cached(UNFETCHED)?;
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (running, ended) = statement.query_row((principal.as_str(), now.0), read)?;
    let place = Place { table: "task", row: principal.as_str() };
    Ok(Unfetched { running: place.count("state", running)?, ended: place.count("takes_same_call", ended)? })
}

pub(crate) fn unfinished(
    database: &Connection,
    after: Option<TaskId>,
    limit: usize,
) -> Result<Vec<Summary>, Problem> {
    let after = after.as_ref().map_or("", TaskId::expose);
    let mut statement = database.prepare_cached(UNFINISHED)?;
    let mut rows = statement.query((after, at_most(limit)))?;
    summaries(database, &mut rows)
}

fn summaries(database: &Connection, rows: &mut Rows<'_>) -> Result<Vec<Summary>, Problem> {
    let mut summaries = vec![];
    while let Some(row) = rows.next()? {
        summaries.push(Summary::of(read(database, row)?));
    }
    Ok(summaries)
}

pub(crate) fn session(database: &Connection, key: &str) -> Result<Option<Session>, Problem> {
    let mut statement = database.prepare_cached(SESSION)?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let place = Place { table: "session", row: key };
    let mut cursor = Cursor::new(row);
    Ok(Some(Session {
        key: cursor.take(place, "key")?,
        principal: Principal::stored(cursor.take(place, "principal")?),
        server: ServerName(cursor.take(place, "server")?),
        version: cursor.take(place, "version")?,
        offers: cursor.take(place, "offers")?,
        client_info: cursor.take(place, "client_info")?,
        log_level: cursor.take(place, "log_level")?,
        created: UnixMillis(cursor.take(place, "created_ms")?),
        seen: UnixMillis(cursor.take(place, "seen_ms")?),
    }))
}

/// A limit as SQL takes it.
pub(crate) fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn read(database: &Connection, row: &Row<'_>) -> Result<Record, Problem> {
    let mut cursor = Cursor::new(row);
    let id_text: String = cursor.take(Place { table: "task", row: "?" }, "task_id")?;
    let place = Place { table: "task", row: &id_text };
    let id = TaskId::parse(&id_text).map_err(|_| place.corrupt("task_id"))?;
    let principal = Principal::stored(cursor.take(place, "principal")?);
    let version: i64 = cursor.take(place, "version")?;
    let front: i64 = cursor.take(place, "front")?;
    let server = ServerName(cursor.take(place, "server")?);
    let tool = cursor.take(place, "tool")?;
    let digest: Vec<u8> = cursor.take(place, "digest")?;
    let offers = cursor.take(place, "offers")?;
    let asking: i64 = cursor.take(place, "asking")?;
    let task = TaskColumns {
        state: cursor.take(place, "state")?,
        ending: cursor.take(place, "ending")?,
        ending_text: cursor.take(place, "ending_text")?,
        ended_ms: cursor.take(place, "ended_ms")?,
        cancel_wished_ms: cursor.take(place, "cancel_wished_ms")?,
        message: cursor.take(place, "message")?,
        keys_issued: cursor.take(place, "keys_issued")?,
        created_ms: cursor.take(place, "created_ms")?,
        ttl_ms: cursor.take(place, "ttl_ms")?,
        linger_ms: cursor.take(place, "linger_ms")?,
        max_ms: cursor.take(place, "max_ms")?,
        expires_ms: cursor.take(place, "expires_ms")?,
    };
    let deadline = UnixMillis(cursor.take(place, "deadline_ms")?);
    let updated = UnixMillis(cursor.take(place, "updated_ms")?);
    let fetched = cursor.take::<Option<i64>>(place, "fetched_ms")?.map(UnixMillis);
    let observed = Observed {
        status: cursor.take(place, "seen_status")?,
        last_updated_at: cursor.take(place, "seen_updated_at")?,
        next_look: cursor.take::<Option<i64>>(place, "next_look_ms")?.map(UnixMillis),
    };
    let questions: i64 = cursor.take(place, "questions")?;
    let operation_id: String = cursor.take(place, "operation_id")?;

    let ledger = Place { table: "operation", row: &operation_id };
    let operation = operation(&mut cursor, ledger)?;
    let (intent, key) = intent(&mut cursor, ledger)?;
    let frame: Option<Vec<u8>> = cursor.take(ledger, "frame")?;
    let frame = frame.map(|bytes| ledger.some("frame", codec::frame(&bytes))).transpose()?;
    let payload = Place { table: "payload", row: &id_text };
    let params: Vec<u8> = cursor.take(payload, "bytes")?;
    let ending: Option<Vec<u8>> = cursor.take(payload, "bytes")?;

    let questions = if questions == 0 { vec![] } else { self::questions(database, &principal, &id_text)? };
    Ok(Record {
        id,
        principal,
        version: place.count("version", version)?,
        front: place.code("front", front)?,
        call: Call {
            server,
            tool,
            params: Bytes::from(params),
            digest: digest.try_into().map_err(|_| place.corrupt("digest"))?,
            key,
            intent,
            offers,
            asking: place.code("asking", asking)?,
            frame,
        },
        task: task.task(place, questions, ending.map(Bytes::from))?,
        operation,
        operation_id: OperationId(operation_id),
        deadline,
        updated,
        observed,
        fetched,
    })
}

/// What is known of an operation.
fn operation(cursor: &mut Cursor<'_>, place: Place<'_>) -> Result<Operation, Problem> {
    let columns = OperationColumns {
        effect: cursor.take(place, "effect")?,
        replay: cursor.take(place, "replay")?,
        replay_window_ms: cursor.take(place, "replay_window_ms")?,
        stage: cursor.take(place, "stage")?,
        attempts: cursor.take(place, "attempts")?,
        first_dispatched_ms: cursor.take(place, "first_dispatched_ms")?,
        dispatched_ms: cursor.take(place, "dispatched_ms")?,
        upstream_task: cursor.take(place, "upstream_task")?,
        upstream_session: cursor.take(place, "upstream_session")?,
        outcome: cursor.take(place, "outcome")?,
        doubt: cursor.take(place, "doubt")?,
        cleared: cursor.take(place, "cleared")?,
        closed_ms: cursor.take(place, "closed_ms")?,
        inquiry: cursor.take(place, "inquiry")?,
        inquiry_since_ms: cursor.take(place, "inquiry_since_ms")?,
        inquiry_tries: cursor.take(place, "inquiry_tries")?,
        inquiry_next_ms: cursor.take(place, "inquiry_next_ms")?,
        inquiry_last: cursor.take(place, "inquiry_last")?,
        inquiry_why: cursor.take(place, "inquiry_why")?,
        receipt: cursor.take(place, "receipt")?,
    };
    Ok(columns.operation(place)?)
}

/// What the workflow made of a call, and its key.
fn intent(cursor: &mut Cursor<'_>, place: Place<'_>) -> Result<(Option<Intent>, Option<Key>), Problem> {
    let workflow: Option<String> = cursor.take(place, "workflow")?;
    let object: Option<String> = cursor.take(place, "object")?;
    let version = cursor.take(place, "object_version")?;
    let conflict: Option<i64> = cursor.take(place, "object_conflict")?;
    let effect = cursor.take(place, "effect_text")?;
    let key: Option<String> = cursor.take(place, "key")?;
    let scope: Option<i64> = cursor.take(place, "key_scope")?;
    let object = match object {
        Some(name) => {
            let conflict = place.code("object_conflict", place.some("object_conflict", conflict)?)?;
            Some(Object { name, version, conflict })
        }
        None => None,
    };
    let intent = workflow.map(|workflow| Intent { workflow: WorkflowName(workflow), object, effect });
    let key = match key {
        Some(text) => Some(Key { text, scope: place.code("key_scope", place.some("key_scope", scope)?)? }),
        None => None,
    };
    Ok((intent, key))
}

fn questions(
    database: &Connection,
    principal: &Principal,
    id: &str,
) -> Result<Vec<(QuestionKey, QuestionPhase, Question)>, Problem> {
    let mut statement = database.prepare_cached(QUESTIONS)?;
    let mut rows = statement.query((principal.as_str(), id))?;
    let mut questions = vec![];
    let place = Place { table: "input_request", row: id };
    while let Some(row) = rows.next()? {
        let mut cursor = Cursor::new(row);
        let key = QuestionKey(cursor.take(place, "key")?);
        let phase = place.code("phase", cursor.take(place, "phase")?)?;
        let kind = place.code("kind", cursor.take(place, "kind")?)?;
        let params: Vec<u8> = cursor.take(place, "params")?;
        let back_key = cursor.take(place, "back_key")?;
        questions.push((key, phase, Question { kind, params: Bytes::from(params), back_key }));
    }
    Ok(questions)
}
