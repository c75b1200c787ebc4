//! POST: one message from a client (A-124, B-032).

use std::sync::Arc;

use ::http::header::CONTENT_LENGTH;
use ::http::{HeaderMap, Response, StatusCode};
use ::http_body_util::{BodyExt, LengthLimitError, Limited};
use bytes::Bytes;
use hyper::body::Incoming;
use taskgate_wire::header::{self, TaskName};
use taskgate_wire::message::{self, Message, Request};
use taskgate_wire::place::{HttpFacts, HttpMethod, Placement, Session as Named, place_http};
use taskgate_wire::rpc_error::{RpcError, code};
use tokio::sync::mpsc;

use super::body::{Answering, Body, Hands, Resume, Work};
use super::guard::{self, Accepts};
use super::{Caller, batch, respond};
use crate::dispatch::{self, Exchange, Via};
use crate::event_id::{Answers, EventId};
use crate::incoming::Unfit;
use crate::modern::Modern;
use crate::outlet::{Outlet, Piece};
use crate::pipe::Sent;
use crate::reply::Reply;
use crate::session::Session;
use crate::{incoming, initialize};

/// How long a client may take to send a body.
const BODY_TIME: std::time::Duration = std::time::Duration::from_secs(30);

pub(super) async fn post(caller: Caller, body: Incoming) -> Response<Body> {
    let accepts = match guard::check_post(&caller.headers) {
        Ok(accepts) => accepts,
        Err(barred) => {
            return respond::refusal(barred.status(), &RpcError::invalid_request(barred.to_string()));
        }
    };
    let body = match read(&caller.headers, body, caller.gateway.config.limits.message_bytes_max).await {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let session = match caller.session().await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    let parsed = message::parse(body.clone());
    let facts = HttpFacts {
        method: HttpMethod::Post,
        version_header: caller.header(header::PROTOCOL_VERSION),
        session: session.named(),
    };
    match place_http(&facts, Some(parsed.as_ref())) {
        Placement::Modern(meta) => {
            let modern = Modern::of(&meta);
            match parsed {
                Ok(Message::Request(request)) => modern_request(caller, modern, request, accepts).await,
                // Only requests are placed here.
                Ok(Message::Notification(_) | Message::Response(_)) | Err(_) => {
                    respond::bare(StatusCode::ACCEPTED)
                }
            }
        }
        Placement::ModernNotification => {
            let method = match &parsed {
                Ok(Message::Notification(notification)) => notification.method(),
                Ok(Message::Request(_) | Message::Response(_)) | Err(_) => "",
            };
            match header::check_notification(method, caller.header(header::METHOD)) {
                Ok(()) => respond::bare(StatusCode::ACCEPTED),
                Err(error) => respond::refusal(StatusCode::BAD_REQUEST, &error),
            }
        }
        Placement::Ignore => respond::bare(StatusCode::ACCEPTED),
        Placement::Initialize => match parsed {
            Ok(Message::Request(request)) => open(caller, request).await,
            Ok(Message::Notification(_) | Message::Response(_)) | Err(_) => {
                respond::bare(StatusCode::ACCEPTED)
            }
        },
        Placement::Legacy(_) => match (parsed, session) {
            (Ok(message), SessionHeader::Known(session)) => legacy(caller, session, message, accepts).await,
            (_, _) => respond::refusal(StatusCode::NOT_FOUND, &RpcError::session_unknown()),
        },
        Placement::Batch => match session {
            SessionHeader::Known(session) => batch::batch(caller, session, &body, accepts).await,
            SessionHeader::Absent | SessionHeader::Unknown => {
                respond::refusal(StatusCode::NOT_FOUND, &RpcError::session_unknown())
            }
        },
        Placement::Stream | Placement::EndSession => respond::bare(StatusCode::METHOD_NOT_ALLOWED),
        Placement::Refuse { http_status, error } => {
            let id = match &parsed {
                Ok(Message::Request(request)) => Some(request.id()),
                Ok(Message::Notification(_) | Message::Response(_)) => None,
                Err(malformed) => malformed.id(),
            };
            respond::from_reply(Reply::error(status(http_status), id, &error))
        }
    }
}

pub(crate) fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// What `Mcp-Session-Id` names.
pub(super) enum SessionHeader {
    Absent,
    Known(Arc<Session>),
    Unknown,
}

impl SessionHeader {
    pub(super) fn named(&self) -> Named {
        match self {
            SessionHeader::Absent => Named::Absent,
            SessionHeader::Known(session) => Named::Known(session.version()),
            SessionHeader::Unknown => Named::Unknown,
        }
    }
}

impl Caller {
    pub(super) async fn session(&self) -> Result<SessionHeader, Box<Response<Body>>> {
        let Some(id) = self.header(header::SESSION_ID) else { return Ok(SessionHeader::Absent) };
        match self.gateway.sessions.find(&self.principal, &self.policy.name, id).await {
            Ok(Some(session)) => Ok(SessionHeader::Known(session)),
            Ok(None) => Ok(SessionHeader::Unknown),
            Err(error) => {
                tracing::error!(%error, "a session could not be read");
                let error = RpcError::internal(error.to_string());
                Err(Box::new(respond::refusal(StatusCode::INTERNAL_SERVER_ERROR, &error)))
            }
        }
    }
}

/// Reads the body, up to the limit.
async fn read(headers: &HeaderMap, body: Incoming, max: usize) -> Result<Bytes, Box<Response<Body>>> {
    let too_large = || Box::new(respond::refusal(StatusCode::PAYLOAD_TOO_LARGE, &RpcError::too_large(max)));
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > max) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIME, Limited::new(body, max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Box::new(respond::refusal(
            StatusCode::BAD_REQUEST,
            &RpcError::invalid_request("The body could not be read"),
        ))),
        Err(_) => Err(Box::new(respond::refusal(
            StatusCode::REQUEST_TIMEOUT,
            &RpcError::invalid_request("The body did not come in time"),
        ))),
    }
}

