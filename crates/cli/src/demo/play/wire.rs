//! HTTP and JSON-RPC as a client sees them, with nothing of ours in between.

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// A client of one endpoint.
#[derive(Clone)]
pub(super) struct Wire {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

/// An error that the other side answered.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("error {code}: {message}")]
pub(super) struct Refused {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Value,
}

impl Wire {
    pub(super) fn new(url: &str) -> Wire {
        Wire { client: Client::builder(TokioExecutor::new()).build_http(), url: url.to_owned() }
    }

    /// Sends a message; what is answered, and the session that was opened, if one was.
    pub(super) async fn post(
        &self,
        headers: &[(&str, &str)],
        message: &Value,
    ) -> anyhow::Result<(Value, Option<String>)> {
        let mut request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(message.to_string())))?;
        let response = self.client.request(request).await.context("the gateway did not answer")?;
        let session =
            response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let answer = answer(response, message.get("id")).await?;
        Ok((answer, session))
    }

    /// Reads a JSON document.
    pub(super) async fn read(url: &str) -> anyhow::Result<Value> {
        let client = Wire::new(url);
        let request = Request::get(url).body(Full::default())?;
        let response = client.client.request(request).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    }
}

/// The response to the request `id`, out of a document or a stream of events.
async fn answer(response: Response<Incoming>, id: Option<&Value>) -> anyhow::Result<Value> {
    let status = response.status();
    let is_stream = response
        .headers()
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let body = response.into_body().collect().await?.to_bytes();
    let text = std::str::from_utf8(&body)?;
    if status == StatusCode::ACCEPTED {
        return Ok(Value::Null);
    }
    let messages =
        if is_stream { text.split("\n\n").filter_map(data).collect() } else { vec![text.to_owned()] };
    for message in messages {
        let Ok(message) = serde_json::from_str::<Value>(&message) else { continue };
        if message.get("id") == id && message.get("method").is_none() {
            return Ok(message);
        }
    }
    bail!("the gateway answered HTTP {status} without a response: {text}")
}

/// The data of one event.
fn data(event: &str) -> Option<String> {
    let lines: Vec<_> =
        event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start).collect();
    (!lines.is_empty()).then(|| lines.join("\n")).filter(|data| !data.is_empty())
}

/// The result in a response, or the error.
pub(super) fn result(response: Value) -> anyhow::Result<Result<Value, Refused>> {
    let mut response = response;
    if let Some(result) = response.get_mut("result") {
        return Ok(Ok(result.take()));
    }
    let error = response.get("error").context("a response with neither result nor error")?;
    Ok(Err(Refused {
        code: error["code"].as_i64().unwrap_or_default(),
        message: error["message"].as_str().unwrap_or_default().to_owned(),
        data: error["data"].clone(),
    }))
}
