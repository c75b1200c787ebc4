//! One server's endpoint: requests to it, and what comes back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use parking_lot::Mutex;
use taskgate_wire::{Version, header as wire_header};
use tokio::time::timeout;

use super::pool::{Care, Lease, Pool, SendError, host};
use super::stream::EventStream;
use super::trace::Trace;
use crate::config::{ServerConfig, Transport};

/// A body that stands still for this long is given up.
const BODY_STALL: Duration = Duration::from_secs(60);
/// Redirects within the origin that are followed: a missing slash at the end of a path takes one.
///
/// Leniency: redirect
const REDIRECTS_MAX: u32 = 3;

/// Headers that mirror the version and the body of a request.
pub(crate) type Mirrored = Vec<(Cow<'static, str>, String)>;

/// What mirrors a request to a server of `version`.
pub(crate) fn mirrored(version: Version, method: &str, params: Option<&str>) -> Mirrored {
    let headers = wire_header::for_request(version, method, params);
    headers.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect()
}

/// Where a server is.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) server: String,
    pub(crate) read_timeout: Duration,
    pool: Arc<Pool>,
    uri: Uri,
    host: HeaderValue,
    /// The path, which a redirect within the origin may change.
    path: Mutex<Uri>,
    headers: Vec<(HeaderName, HeaderValue)>,
    body_bytes_max: usize,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) body: Bytes,
    /// The version, and what mirrors the body.
    pub(crate) mirrored: Mirrored,
    /// A header that belongs to this one request: its idempotency key.
    pub(crate) key: Option<(String, String)>,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) last_event_id: Option<String>,
    pub(crate) care: Care,
    /// How long to wait for the head of the response.
    pub(crate) patience: Option<Duration>,
    /// What learns over which connections it goes, if somebody must know when they are closed.
    pub(crate) trace: Option<Arc<Trace>>,
}

impl Outgoing {
    pub(crate) fn post(body: Bytes, care: Care) -> Outgoing {
        Outgoing {
            method: Method::POST,
            body,
            mirrored: Vec::new(),
            key: None,
            session: None,
            last_event_id: None,
            care,
            patience: None,
            trace: None,
        }
    }
}

/// What came back.
pub(crate) enum Got {
    /// A whole body, whatever it is.
    Whole { status: u16, session: Option<Arc<str>>, body: Bytes },
    /// An event stream.
    Stream { session: Option<Arc<str>>, stream: Box<EventStream> },
    /// It sends us elsewhere, where our credentials do not belong.
    Elsewhere,
    /// A body beyond the limit.
    TooLarge,
}

