//! From rows of the ledger to operations, whether their task is kept or not.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use taskgate_core::id::{OperationId, Principal, ServerName, TaskId, WorkflowName};
use taskgate_core::operation::Stage;
use taskgate_core::time::UnixMillis;
use taskgate_store::Retired;
use taskgate_store::codec::Place;
use taskgate_store::codec::event::EventRow;
use taskgate_store::ledger::{After, Busy, Happening, Held, KeptTask, LedgerEntry, Which};
use taskgate_store::record::{Conflict, Record};

use super::cursor::Cursor;
use super::{at_most, intent, operation, operation_columns};
use crate::fault::Problem;

/// Everything that makes an entry, in the order in which [`read`] takes it. Version and last change are those of the last
/// event, since the operation's own row does not change with its task's.
macro_rules! entries {
    ($from_where:expr) => {
        concat!(
            "SELECT o.operation_id, o.principal, o.task_id, v.version, v.at_ms, o.server, o.tool, o.digest, o.created_ms,
                t.state, t.ending, t.ended_ms, t.cancel_wished_ms,
                ",
            operation_columns!(),
            " FROM ",
            $from_where
        )
    };
}

/// The task of an operation, if it is kept, and the last event of both.
macro_rules! with_task {
    () => {
        " LEFT JOIN task t ON t.principal = o.principal AND t.task_id = o.task_id
            LEFT JOIN task_event v ON v.principal = o.principal AND v.task_id = o.task_id AND v.version = (
                SELECT max(version) FROM task_event WHERE principal = o.principal AND task_id = o.task_id) "
    };
}

/// The first principal behind another.
pub(crate) const NEXT_PRINCIPAL: &str = "SELECT min(principal) FROM operation WHERE principal > ?1";

pub(crate) const LEDGER_ONE: &str =
    entries!(concat!("operation o", with_task!(), "WHERE o.principal = ?1 AND o.operation_id = ?2"));

pub(crate) const LEDGER_OF_PRINCIPAL: &str = entries!(concat!(
    "operation o",
    with_task!(),
    "WHERE o.principal = ?1 AND o.operation_id < ?2 ORDER BY o.operation_id DESC LIMIT ?3"
));

/// What is open is unknown or assumed, or its task is unfinished. Few enough to be sorted.
pub(crate) const LEDGER_OPEN: &str = entries!(concat!(
    "(SELECT principal, operation_id FROM operation INDEXED BY operation_unknown WHERE stage = 4
        UNION SELECT principal, operation_id FROM operation INDEXED BY operation_assumed WHERE outcome = 7
        UNION SELECT principal, operation_id FROM task INDEXED BY task_unfinished WHERE phase = 0) open
        JOIN operation o ON o.principal = open.principal AND o.operation_id = open.operation_id
            AND (o.stage <> 3 OR o.outcome = 7)",
    with_task!(),
    "WHERE (o.operation_id, o.principal) < (?1, ?2) ORDER BY o.operation_id DESC, o.principal DESC LIMIT ?3"
));

pub(crate) const LEDGER_UNKNOWN: &str = entries!(concat!(
    "operation o INDEXED BY operation_unknown",
    with_task!(),
    "WHERE o.stage = 4 AND (o.operation_id, o.principal) < (?1, ?2)
    ORDER BY o.operation_id DESC, o.principal DESC LIMIT ?3"
));

pub(crate) const LEDGER_RECONCILING: &str = entries!(concat!(
    "operation o INDEXED BY operation_reconciling",
    with_task!(),
    "WHERE o.inquiry = 1 AND (o.inquiry_next_ms, o.operation_id, o.principal) > (?4, ?1, ?2)
    ORDER BY o.inquiry_next_ms, o.operation_id, o.principal LIMIT ?3"
));

pub(crate) const LEDGER_WAITING: &str = entries!(concat!(
    "operation o INDEXED BY operation_waiting",
    with_task!(),
    "WHERE o.inquiry = 2 AND (o.inquiry_since_ms, o.operation_id, o.principal) > (?4, ?1, ?2)
    ORDER BY o.inquiry_since_ms, o.operation_id, o.principal LIMIT ?3"
));

/// Operations in a row, and of each whether it may go, as [`LedgerEntry::may_retire`] has it; the writer asks that. Ids grow with
/// time: what is too young to go is not looked at.
pub(crate) const RETIRABLE: &str = "SELECT o.operation_id,
        CASE WHEN (o.stage = 3 OR o.doubt IN (1, 2)) AND o.inquiry = 0 THEN
            (SELECT at_ms FROM task_event WHERE principal = o.principal AND task_id = o.task_id
                ORDER BY version DESC LIMIT 1) < ?4
            AND NOT EXISTS (SELECT 1 FROM task WHERE principal = o.principal AND task_id = o.task_id)
        END
    FROM operation o WHERE o.principal = ?1 AND o.operation_id > ?2 AND o.operation_id < ?3
    ORDER BY o.operation_id LIMIT ?5";

