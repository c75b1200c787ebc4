//! What HTTP has to look like around the messages.

use serde_json::Value;

use super::judge::{Towards, modern};
use super::schema::Version;
use super::tap::Exchange;

/// Checks headers, status and streams of one exchange.
pub(crate) fn exchange(
    exchange: &Exchange,
    sent: &[Value],
    version: Option<Version>,
    mut wrong: impl FnMut(Towards, String),
) {
    for what in &exchange.odd {
        wrong(Towards::Client, what.clone());
    }
    let (Some(version), "POST") = (version, exchange.method.as_str()) else { return };
    let Some(message) = sent.first() else { return };
    request(exchange, message, version, |what| wrong(Towards::Server, what));
    // Nothing came yet, or the connection broke.
    if exchange.status != 0 {
        answer(exchange, message, version, |what| wrong(Towards::Client, what));
    }
}

fn request(exchange: &Exchange, message: &Value, version: Version, mut wrong: impl FnMut(String)) {
    let header = |name: &str| exchange.sent.get(name).map(String::as_str);
    if !header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        wrong(format!("Content-Type of a request is {:?}", header("content-type")));
    }
    let accept = header("accept").unwrap_or_default();
    if !(accept.contains("application/json") && accept.contains("text/event-stream")) {
        wrong(format!("Accept of a request is {accept:?} (A-125, B-032)"));
    }
    let method = message["method"].as_str().unwrap_or_default();
    let named = header("mcp-protocol-version");
    if version == Version::V28 {
        if let Some(body) = modern(message)
            && named != Some(body)
        {
            wrong(format!("MCP-Protocol-Version is {named:?}, the body says {body} (B-039)"));
        }
        if message.get("id").is_none() {
            return;
        }
        if header("mcp-method") != Some(method) {
            wrong(format!("Mcp-Method of {method} is {:?} (B-040)", header("mcp-method")));
        }
        let params = &message["params"];
        let name = match method {
            "tools/call" | "prompts/get" => &params["name"],
            "resources/read" => &params["uri"],
            "tasks/get" | "tasks/update" | "tasks/cancel" => &params["taskId"],
            _ => return,
        };
        let found = header("mcp-name");
        // A name that is no plain ASCII is sent in another form.
        if found != name.as_str() && !found.is_some_and(|found| found.starts_with("=?base64?")) {
            wrong(format!("Mcp-Name of {method} is {found:?} (B-041, B-042)"));
        }
        if header("last-event-id").is_some() {
            wrong("Last-Event-ID in the modern era (B-038)".to_owned());
        }
    } else if method != "initialize" && named != Some(version.name()) {
        wrong(format!("MCP-Protocol-Version of {method} is {named:?} after {}", version.name()));
    }
}

fn answer(exchange: &Exchange, message: &Value, version: Version, mut wrong: impl FnMut(String)) {
    let status = exchange.status;
    let method = message["method"].as_str().unwrap_or("a response");
    let is_request = message.get("id").is_some() && message.get("method").is_some();
    let responses: Vec<&Value> =
        exchange.messages.iter().flatten().filter(|said| said.get("method").is_none()).collect();
    if !is_request {
        if !(status == 202 || status >= 400) {
            wrong(format!("{status} for {method}, which has no answer (B-033)"));
        }
        if status == 202 && !exchange.messages.is_empty() {
            wrong(format!("an answer to {method}"));
        }
        return;
    }
    let kind = exchange.headers.get("content-type").map(String::as_str).unwrap_or_default();
    let is_stream = kind.starts_with("text/event-stream");
    if status == 200 && !(is_stream || kind.starts_with("application/json")) {
        wrong(format!("Content-Type of an answer is {kind:?} (B-034)"));
    }
    if responses.len() > 1 {
        wrong(format!("{} answers to one {method}", responses.len()));
    }
    if exchange.is_over && status == 200 && responses.is_empty() {
        wrong(format!("the end of the answer to {method}, and no response in it"));
    }
    let last = exchange.messages.iter().flatten().last();
    if !responses.is_empty() && last.is_some_and(|last| last.get("method").is_some()) {
        wrong(format!("something came after the response to {method}"));
    }
    // A server of the earlier era does not know what it was asked, and answers as that era does.
    let is_earlier = method == "server/discover" && responses.iter().any(|said| said.get("error").is_some());
    if version == Version::V28 && !is_earlier {
        let code = responses.first().and_then(|said| said["error"]["code"].as_i64());
        let due = match code {
            Some(-32022..=-32020 | -32700 | -32600) => 400,
            Some(-32601) => 404,
            Some(_) | None => status,
        };
        if status != due {
            wrong(format!("HTTP {status} with the error {code:?}, and {due} is due"));
        }
        if is_stream && exchange.headers.get("x-accel-buffering").map(String::as_str) != Some("no") {
            wrong("a stream without X-Accel-Buffering: no (B-036)".to_owned());
        }
        if exchange.headers.contains_key("mcp-session-id") {
            wrong("a session id in the modern era (B-048)".to_owned());
        }
    }
}