impl Endpoint {
    pub(crate) fn new(config: &ServerConfig) -> Result<Arc<Endpoint>, String> {
        let Transport::Http { url, headers } = &config.transport else {
            return Err(String::from("it is not reached over HTTP"));
        };
        let uri: Uri = url.parse().map_err(|_| "its URL is malformed")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(String::from("its URL is neither http nor https"));
        }
        let host = host(&uri).ok_or("its URL names no host")?;
        let mut named = Vec::with_capacity(headers.len());
        for (name, value) in headers {
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("header {name:?} is no header name"))?;
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| format!("the value of header {name:?} cannot stand in a header"))?;
            value.set_sensitive(true);
            named.push((parsed, value));
        }
        let path = path_of(&uri);
        Ok(Arc::new(Endpoint {
            server: config.name.0.clone(),
            read_timeout: config.read_timeout,
            pool: Pool::new(&uri, config.connect_timeout)?,
            uri,
            host,
            path: Mutex::new(path),
            headers: named,
            body_bytes_max: config.message_bytes_max,
        }))
    }

    /// Sends one request and gives what came back: a stream as soon as it begins, anything else when it is whole.
    pub(crate) async fn send(&self, outgoing: Outgoing) -> Result<Got, SendError> {
        let mut redirects = 0;
        loop {
            let request = self.request(&outgoing).map_err(SendError::NeverSent)?;
            let sent = self.pool.send(request, outgoing.care, outgoing.patience, outgoing.trace.as_ref());
            let (response, lease) = sent.await?;
            if !response.status().is_redirection() {
                return self.receive(response, lease, outgoing.patience).await;
            }
            // Only 307 and 308 mean the same request again; nothing was done with this one.
            let is_same =
                matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            redirects += 1;
            match response.headers().get(header::LOCATION).and_then(|to| self.within(to)) {
                Some(path) if is_same && redirects <= REDIRECTS_MAX => *self.path.lock() = path,
                Some(_) | None => return Ok(Got::Elsewhere),
            }
        }
    }

    fn request(&self, outgoing: &Outgoing) -> Result<Request<Full<Bytes>>, String> {
        let path = self.path.lock().clone();
        let mut request = Request::new(Full::new(outgoing.body.clone()));
        *request.method_mut() = outgoing.method.clone();
        *request.uri_mut() = path;
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.host.clone());
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        let accept = match outgoing.method {
            Method::GET => HeaderValue::from_static("text/event-stream"),
            _ => HeaderValue::from_static("application/json, text/event-stream"),
        };
        headers.insert(header::ACCEPT, accept);
        if outgoing.method == Method::POST {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let mirrored = outgoing.mirrored.iter().map(|(name, value)| (name.as_ref(), value));
        let key = outgoing.key.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in mirrored.chain(key) {
            let value =
                HeaderValue::from_str(value).map_err(|_| format!("{name} cannot stand in a header"))?;
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name} is no header name"))?;
            headers.insert(name, value);
        }
        if let Some(session) = &outgoing.session {
            let session =
                HeaderValue::from_str(session).map_err(|_| "its session id cannot stand in a header")?;
            headers.insert(HeaderName::from_static(wire_header::SESSION_ID), session);
        }
        if let Some(id) = &outgoing.last_event_id {
            let id = HeaderValue::from_str(id).map_err(|_| "its event id cannot stand in a header")?;
            headers.insert(HeaderName::from_static(wire_header::LAST_EVENT_ID), id);
        }
        Ok(request)
    }

    async fn receive(
        &self,
        response: Response<Incoming>,
        lease: Lease,
        patience: Option<Duration>,
    ) -> Result<Got, SendError> {
        let status = response.status();
        let session = response
            .headers()
            .get(wire_header::SESSION_ID)
            .and_then(|id| id.to_str().ok())
            .map(Arc::<str>::from);
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| {
            kind.trim_start().get(..17).is_some_and(|start| start.eq_ignore_ascii_case("text/event-stream"))
        });
        if is_stream && status.is_success() {
            let stream = EventStream::new(response.into_body(), lease, self.body_bytes_max);
            return Ok(Got::Stream { session, stream: Box::new(stream) });
        }
        let whole = self.whole(response.into_body());
        let body = match timeout(patience.unwrap_or(Duration::MAX).max(BODY_STALL), whole).await {
            Ok(body) => body?,
            Err(_) => return Err(SendError::Lost(String::from("its answer stopped in the middle"))),
        };
        let Some(body) = body else { return Ok(Got::TooLarge) };
        lease.give_back();
        Ok(Got::Whole { status: status.as_u16(), session, body })
    }

    /// The whole body; `None` if it is too large.
    async fn whole(&self, mut body: Incoming) -> Result<Option<Bytes>, SendError> {
        let mut first: Option<Bytes> = None;
        let mut all: Vec<u8> = Vec::new();
        let expected = body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        loop {
            let frame = match timeout(BODY_STALL, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    return Err(SendError::Lost(format!("its answer broke off: {error}")));
                }
                Ok(None) => break,
                Err(_) => return Err(SendError::Lost(String::from("its answer stopped in the middle"))),
            };
            let Ok(data) = frame.into_data() else { continue };
            if all.len() + first.as_ref().map_or(0, Bytes::len) + data.len() > self.body_bytes_max {
                return Ok(None);
            }
            match (first.take(), all.is_empty()) {
                // Most bodies come in one piece, which is passed on without a copy.
                (None, true) => first = Some(data),
                (Some(start), _) => {
                    all.reserve(expected.min(self.body_bytes_max).max(start.len() + data.len()));
                    all.extend_from_slice(&start);
                    all.extend_from_slice(&data);
                }
                (None, false) => all.extend_from_slice(&data),
            }
        }
        Ok(Some(first.unwrap_or_else(|| Bytes::from(all))))
    }

    /// The path that a `Location` names, if it is in our origin.
    fn within(&self, location: &HeaderValue) -> Option<Uri> {
        let text = location.to_str().ok()?;
        if text.starts_with('/') && !text.starts_with("//") {
            return text.parse().ok();
        }
        let to: Uri = text.parse().ok()?;
        let port = |uri: &Uri| {
            uri.port_u16().or(match uri.scheme_str() {
                Some("http") => Some(80),
                Some("https") => Some(443),
                Some(_) | None => None,
            })
        };
        let is_same = to.scheme() == self.uri.scheme()
            && to
                .host()
                .is_some_and(|host| self.uri.host().is_some_and(|ours| ours.eq_ignore_ascii_case(host)))
            && port(&to) == port(&self.uri);
        is_same.then(|| path_of(&to))
    }
}

/// Path and query alone, as a request line has them.
fn path_of(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
}
