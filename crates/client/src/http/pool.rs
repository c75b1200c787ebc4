//! Connections to one origin: kept alive, reused, and exact about what was sent.
//!
//! A pool of our own because a call that may have consequences must never be sent twice, nor be called lost when no
//! byte of it left: hyper hands a request back that it has not begun to write, and only such a request is sent
//! over another connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tower_service::Service;

use super::trace::{Connection, Trace};

/// Idle connections kept: as many as there are calls at once on a busy day, so that a burst does not reconnect for each.
const IDLE_MAX: usize = 256;
/// How long a connection may have been idle to carry what must not be lost: common servers close theirs after 5 s
/// without saying so.
const IDLE_SURE: Duration = Duration::from_secs(4);
/// How long for what may simply be asked again.
const IDLE_LONG: Duration = Duration::from_secs(60);
/// Finds peers that vanished while a call is held.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

type Body = Full<Bytes>;

/// A connection that can be written to. Dropped, it is closed.
struct Sender {
    http: http1::SendRequest<Body>,
    connection: Arc<Connection>,
}

/// Whether a request may be sent again when the connection breaks under it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Care {
    /// Never: it may have been carried out.
    Once,
    /// Once more: it only asks.
    Again,
}

/// Why there is no response.
#[derive(Clone, Debug)]
pub(crate) enum SendError {
    /// No byte of it left us.
    NeverSent(String),
    /// It may have arrived.
    Lost(String),
}

/// The connections.
pub(crate) struct Pool {
    origin: Uri,
    connector: HttpsConnector<HttpConnector>,
    connect_timeout: Duration,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    sender: Sender,
    since: Instant,
    /// What the server said about how long it keeps it.
    promised: Option<Duration>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("idle", &self.idle.lock().len()).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool for the origin of `uri`.
    pub(crate) fn new(uri: &Uri, connect_timeout: Duration) -> Result<Arc<Pool>, String> {
        let mut parts = http::uri::Parts::default();
        parts.scheme = uri.scheme().cloned();
        parts.authority = uri.authority().cloned();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let origin = Uri::from_parts(parts).map_err(|_| "its URL is malformed")?;
        Ok(Arc::new(Pool {
            connector: connector(origin.scheme_str() == Some("https"), connect_timeout)?,
            origin,
            connect_timeout,
            idle: Mutex::default(),
        }))
    }

    /// Sends `request` and waits for the head of the response, at most `patience` from when it was sent. `trace` learns
    /// which connections it went over.
    pub(crate) async fn send(
        self: &Arc<Self>,
        mut request: Request<Body>,
        care: Care,
        patience: Option<Duration>,
        trace: Option<&Arc<Trace>>,
    ) -> Result<(Response<Incoming>, Lease), SendError> {
        let spare = (care == Care::Again).then(|| request.clone());
        let mut again = spare;
        loop {
            let (mut sender, is_fresh) = match self.take(care) {
                Some(sender) => (sender, false),
                None => (self.connect().await.map_err(SendError::NeverSent)?, true),
            };
            if let Err(error) = sender.http.ready().await {
                if is_fresh {
                    return Err(SendError::NeverSent(words(&error)));
                }
                continue;
            }
            if let Some(trace) = trace {
                trace.begins(&sender.connection);
            }
            let answering = sender.http.try_send_request(request);
            let answered = match patience {
                Some(patience) => match timeout(patience, answering).await {
                    Ok(answered) => answered,
                    Err(_) => {
                        let words = format!("it did not answer within {} s", patience.as_secs_f32());
                        return Err(SendError::Lost(words));
                    }
                },
                None => answering.await,
            };
            match answered {
                Ok(response) => {
                    let promised = promised(&response);
                    return Ok((
                        response,
                        Lease { sender, promised, pool: self.clone(), trace: trace.cloned() },
                    ));
                }
                Err(mut error) => match (error.take_message(), is_fresh) {
                    (Some(unsent), false) => {
                        if let Some(trace) = trace {
                            trace.is_done(&sender.connection);
                        }
                        request = unsent;
                    }
                    (Some(_), true) => return Err(SendError::NeverSent(words(error.error()))),
                    (None, false) if again.is_some() => match again.take() {
                        Some(copy) => request = copy,
                        None => return Err(SendError::Lost(words(error.error()))),
                    },
                    (None, _) => return Err(SendError::Lost(words(error.error()))),
                },
            }
        }
    }