pub(crate) const HISTORY: &str = "SELECT version, kind, at_ms, body FROM task_event WHERE principal = ?1 AND task_id = ?2 ORDER BY version";

/// The open operations on an object but one's own, the first made first.
pub(crate) const BESIDE: &str =
    "SELECT operation_id, principal, created_ms FROM operation INDEXED BY operation_object
    WHERE workflow = ?1 AND object = ?2 AND (stage <> 3 OR outcome = 7) AND (principal, operation_id) IS NOT (?3, ?4)
    ORDER BY created_ms, operation_id, principal LIMIT 1";

pub(crate) const AHEAD: &str =
    "SELECT operation_id, principal, created_ms FROM operation INDEXED BY operation_object
    WHERE workflow = ?1 AND object = ?2 AND (stage <> 3 OR outcome = 7) AND (principal, operation_id) IS NOT (?3, ?4)
        AND (stage <> 0 OR (created_ms, operation_id, principal) < (?5, ?4, ?3))
    ORDER BY created_ms, operation_id, principal LIMIT 1";

pub(crate) const WORKFLOW_TOOLS: &str = "SELECT workflow, server, tool FROM workflow_tool";

/// Of one principal, or of all where it is empty.
pub(crate) const WORKFLOW_KEYS: &str = "SELECT count(*) FROM (
        SELECT 1 FROM idempotency WHERE principal = ?1 AND server = '' AND tool = ?2 LIMIT ?3)";

/// What is open, asked after, or waits for a person: few enough to be counted.
pub(crate) const WORKFLOWS_OPEN: &str = "SELECT o.workflow, count(*) FROM (
        SELECT principal, operation_id FROM operation INDEXED BY operation_unknown WHERE stage = 4
        UNION SELECT principal, operation_id FROM operation INDEXED BY operation_assumed WHERE outcome = 7
        UNION SELECT principal, operation_id FROM operation INDEXED BY operation_reconciling WHERE inquiry = 1
        UNION SELECT principal, operation_id FROM operation INDEXED BY operation_waiting WHERE inquiry = 2
        UNION SELECT principal, operation_id FROM task INDEXED BY task_unfinished WHERE phase = 0) open
        JOIN operation o ON o.principal = open.principal AND o.operation_id = open.operation_id
            AND (o.stage <> 3 OR o.outcome = 7 OR o.inquiry <> 0)
    WHERE o.workflow IS NOT NULL GROUP BY o.workflow";

/// Behind every principal and id, where the order falls.
const BEHIND_ALL: &str = "\u{10ffff}";

