//! Single HTTP requests for the engine: systems of record that are asked by GET, and webhooks.
//!
//! A redirect is never followed, headers are marked as sensitive, and no error names more of a URL than its origin, since
//! paths and queries may hold what is private.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use parking_lot::Mutex;
use taskgate_engine::rules::{Hidden, Webhook};
use taskgate_engine::web::{Notice, Web, WebAnswer};
use taskgate_wire::json::string_literal;
use taskgate_wire::time;
use tokio::time::timeout;

use crate::config::origin_of;
use crate::http::{Care, Pool, SendError, host};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Origins whose connections are kept. There are as many as operators configured, unless a URL's host is computed.
const ORIGINS_MAX: usize = 64;

/// What a webhook's answer may be long before it is cut off; nobody reads it.
const ACKNOWLEDGEMENT_BYTES_MAX: usize = 64 * 1024;

/// Makes requests, and keeps their connections.
#[derive(Debug)]
pub struct WebClient {
    agent: HeaderValue,
    pools: Mutex<HashMap<String, Arc<Pool>>>,
}

impl WebClient {
    /// One that calls itself `taskgate/VERSION`.
    #[must_use]
    pub fn new(version: &str) -> Arc<WebClient> {
        let agent = HeaderValue::from_str(&format!("taskgate/{version}"))
            .unwrap_or_else(|_| HeaderValue::from_static("taskgate"));
        Arc::new(WebClient { agent, pools: Mutex::default() })
    }

    fn pool(&self, origin: &str, uri: &Uri) -> Result<Arc<Pool>, String> {
        let mut pools = self.pools.lock();
        if let Some(pool) = pools.get(origin) {
            return Ok(pool.clone());
        }
        if pools.len() >= ORIGINS_MAX {
            pools.clear();
        }
        let pool = Pool::new(uri, CONNECT)?;
        pools.insert(origin.to_owned(), pool.clone());
        Ok(pool)
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(String, Hidden)],
        body: Bytes,
        bytes_max: usize,
    ) -> Result<WebAnswer, String> {
        let uri: Uri = url.parse().map_err(|_| "its URL is malformed")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(String::from("its URL is neither http nor https"));
        }
        let mut request = Request::new(Full::new(body));
        let path = uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
        *request.uri_mut() = path;
        let named = request.headers_mut();
        named.insert(header::HOST, host(&uri).ok_or("its URL names no host")?);
        named.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*;q=0.1"));
        named.insert(header::USER_AGENT, self.agent.clone());
        if method == Method::POST {
            named.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, Hidden(value)) in headers {
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("header {name:?} is no header name"))?;
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| format!("the value of header {name:?} cannot stand in a header"))?;
            value.set_sensitive(true);
            named.insert(parsed, value);
        }
        *request.method_mut() = method;
        let pool = self.pool(&origin_of(url), &uri)?;
        let sent = pool.send(request, Care::Again, None, None).await;
        let (response, lease) = sent.map_err(|error| match error {
            SendError::NeverSent(why) | SendError::Lost(why) => why,
        })?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), bytes_max).collect().await.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                format!("its answer is longer than {bytes_max} bytes")
            } else {
                String::from("its answer broke off")
            }
        })?;
        lease.give_back();
        Ok(WebAnswer { status, body: body.to_bytes() })
    }

    async fn within(
        &self,
        url: &str,
        time: Duration,
        sending: impl Future<Output = Result<WebAnswer, String>>,
    ) -> Result<WebAnswer, String> {
        let sent = timeout(time, sending).await;
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {} s", time.as_secs_f32())));
        sent.map_err(|why| format!("{}: {why}", origin_of(url)))
    }
}

#[async_trait]
impl Web for WebClient {
    async fn get(
        &self,
        url: &str,
        headers: &[(String, Hidden)],
        time: Duration,
        bytes_max: usize,
    ) -> Result<WebAnswer, String> {
        let sending = self.send(Method::GET, url, headers, Bytes::new(), bytes_max);
        self.within(url, time, sending).await
    }

    async fn notify(&self, hook: &Webhook, notice: &Notice, span: Duration) -> Result<(), String> {
        let body = Bytes::from(json_of(notice));
        let sending = self.send(Method::POST, &hook.url, &hook.headers, body, ACKNOWLEDGEMENT_BYTES_MAX);
        let answer = self.within(&hook.url, span, sending).await?;
        match answer.status {
            200..=299 => Ok(()),
            status => Err(format!("{}: it answered HTTP {status}", origin_of(&hook.url))),
        }
    }
}

/// A notice as it is posted.
fn json_of(notice: &Notice) -> String {
    let text = string_literal;
    let object = match &notice.object {
        None => String::from("null"),
        Some((name, version)) => {
            let version = version.as_deref().map_or_else(|| String::from("null"), text);
            format!("{{\"name\":{},\"version\":{version}}}", text(name))
        }
    };
    let owners: Vec<_> = notice.owners.iter().map(|owner| text(owner)).collect();
    format!(
        "{{\"id\":{},\"event\":\"operation.waiting\",\"operation\":{},\"workflow\":{},\"server\":{},\"tool\":{},\
         \"object\":{object},\"outcome\":{},\"reason\":{},\"why\":{},\"since\":{},\"owners\":[{}]}}",
        text(&notice.id),
        text(&notice.operation.0),
        text(&notice.workflow.0),
        text(&notice.server.0),
        text(&notice.tool),
        text(notice.outcome),
        text(notice.reason),
        text(notice.why),
        text(&time::write(notice.since)),
        owners.join(","),
    )
}
