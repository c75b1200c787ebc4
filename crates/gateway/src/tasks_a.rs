//! `tasks/*` of dialect A, for sessions at 2025-11-25.

use std::sync::Arc;

use taskgate_core::id::TaskId;
use taskgate_core::task::CancelRule;
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_engine::Handle;
use taskgate_engine::engine::CancelError;
use taskgate_store::Whose;
use taskgate_store::record::Record;
use taskgate_store::summary::Summary;
use taskgate_wire::dialect::a::{self, TaskResult};
use taskgate_wire::dialect::task_id;
use taskgate_wire::id::RequestId;
use taskgate_wire::json;
use taskgate_wire::message;
use taskgate_wire::rpc_error::RpcError;
use tokio_util::sync::CancellationToken;

use crate::config::Sees;
use crate::dispatch::{Exchange, Failure, text};
use crate::follow::{self, Follow, Known};
use crate::gateway::Gateway;
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::results::{self, Tool};
use crate::session::Session;
use crate::view::{outline, view};

/// How long a cursor holds.
const CURSOR_LIFE: Millis = Millis::hours(24);

/// The task of a request. One text for all that it could be: unknown, expired, someone else's, another server's
/// (A-051, A-096, G-015). The parameter alone names it.
pub(crate) async fn find(exchange: &Exchange) -> Result<Handle, Failure> {
    let id = task_id(exchange.request.param("taskId"))?;
    find_id(exchange, &id).await
}

pub(crate) async fn find_id(exchange: &Exchange, id: &TaskId) -> Result<Handle, Failure> {
    let found = exchange.gateway.engine.find(&exchange.principal, id).await?;
    match found.filter(|handle| exchange.policy.shows(&handle.record().call.server)) {
        Some(handle) => Ok(handle),
        None => {
            exchange.gateway.misses.one_more(&exchange.principal).await;
            Err(RpcError::unknown_task().into())
        }
    }
}

/// `tasks/get`: the task, flat, and never its payload.
pub(crate) async fn get(exchange: &Exchange) -> Result<Reply, Failure> {
    let record = find(exchange).await?.record();
    let task = a::task(&view(&exchange.gateway.engine, &record));
    Ok(Reply::result(exchange.request.id(), text(&task)))
}

/// `tasks/result`: held open until the task is over. Its stream is where questions are asked.
pub(crate) async fn result(exchange: &Exchange, session: &Arc<Session>) -> Result<Reply, Failure> {
    let handle = find(exchange).await?;
    outcome(&exchange.gateway, session, handle, exchange.request.id(), &exchange.outlet, &exchange.stopping)
        .await
}

/// Waits for the end of a task and answers `request` by its outcome.
pub(crate) async fn outcome(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    mut handle: Handle,
    request: &RequestId,
    outlet: &Outlet,
    stopping: &CancellationToken,
) -> Result<Reply, Failure> {
    let record = handle.record();
    let record = if record.task.ending().is_some() {
        record
    } else {
        let blocked = &gateway.blocked;
        let _held = blocked
            .take(session.principal())
            .ok_or_else(|| RpcError::too_many("tasks/result requests held open", blocked.max()))?;
        let _waits = Follow::start(gateway, session, &handle, None, Known::AsTask).wait_on(outlet);
        outlet.resumable(&record.id);
        let mut signals = handle.signals();
        tokio::select! {
            biased;
            record = handle.over() => {
                follow::last_visits(session, &record.id, &mut signals, outlet);
                // What is still asked goes before the answer, as long as there is a stream for it.
                session.take_back(&record);
                record
            }
            // Its client resumes at our successor, or asks again (G-021).
            () = stopping.cancelled() => return Ok(Reply::severed()),
            () = session.ended.cancelled() => return Ok(Reply::severed()),
        }
    };
    Ok(final_reply(gateway, &record, request).await)
}