pub(crate) fn operation_by_id(
    database: &Connection,
    id: &OperationId,
) -> Result<Option<LedgerEntry>, Problem> {
    for principal in principals(database)? {
        let found = one(database, LEDGER_ONE, (&principal, &id.0))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

pub(crate) fn entry(
    database: &Connection,
    principal: &Principal,
    id: &str,
) -> Result<Option<LedgerEntry>, Problem> {
    one(database, LEDGER_ONE, (principal.as_str(), id))
}

pub(crate) fn operations(
    database: &Connection,
    which: Which,
    after: Option<&After>,
    limit: usize,
) -> Result<Vec<LedgerEntry>, Problem> {
    let sql = match which {
        Which::All => return all(database, after, limit),
        Which::Open => LEDGER_OPEN,
        Which::Unknown => LEDGER_UNKNOWN,
        Which::Reconciling => LEDGER_RECONCILING,
        Which::Waiting => LEDGER_WAITING,
    };
    let start = if which.is_by_time() { "" } else { BEHIND_ALL };
    let id = after.map_or(start, |after| after.id.0.as_str());
    let principal = after.map_or(start, |after| after.principal.as_str());
    let at = after.map_or(i64::MIN, |after| after.at.0);
    let limit = at_most(limit);
    let page: [&dyn ToSql; 4] = [&id, &principal, &limit, &at];
    many(database, sql, if which.is_by_time() { &page } else { &page[..3] })
}

/// Newest first, over all principals: as many of each as are wanted, and of those the newest.
fn all(database: &Connection, after: Option<&After>, limit: usize) -> Result<Vec<LedgerEntry>, Problem> {
    let mut found = vec![];
    for principal in principals(database)? {
        let below = match after {
            None => BEHIND_ALL.to_owned(),
            // The id itself is still to come for the principals before its own: it is the smallest of those behind.
            Some(after) if *principal < *after.principal.as_str() => format!("{}\u{0}", after.id.0),
            Some(after) => after.id.0.clone(),
        };
        found.extend(many(database, LEDGER_OF_PRINCIPAL, &[&principal, &below, &at_most(limit)])?);
    }
    found.sort_by(|one, other| (&other.id, &other.principal).cmp(&(&one.id, &one.principal)));
    found.truncate(limit);
    Ok(found)
}

/// What was found of [`RETIRABLE`].
pub(crate) struct Retirable {
    /// Those that may go.
    pub(crate) named: Vec<Retired>,
    /// The last that was looked at, if there are more.
    pub(crate) next: Option<Retired>,
}

/// Looks at so many operations, and takes a step for each principal on the way.
pub(crate) fn retirable(
    database: &Connection,
    before: UnixMillis,
    below: &OperationId,
    after: Option<&Retired>,
    limit: usize,
) -> Result<Retirable, Problem> {
    let mut named = vec![];
    let mut last = after.cloned();
    let mut left = limit;
    let mut page = database.prepare_cached(RETIRABLE)?;
    let mut behind = database.prepare_cached(NEXT_PRINCIPAL)?;
    let mut principal = match after {
        Some((principal, _)) => Some(principal.as_str().to_owned()),
        None => behind.query_row([""], |row| row.get(0))?,
    };
    while let Some(whose) = principal {
        let begin = last.as_ref().filter(|(last, _)| last.as_str() == whose).map_or("", |(_, id)| &*id.0);
        // One more than is looked at says whether there are more.
        let mut rows = page.query((&whose, begin.to_owned(), &below.0, before.0, at_most(left + 1)))?;
        while let Some(row) = rows.next()? {
            if left == 0 {
                return Ok(Retirable { named, next: last });
            }
            left -= 1;
            let place = (Principal::stored(whose.clone()), OperationId(row.get(0)?));
            if row.get::<_, Option<bool>>(1)?.unwrap_or(false) {
                named.push(place.clone());
            }
            last = Some(place);
        }
        principal = behind.query_row([&whose], |row| row.get(0))?;
    }
    Ok(Retirable { named, next: None })
}

/// The workflows of which something is held that their names lead to.
pub(crate) fn held(database: &Connection) -> Result<Vec<Held>, Problem> {
    let mut held: BTreeMap<String, Held> = BTreeMap::new();
    let mut statement = database.prepare_cached(WORKFLOW_TOOLS)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let (workflow, server, tool): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let one = held.entry(workflow.clone()).or_insert_with(|| Held {
            workflow: WorkflowName(workflow),
            tools: BTreeSet::new(),
            open: 0,
            keys: 0,
        });
        one.tools.insert((ServerName(server), tool));
    }
    if held.is_empty() {
        return Ok(vec![]);
    }
    let mut statement = database.prepare_cached(WORKFLOWS_OPEN)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let (workflow, count): (String, i64) = (row.get(0)?, row.get(1)?);
        if let Some(one) = held.get_mut(&workflow) {
            one.open = usize::try_from(count).unwrap_or(usize::MAX);
        }
    }
    let mut statement = database.prepare_cached(WORKFLOW_KEYS)?;
    // Business keys are kept under no principal.
    for principal in principals(database)?.into_iter().chain([String::new()]) {
        for one in held.values_mut() {
            let page: [&dyn ToSql; 3] = [&principal, &one.workflow.0, &at_most(Held::KEYS_MAX)];
            let count: i64 = statement.query_row(&page[..], |row| row.get(0))?;
            one.keys += usize::try_from(count).unwrap_or(usize::MAX);
        }
    }
    Ok(held.into_values().filter(|held| held.open + held.keys > 0).collect())
}

pub(crate) fn history(database: &Connection, id: &OperationId) -> Result<Vec<Happening>, Problem> {
    let Some(entry) = operation_by_id(database, id)? else { return Ok(vec![]) };
    let place = Place { table: "task_event", row: &id.0 };
    let mut statement = database.prepare_cached(HISTORY)?;
    let mut rows = statement.query((entry.principal.as_str(), entry.task.expose()))?;
    let mut happenings = vec![];
    while let Some(row) = rows.next()? {
        let mut cursor = Cursor::new(row);
        let version = place.count("version", cursor.take(place, "version")?)?;
        let kind = place.code("kind", cursor.take(place, "kind")?)?;
        let at = UnixMillis(cursor.take(place, "at_ms")?);
        happenings.push(EventRow { kind, body: cursor.take(place, "body")? }.happening(version, at));
    }
    Ok(happenings)
}

