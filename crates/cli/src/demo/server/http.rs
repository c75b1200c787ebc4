//! Requests in, answers out.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Either, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming as RequestBody};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::mpsc;

use super::message::{Answer, Incoming, Params, error, event, success};
use super::tools::Call;
use super::work::{self, Caller, Outcome};
use super::{Shop, legacy, modern};
use crate::args::Dialect;

type Body = Either<Full<Bytes>, BoxBody<Bytes, std::convert::Infallible>>;

/// The answer is a broken connection.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut")]
pub(super) struct Cut;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const MESSAGE_MAX: usize = 4 << 20;

/// The headers that matter.
pub(super) struct Headers<'a> {
    pub(super) version: Option<&'a str>,
    pub(super) method: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) session: Option<&'a str>,
}

impl Headers<'_> {
    fn of(headers: &HeaderMap) -> Headers<'_> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Headers {
            version: text("mcp-protocol-version"),
            method: text("mcp-method"),
            name: text("mcp-name"),
            session: text("mcp-session-id"),
        }
    }
}

/// Answers one HTTP request.
pub(super) async fn answer(shop: &Arc<Shop>, request: Request<RequestBody>) -> Result<Response<Body>, Cut> {
    if let Some(origin) = request.headers().get(header::ORIGIN)
        && !is_local(origin)
    {
        return Ok(empty(StatusCode::FORBIDDEN));
    }
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/mcp") => {}
        (&Method::GET, "/effects") => {
            let counts = serde_json::to_vec(&shop.journal.counts()).unwrap_or_default();
            return Ok(json(StatusCode::OK, counts));
        }
        (_, "/mcp") => return Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
        _ => return Ok(empty(StatusCode::NOT_FOUND)),
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MESSAGE_MAX).collect().await else {
        return Ok(empty(StatusCode::PAYLOAD_TOO_LARGE));
    };
    let body = body.to_bytes();
    match message(shop, &Headers::of(&parts.headers), &body).await {
        Answer::Json(status, body) => Ok(json(status, body)),
        Answer::Opened(body, session) => {
            let mut response = json(StatusCode::OK, body);
            if let Ok(session) = HeaderValue::from_str(&session) {
                response.headers_mut().insert(SESSION, session);
            }
            Ok(response)
        }
        Answer::Accepted => Ok(empty(StatusCode::ACCEPTED)),
        Answer::Stream(receiver) => Ok(events(receiver)),
        Answer::Cut => Err(Cut),
    }
}

pub(super) async fn message(shop: &Arc<Shop>, headers: &Headers<'_>, body: &[u8]) -> Answer {
    let Ok(incoming) = serde_json::from_slice::<Incoming<'_>>(body) else {
        return error(StatusCode::BAD_REQUEST, "null", -32700, "Parse error", None);
    };
    let (id, method) = match (incoming.id, incoming.method) {
        (Some(id), Some(method)) => (id.get(), method),
        (Some(id), None) => {
            if let Some(result) = incoming.result {
                shop.tasks.replied(id.get().trim_matches('"'), result);
            }
            return Answer::Accepted;
        }
        (None, _) => return Answer::Accepted,
    };
    let params = incoming.params.map_or("{}", |params| params.get());
    let Ok(params) = serde_json::from_str::<Params<'_>>(params) else {
        return error(StatusCode::BAD_REQUEST, id, -32602, "the params do not fit", None);
    };
    match shop.dialect {
        Dialect::B if method == "initialize" => {
            let data = serde_json::json!({ "supported": [modern::VERSION] });
            let words = "No initialize here; supported versions: 2026-07-28";
            error(StatusCode::BAD_REQUEST, id, -32601, words, Some(data))
        }
        Dialect::B => modern::answer(shop, headers, id, &method, &params).await,
        Dialect::A | Dialect::Plain => legacy::answer(shop, headers, id, &method, &params).await,
    }
}

/// Answers a long call on a stream, with questions and progress before the result. The work goes on if the client
/// goes away.
pub(super) fn held(
    shop: Arc<Shop>,
    id: String,
    call: Call,
    token: Option<String>,
    shows_forms: bool,
    shape: fn(&str) -> String,
) -> Answer {
    let (sender, receiver) = mpsc::channel(8);
    tokio::spawn(async move {
        let caller = Caller::Stream { sender: sender.clone(), token, shows_forms };
        if let Outcome::Result { result, .. } = work::perform(&shop, call, caller).await {
            // If the client went away the effect stays made, and nobody hears of it.
            let _ = sender.send(success(&id, &shape(&result)).into()).await;
        }
    });
    Answer::Stream(receiver)
}

fn is_local(origin: &HeaderValue) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(body))));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}

fn events(receiver: mpsc::Receiver<Bytes>) -> Response<Body> {
    let frames = stream::unfold(receiver, |mut receiver| async move {
        let message = receiver.recv().await?;
        Some((Ok(Frame::data(event(&message))), receiver))
    });
    let mut response = Response::new(Either::Right(BodyExt::boxed(StreamBody::new(frames))));
    response.headers_mut().insert(header::CONTENT_TYPE, EVENTS);
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