    fn take(&self, care: Care) -> Option<Sender> {
        let mut idle = self.idle.lock();
        while let Some(last) = idle.pop() {
            let allowed = match care {
                Care::Once => last.promised.map_or(IDLE_SURE, |promised| promised.min(IDLE_LONG)),
                Care::Again => IDLE_LONG,
            };
            let idle_for = last.since.elapsed();
            if last.sender.http.is_closed() || idle_for >= IDLE_LONG {
                continue;
            }
            if idle_for >= allowed {
                // The others have been idle for longer still. It may yet serve what can be asked again.
                idle.push(last);
                return None;
            }
            return Some(last.sender);
        }
        None
    }

    async fn connect(&self) -> Result<Sender, String> {
        let connecting = async {
            let stream: MaybeHttpsStream<TokioIo<TcpStream>> = self
                .connector
                .clone()
                .call(self.origin.clone())
                .await
                .map_err(|error| format!("no connection: {}", chain(error.as_ref())))?;
            http1::Builder::new().handshake(stream).await.map_err(|error| words(&error))
        };
        let connected = timeout(self.connect_timeout, connecting).await;
        let (http, driving) = connected
            .map_err(|_| format!("no connection within {} s", self.connect_timeout.as_secs_f32()))??;
        let connection = Arc::new(Connection::default());
        let gone = connection.gone.clone().drop_guard();
        tokio::spawn(async move {
            // With its end the socket is dropped, and only then it is said to be gone.
            if let Err(error) = driving.await {
                tracing::debug!(error = words(&error), "a connection to a server broke");
            }
            drop(gone);
        });
        Ok(Sender { http, connection })
    }
}

/// A connection whose response is being read. Dropped, it is closed with what is left of the response.
pub(crate) struct Lease {
    sender: Sender,
    promised: Option<Duration>,
    pool: Arc<Pool>,
    trace: Option<Arc<Trace>>,
}

impl Lease {
    /// The response has been read to its end: the connection may carry another request.
    pub(crate) fn give_back(self) {
        if let Some(trace) = &self.trace {
            trace.is_done(&self.sender.connection);
        }
        if self.sender.http.is_closed() {
            return;
        }
        let Lease { sender, promised, pool, trace: _ } = self;
        let mut idle = pool.idle.lock();
        idle.retain(|idle| !idle.sender.http.is_closed());
        if idle.len() < IDLE_MAX {
            idle.push(Idle { sender, since: Instant::now(), promised });
        }
    }
}

/// `Keep-Alive: timeout=5`, less a second for the way.
fn promised(response: &Response<Incoming>) -> Option<Duration> {
    let hint = response.headers().get("keep-alive")?.to_str().ok()?;
    let secs = hint.split([',', ' ', ';']).find_map(|part| part.strip_prefix("timeout="))?;
    Some(Duration::from_secs(secs.parse::<u64>().ok()?.saturating_sub(1)))
}

fn connector(is_https: bool, connect_timeout: Duration) -> Result<HttpsConnector<HttpConnector>, String> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    tcp.set_connect_timeout(Some(connect_timeout));
    let provider = rustls::crypto::ring::default_provider();
    // Without https no trust store is needed, and a machine may have none.
    let tls = if is_https {
        HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(|error| format!("this machine's certificates cannot be read: {error}"))?
    } else {
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        HttpsConnectorBuilder::new().with_tls_config(config)
    };
    Ok(tls.https_or_http().enable_http1().wrap_connector(tcp))
}

/// An error with its causes; they say what happened, and hold no text of the peer's.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !words.contains(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        source = error.source();
    }
    words
}

fn words(error: &hyper::Error) -> String {
    chain(error)
}

/// The `Host` of `uri`.
pub(crate) fn host(uri: &Uri) -> Option<header::HeaderValue> {
    let host = uri.host()?;
    let text = match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => String::from(host),
    };
    header::HeaderValue::from_str(&text).ok()
}
