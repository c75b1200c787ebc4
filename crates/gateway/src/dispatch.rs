//! Which handler a request goes to. Its era was decided by its envelope before; the method alone decides nothing.

use std::borrow::Cow;
use std::sync::Arc;

use ::http::StatusCode;
use bytes::Bytes;
use taskgate_client::RawAnswer;
use taskgate_core::id::Principal;
use taskgate_engine::back::BackKey;
use taskgate_wire::errors;
use taskgate_wire::id::RequestId;
use taskgate_wire::json;
use taskgate_wire::message::{self, Request};
use taskgate_wire::result;
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::splice::{Edit, splice};
use taskgate_wire::text::SafeText;
use taskgate_wire::version::Version;
use tokio_util::sync::CancellationToken;

use crate::config::ServerPolicy;
use crate::gateway::Gateway;
use crate::level::Level;
use crate::modern::Modern;
use crate::outlet::Outlet;
use crate::pipe::Sent;
use crate::reply::Reply;
use crate::requests::Running;
use crate::results::Tool;
use crate::session::Session;
use crate::upstream::Upstream;
use crate::{
    calls, initialize, params, passthrough, results, standing, subscriptions, tasks_a, tasks_b, tools,
};

/// One request on its way through.
pub(crate) struct Exchange {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) policy: Arc<ServerPolicy>,
    pub(crate) principal: Principal,
    pub(crate) request: Request,
    /// By which it is known again should it come once more, and when it came first.
    pub(crate) sent: Sent,
    /// Its own way back.
    pub(crate) outlet: Outlet,
    /// Where it can be cancelled by name: everywhere but in stateless HTTP.
    pub(crate) running: Option<Running>,
    /// What is held open is let go (G-021).
    pub(crate) stopping: CancellationToken,
    /// Those of a stateless HTTP request, which mirror its arguments (B-045).
    pub(crate) headers: Option<::http::HeaderMap>,
}

/// The era that a request came in.
#[derive(Clone)]
pub(crate) enum Via {
    /// It stands for itself.
    Modern(Modern),
    /// It belongs to a session.
    Legacy(Arc<Session>),
}

/// A request that was refused or failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// By us.
    Ours(RpcError),
    /// By the server: its error object's bytes.
    Theirs(Bytes),
    /// Its client took it back: there is no answer.
    Cancelled,
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Failure {
        Failure::Ours(error)
    }
}

impl From<taskgate_store::Error> for Failure {
    fn from(error: taskgate_store::Error) -> Failure {
        tracing::error!(error = &error as &dyn std::error::Error, "the store failed a request");
        Failure::Ours(RpcError::internal(told(&error)))
    }
}

/// What a caller is told of a store that fails. Paths and the database's own words are for the operator's log.
pub(crate) fn told(error: &taskgate_store::Error) -> &'static str {
    use taskgate_store::Error;
    match error {
        Error::Full { .. } => {
            "The gateway's disk is full, so nothing can be recorded, and nothing was sent; its operator must free some space"
        }
        Error::ReadOnly { .. } => {
            "The gateway's store cannot be written, so nothing can be recorded, and nothing was sent; its operator must make it writable"
        }
        Error::Broken { .. } => {
            "The gateway's store has failed, so nothing more is sent and the gateway ends; once it runs again, look at your tasks before you call again"
        }
        Error::Open { .. }
        | Error::InUse { .. }
        | Error::Newer { .. }
        | Error::Damaged { .. }
        | Error::Corrupt { .. }
        | Error::Closed
        | Error::Backend { .. } => {
            "The gateway's store cannot be used now; the reason is in its operator's log"
        }
    }
}

impl From<RawAnswer> for Failure {
    fn from(answer: RawAnswer) -> Failure {
        match answer {
            RawAnswer::Error(error) => Failure::Theirs(error),
            RawAnswer::NeverSent(why) | RawAnswer::Lost(why) => Failure::Ours(RpcError::internal(format!(
                "The server did not answer: {}",
                SafeText::status(&why)
            ))),
            RawAnswer::Nonsense(why) => {
                Failure::Ours(RpcError::upstream_fault(SafeText::status(&why).as_str()))
            }
            RawAnswer::Result(_) => {
                Failure::Ours(RpcError::upstream_fault("a result where none was expected"))
            }
        }
    }
}

