//! The row of an operation: as it is made, and as it changes.

use rusqlite::{Connection, ToSql, params_from_iter};
use taskgate_core::operation::Operation;
use taskgate_core::time::UnixMillis;
use taskgate_store::codec::columns::OperationColumns;
use taskgate_store::codec::{self, Code};
use taskgate_store::record::Record;

use crate::fault::Problem;

/// The columns that say what is known of it, in the order of [`known`]. All others are fixed at creation.
macro_rules! known {
    () => {
        "stage, attempts, first_dispatched_ms, dispatched_ms, upstream_task, upstream_session, outcome, doubt, receipt,
        cleared, closed_ms, inquiry, inquiry_since_ms, inquiry_tries, inquiry_next_ms, inquiry_last, inquiry_why"
    };
}

const INSERT: &str = concat!(
    "INSERT INTO operation (
        principal, operation_id, task_id, server, tool, digest, created_ms, updated_ms, effect, replay,
        replay_window_ms, frame, workflow, object, object_version, object_conflict, effect_text, key, key_scope, ",
    known!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
        ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36)"
);

/// What the running attempt needs goes when another begins, and stays as evidence when it is closed.
const UPDATE: &str = concat!(
    "UPDATE operation SET updated_ms = ?3, (",
    known!(),
    ") = (
        ?4, ?5, ?6, coalesce(?7, dispatched_ms), iif(?4 IN (3, 4), upstream_task, ?8),
        iif(?4 IN (3, 4), upstream_session, ?9), ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
    WHERE principal = ?1 AND operation_id = ?2
        AND ((stage, attempts, first_dispatched_ms, outcome, doubt, receipt, cleared, closed_ms, inquiry, inquiry_since_ms,
                inquiry_tries, inquiry_next_ms, inquiry_last, inquiry_why)
                IS NOT (?4, ?5, ?6, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
            OR (?4 IN (1, 2) AND (dispatched_ms, upstream_task, upstream_session) IS NOT (?7, ?8, ?9)))"
);

fn known<'a>(columns: &'a OperationColumns<&str>) -> [&'a dyn ToSql; 17] {
    [
        &columns.stage,
        &columns.attempts,
        &columns.first_dispatched_ms,
        &columns.dispatched_ms,
        &columns.upstream_task,
        &columns.upstream_session,
        &columns.outcome,
        &columns.doubt,
        &columns.receipt,
        &columns.cleared,
        &columns.closed_ms,
        &columns.inquiry,
        &columns.inquiry_since_ms,
        &columns.inquiry_tries,
        &columns.inquiry_next_ms,
        &columns.inquiry_last,
        &columns.inquiry_why,
    ]
}

pub(super) fn insert(database: &Connection, record: &Record) -> Result<(), Problem> {
    let call = &record.call;
    let columns = OperationColumns::of(&record.operation);
    let intent = call.intent.as_ref();
    let object = intent.and_then(|intent| intent.object.as_ref());
    let fixed: [&dyn ToSql; 19] = [
        &record.principal.as_str(),
        &record.operation_id.0,
        &record.id.expose(),
        &call.server.0,
        &call.tool,
        &call.digest,
        &record.task.lifetime.created.0,
        &record.updated.0,
        &columns.effect,
        &columns.replay,
        &columns.replay_window_ms,
        &call.frame.map(codec::frame_bytes),
        &intent.map(|intent| &intent.workflow.0),
        &object.map(|object| &object.name),
        &object.and_then(|object| object.version.as_ref()),
        &object.map(|object| object.conflict.code()),
        &intent.and_then(|intent| intent.effect.as_ref()),
        &call.key.as_ref().map(|key| &key.text),
        &call.key.as_ref().map(|key| key.scope.code()),
    ];
    let values = params_from_iter(fixed.into_iter().chain(known(&columns)));
    database.prepare_cached(INSERT)?.execute(values)?;
    Ok(())
}

pub(super) fn update(
    database: &Connection,
    principal: &str,
    id: &str,
    updated: UnixMillis,
    operation: &Operation,
) -> Result<(), Problem> {
    let columns = OperationColumns::of(operation);
    let named: [&dyn ToSql; 3] = [&principal, &id, &updated.0];
    let values = params_from_iter(named.into_iter().chain(known(&columns)));
    database.prepare_cached(UPDATE)?.execute(values)?;
    Ok(())
}
