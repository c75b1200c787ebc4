//! Everything that an MCP server has besides tools and tasks: passed through, bytes untouched where both sides speak
//! the same version.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use taskgate_client::{RawAnswer, RawInFlight};
use taskgate_core::task::{Question, QuestionKind};
use taskgate_engine::back::{BackEvent, Reply as Answer};
use taskgate_wire::errors;
use taskgate_wire::json;
use taskgate_wire::listing::{self, Cache};
use taskgate_wire::meta::{LOG_LEVEL, META};
use taskgate_wire::mrtr;
use taskgate_wire::question;
use taskgate_wire::result::{self, ResultKind};
use taskgate_wire::rpc_error::{RpcError, code};
use taskgate_wire::splice::{Edit, splice};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::asks::AskedFor;
use crate::config::Limits;
use crate::dispatch::{Exchange, Failure, Via, text};
use crate::flight::{SHOWN_MAX, hold, only_tells};
use crate::follow;
use crate::initialize::server_info;
use crate::level::Level;
use crate::reply::Reply;
use crate::results;
use crate::session::Session;
use crate::upstream::Upstream;

/// A server may ask and be asked again this often.
const ROUNDS_MAX: usize = 32;

/// Passes a request through, and translates its result if the eras differ.
pub(crate) async fn pass(exchange: &Exchange, via: &Via) -> Result<Reply, Failure> {
    let upstream = exchange.upstream(via).await?;
    let raw = fetch(exchange, via, &upstream).await?;
    let says = upstream.says();
    let id = exchange.request.id();
    let broken = |_| RpcError::upstream_fault("the result is no object");
    let is_cached = matches!(
        exchange.request.method(),
        "prompts/list" | "resources/list" | "resources/templates/list" | "resources/read"
    );
    let result = match (via, says.back.version.is_modern()) {
        (Via::Modern(_), true) => raw,
        (Via::Legacy(session), false) if session.version() >= says.back.version => raw,
        // G-005
        (Via::Legacy(session), false) => {
            let plain = result::for_legacy(&raw, session.version());
            listing::for_front(text(&plain), session.version(), Cache::NONE).map_err(broken)?
        }
        (Via::Modern(_), false) if is_cached => {
            let listing = exchange.gateway.config.listing;
            let cache = Cache { ttl: listing.ttl, is_public: listing.is_public };
            let listed = listing::for_front(text(&raw), via.version(), cache).map_err(broken)?;
            result::for_modern_from(&listed, server_info(&says))
        }
        (Via::Modern(_), false) => result::for_modern_from(&raw, server_info(&says)),
        (Via::Legacy(session), true) => {
            let plain = result::for_legacy(&raw, session.version());
            listing::for_front(text(&plain), session.version(), Cache::NONE).map_err(broken)?
        }
    };
    Ok(Reply::result(id, text(&result)))
}

/// Sends the request and gives back the server's result object as it came. What a modern server asks a legacy client
/// first is asked on the request's own stream.
pub(crate) async fn fetch(
    exchange: &Exchange,
    via: &Via,
    upstream: &Arc<dyn Upstream>,
) -> Result<Bytes, Failure> {
    let request = &exchange.request;
    let mut params = request.params_bytes();
    let is_modern = upstream.says().back.version.is_modern();
    if let Via::Legacy(session) = via
        && let Some(level) = session.log_level().filter(|_| is_modern)
    {
        let level = [Edit::set(&[META, LOG_LEVEL], format!("\"{}\"", level.as_str()))];
        params = splice(request.params().unwrap_or("{}"), &level).ok().or(params);
    }
    for _ in 0..ROUNDS_MAX {
        let raw = exchange_raw(exchange, via, upstream.request(request.method(), params.clone())).await?;
        let raw = check_kind(request.method(), raw, is_modern)?;
        let Via::Legacy(session) = via else { return Ok(raw) };
        if !is_modern || result::kind(text(&raw), true) != ResultKind::InputRequired {
            return Ok(raw);
        }
        let wanted = mrtr::read(text(&raw)).map_err(|fault| RpcError::upstream_fault(&fault.to_string()))?;
        let answers = gather(exchange, session, wanted.questions).await?;
        let base = params.as_deref().map_or("{}", text);
        let next = mrtr::retry_params(base, &answers, wanted.request_state.as_deref())
            .map_err(|malformed| RpcError::upstream_fault(&malformed.to_string()))?;
        params = Some(next);
    }
    Err(RpcError::upstream_fault("it asks for input again and again").into())
}

