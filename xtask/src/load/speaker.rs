//! An MCP client in as few words as there can be.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};

use super::connection::{Answer, Connection};
use crate::args::Era;

/// How a call wants to be carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// As any call.
    Plain,
    /// As a task: `params.task` (legacy), the extension (modern).
    Task,
}

/// Where an MCP server answers.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    pub(crate) era: Era,
}

/// A client with its connection, and in the legacy era its session.
#[derive(Debug)]
pub(crate) struct Speaker {
    connection: Connection,
    peer: Peer,
    session: Option<String>,
    /// Draws ids that no other speaker draws, each as long as the other.
    next: u64,
    id: String,
    head: String,
    body: String,
    request: Vec<u8>,
}

const META: &str = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
    \"io.modelcontextprotocol/clientInfo\":{\"name\":\"bench\",\"version\":\"1\"},\
    \"io.modelcontextprotocol/clientCapabilities\":";

const EXTENSION: &str = "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}";

impl Speaker {
    /// Connects; the `number` tells it from its neighbours.
    pub(crate) async fn open(peer: &Peer, number: usize) -> Result<Speaker> {
        let mut speaker = Speaker::resume(peer, number, None).await?;
        if peer.era == Era::Legacy {
            let params = "\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\
                \"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}";
            speaker.render("initialize", "", params);
            let answer = speaker.connection.exchange(&speaker.request).await?;
            answer.expect(&["\"protocolVersion\":\"2025-11-25\""])?;
            speaker.session = Some(answer.session().context("no session id")?.to_owned());
            speaker.body.clear();
            speaker.body.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
            speaker.frame("notifications/initialized", "");
            let answer = speaker.connection.exchange(&speaker.request).await?;
            ensure!(answer.status == 202, "notifications/initialized was answered {}", answer.status);
        }
        Ok(speaker)
    }

    /// Connects with a session that was opened before.
    pub(crate) async fn resume(peer: &Peer, number: usize, session: Option<String>) -> Result<Speaker> {
        Ok(Speaker {
            connection: Connection::open(peer.address).await?,
            peer: peer.clone(),
            session,
            next: number as u64 * 100_000_000,
            id: String::new(),
            head: String::new(),
            body: String::new(),
            request: Vec::new(),
        })
    }

    /// Several, one after the other.
    pub(crate) async fn open_all(peer: &Peer, clients: usize) -> Result<Vec<Speaker>> {
        let mut speakers = Vec::with_capacity(clients);
        for number in 0..clients {
            speakers.push(Speaker::open(peer, number).await?);
        }
        Ok(speakers)
    }

    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// `tools/call`, with arguments that no other call has.
    pub(crate) async fn call(&mut self, tool: &str, wish: Wish, needle: &str) -> Result<Answer<'_>> {
        let n = self.next;
        let rest = match (self.peer.era, wish) {
            (Era::Legacy, Wish::Plain) => String::new(),
            (Era::Legacy, Wish::Task) => ",\"task\":{\"ttl\":3600000}".to_owned(),
            (Era::Modern, Wish::Plain) => format!(",{META}{{}}}}"),
            (Era::Modern, Wish::Task) => format!(",{META}{EXTENSION}"),
        };
        let params = format!(
            "\"params\":{{\"name\":\"{tool}\",\"arguments\":{{\"n\":\"{n:010}\",\"for\":\"a line of text as callers \
             send it\"}}{rest}}}"
        );
        self.render("tools/call", tool, &params);
        self.ask(needle).await
    }

    /// `tasks/get` or, held until the end, `tasks/result`.
    pub(crate) async fn task(&mut self, method: &str, task: &str, needle: &str) -> Result<Answer<'_>> {
        let meta = match self.peer.era {
            Era::Legacy => String::new(),
            Era::Modern => format!(",{META}{EXTENSION}"),
        };
        let params = format!("\"params\":{{\"taskId\":\"{task}\"{meta}}}");
        self.render(method, task, &params);
        self.ask(needle).await
    }

    async fn ask(&mut self, needle: &str) -> Result<Answer<'_>> {
        let answer = self.connection.exchange(&self.request).await?;
        answer.expect(&[&self.id, needle])?;
        Ok(answer)
    }

    fn render(&mut self, method: &str, name: &str, params: &str) {
        self.id.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.id, "\"c{:010}\"", self.next);
        self.next += 1;
        self.body.clear();
        let _ =
            write!(self.body, "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",{params}}}", self.id);
        self.frame(method, name);
    }

    fn frame(&mut self, method: &str, name: &str) {
        self.head.clear();
        let Peer { address, path, era } = &self.peer;
        let _ = write!(
            self.head,
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n"
        );
        if *era == Era::Modern || self.session.is_some() {
            let _ = write!(self.head, "MCP-Protocol-Version: {}\r\n", era.version());
        }
        if *era == Era::Modern {
            let _ = write!(self.head, "Mcp-Method: {method}\r\nMcp-Name: {name}\r\n");
        }
        if let Some(session) = &self.session {
            let _ = write!(self.head, "Mcp-Session-Id: {session}\r\n");
        }
        let _ = write!(self.head, "Content-Length: {}\r\n\r\n", self.body.len());
        self.request.clear();
        self.request.extend_from_slice(self.head.as_bytes());
        self.request.extend_from_slice(self.body.as_bytes());
    }
}
