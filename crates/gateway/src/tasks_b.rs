//! `tasks/*` of dialect B.

use taskgate_core::task::{CancelRule, QuestionKey};
use taskgate_engine::Handle;
use taskgate_engine::back::Reply as Answer;
use taskgate_engine::engine::CancelError;
use taskgate_store::record::{Front, Record};
use taskgate_wire::answer;
use taskgate_wire::dialect::{a, b};
use taskgate_wire::mrtr;
use taskgate_wire::result;
use taskgate_wire::rpc_error::RpcError;

use crate::dispatch::{Exchange, Failure, text};
use crate::gateway::Gateway;
use crate::modern::Modern;
use crate::reply::Reply;
use crate::results::{self, Tool};
use crate::tasks_a::{self, find};
use crate::view::view;

/// Each request declares the extension for itself, or is refused (B-064, B-117).
fn check_declared(modern: &Modern) -> Result<(), RpcError> {
    if modern.declares_tasks { Ok(()) } else { Err(RpcError::tasks_extension_required()) }
}

/// The legacy task that a client without the extension may have all the same, if the operator allows it (B-118, Q-016).
async fn legacy(exchange: &Exchange, modern: &Modern) -> Result<Option<Handle>, Failure> {
    let may = exchange.gateway.config.legacy_tasks_for_stateless && modern.declares_legacy_tasks;
    if modern.declares_tasks || !may {
        return Ok(None);
    }
    Ok(Some(find(exchange).await?).filter(|handle| handle.record().front == Front::A))
}

/// It, in the fields of its own dialect.
fn in_its_dialect(exchange: &Exchange, record: &Record) -> Reply {
    let task = result::for_modern(&a::task(&view(&exchange.gateway.engine, record)));
    Reply::result(exchange.request.id(), text(&task))
}

/// `tasks/get`: the task with its questions, result or error (B-075 to B-081).
pub(crate) async fn get(exchange: &Exchange, modern: &Modern) -> Result<Reply, Failure> {
    if let Some(handle) = legacy(exchange, modern).await? {
        return Ok(in_its_dialect(exchange, &handle.record()));
    }
    check_declared(modern)?;
    let record = find(exchange).await?.record();
    let shown = results::bounded(&exchange.gateway, &record, Tool::NotListed).await;
    let task = b::get_result(&view(&exchange.gateway.engine, &shown));
    Ok(Reply::result(exchange.request.id(), text(&task)).delivering(&record))
}

/// `tasks/update`: answers to questions. Some may be missing (B-097); late and unknown ones are ignored (B-096).
pub(crate) async fn update(exchange: &Exchange, modern: &Modern) -> Result<Reply, Failure> {
    check_declared(modern)?;
    let handle = find(exchange).await?;
    let responses = exchange
        .request
        .param("inputResponses")
        .ok_or_else(|| RpcError::invalid_params("Missing params.inputResponses"))?;
    take_answers(&exchange.gateway, &handle, mrtr::read_answers(responses)?).await?;
    Ok(Reply::result(exchange.request.id(), b::ACK))
}

/// Hands answers to the questions that are open. If one of them has the wrong shape, none is taken.
pub(crate) async fn take_answers(
    gateway: &Gateway,
    handle: &Handle,
    answers: Vec<(String, &str)>,
) -> Result<(), Failure> {
    let record = handle.record();
    let Some(asked) = record.task.outstanding() else { return Ok(()) };
    let mut taken = Vec::new();
    for (key, answer) in answers {
        let key = QuestionKey(key);
        if let Some(question) = asked.questions().get(&key) {
            answer::check(question.kind, answer)?;
            taken.push((key, Answer::Result(answer::for_b(answer))));
        }
    }
    for (key, answer) in taken {
        gateway.engine.answer(&record.principal, &record.id, &key, answer).await?;
    }
    Ok(())
}

/// `tasks/cancel`: a wish, always acknowledged (B-100 to B-105).
pub(crate) async fn cancel(exchange: &Exchange, modern: &Modern) -> Result<Reply, Failure> {
    if let Some(handle) = legacy(exchange, modern).await? {
        let record = tasks_a::promise(exchange, &handle.record().id).await?;
        return Ok(in_its_dialect(exchange, &record));
    }
    check_declared(modern)?;
    let id = find(exchange).await?.record().id.clone();
    match exchange.gateway.engine.cancel(&exchange.principal, &id, CancelRule::Wish).await {
        Ok(Some(_)) | Err(CancelError::AlreadyOver(_)) => Ok(Reply::result(exchange.request.id(), b::ACK)),
        Ok(None) => Err(RpcError::unknown_task().into()),
        Err(CancelError::Store(error)) => Err(error.into()),
    }
}