/// Carries a request to its end.
pub(crate) async fn request(exchange: Exchange, via: Via) -> Reply {
    if let Via::Legacy(session) = &via
        && exchange.request.method() != "ping"
    {
        standing::ready(&exchange.gateway, session);
    }
    let handled = match &exchange.running {
        // A call that is cancelled has something to do still.
        _ if exchange.request.method() == "tools/call" => handle(&exchange, &via).await,
        Some(running) => tokio::select! {
            biased;
            handled = handle(&exchange, &via) => handled,
            () = running.cancelled.cancelled() => Err(Failure::Cancelled),
        },
        None => handle(&exchange, &via).await,
    };
    match handled {
        Ok(reply) => reply,
        Err(Failure::Ours(error)) => via.refused(exchange.request.id(), &error),
        Err(Failure::Theirs(error)) => via.raised(exchange.request.id(), &error),
        Err(Failure::Cancelled) => Reply::accepted(),
    }
}

async fn handle(exchange: &Exchange, via: &Via) -> Result<Reply, Failure> {
    let method = exchange.request.method();
    match via {
        Via::Modern(modern) => match method {
            "tools/call" => calls::call(exchange, via).await,
            "tools/list" => tools::list(exchange, via).await,
            "server/discover" => initialize::discover(exchange, modern).await,
            "tasks/get" => tasks_b::get(exchange, modern).await,
            "tasks/update" => tasks_b::update(exchange, modern).await,
            "tasks/cancel" => tasks_b::cancel(exchange, modern).await,
            "subscriptions/listen" => subscriptions::listen(exchange, modern).await,
            "resources/list" | "resources/templates/list" | "resources/read" => {
                results::read::handle(exchange, via).await
            }
            "prompts/list" | "prompts/get" | "completion/complete" => passthrough::pass(exchange, via).await,
            // B-016, B-114, B-119
            _ => Err(RpcError::method_not_found(method).into()),
        },
        Via::Legacy(session) => match method {
            "tools/call" => calls::call(exchange, via).await,
            "tools/list" => tools::list(exchange, via).await,
            //
            "ping" => Ok(Reply::result(exchange.request.id(), "{}")),
            "logging/setLevel" => passthrough::set_level(exchange, session).await,
            "resources/subscribe" | "resources/unsubscribe" => {
                passthrough::subscribe(exchange, session).await
            }
            // G-001: versions without tasks have none of these.
            "tasks/get" if session.version().has_tasks_a() => tasks_a::get(exchange).await,
            "tasks/result" if session.version().has_tasks_a() => tasks_a::result(exchange, session).await,
            "tasks/cancel" if session.version().has_tasks_a() => tasks_a::cancel(exchange).await,
            // nothing is listed to callers that cannot be told apart.
            "tasks/list" if session.version().has_tasks_a() && !exchange.principal.is_shared() => {
                tasks_a::list(exchange).await
            }
            "resources/list" | "resources/templates/list" | "resources/read" => {
                results::read::handle(exchange, via).await
            }
            "prompts/list" | "prompts/get" | "completion/complete" => passthrough::pass(exchange, via).await,
            _ => Err(RpcError::method_not_found(method).into()),
        },
    }
}

impl Exchange {
    /// The session with the server that this request needs.
    pub(crate) async fn upstream(&self, via: &Via) -> Result<Arc<dyn Upstream>, Failure> {
        let key = via.back_key(self);
        let upstream = self.gateway.upstreams.session(&key).await.map_err(|unreachable| {
            tracing::warn!(server = %key.server, error = %unreachable, "server cannot be reached");
            Failure::Ours(RpcError::internal(unreachable.to_string()))
        })?;
        if let Via::Legacy(session) = via {
            standing::listen_again(&self.gateway, session);
        }
        Ok(upstream)
    }
}