/// A `resultType` that nobody negotiated is never passed on (G-025), nor a question where none may come (B-122).
fn check_kind(method: &str, raw: Bytes, is_modern: bool) -> Result<Bytes, Failure> {
    match result::kind(text(&raw), is_modern) {
        ResultKind::Unknown | ResultKind::Task if is_modern => {
            Err(RpcError::upstream_fault("a resultType that nobody asked for").into())
        }
        ResultKind::InputRequired if !matches!(method, "prompts/get" | "resources/read") => {
            Err(RpcError::upstream_fault("it asks for input before it answers, which this method has not")
                .into())
        }
        ResultKind::Complete | ResultKind::InputRequired | ResultKind::Task | ResultKind::Unknown => Ok(raw),
    }
}

/// One exchange, with what comes before its end.
async fn exchange_raw(exchange: &Exchange, via: &Via, in_flight: RawInFlight) -> Result<Bytes, Failure> {
    let RawInFlight { mut answer, mut events, stop } = in_flight;
    // Closing a stateless stream cancels its request (B-037); a legacy one is only given up.
    let mut guard = StopGuard { stop: matches!(via, Via::Modern(_)).then_some(stop.clone()) };
    let cancelled = exchange.running.as_ref().map(|running| running.cancelled.clone());
    let until = tokio::time::Instant::now() + exchange.gateway.config.limits.request_time.duration();
    let said = |event: BackEvent| match event {
        BackEvent::Progress(params) => {
            if let Some(token) = via.progress_token(&exchange.request) {
                exchange.outlet.send(follow::progress(&params, token, None));
            }
        }
        BackEvent::Log(params) => {
            if via.wants_log(&params) {
                exchange.outlet.send(follow::log(&params, None));
            }
        }
        BackEvent::Asked { question, reply, .. } => match via {
            Via::Legacy(session) => {
                // Asked while the answer is waited for; nobody waits for the asking itself.
                let asking = ask(
                    session.clone(),
                    exchange.outlet.clone(),
                    question,
                    exchange.gateway.config.limits.clone(),
                );
                tokio::spawn(async move {
                    let _ = reply.send(asking.await);
                });
            }
            Via::Modern(_) => {
                let _ = reply.send(nobody(question.kind));
            }
        },
        BackEvent::Unasked { .. } | BackEvent::Nudge | BackEvent::Visited { .. } => {}
    };
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => {
                guard.stop = None;
                // What was said before it is shown before it.
                std::iter::from_fn(|| events.try_recv().ok()).take(SHOWN_MAX).filter(only_tells).for_each(said);
                return match answer {
                    RawAnswer::Result(result) => Ok(result),
                    failed @ (RawAnswer::Error(_) | RawAnswer::NeverSent(_) | RawAnswer::Lost(_) | RawAnswer::Nonsense(_)) => {
                        Err(Failure::from(failed))
                    }
                };
            }
            () = async { match &cancelled { Some(token) => token.cancelled().await, None => std::future::pending().await } } => {
                stop.cancel();
                hold(stop, Box::pin(async move { answer.await; }));
                return Err(Failure::Cancelled);
            }
            () = tokio::time::sleep_until(until) => {
                stop.cancel();
                hold(stop, Box::pin(async move { answer.await; }));
                let secs = exchange.gateway.config.limits.request_time.0 / 1000;
                return Err(RpcError::internal(format!("The server did not answer within {secs} s")).into());
            }
            // Last: a server may say more than there is time for.
            Some(event) = events.recv() => said(event),
        }
    }
}

struct StopGuard {
    stop: Option<CancellationToken>,
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
    }
}

/// The answer for a server whose caller cannot be asked here.
pub(crate) fn nobody(kind: QuestionKind) -> Answer {
    Answer::Error { code: code::METHOD_NOT_FOUND, message: format!("{} cannot be asked here", kind.method()) }
}

/// Asks all questions of a round and waits for the answers.
async fn gather(
    exchange: &Exchange,
    session: &Arc<Session>,
    questions: Vec<(String, Question)>,
) -> Result<Vec<(String, Bytes)>, Failure> {
    let limits = &exchange.gateway.config.limits;
    let asked = questions.into_iter().map(|(key, question)| async move {
        let kind = question.kind;
        let answer = ask(session.clone(), exchange.outlet.clone(), question.clone(), limits.clone()).await;
        (key, kind, question, answer)
    });
    let mut answers = Vec::new();
    for (key, kind, question, answer) in join_all(asked).await {
        match (answer, kind) {
            (Answer::Result(answer), _) => answers.push((key, answer)),
            (Answer::Error { .. }, QuestionKind::Url) if session.version().has_elicitation_id() => {
                return Err(Failure::Theirs(visit_first(&question)));
            }
            (Answer::Error { message, .. }, _) => {
                return Err(
                    RpcError::internal(format!("The server's question was not answered: {message}")).into()
                );
            }
        }
    }
    Ok(answers)
}

