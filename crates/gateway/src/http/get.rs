//! GET and DELETE: the standing stream of a session, a broken stream taken up again, and the end of a session.

use ::http::{Response, StatusCode};
use taskgate_wire::header;
use taskgate_wire::place::{HttpFacts, HttpMethod, Placement, place_http};
use taskgate_wire::rpc_error::RpcError;

use super::body::{Answering, Body, Hands, Stream, Work};
use super::guard::Accepts;
use super::post::{SessionHeader, status};
use super::{Caller, respond};
use crate::event_id::EventId;
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::{resume, standing};

/// Opens a stream (A-130, D-006), or takes one up again from `Last-Event-ID`.
pub(super) async fn get(caller: Caller) -> Response<Body> {
    let session = match caller.session().await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    if let Some(refused) = refused(&caller, HttpMethod::Get, &session) {
        return refused;
    }
    let SessionHeader::Known(session) = session else { return respond::bare(StatusCode::METHOD_NOT_ALLOWED) };
    if !Accepts::of(&caller.headers).stream {
        let error = RpcError::invalid_request(
            "A GET is answered with text/event-stream, which Accept does not allow",
        );
        return respond::refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    let limits = &caller.gateway.config.limits;
    let hands = Hands::of(&caller);
    let keep_alive = limits.keep_alive.duration();
    let (outlet, pieces) = Outlet::new();
    let ids = caller.header(header::LAST_EVENT_ID).and_then(EventId::parse);
    let future: futures_util::future::BoxFuture<'static, Reply> = match &ids {
        Some(id) => Box::pin(resume::resume(caller.gateway.clone(), session, id.clone(), outlet)),
        None => {
            if !session.add_stream(&outlet, limits.streams_max) {
                let error = RpcError::too_many("open streams in this session", limits.streams_max);
                return respond::refusal(StatusCode::TOO_MANY_REQUESTS, &error);
            }
            Box::pin(standing::hold(caller.gateway.clone(), session, outlet))
        }
    };
    let work = Work { answer: Answering::new(future, false), pieces, ids, resume: None, hands };
    respond::streaming(Stream::new(work, keep_alive))
}

/// Ends a session.
pub(super) async fn delete(caller: Caller) -> Response<Body> {
    let session = match caller.session().await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    if let Some(refused) = refused(&caller, HttpMethod::Delete, &session) {
        return refused;
    }
    let SessionHeader::Known(session) = session else { return respond::bare(StatusCode::METHOD_NOT_ALLOWED) };
    match caller.gateway.sessions.end(&session).await {
        Ok(()) => respond::bare(StatusCode::NO_CONTENT),
        Err(error) => {
            tracing::error!(%error, "a session could not be ended");
            let error = RpcError::internal(error.to_string());
            respond::refusal(StatusCode::INTERNAL_SERVER_ERROR, &error)
        }
    }
}

fn refused(caller: &Caller, method: HttpMethod, session: &SessionHeader) -> Option<Response<Body>> {
    let version_header = caller.header(header::PROTOCOL_VERSION);
    let facts = HttpFacts { method, version_header, session: session.named() };
    match place_http(&facts, None) {
        Placement::Refuse { http_status, error } => {
            let mut response = respond::refusal(status(http_status), &error);
            if response.status() == StatusCode::METHOD_NOT_ALLOWED {
                response
                    .headers_mut()
                    .insert(::http::header::ALLOW, ::http::HeaderValue::from_static("POST"));
            }
            Some(response)
        }
        Placement::Modern(_)
        | Placement::ModernNotification
        | Placement::Initialize
        | Placement::Legacy(_)
        | Placement::Batch
        | Placement::Stream
        | Placement::EndSession
        | Placement::Ignore => None,
    }
}
