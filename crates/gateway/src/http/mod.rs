//! The HTTP listener: connections, paths and methods (A-122, B-031).

mod batch;
mod body;
mod get;
pub(crate) mod guard;
mod post;
mod respond;
mod results;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use ::http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use taskgate_core::id::Principal;
use taskgate_wire::rpc_error::RpcError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::ServerPolicy;
use crate::gateway::Gateway;
use body::Body;

/// How long a client may take to send the head of a request; an idle connection is closed after it as well.
const HEAD_TIME: Duration = Duration::from_secs(75);

impl Gateway {
    /// Serves Streamable HTTP on `listener` until `shutdown`, then ends what is held open and waits a little for the
    /// rest (G-021).
    ///
    /// # Errors
    /// None today: what goes wrong with one connection ends that connection.
    pub async fn serve_http(
        self: &Arc<Self>,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> io::Result<()> {
        if let Ok(address) = listener.local_addr() {
            // Of several listeners the first one is named.
            let _ = self.address.set(address);
        }
        let connections = Arc::new(Semaphore::new(self.config.limits.connections_max));
        let tracker = TaskTracker::new();
        loop {
            let permit = tokio::select! {
                permit = connections.clone().acquire_owned() => permit,
                () = shutdown.cancelled() => break,
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = shutdown.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = self.clone().connection(stream, shutdown.clone());
                    tracker.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                // Out of file descriptors, or a connection that broke at once: go on when it has passed.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        self.stopping.cancel();
        tracker.close();
        if tokio::time::timeout(self.config.limits.drain.duration(), tracker.wait()).await.is_err() {
            tracing::info!(connections = tracker.len(), "closing connections that are still in use");
        }
        Ok(())
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, shutdown: CancellationToken) {
        // Small answers must not wait for an acknowledgement that the peer delays.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY was refused");
        }
        self.serve_connection(stream, shutdown).await;
    }

    /// Serves one HTTP connection that somebody else accepted, until it ends. After `shutdown` it has
    /// [`Limits::drain`] for what is under way.
    pub async fn serve_connection<S>(self: Arc<Self>, stream: S, shutdown: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let drain = self.config.limits.drain.duration();
        let service = service_fn(move |request| {
            let gateway = self.clone();
            async move { Ok::<_, Infallible>(gateway.http(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => Some(ended),
            () = shutdown.cancelled() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(drain, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    async fn http(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        match path {
            // It ends; whoever asks before it has is not told otherwise.
            "/healthz" if self.engine.is_lost() => {
                return plain(StatusCode::SERVICE_UNAVAILABLE, "the store has failed\n");
            }
            "/healthz" => return plain(StatusCode::OK, "ok\n"),
            "/readyz" if self.is_ready() => return plain(StatusCode::OK, "ready\n"),
            "/readyz" => return plain(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            _ => {}
        }
        if let Err(barred) = self.guard.check(&parts.uri, &parts.headers) {
            return respond::refusal(barred.status(), &RpcError::invalid_request(barred.to_string()));
        }
        let Some(policy) = self.at(path) else {
            if let Some((policy, rest)) = results::at(&self, path) {
                return results::answer(&self, &policy, &parts.method, &parts.headers, rest).await;
            }
            return respond::refusal(
                StatusCode::NOT_FOUND,
                &RpcError::invalid_request("Nothing is served here; servers answer at /NAME/mcp"),
            );
        };
        let caller =
            Caller { gateway: self, policy, principal: Principal::anonymous(), headers: parts.headers };
        match parts.method {
            Method::POST => Box::pin(post::post(caller, body)).await,
            Method::GET => get::get(caller).await,
            Method::DELETE => get::delete(caller).await,
            _ => {
                let error = RpcError::invalid_request("Only GET, POST and DELETE are served");
                let mut response = respond::refusal(StatusCode::METHOD_NOT_ALLOWED, &error);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
                response
            }
        }
    }
}

/// Who sent an HTTP request, and to which server.
pub(crate) struct Caller {
    gateway: Arc<Gateway>,
    policy: Arc<ServerPolicy>,
    principal: Principal,
    headers: ::http::HeaderMap,
}

impl Caller {
    /// A header's text. One that is no visible ASCII counts as empty, which equals nothing that is valid.
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap_or_default())
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