/// `-32042`: a client that could not be asked is told which URL to visit first.
fn visit_first(asked: &Question) -> Bytes {
    let id = question::elicitation_id(asked).unwrap_or_else(|| "taskgate".to_owned());
    let edits = [Edit::set(&["elicitationId"], json::string_literal(&id))];
    let params = splice(text(&asked.params), &edits).unwrap_or_else(|_| asked.params.clone());
    Bytes::from(errors::url_elicitation_required("A URL must be visited first", &[text(&params).to_owned()]))
}

/// Asks the client of a session one question, on `outlet` or else its standing stream, and waits for the answer.
pub(crate) async fn ask(
    session: Arc<Session>,
    outlet: crate::outlet::Outlet,
    question: Question,
    limits: Limits,
) -> Answer {
    let kind = question.kind;
    if !session.negotiated.offers.takes(&question) {
        return nobody(kind);
    }
    let (sender, receiver) = oneshot::channel();
    let Some((count, _)) = session.put(&question, AskedFor::Waiting(sender), None, &outlet) else {
        return nobody(kind);
    };
    match tokio::time::timeout(limits.ask_time.duration(), receiver).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => {
            session.take_back_one(count);
            match taskgate_wire::answer::gave_up(kind) {
                Ok(answer) => Answer::Result(Bytes::from_static(answer.as_bytes())),
                Err(error) => Answer::Error { code: error.code, message: error.message },
            }
        }
    }
}

/// `logging/setLevel`: kept in the session. A legacy server, which has one level for all, is told the lowest that
/// anyone wants.
pub(crate) async fn set_level(exchange: &Exchange, session: &Arc<Session>) -> Result<Reply, Failure> {
    let level = exchange.request.param("level").and_then(json::string);
    let level = level
        .as_deref()
        .and_then(Level::parse)
        .ok_or_else(|| RpcError::invalid_params("params.level is no level of log messages"))?;
    session.set_log_level(level);
    exchange.gateway.sessions.save(session);
    let upstream = exchange.upstream(&Via::Legacy(session.clone())).await?;
    let says = upstream.says();
    if !says.back.version.is_modern() && says.back.has(&["logging"]) {
        let upstreams = &exchange.gateway.upstreams;
        let home = upstreams.home(&session.back_key);
        let others = exchange.gateway.sessions.newest(|other| upstreams.home(&other.back_key) == home);
        let lowest =
            others.iter().filter_map(|other| other.log_level()).min().map_or(level, |low| low.min(level));
        let params = format!("{{\"level\":\"{}\"}}", lowest.as_str());
        exchange_raw(
            exchange,
            &Via::Legacy(session.clone()),
            upstream.request("logging/setLevel", Some(Bytes::from(params))),
        )
        .await?;
    }
    Ok(Reply::result(exchange.request.id(), "{}"))
}

/// `resources/subscribe` and its opposite.
pub(crate) async fn subscribe(exchange: &Exchange, session: &Arc<Session>) -> Result<Reply, Failure> {
    let uri = exchange.request.param("uri").and_then(json::string);
    let uri = uri.ok_or_else(|| RpcError::invalid_params("params.uri is missing or no string"))?;
    if results::read::is_own(exchange, &uri) {
        return Err(
            RpcError::invalid_params("A kept result never changes, so there is nothing to hear").into()
        );
    }
    let via = Via::Legacy(session.clone());
    let upstream = exchange.upstream(&via).await?;
    if !upstream.says().back.has(&["resources"]) {
        return Err(RpcError::method_not_found(exchange.request.method()).into());
    }
    if exchange.request.method() == "resources/unsubscribe" {
        session.unsubscribe(&uri);
        return Ok(Reply::result(exchange.request.id(), "{}"));
    }
    let max = exchange.gateway.config.limits.filter_max;
    if session.is_subscribed(&uri) {
        return Ok(Reply::result(exchange.request.id(), "{}"));
    }
    let watched = exchange.gateway.watches.resource(&upstream, &session.back_key, &uri).await?;
    if !session.subscribe(&uri, watched, max) {
        return Err(RpcError::too_many("subscribed resources in this session", max).into());
    }
    Ok(Reply::result(exchange.request.id(), "{}"))
}
