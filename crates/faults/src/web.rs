//! HTTP, as much of it as the parts need: answering, with the choice of breaking the connection instead, and asking.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

/// More than any message of the parts.
const BODY_MAX: usize = 1 << 20;

/// A response, or nothing: then the connection is closed.
pub(crate) type Answered = Result<Response<Full<Bytes>>, Cut>;

/// The answer is a broken connection.
#[derive(Debug)]
pub(crate) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the connection is cut")
    }
}

impl std::error::Error for Cut {}

impl From<Infallible> for Cut {
    fn from(never: Infallible) -> Cut {
        match never {}
    }
}

/// A request with its whole body.
pub(crate) struct Asked {
    pub(crate) method: hyper::Method,
    pub(crate) path: String,
    pub(crate) headers: header::HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Answers every connection until the listener fails for good.
pub(crate) async fn serve<A, F>(listener: TcpListener, answer: A)
where
    A: Fn(Asked) -> F + Clone + Send + 'static,
    F: Future<Output = Answered> + Send + 'static,
{
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Descriptors ran out; some are given back meanwhile.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer.clone();
                async move {
                    let asked = whole(request).await?;
                    answer(asked).await
                }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .half_close(true)
                .serve_connection(TokioIo::new(stream), service);
            // A connection that breaks is what this is for.
            let _ = connection.await;
        });
    }
}

async fn whole(request: Request<Incoming>) -> Result<Asked, Cut> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await.map_err(|_| Cut)?.to_bytes();
    Ok(Asked { method: parts.method, path: parts.uri.path().to_owned(), headers: parts.headers, body })
}

pub(crate) fn json(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    bytes(status, body.to_string().into())
}

pub(crate) fn bytes(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

pub(crate) fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// One exchange over a connection of its own: the status and the body, which is `null` if it is no JSON.
pub(crate) async fn ask(to: SocketAddr, method: &str, path: &str, body: &Value) -> io::Result<(u16, Value)> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, to.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(io::Error::other)?;
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    connection.abort();
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}
