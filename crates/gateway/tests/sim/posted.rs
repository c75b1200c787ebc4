//! A client's requests over HTTP, each on a connection of its own.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::client::{Client, Told, VERSION};
use crate::http::{self, Coming, Gone, Request};
use crate::mind::Front;

impl Client {
    pub(crate) fn headers(&self, method: &str, name: Option<&str>) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
        ];
        match self.front {
            Front::B => {
                headers.push(("mcp-protocol-version", VERSION.to_owned()));
                headers.push(("mcp-method", method.to_owned()));
                headers.extend(name.map(|name| ("mcp-name", name.to_owned())));
            }
            Front::A | Front::Plain => {
                if let Some(session) = self.mind.lock().session.clone() {
                    headers.push(("mcp-session-id", session));
                    headers.push(("mcp-protocol-version", self.version().to_owned()));
                }
            }
        }
        headers
    }

    pub(crate) fn version(&self) -> &'static str {
        match self.front {
            Front::Plain => "2025-06-18",
            Front::A => "2025-11-25",
            Front::B => VERSION,
        }
    }

    pub(crate) async fn open_http(
        &self,
        method: &str,
        headers: &[(&str, String)],
        body: &str,
        cut: Option<usize>,
    ) -> Result<Coming, Gone> {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let request = Request { method, headers: &headers, body };
        http::open(&self.life.gateway, &self.life.shutdown, request, cut).await
    }

    pub(crate) async fn ask_http(
        self: &Arc<Self>,
        method: &str,
        name: Option<&str>,
        id: &Value,
        message: Bytes,
    ) -> Told {
        self.trace(">", &message);
        let cut = (method != "initialize" && self.one_in(10)).then(|| self.below(900));
        if cut.is_some() {
            self.count("an answer that broke off");
        }
        let headers = self.headers(method, name);
        let text = String::from_utf8_lossy(&message).into_owned();
        let coming = match self.open_http("POST", &headers, &text, cut).await {
            Ok(coming) => coming,
            Err(gone) => return self.gone(gone, method),
        };
        if let Some(session) = coming.header("mcp-session-id") {
            self.mind.lock().session = Some(session.to_owned());
        }
        let (told, last) = self.read(coming, method, id).await;
        let (Told::Lost, Some(last)) = (&told, last) else { return told };
        if !self.one_in(2) {
            return told;
        }
        // the stream is taken up again where it broke.
        self.count("a stream taken up again");
        self.trace(">", format!("from {last}").as_bytes());
        let mut headers = self.headers(method, name);
        headers.push(("last-event-id", last));
        match self.open_http("GET", &headers, "", None).await {
            Ok(coming) => self.read(coming, method, id).await.0,
            Err(gone) => self.gone(gone, "GET"),
        }
    }

    /// A connection that its client did not break ends only where the gateway goes down.
    pub(crate) fn gone(&self, gone: Gone, method: &str) -> Told {
        if gone == Gone::Ended && !self.life.shutdown.is_cancelled() {
            self.broke(format!("INV-35: the connection of {method} ended without an answer"));
        }
        Told::Lost
    }

    /// Reads a response to its end, and the id of its last event.
    pub(crate) async fn read(
        self: &Arc<Self>,
        mut coming: Coming,
        method: &str,
        id: &Value,
    ) -> (Told, Option<String>) {
        let status = coming.status;
        if !coming.is_stream() {
            return match coming.body().await {
                Ok(body) if body.is_empty() && status == 202 => (Told::Lost, None),
                Ok(body) if body.is_empty() && self.life.shutdown.is_cancelled() => (Told::Lost, None),
                Ok(body) => (self.response(id, Bytes::from(body)), None),
                Err(gone) => (self.gone(gone, method), None),
            };
        }
        let mut answer = None;
        let mut last = None;
        loop {
            match coming.event().await {
                Ok(Some(event)) => {
                    if let Some(id) = &event.id {
                        last = Some(id.clone());
                    }
                    if event.data.is_empty() {
                        continue;
                    }
                    if answer.is_some() {
                        self.broke(format!("B-033: more came behind the answer to {method}"));
                    }
                    let message = event.data.clone();
                    let value: Value = serde_json::from_slice(&message).unwrap_or_default();
                    if value.get("method").is_some() {
                        self.trace("<", &message);
                        self.heard(&message, &value);
                    } else {
                        answer = Some(message);
                    }
                }
                Ok(None) => {
                    return match answer {
                        Some(message) => (self.response(id, message), last),
                        None if self.life.shutdown.is_cancelled() => (Told::Lost, last),
                        None => (self.gone(Gone::Ended, method), last),
                    };
                }
                // What has come whole has come.
                Err(gone) => {
                    return match answer {
                        Some(message) => (self.response(id, message), last),
                        None => (self.gone(gone, method), last),
                    };
                }
            }
        }
    }

    /// Holds the standing stream open for a while.
    pub(crate) async fn stand(self: Arc<Self>) {
        let mut headers = self.headers("", None);
        headers.retain(|(name, _)| *name != "content-type");
        let cut = self.one_in(2).then(|| 200 + self.below(2_000));
        let Ok(mut coming) = self.open_http("GET", &headers, "", cut).await else { return };
        while let Ok(Some(event)) = coming.event().await {
            if event.data.is_empty() {
                continue;
            }
            self.trace("<<", &event.data);
            let value: Value = serde_json::from_slice(&event.data).unwrap_or_default();
            if value.get("method").is_none() {
                self.broke(format!("A-131: an answer on the standing stream: {value}"));
            }
            self.count("news on the standing stream");
            self.heard(&event.data, &value);
        }
    }
}