/// A stateless request. Its other mirrored headers are checked before anything else is done (G-017, Q-015).
async fn modern_request(
    caller: Caller,
    modern: Modern,
    request: Request,
    accepts: Accepts,
) -> Response<Body> {
    let task_name =
        if caller.gateway.config.strict_mcp_name { TaskName::Required } else { TaskName::MayBeMissing };
    if let Err(error) = header::check(&request, |name| caller.header(name), task_name) {
        return respond::from_reply(Reply::error(StatusCode::BAD_REQUEST, Some(request.id()), &error));
    }
    if request.method() == "subscriptions/listen" && !accepts.stream {
        let error =
            RpcError::invalid_request("A subscription is a stream of events, which Accept does not allow");
        return respond::from_reply(Reply::error(StatusCode::NOT_ACCEPTABLE, Some(request.id()), &error));
    }
    let (outlet, pieces) = way(accepts.stream);
    let hands = Hands::of(&caller);
    let limits = caller.gateway.config.limits.clone();
    let stopping = caller.gateway.stopping.clone();
    let exchange = Exchange {
        gateway: caller.gateway,
        policy: caller.policy,
        principal: caller.principal,
        request,
        sent: Sent::now(),
        outlet,
        running: None,
        stopping,
        headers: Some(caller.headers),
    };
    let future = Box::pin(dispatch::request(exchange, Via::Modern(modern)));
    let work = Work { answer: Answering::new(future, false), pieces, ids: None, resume: None, hands };
    respond::answer(work, accepts.stream, &limits).await
}

/// `initialize` (D-002, G-026). Its answer carries the session id in a header, so it never becomes a stream.
async fn open(caller: Caller, request: Request) -> Response<Body> {
    let Caller { gateway, policy, principal, headers: _ } = caller;
    let reply = match initialize::open(&gateway, &policy, &principal, &request).await {
        Ok(opened) => match gateway.sessions.open(opened.negotiated).await {
            Ok((id, _)) => Reply { session: Some(id), ..Reply::result(request.id(), &opened.result) },
            Err(error) => {
                tracing::error!(%error, "a session could not be stored");
                let error = RpcError::internal(error.to_string());
                Reply::error(StatusCode::INTERNAL_SERVER_ERROR, Some(request.id()), &error)
            }
        },
        Err(error) => Reply::error(StatusCode::OK, Some(request.id()), &error),
    };
    respond::from_reply(reply)
}

/// A message of a session.
async fn legacy(caller: Caller, session: Arc<Session>, message: Message, accepts: Accepts) -> Response<Body> {
    match message {
        Message::Request(request) => {
            let limits = caller.gateway.config.limits.clone();
            match legacy_work(&caller, &session, request, accepts.stream) {
                Ok(work) => respond::answer(work, accepts.stream, &limits).await,
                Err(reply) => respond::from_reply(*reply),
            }
        }
        Message::Notification(notification) => {
            incoming::notification(&caller.gateway, &session, &notification).await;
            respond::bare(StatusCode::ACCEPTED)
        }
        Message::Response(response) => {
            match incoming::response(&caller.gateway, &session, &response, Unfit::Refuse).await {
                Ok(()) => respond::bare(StatusCode::ACCEPTED),
                // The question is still open, and may be answered again.
                Err(error) if error.code == code::INTERNAL_ERROR => {
                    respond::from_reply(Reply::error(StatusCode::INTERNAL_SERVER_ERROR, None, &error))
                }
                Err(error) => respond::from_reply(Reply::error(StatusCode::BAD_REQUEST, None, &error)),
            }
        }
    }
}

/// The way on which a request's own messages go. Where its client reads no streams there is none, and whoever would ask
/// something on it hears so at once.
pub(super) fn way(streams: bool) -> (Outlet, mpsc::Receiver<Piece>) {
    let (outlet, mut pieces) = Outlet::new();
    if !streams {
        pieces.close();
    }
    (outlet, pieces)
}

fn legacy_work(
    caller: &Caller,
    session: &Arc<Session>,
    request: Request,
    streams: bool,
) -> Result<Work, Box<Reply>> {
    let (outlet, pieces) = way(streams);
    let answers = if request.method() == "tasks/result" { Answers::Result } else { Answers::Call };
    let resume = Resume {
        template: EventId::template(answers, request.id(), caller.gateway.engine.clock().now()),
        primes: session.version().has_tasks_a(),
    };
    let outlives = request.method() == "tools/call";
    let exchange = legacy_exchange(caller, session, request, outlet)?;
    let future = Box::pin(dispatch::request(exchange, Via::Legacy(session.clone())));
    let hands = Hands::of(caller);
    Ok(Work { answer: Answering::new(future, outlives), pieces, ids: None, resume: Some(resume), hands })
}

/// A request of a session, which can be taken back by its id from now on.
pub(super) fn legacy_exchange(
    caller: &Caller,
    session: &Session,
    request: Request,
    outlet: Outlet,
) -> Result<Exchange, Box<Reply>> {
    let Some(running) = session.requests.begin(request.id()) else {
        let error = RpcError::invalid_request(
            "A request with this id is under way already, or too many are under way in this session",
        );
        return Err(Box::new(Reply::error(StatusCode::OK, Some(request.id()), &error)));
    };
    Ok(Exchange {
        gateway: caller.gateway.clone(),
        policy: caller.policy.clone(),
        principal: caller.principal.clone(),
        request,
        sent: Sent::now(),
        outlet,
        running: Some(running),
        stopping: caller.gateway.stopping.clone(),
        headers: None,
    })
}
