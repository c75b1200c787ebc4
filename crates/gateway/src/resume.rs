//! A broken stream taken up again from its last event.
//!
//! Nothing is replayed from a buffer: the event's id names the task, and the task's record has everything. So this
//! works after our own restart as well. Progress and log messages of the time between are lost.

use std::sync::Arc;

use taskgate_core::task::Ending;
use taskgate_core::time::Millis;
use taskgate_engine::Handle;
use taskgate_store::record::Record;
use taskgate_wire::dialect::fault_error;
use taskgate_wire::rpc_error::RpcError;
use tokio::time::Instant;

use crate::calls::Start;
use crate::dispatch::{Failure, Via};
use crate::event_id::{Answers, EventId};
use crate::follow::{Follow, Known};
use crate::gateway::Gateway;
use crate::handle_tool;
use crate::initialize::OWN_INFO;
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::results::{self, Tool};
use crate::session::Session;
use crate::tasks_a;

/// Answers the request that the broken stream answered, as far as its task goes.
pub(crate) async fn resume(
    gateway: Arc<Gateway>,
    session: Arc<Session>,
    id: EventId,
    outlet: Outlet,
) -> Reply {
    let via = Via::Legacy(session.clone());
    match answer(&gateway, &session, &id, &outlet).await {
        Ok(reply) => reply,
        Err(Failure::Ours(error)) => via.refused(&id.request, &error),
        Err(Failure::Theirs(error)) => via.raised(&id.request, &error),
        Err(Failure::Cancelled) => Reply::accepted(),
    }
}

async fn answer(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    id: &EventId,
    outlet: &Outlet,
) -> Result<Reply, Failure> {
    let found = match &id.task {
        Some(task) => gateway.engine.find(session.principal(), task).await?,
        None => None,
    };
    let handle = found
        .filter(|handle| handle.record().call.server == session.negotiated.server)
        .ok_or_else(RpcError::unknown_task)?;
    match id.answers {
        Answers::Result if session.version().has_tasks_a() => {
            tasks_a::outcome(gateway, session, handle, &id.request, outlet, &gateway.stopping).await
        }
        Answers::Result => Err(RpcError::unknown_task().into()),
        Answers::Call => call(gateway, session, handle, id, outlet).await,
    }
}

/// A plain call whose stream broke: what is left of its time, and then its handle.
async fn call(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    mut handle: Handle,
    id: &EventId,
    outlet: &Outlet,
) -> Result<Reply, Failure> {
    let limits = &gateway.config.limits;
    let policy = gateway.server(&session.negotiated.server);
    let budget = policy.map_or(limits.sync_budget, |policy| policy.sync_budget(limits));
    let now = gateway.engine.clock().now();
    // A clock that was put back gives no time.
    let waited = id.since.map_or(Millis(0), |since| now.since(since));
    let left = Millis(budget.0.saturating_sub(waited.0));
    let until = Instant::now() + left.duration();
    let follow = Follow::start(gateway, session, &handle, None, Known::AsHandle);
    let _waits = follow.wait_on(outlet);
    let record = tokio::select! {
        biased;
        record = handle.over() => record,
        () = tokio::time::sleep_until(until) => handle.record(),
        () = gateway.stopping.cancelled() => return Ok(Reply::severed()),
        () = session.ended.cancelled() => return Ok(Reply::severed()),
    };
    let shown = results::bounded(gateway, &record, Tool::Listed).await;
    over(gateway, session, &shown, id)
}

fn over(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    record: &Record,
    id: &EventId,
) -> Result<Reply, Failure> {
    let via = Via::Legacy(session.clone());
    match record.task.ending() {
        Some(Ending::Returned { result, .. }) => Ok(via.result(&id.request, result, OWN_INFO)),
        Some(Ending::Raised { error }) => Err(Failure::Theirs(error.clone())),
        Some(Ending::Faulted(fault)) => {
            Err(fault_error(fault, record.operation.effect, &record.operation_id).into())
        }
        Some(Ending::Cancelled) => Err(RpcError::task_cancelled(&record.id).into()),
        None => {
            Ok(via.own_result(&id.request, &handle_tool::stand_in(gateway, record, Start::Fresh), OWN_INFO))
        }
    }
}
