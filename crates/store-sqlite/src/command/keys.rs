//! What a key stands for (R4.6).

use rusqlite::{Connection, OptionalExtension};
use taskgate_core::id::{OperationId, Principal};
use taskgate_store::codec::{KeyColumns, Place};
use taskgate_store::law;
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::record::Record;

use crate::fault::Problem;
use crate::row;

pub(crate) const FIND_KEY: &str =
    "SELECT digest, task_id, operation_id, coalesce(owner, principal) FROM idempotency
    WHERE principal = ?1 AND server = ?2 AND tool = ?3 AND key = ?4";

const INSERT: &str = "INSERT INTO idempotency (
        principal, server, tool, key, digest, task_id, operation_id, owner
    ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

pub(super) const DELETE: &str =
    "DELETE FROM idempotency WHERE principal = ?1 AND server = ?2 AND tool = ?3 AND key = ?4";

/// The row of a key.
pub(super) struct Key {
    pub(super) digest: Vec<u8>,
    pub(super) task: String,
    pub(super) operation: String,
    /// Whose operation it is.
    pub(super) owner: String,
}

pub(super) fn find(database: &Connection, scope: &KeyColumns) -> Result<Option<Key>, Problem> {
    let found = database
        .prepare_cached(FIND_KEY)?
        .query_row((&scope.principal, &scope.server, &scope.tool, &scope.key), |row| {
            Ok(Key { digest: row.get(0)?, task: row.get(1)?, operation: row.get(2)?, owner: row.get(3)? })
        })
        .optional()?;
    Ok(found)
}

/// Whether another operation may have it.
pub(super) fn is_free(database: &Connection, key: &Key) -> Result<bool, Problem> {
    let owner = Principal::stored(key.owner.clone());
    let holder = row::entry(database, &owner, &key.operation)?;
    let place = Place { table: "idempotency", row: &key.operation };
    Ok(law::gives_key_free(&place.some("operation_id", holder)?))
}

/// The operation that the key of `entry` stands for, if that is another.
pub(crate) fn given_to(database: &Connection, entry: &LedgerEntry) -> Result<Option<OperationId>, Problem> {
    let Some(scope) = KeyColumns::of_entry(entry) else { return Ok(None) };
    let Some(key) = find(database, &scope)? else { return Ok(None) };
    let is_own = key.operation == entry.id.0 && key.owner == entry.principal.as_str();
    Ok((!is_own).then_some(OperationId(key.operation)))
}

pub(super) fn insert(database: &Connection, scope: &KeyColumns, record: &Record) -> Result<(), Problem> {
    let principal = record.principal.as_str();
    let owner = (scope.principal != principal).then_some(principal);
    database.prepare_cached(INSERT)?.execute((
        &scope.principal,
        &scope.server,
        &scope.tool,
        &scope.key,
        record.call.digest,
        record.id.expose(),
        &record.operation_id.0,
        owner,
    ))?;
    Ok(())
}

pub(super) fn forget(database: &Connection, scope: &KeyColumns) -> Result<(), Problem> {
    let KeyColumns { principal, server, tool, key } = scope;
    database.prepare_cached(DELETE)?.execute((principal, server, tool, key))?;
    Ok(())
}
