//! GET of a kept result, or of a part of it (R5.7).
//!
//! It stands below its server's path, and finds the task as `tasks/get` does there: an id that is unknown, expired or
//! someone else's is answered like a path at which nothing is.

use std::ops::Range;
use std::sync::Arc;

use ::http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use ::http::{Method, Response, StatusCode};
use taskgate_core::id::{Principal, TaskId};
use taskgate_seeded::Bug;
use taskgate_store::record::Record;
use taskgate_wire::rpc_error::RpcError;

use super::body::Body;
use super::respond;
use crate::config::ServerPolicy;
use crate::gateway::Gateway;
use crate::results::{self, Content, Part};

/// What is behind a path never changes, so one tag does for each.
const TAG: &str = "\"1\"";

/// The server below whose path a path names a result, and what it names there.
pub(super) fn at<'p>(gateway: &Gateway, path: &'p str) -> Option<(Arc<ServerPolicy>, &'p str)> {
    let folder = path.rfind(results::HTTP_FOLDER)?;
    let policy = gateway.at(path.get(..folder)?)?;
    Some((policy, path.get(folder + results::HTTP_FOLDER.len()..)?))
}

pub(super) async fn answer(
    gateway: &Gateway,
    policy: &ServerPolicy,
    method: &Method,
    headers: &HeaderMap,
    rest: &str,
) -> Response<Body> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let error = RpcError::invalid_request("Only GET and HEAD are served here");
        let mut response = respond::refusal(StatusCode::METHOD_NOT_ALLOWED, &error);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match held(gateway, policy, rest).await {
        Ok(Some(held)) => show(&held, method, headers),
        Ok(None) => {
            gateway.misses.one_more(&Principal::anonymous()).await;
            let error = RpcError::invalid_request("There is no such result, or it has expired");
            respond::refusal(StatusCode::NOT_FOUND, &error)
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a result could not be read");
            let error = RpcError::internal("The gateway's store cannot be used now");
            respond::refusal(StatusCode::INTERNAL_SERVER_ERROR, &error)
        }
    }
}

async fn held(
    gateway: &Gateway,
    policy: &ServerPolicy,
    rest: &str,
) -> Result<Option<Content>, taskgate_store::Error> {
    let Some((id, part)): Option<(TaskId, Part)> = results::place(rest) else { return Ok(None) };
    let found = gateway.engine.find(&Principal::anonymous(), &id).await?;
    let is_here =
        |record: &Record| policy.shows(&record.call.server) || taskgate_seeded::is(Bug::ResultForOthers);
    let Some(record) = found.map(|handle| handle.record()).filter(|record| is_here(record)) else {
        return Ok(None);
    };
    let Some(result) = results::read::returned(&record) else { return Ok(None) };
    // Out of JSON and base64, which takes its time for many megabytes.
    Ok(tokio::task::spawn_blocking(move || results::open(&result, part)).await.ok().flatten())
}

fn show(held: &Content, method: &Method, headers: &HeaderMap) -> Response<Body> {
    let total = held.bytes.len();
    let range = match headers.get(IF_RANGE) {
        Some(tag) if tag.as_bytes() != TAG.as_bytes() => Wanted::All,
        Some(_) | None => wanted(headers, total),
    };
    let (status, range) = match range {
        Wanted::All => (StatusCode::OK, 0..total),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Wanted::Nothing => {
            let mut response = respond::bare(StatusCode::RANGE_NOT_SATISFIABLE);
            set(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{total}"));
            return response;
        }
    };
    let body =
        if *method == Method::HEAD { Body::empty() } else { Body::full(held.bytes.slice(range.clone())) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let out = response.headers_mut();
    let is_bare_text = held.is_text && held.media_type.starts_with("text/") && !held.media_type.contains(';');
    set(
        out,
        CONTENT_TYPE,
        &format!("{}{}", held.media_type, if is_bare_text { "; charset=utf-8" } else { "" }),
    );
    set(out, CONTENT_LENGTH, &range.len().to_string());
    if status == StatusCode::PARTIAL_CONTENT {
        set(out, CONTENT_RANGE, &format!("bytes {}-{}/{total}", range.start, range.end - 1));
    }
    for (name, value) in [
        (ACCEPT_RANGES, "bytes"),
        (ETAG, TAG),
        (CACHE_CONTROL, "no-store"),
        // A server's words must not become a page of ours, whatever type it gives them.
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_DISPOSITION, "attachment"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        out.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// What of a part is asked for.
#[derive(PartialEq, Eq, Debug)]
enum Wanted {
    All,
    Part(Range<usize>),
    /// A range that it has not.
    Nothing,
}

/// Reads `Range`. Other units, several ranges and what makes no sense ask for all of it, as they may.
fn wanted(headers: &HeaderMap, total: usize) -> Wanted {
    let range = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let Some((first, last)) = range
        .and_then(|range| range.trim().strip_prefix("bytes="))
        .and_then(|range| range.trim().split_once('-'))
    else {
        return Wanted::All;
    };
    let number = |text: &str| match text {
        "" => Some(None),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Some(text.parse::<usize>().unwrap_or(usize::MAX)))
        }
        _ => None,
    };
    let (Some(first), Some(last)) = (number(first), number(last)) else { return Wanted::All };
    let range = match (first, last) {
        (None, None) => return Wanted::All,
        (Some(first), Some(last)) if last < first => return Wanted::All,
        (Some(first), last) => first..last.map_or(total, |last| last.saturating_add(1).min(total)),
        (None, Some(count)) => total.saturating_sub(count)..total,
    };
    if range.start < range.end { Wanted::Part(range) } else { Wanted::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r5_7_a_range_is_a_part_or_all_or_nothing() {
        let read = |range: &str, total: usize| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_str(range).unwrap());
            wanted(&headers, total)
        };
        assert_eq!(read("bytes=0-0", 10), Wanted::Part(0..1));
        assert_eq!(read("bytes=2-5", 10), Wanted::Part(2..6));
        assert_eq!(read("bytes=7-", 10), Wanted::Part(7..10));
        assert_eq!(read("bytes=7-99999999999999999999999", 10), Wanted::Part(7..10));
        assert_eq!(read("bytes=-3", 10), Wanted::Part(7..10));
        assert_eq!(read("bytes=-30", 10), Wanted::Part(0..10));
        for none in ["bytes=10-", "bytes=10-20", "bytes=-0"] {
            assert_eq!(read(none, 10), Wanted::Nothing, "{none}");
        }
        assert_eq!(read("bytes=-5", 0), Wanted::Nothing);
        for all in ["lines=1-2", "bytes=5-2", "bytes=1-2,4-5", "bytes=-", "bytes=a-b", "bytes=+1-2", "x"] {
            assert_eq!(read(all, 10), Wanted::All, "{all}");
        }
        assert_eq!(wanted(&HeaderMap::new(), 10), Wanted::All);
    }
}