/// What a prepared operation has to wait for.
pub(crate) fn ahead_of(database: &Connection, record: &Record) -> Result<Option<Busy>, Problem> {
    let created = record.task.lifetime.created.0;
    busy(database, record, AHEAD, &[&created])
}

/// What keeps a new record from being carried out now.
pub(crate) fn beside(database: &Connection, record: &Record) -> Result<Option<Busy>, Problem> {
    let conflict =
        record.call.intent.as_ref().and_then(|intent| intent.object.as_ref()).map(|it| it.conflict);
    match conflict {
        None | Some(Conflict::Allow) => Ok(None),
        Some(Conflict::Queue) if record.operation.stage == Stage::Prepared => Ok(None),
        Some(Conflict::Queue | Conflict::Refuse) => busy(database, record, BESIDE, &[]),
    }
}

fn busy(
    database: &Connection,
    record: &Record,
    sql: &str,
    more: &[&dyn ToSql],
) -> Result<Option<Busy>, Problem> {
    let Some(intent) = &record.call.intent else { return Ok(None) };
    let Some(object) = &intent.object else { return Ok(None) };
    let principal = record.principal.as_str();
    let mut values: Vec<&dyn ToSql> =
        vec![&intent.workflow.0, &object.name, &principal, &record.operation_id.0];
    values.extend(more);
    let found: Option<(String, String, i64)> = database
        .prepare_cached(sql)?
        .query_row(&*values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    Ok(found.map(|(id, whose, created)| Busy {
        operation: (whose == principal).then_some(OperationId(id)),
        since: UnixMillis(created),
    }))
}

/// All that there are, one step each.
fn principals(database: &Connection) -> Result<Vec<String>, Problem> {
    let mut statement = database.prepare_cached(NEXT_PRINCIPAL)?;
    let mut all = vec![];
    let mut last = String::new();
    while let Some(next) = statement.query_row([&last], |row| row.get::<_, Option<String>>(0))? {
        last.clone_from(&next);
        all.push(next);
    }
    Ok(all)
}

fn one(
    database: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
) -> Result<Option<LedgerEntry>, Problem> {
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    match rows.next()? {
        Some(row) => read(row).map(Some),
        None => Ok(None),
    }
}

fn many(database: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<Vec<LedgerEntry>, Problem> {
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut entries = vec![];
    while let Some(row) = rows.next()? {
        entries.push(read(row)?);
    }
    Ok(entries)
}

fn read(row: &Row<'_>) -> Result<LedgerEntry, Problem> {
    let mut cursor = Cursor::new(row);
    let id: String = cursor.take(Place { table: "operation", row: "?" }, "operation_id")?;
    let place = Place { table: "operation", row: &id };
    let principal = Principal::stored(cursor.take(place, "principal")?);
    let task: String = cursor.take(place, "task_id")?;
    let version: i64 = cursor.take(place, "version")?;
    let updated = UnixMillis(cursor.take(place, "at_ms")?);
    let server = ServerName(cursor.take(place, "server")?);
    let tool = cursor.take(place, "tool")?;
    let digest: Vec<u8> = cursor.take(place, "digest")?;
    let created = UnixMillis(cursor.take(place, "created_ms")?);
    let kept = kept(&mut cursor, place)?;
    let operation = operation(&mut cursor, place)?;
    let (intent, key) = intent(&mut cursor, place)?;
    Ok(LedgerEntry {
        task: TaskId::parse(&task).map_err(|_| place.corrupt("task_id"))?,
        principal,
        version: place.count("version", version)?,
        server,
        tool,
        digest: digest.try_into().map_err(|_| place.corrupt("digest"))?,
        key,
        intent,
        operation,
        created,
        updated,
        kept,
        id: OperationId(id),
    })
}

fn kept(cursor: &mut Cursor<'_>, place: Place<'_>) -> Result<Option<KeptTask>, Problem> {
    let state: Option<i64> = cursor.take(place, "state")?;
    let ending: Option<i64> = cursor.take(place, "ending")?;
    let ended: Option<i64> = cursor.take(place, "ended_ms")?;
    let wished: Option<i64> = cursor.take(place, "cancel_wished_ms")?;
    let Some(state) = state else { return Ok(None) };
    Ok(Some(KeptTask {
        state: place.code("state", state)?,
        ending: ending.map(|ending| place.code("ending", ending)).transpose()?,
        ended: ended.map(UnixMillis),
        cancel_wished: wished.map(UnixMillis),
    }))
}