impl Via {
    pub(crate) fn version(&self) -> Version {
        match self {
            Via::Modern(_) => Version::MODERN,
            Via::Legacy(session) => session.version(),
        }
    }

    /// Which session with the server goes with the request.
    pub(crate) fn back_key(&self, exchange: &Exchange) -> BackKey {
        match self {
            Via::Modern(modern) => BackKey {
                server: exchange.policy.name.clone(),
                principal: exchange.principal.clone(),
                offers: modern.offers.to_stored(),
            },
            Via::Legacy(session) => session.back_key.clone(),
        }
    }

    /// The token under which the client wants progress, as it wrote it.
    pub(crate) fn progress_token<'r>(&'r self, request: &'r Request) -> Option<&'r str> {
        match self {
            Via::Modern(modern) => modern.progress_token.as_deref(),
            Via::Legacy(_) => params::progress_token(request),
        }
    }

    /// Whether a log message belongs on the request's own stream (B-140, X-044).
    pub(crate) fn wants_log(&self, params: &[u8]) -> bool {
        let level = std::str::from_utf8(params).ok().and_then(|params| json::at(params, &["level"]));
        let Some(level) = level.and_then(json::string).as_deref().and_then(Level::parse) else {
            return false;
        };
        match self {
            Via::Modern(modern) => modern.log_level.is_some_and(|lowest| level >= lowest),
            Via::Legacy(session) => session.wants_log(level),
        }
    }

    /// The lowest level of log messages that the client wants, if it said.
    pub(crate) fn log_level(&self) -> Option<Level> {
        match self {
            Via::Modern(modern) => modern.log_level,
            Via::Legacy(session) => session.log_level(),
        }
    }

    /// Whether `taskgate_task` is among the tools that this client is shown (design 3).
    pub(crate) fn tool(&self) -> Tool {
        match self {
            Via::Modern(modern) if modern.declares_tasks => Tool::NotListed,
            Via::Modern(_) | Via::Legacy(_) => Tool::Listed,
        }
    }

    /// A kept tool result, in the client's version.
    pub(crate) fn result(&self, id: &RequestId, result: &Bytes, server_info: &str) -> Reply {
        let shown = match self {
            Via::Modern(_) => result::for_modern_from(result, server_info),
            Via::Legacy(session) => result::for_legacy(result, session.version()),
        };
        Reply::result(id, text(&shown))
    }

    /// A tool result of our own making, whose text says all that its structured part does: a version without such a
    /// part loses nothing by it.
    pub(crate) fn own_result(&self, id: &RequestId, result: &Bytes, server_info: &str) -> Reply {
        if self.version().has_structured_output() {
            return self.result(id, result, server_info);
        }
        let plain = splice(text(result), &[Edit::remove(&["structuredContent"])]);
        self.result(id, &plain.unwrap_or_else(|_| result.clone()), server_info)
    }

    /// An error of ours.
    pub(crate) fn refused(&self, id: &RequestId, error: &RpcError) -> Reply {
        Reply::error(self.status(error.code), Some(id), error)
    }

    /// An error of the server's, as this client may see it (E-001 to E-012).
    pub(crate) fn raised(&self, id: &RequestId, error: &Bytes) -> Reply {
        if let Via::Modern(modern) = self
            && errors::required_capabilities(text(error)).is_some_and(|required| modern.lacks(required))
        {
            // E-007: the client itself did not declare what the server needs.
            return Reply::message(StatusCode::BAD_REQUEST, message::error_raw(Some(id), text(error)));
        }
        let error: Cow<'_, str> = errors::to_client(text(error), self.version());
        let status = self.status(RpcError::read(&error).code);
        Reply::message(status, message::error_raw(Some(id), &error))
    }

    fn status(&self, code: i64) -> StatusCode {
        StatusCode::from_u16(errors::http_status(code, self.version().era())).unwrap_or(StatusCode::OK)
    }
}

/// Bytes that were text when they came in.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("{}")
}