/// The outcome of a task that is over.
async fn final_reply(gateway: &Gateway, record: &Record, request: &RequestId) -> Reply {
    let shown = results::bounded(gateway, record, Tool::Listed).await;
    match a::task_result(&view(&gateway.engine, &shown)) {
        TaskResult::Result(result) => Reply::result(request, text(&result)).delivering(record),
        TaskResult::Error(error) => {
            Reply::message(::http::StatusCode::OK, message::error_raw(Some(request), text(&error)))
        }
        TaskResult::NotYet => Reply::severed(),
    }
}

/// `tasks/cancel`: a promise. The task is `cancelled` before the answer, and refused if it is over.
pub(crate) async fn cancel(exchange: &Exchange) -> Result<Reply, Failure> {
    let id = find(exchange).await?.record().id.clone();
    let record = promise(exchange, &id).await?;
    let task = a::task(&view(&exchange.gateway.engine, &record));
    Ok(Reply::result(exchange.request.id(), text(&task)))
}

/// Cancels a task for good.
pub(crate) async fn promise(exchange: &Exchange, id: &TaskId) -> Result<Arc<Record>, Failure> {
    match exchange.gateway.engine.cancel(&exchange.principal, id, CancelRule::Promise).await {
        Ok(Some(record)) => Ok(record),
        Ok(None) => Err(RpcError::unknown_task().into()),
        Err(CancelError::AlreadyOver(record)) => {
            Err(RpcError::already_over(a::status(&record.task).as_str()).into())
        }
        Err(CancelError::Store(error)) => Err(error.into()),
    }
}

/// `tasks/list`: the caller's own tasks that this server shows, page by page.
pub(crate) async fn list(exchange: &Exchange) -> Result<Reply, Failure> {
    let (records, next) = page(exchange, exchange.request.param("cursor")).await?;
    let engine = &exchange.gateway.engine;
    let tasks: Vec<_> = records.iter().map(|summary| a::task(&outline(engine, summary))).collect();
    let result = a::list_result(&tasks, next.as_deref());
    Ok(Reply::result(exchange.request.id(), text(&result)))
}

/// The page that a raw cursor names, and the cursor of the next. A cursor is sealed for its caller, and for the
/// server if that shows its own tasks only.
pub(crate) async fn page(
    exchange: &Exchange,
    cursor: Option<&str>,
) -> Result<(Vec<Summary>, Option<String>), Failure> {
    let gateway = &exchange.gateway;
    let now = gateway.engine.clock().now();
    let (principal, policy) = (&exchange.principal, &exchange.policy);
    let (whose, server) = match policy.sees {
        Sees::Server => (Whose::Server(principal, &policy.name), policy.name.0.as_bytes()),
        // The next page may be asked for at another server.
        Sees::Principal => (Whose::Principal(principal), b"".as_slice()),
    };
    let bound = [principal.as_str().as_bytes(), server];
    let after = match cursor.filter(|cursor| !json::is_null(cursor)) {
        None => None,
        Some(cursor) => {
            let sealed = json::string(cursor).ok_or_else(RpcError::bad_cursor)?;
            let opened = gateway.sealer.open("tasks/list", &bound, now, &sealed);
            Some(opened.ok().and_then(|place| read_place(&place)).ok_or_else(RpcError::bad_cursor)?)
        }
    };
    let limit = gateway.config.limits.page_tasks;
    let mut records = gateway.engine.list(whose, after, limit + 1).await?;
    let has_more = records.len() > limit;
    records.truncate(limit);
    let next = records
        .last()
        .filter(|_| has_more)
        .map(|last| gateway.sealer.seal("tasks/list", &bound, now + CURSOR_LIFE, &write_place(last)));
    Ok((records, next))
}

fn write_place(summary: &Summary) -> Vec<u8> {
    let mut place = summary.created().0.to_be_bytes().to_vec();
    place.extend_from_slice(summary.id().expose().as_bytes());
    place
}

fn read_place(place: &[u8]) -> Option<(UnixMillis, TaskId)> {
    let (created, id) = place.split_first_chunk::<8>()?;
    Some((UnixMillis(i64::from_be_bytes(*created)), TaskId::parse(std::str::from_utf8(id).ok()?).ok()?))
}
