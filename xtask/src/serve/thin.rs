//! The floor of any proxy: it looks at both envelopes, passes the bytes on and decides nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::envelope::Envelope;

/// Serves until the parent ends: one connection to the server for each from a client.
pub(crate) fn run(upstream: SocketAddr) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = super::listen().await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                let sender = Arc::new(Mutex::new(connect(upstream).await?));
                let service = service_fn(move |request| forward(request, sender.clone(), upstream));
                http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?;
                anyhow::Ok(())
            });
        }
    })
}

async fn connect(upstream: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(upstream).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn forward(
    request: Request<Incoming>,
    sender: Arc<Mutex<SendRequest<Full<Bytes>>>>,
    upstream: SocketAddr,
) -> Result<Response<Full<Bytes>>> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    serde_json::from_slice::<Envelope<'_>>(&body)?.method.context("no request")?;
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(HOST, HeaderValue::from_str(&upstream.to_string())?);
    let mut sender = sender.lock().await;
    sender.ready().await?;
    let response = sender.send_request(Request::from_parts(parts, Full::new(body))).await?;
    let (mut parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    if parts.status.is_success() && !body.is_empty() {
        serde_json::from_slice::<Envelope<'_>>(&body)?.result.context("no result")?;
    }
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Full::new(body)))
}
