//! What a legacy client sends besides requests.

use std::sync::Arc;
use std::time::Duration;

use taskgate_core::id::TaskId;
use taskgate_core::task::{QuestionKey, QuestionKind};
use taskgate_engine::back::Reply as Answer;
use taskgate_wire::answer::{self, Refused};
use taskgate_wire::id::RequestId;
use taskgate_wire::json;
use taskgate_wire::message::{Notification, Outcome, Response};
use taskgate_wire::rpc_error::RpcError;
use tokio::time::Instant;

use crate::asks::{Again, AskedFor};
use crate::dispatch::{text, told};
use crate::gateway::Gateway;
use crate::session::Session;
use crate::standing;

/// A notification. What we have no use for is accepted and dropped: progress of the client's own work, changes of its
/// roots, tasks that it hosts.
pub(crate) async fn notification(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    notification: &Notification,
) {
    if notification.method() == "notifications/initialized" {
        standing::ready(gateway, session);
    }
    if notification.method() == "notifications/cancelled"
        && let Some(id) = notification.param("requestId").and_then(RequestId::from_text)
    {
        session.requests.cancel(&id);
    }
}

/// What a refusal by an error says to the server.
fn refused(kind: QuestionKind, error: &str) -> Answer {
    match answer::from_error(kind, error) {
        Refused::Answer(result) => Answer::Result(bytes::Bytes::from_static(result.as_bytes())),
        Refused::NoAnswer(message) => Answer::Error { code: RpcError::read(error).code, message },
    }
}

fn is_accept(reply: &Answer) -> bool {
    match reply {
        Answer::Result(result) => json::at(text(result), &["action"]) == Some("\"accept\""),
        Answer::Error { .. } => false,
    }
}

/// What becomes of an answer that does not fit its question. The question stays open in either case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// Its client is told by the status of its POST.
    Refuse,
    /// Its client cannot be told, and believes that it has answered: it is asked once more, and then taken for one that
    /// refuses.
    AskAgain,
}

/// An answer to a question of ours. One that answers nothing is dropped.
///
/// # Errors
/// `-32602`: it has the wrong shape; the question stays open.
pub(crate) async fn response(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    response: &Response,
    unfit: Unfit,
) -> Result<(), RpcError> {
    let Some((count, mut ask)) = response.id().and_then(|id| session.asks.take(id)) else { return Ok(()) };
    let reply = match response.outcome() {
        Outcome::Result(result) => match answer::check(ask.kind, result) {
            Ok(()) => Answer::Result(answer::for_b(result)),
            Err(error) => match unfit {
                Unfit::Refuse => {
                    session.asks.put_back(count, ask);
                    return Err(error);
                }
                Unfit::AskAgain => match session.asks.again(ask) {
                    Again::Asked => return Err(error),
                    Again::Enough(enough) => {
                        ask = enough;
                        // In words that hold none of a person's own for no.
                        let unfit = RpcError::invalid_params("its answer did not fit, twice");
                        refused(ask.kind, &unfit.to_json())
                    }
                },
            },
        },
        Outcome::Error(error) => refused(ask.kind, error),
    };
    if let AskedFor::Task { task, key } = &ask.to {
        if ask.kind == QuestionKind::Url && is_accept(&reply) {
            session.asks.agreed(task, key);
        }
        // First answer wins (G-011): a late one is dropped.
        if let Err(error) = take(gateway, session, task, key, reply, unfit).await {
            session.asks.put_back(count, ask);
            return Err(RpcError::internal(told(&error)));
        }
    } else if let AskedFor::Waiting(waiting) = ask.to {
        // Whoever asked may have gone.
        let _ = waiting.send(reply);
    }
    Ok(())
}

/// How long a store that fails is tried before a client is told so that can be told.
const TRIES_TIME: Duration = Duration::from_secs(5);

/// Hands an answer to its task. Its client believes that it has answered, so a store that fails is tried again: on a pipe,
/// which has no way to tell, as long as the session lives and the question is open.
async fn take(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    task: &TaskId,
    key: &QuestionKey,
    reply: Answer,
    unfit: Unfit,
) -> Result<(), taskgate_store::Error> {
    let (gateway, session, task, key) = (gateway.clone(), session.clone(), task.clone(), key.clone());
    let trying = async move {
        let until = Instant::now() + TRIES_TIME;
        let mut pause = Duration::from_millis(50);
        loop {
            let Err(error) = gateway.engine.answer(session.principal(), &task, &key, reply.clone()).await
            else {
                return Ok(());
            };
            tracing::error!(%error, ?task, "an answer could not be taken");
            if (unfit == Unfit::Refuse && Instant::now() + pause > until) || session.ended.is_cancelled() {
                return Err(error);
            }
            tokio::select! {
                biased;
                () = session.ended.cancelled() => return Err(error),
                () = gateway.stopping.cancelled() => return Err(error),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(TRIES_TIME),
            }
        }
    };
    match unfit {
        Unfit::Refuse => trying.await,
        Unfit::AskAgain => {
            // What comes after it on the pipe does not wait.
            tokio::spawn(trying);
            Ok(())
        }
    }
}
