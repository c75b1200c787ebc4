//! hyper and nothing else: every request gets the same JSON, if asked for after one durable commit.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use crate::sqlite::commit::Committer;
use crate::sqlite::row::Row;

/// A status answer as the gateway gives one.
const JSON: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"c0000000000\",\"result\":{\"taskId\":\"0198f0a2b3c47d5e8f90a1b2c3d4e5f6\",\
    \"status\":\"working\",\"createdAt\":\"2026-09-01T08:00:00.000Z\",\"lastUpdatedAt\":\"2026-09-01T08:00:05.000Z\",\
    \"ttl\":600000,\"pollInterval\":2000}}";

/// Serves until the parent ends, with as many workers as the gateway has.
pub(crate) fn run(store: Option<&Path>) -> Result<()> {
    let committer = store.map(|path| Committer::start(path, Row::Ours)).transpose()?.map(Arc::new);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = super::listen().await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let committer = committer.clone();
            let service = service_fn(move |request| {
                let committer = committer.clone();
                async move { Ok::<_, Infallible>(answer(request, committer.as_deref()).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    })
}

async fn answer(request: Request<Incoming>, committer: Option<&Committer>) -> Response<Full<Bytes>> {
    let is_read = request.into_body().collect().await.is_ok();
    let is_committed = match committer {
        Some(committer) => committer.insert().await.is_ok(),
        None => true,
    };
    let mut response = Response::new(Full::new(Bytes::from_static(JSON.as_bytes())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if !is_read || !is_committed {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    response
}
