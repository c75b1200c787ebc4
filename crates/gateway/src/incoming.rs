//! What a legacy client sends besides requests.

use std::sync::Arc;

use taskgate_core::task::QuestionKind;
use taskgate_engine::back::Reply as Answer;
use taskgate_wire::answer::{self, Refused};
use taskgate_wire::id::RequestId;
use taskgate_wire::json;
use taskgate_wire::message::{Notification, Outcome, Response};
use taskgate_wire::rpc_error::RpcError;

use crate::asks::AskedFor;
use crate::dispatch::text;
use crate::gateway::Gateway;
use crate::session::Session;

/// A notification. What we have no use for is accepted and dropped: progress of the client's own work, changes of its
/// roots, tasks that it hosts.
pub(crate) async fn notification(
    _gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    notification: &Notification,
) {
    if notification.method() == "notifications/cancelled"
        && let Some(id) = notification.param("requestId").and_then(RequestId::from_text)
    {
        session.requests.cancel(&id);
    }
}

fn is_accept(reply: &Answer) -> bool {
    match reply {
        Answer::Result(result) => json::at(text(result), &["action"]) == Some("\"accept\""),
        Answer::Error { .. } => false,
    }
}

/// An answer to a question of ours. One that answers nothing is dropped.
///
/// # Errors
/// `-32602`: it has the wrong shape; the question stays open.
pub(crate) async fn response(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    response: &Response,
) -> Result<(), RpcError> {
    let Some((count, ask)) = response.id().and_then(|id| session.asks.take(id)) else { return Ok(()) };
    let reply = match response.outcome() {
        Outcome::Result(result) => {
            if let Err(error) = answer::check(ask.kind, result) {
                session.asks.put_back(count, ask);
                return Err(error);
            }
            Answer::Result(answer::for_b(result))
        }
        //
        Outcome::Error(error) => match answer::from_error(ask.kind, error) {
            Refused::Answer(result) => Answer::Result(bytes::Bytes::from_static(result.as_bytes())),
            Refused::NoAnswer(message) => Answer::Error { code: RpcError::read(error).code, message },
        },
    };
    match ask.to {
        AskedFor::Waiting(waiting) => {
            // Whoever asked may have gone.
            let _ = waiting.send(reply);
        }
        AskedFor::Task { task, key } => {
            if ask.kind == QuestionKind::Url && is_accept(&reply) {
                session.asks.agreed(&task, &key);
            }
            // First answer wins (G-011): a late one is dropped.
            let taken = gateway.engine.answer(session.principal(), &task, &key, reply).await;
            if let Err(error) = taken {
                tracing::error!(%error, task = ?task, "an answer could not be taken");
                return Err(RpcError::internal(error.to_string()));
            }
        }
    }
    Ok(())
}
