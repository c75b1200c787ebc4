//! Several messages of 2025-03-26 in one body (D-005).

use std::sync::Arc;

use ::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use taskgate_wire::message::{self, Message};
use taskgate_wire::rpc_error::RpcError;

use super::body::{Answering, Body, Hands, Work};
use super::guard::Accepts;
use super::post::{legacy_exchange, way};
use super::{Caller, respond};
use crate::batch::{BATCH_MAX, gathered, no_initialize, too_long};
use crate::dispatch::{self, Via};
use crate::incoming::{self, Unfit};
use crate::outlet::Outlet;
use crate::reply::{End, Reply};
use crate::session::Session;

/// A batch: the answers to its requests come together in one array. They share a stream, if their client reads any, for
/// what is said and asked before the last of them is ready.
pub(super) async fn batch(
    caller: Caller,
    session: Arc<Session>,
    body: &Bytes,
    accepts: Accepts,
) -> Response<Body> {
    let messages = match message::parse_batch(body) {
        Ok(messages) if messages.len() <= usize::from(BATCH_MAX) => messages,
        Ok(_) => return respond::refusal(StatusCode::BAD_REQUEST, &too_long()),
        Err(malformed) => return respond::refusal(StatusCode::BAD_REQUEST, &malformed.to_rpc()),
    };
    let (outlet, pieces) = way(accepts.stream);
    // A call outlives its connection, and the others of the batch are soon done.
    let mut outlives = false;
    let mut ends: Vec<BoxFuture<'static, Reply>> = Vec::new();
    for message in messages {
        outlives |= matches!(&message, Ok(Message::Request(request)) if request.method() == "tools/call");
        ends.extend(one(&caller, &session, message, &outlet).await);
    }
    // Only what is under way may still say something.
    drop(outlet);
    if ends.is_empty() {
        return respond::bare(StatusCode::ACCEPTED);
    }
    let limits = caller.gateway.config.limits.clone();
    let answer = Answering::new(Box::pin(together(ends)), outlives);
    let hands = Hands::of(&caller);
    respond::answer(Work { answer, pieces, ids: None, resume: None, hands }, accepts.stream, &limits).await
}

/// The end of one message, if it is answered. Those before it in the batch have been taken up.
async fn one(
    caller: &Caller,
    session: &Arc<Session>,
    message: Result<Message, message::Malformed>,
    outlet: &Outlet,
) -> Option<BoxFuture<'static, Reply>> {
    let refused = match message {
        Ok(Message::Request(request)) if request.method() == "initialize" => {
            Reply::error(StatusCode::OK, Some(request.id()), &no_initialize())
        }
        Ok(Message::Request(request)) => match legacy_exchange(caller, session, request, outlet.clone()) {
            Ok(exchange) => {
                return Some(Box::pin(dispatch::request(exchange, Via::Legacy(session.clone()))));
            }
            Err(reply) => *reply,
        },
        Ok(Message::Notification(notification)) => {
            incoming::notification(&caller.gateway, session, &notification).await;
            return None;
        }
        Ok(Message::Response(response)) => {
            // A batch has no place for the refusal of an answer; the question is asked again.
            let used: Result<(), RpcError> =
                incoming::response(&caller.gateway, session, &response, Unfit::AskAgain).await;
            if let Err(error) = used {
                tracing::debug!(%error, "an answer could not be used");
            }
            return None;
        }
        Err(malformed) => Reply::error(StatusCode::OK, malformed.id(), &malformed.to_rpc()),
    };
    Some(Box::pin(std::future::ready(refused)))
}

async fn together(ends: Vec<BoxFuture<'static, Reply>>) -> Reply {
    let (mut answers, mut delivers) = (Vec::new(), Vec::new());
    for reply in futures_util::future::join_all(ends).await {
        match reply.end {
            End::Message(message) => {
                answers.push(message);
                delivers.extend(reply.delivers);
            }
            End::Silence | End::Severed => {}
        }
    }
    match gathered(&answers) {
        Some(array) => Reply { delivers, ..Reply::message(StatusCode::OK, array) },
        None => Reply::accepted(),
    }
}
