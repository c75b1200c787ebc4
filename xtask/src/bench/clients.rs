//! What clients do in a loop.

use anyhow::Result;

use crate::load::Client;
use crate::load::connection::Connection;
use crate::load::speaker::{Peer, Speaker, Wish};

/// Calls one tool and gets its result.
#[derive(Debug)]
pub(crate) struct Calls {
    speaker: Speaker,
    tool: &'static str,
    wish: Wish,
    needle: &'static str,
    bytes_min: usize,
}

impl Calls {
    pub(crate) async fn open(
        peer: &Peer,
        clients: usize,
        tool: &'static str,
        wish: Wish,
    ) -> Result<Vec<Calls>> {
        let bytes_min = if tool == "big" { crate::serve::back::BIG_BYTES } else { 0 };
        let speakers = Speaker::open_all(peer, clients).await?;
        let calls = |speaker| Calls { speaker, tool, wish, needle: "\"isError\":false", bytes_min };
        Ok(speakers.into_iter().map(calls).collect())
    }
}

impl Client for Calls {
    async fn once(&mut self) -> Result<()> {
        let answer = self.speaker.call(self.tool, self.wish, self.needle).await?;
        anyhow::ensure!(answer.body.len() >= self.bytes_min, "{} bytes are too few", answer.body.len());
        Ok(())
    }
}

/// Creates tasks and looks no further.
#[derive(Debug)]
pub(crate) struct Creates {
    pub(crate) speaker: Speaker,
    pub(crate) tool: &'static str,
    /// Ids of what was created, if they are wanted.
    pub(crate) ids: Option<std::rc::Rc<std::cell::RefCell<Vec<String>>>>,
}

impl Client for Creates {
    async fn once(&mut self) -> Result<()> {
        let answer = self.speaker.call(self.tool, Wish::Task, "\"status\":\"working\"").await?;
        if let Some(ids) = &self.ids {
            ids.borrow_mut().push(answer.text("taskId")?.to_owned());
        } else {
            answer.expect(&["\"taskId\":\""])?;
        }
        Ok(())
    }
}

/// Creates a task and holds `tasks/result` until it is there.
#[derive(Debug)]
pub(crate) struct Lives {
    pub(crate) speaker: Speaker,
}

impl Client for Lives {
    async fn once(&mut self) -> Result<()> {
        let task = self.speaker.call("write", Wish::Task, "\"taskId\":\"").await?.text("taskId")?.to_owned();
        self.speaker.task("tasks/result", &task, "\"text\":\"done\"").await?;
        Ok(())
    }
}

/// Reads the status of one task.
#[derive(Debug)]
pub(crate) struct Reads {
    pub(crate) speaker: Speaker,
    pub(crate) task: String,
    pub(crate) needle: &'static str,
}

impl Client for Reads {
    async fn once(&mut self) -> Result<()> {
        self.speaker.task("tasks/get", &self.task, self.needle).await?;
        Ok(())
    }
}

/// Sends the same request to the bare server.
#[derive(Debug)]
pub(crate) struct Bare {
    connection: Connection,
    request: Vec<u8>,
}

impl Bare {
    pub(crate) async fn open(address: std::net::SocketAddr, clients: usize) -> Result<Vec<Bare>> {
        // As long as a request of the others.
        let body = "x".repeat(180);
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut all = Vec::with_capacity(clients);
        for _ in 0..clients {
            let connection = Connection::open(address).await?;
            all.push(Bare { connection, request: request.clone().into_bytes() });
        }
        Ok(all)
    }
}

impl Client for Bare {
    async fn once(&mut self) -> Result<()> {
        self.connection.exchange(&self.request).await?.expect(&["\"status\":\"working\""])
    }
}
