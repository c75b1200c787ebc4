//! From the end of a request to an HTTP response, by way of a stream where one is needed.

use std::task::Poll;

use ::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use ::http::{Response, StatusCode};
use bytes::Bytes;
use taskgate_wire::header::SESSION_ID;
use taskgate_wire::message;
use taskgate_wire::rpc_error::RpcError;

use super::body::{Body, Stream, Work};
use crate::config::Limits;
use crate::outlet::Piece;
use crate::reply::{End, Reply};

/// Answers with JSON if the end comes soon and nothing is said before it, else with a stream (A-126, B-034).
///
/// `streams` says whether a stream will do at all.
pub(super) async fn answer(mut work: Work, streams: bool, limits: &Limits) -> Response<Body> {
    enum Next {
        Over(Reply),
        Said(Option<Piece>),
        Lasts,
    }
    let patience = tokio::time::sleep(limits.stream_after.duration());
    tokio::pin!(patience);
    loop {
        let next = std::future::poll_fn(|cx| {
            if let Poll::Ready(reply) = work.answer.poll(cx) {
                return Poll::Ready(Next::Over(reply));
            }
            if let Poll::Ready(piece) = work.pieces.poll_recv(cx) {
                return Poll::Ready(Next::Said(piece));
            }
            if streams {
                return std::future::Future::poll(patience.as_mut(), cx).map(|()| Next::Lasts);
            }
            Poll::Pending
        })
        .await;
        match next {
            Next::Over(reply) => return over(work, reply, streams, limits),
            Next::Said(Some(Piece::Resumable(task))) => {
                work.note(&task);
            }
            Next::Said(Some(piece @ Piece::Message(_))) if streams => {
                let mut stream = Stream::new(work, limits.keep_alive.duration());
                stream.push(piece);
                return streaming(stream);
            }
            // A client that reads no streams misses what comes ahead of the answer.
            Next::Said(Some(Piece::Message(_))) => {}
            // Nobody holds the way any more: only the end is left to wait for.
            Next::Said(None) => {
                let reply = std::future::poll_fn(|cx| work.answer.poll(cx)).await;
                return over(work, reply, streams, limits);
            }
            Next::Lasts => return streaming(Stream::new(work, limits.keep_alive.duration())),
        }
    }
}

/// The end came before anything was sent. What was said just before it makes a short stream.
fn over(mut work: Work, mut reply: Reply, streams: bool, limits: &Limits) -> Response<Body> {
    while let Ok(piece) = work.pieces.try_recv() {
        if let Piece::Message(_) = piece
            && streams
            && reply.session.is_none()
        {
            let mut stream = Stream::new(work, limits.keep_alive.duration());
            stream.push(piece);
            stream.finish(reply);
            return streaming(stream);
        }
    }
    let Reply { delivers, .. } = &mut reply;
    let handing = work.hands.handing(std::mem::take(delivers));
    from_reply(reply).map(|body| body.handing(handing))
}

/// A stream from its first event on.
pub(super) fn streaming(stream: Stream) -> Response<Body> {
    let mut response = Response::new(Body::Stream(Box::new(stream)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies must pass events on as they come (B-036).
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

pub(super) fn from_reply(reply: Reply) -> Response<Body> {
    let mut response = match reply.end {
        End::Message(message) => json(reply.status, message).map(|body| body.telling(reply.telling)),
        End::Silence => bare(StatusCode::ACCEPTED),
        End::Severed => bare(reply.status),
    };
    if let Some(session) = reply.session
        && let Ok(value) = HeaderValue::from_str(&session)
    {
        response.headers_mut().insert(HeaderName::from_static(SESSION_ID), value);
    }
    response
}

/// An error outside any request that could be read.
pub(super) fn refusal(status: StatusCode, error: &RpcError) -> Response<Body> {
    json(status, message::error(None, error))
}

pub(super) fn bare(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn json(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
