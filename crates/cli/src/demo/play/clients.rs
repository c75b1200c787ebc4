//! The two kinds of client, by the version that they speak.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use serde_json::{Value, json};

use super::wire::{Refused, Wire, result};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A client of 2025-11-25: a session, and tasks only if it asks for one (dialect A).
pub(super) struct Legacy {
    wire: Wire,
    session: String,
    next: AtomicU64,
}

/// A client of 2026-07-28 with the tasks extension (dialect B).
pub(super) struct Modern {
    wire: Wire,
    next: AtomicU64,
}

impl Legacy {
    pub(super) async fn open(wire: &Wire) -> anyhow::Result<Legacy> {
        let params = json!({
            "protocolVersion": LEGACY, "capabilities": {},
            "clientInfo": { "name": "taskgate-demo-client", "version": env!("CARGO_PKG_VERSION") },
        });
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let (response, session) = wire.post(&[], &message).await?;
        result(response)??;
        let session = session.context("the gateway opened no session")?;
        let client = Legacy { wire: wire.clone(), session, next: AtomicU64::new(1) };
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        client.post(&message).await?;
        Ok(client)
    }

    async fn post(&self, message: &Value) -> anyhow::Result<Value> {
        let headers = [("mcp-session-id", self.session.as_str()), ("mcp-protocol-version", LEGACY)];
        Ok(self.wire.post(&headers, message).await?.0)
    }

    pub(super) async fn request(
        &self,
        method: &str,
        params: Value,
    ) -> anyhow::Result<Result<Value, Refused>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        result(self.post(&message).await?)
    }

    /// Calls a tool without asking for a task.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> anyhow::Result<Result<Value, Refused>> {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }
}

impl Modern {
    pub(super) fn new(wire: &Wire) -> Modern {
        Modern { wire: wire.clone(), next: AtomicU64::new(1) }
    }

    pub(super) async fn request(
        &self,
        method: &str,
        name: &str,
        mut params: Value,
    ) -> anyhow::Result<Result<Value, Refused>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {
                "name": "taskgate-demo-client", "version": env!("CARGO_PKG_VERSION"),
            },
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": { "form": {} },
                "extensions": { "io.modelcontextprotocol/tasks": {} },
            },
        });
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", name)];
        result(self.wire.post(&headers, &message).await?.0)
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> anyhow::Result<Result<Value, Refused>> {
        self.request("tools/call", tool, json!({ "name": tool, "arguments": arguments })).await
    }

    /// The task as it stands.
    pub(super) async fn task(&self, id: &str) -> anyhow::Result<Value> {
        Ok(self.request("tasks/get", id, json!({ "taskId": id })).await??)
    }

    /// Looks, as often as the server says, until `is_enough`.
    pub(super) async fn watch(&self, id: &str, is_enough: impl Fn(&str) -> bool) -> anyhow::Result<Value> {
        loop {
            let task = self.task(id).await?;
            if is_enough(task["status"].as_str().unwrap_or_default()) {
                return Ok(task);
            }
            let wait = task["pollIntervalMs"].as_u64().unwrap_or(500);
            tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
        }
    }
}

/// The text of a tool's result.
pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// Whether a status is final.
pub(super) fn is_over(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}
