//! What a person's commands ask of the process that owns a store, the keeper or `serve`: one line of JSON, and one in
//! answer.
//!
//! - [`ledger`]: operations, as they are shown

pub mod ledger;

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream as BlockingStream;
use std::sync::Arc;

use bytes::BytesMut;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use taskgate_core::id::ServerName;
use taskgate_store::Whose;
use taskgate_store::record::Phase;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::desk::Desk;
use crate::hello::State as Stay;
use crate::keeper::Keeper;

/// Longest question.
const ASK_BYTES_MAX: usize = 64 << 10;

/// Most tasks on one page.
pub(crate) const PAGE_MAX: usize = 1_000;

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// How it is: [`Status`].
    Status,
    /// To end: [`Done`], and the connection closes when it is gone.
    Stop {
        /// Whether calls under way get no time to end.
        now: bool,
    },
    /// To start one server's process anew: [`Done`].
    Restart {
        /// Its name.
        server: String,
    },
    /// A page of all tasks, newest first: a list of [`Task`].
    Tasks {
        /// From behind this one on: its `created` and id.
        #[serde(default)]
        after: Option<(i64, String)>,
        /// At most so many.
        limit: usize,
    },
    /// One task: [`Task`].
    Task {
        /// Its id.
        id: String,
    },
    /// The result of one task: [`Outcome`].
    Outcome {
        /// Its id.
        id: String,
    },
    /// To cancel one task: [`Task`].
    Cancel {
        /// Its id.
        id: String,
    },
    /// A page of operations: [`ledger::Page`].
    Operations(ledger::Wanted),
    /// One operation with its history: [`ledger::Operation`].
    Operation {
        /// Its id.
        id: String,
    },
    /// To ask the system of record now: [`ledger::Operation`], as it was when the asking began.
    Reconcile {
        /// Its id.
        id: String,
    },
    /// To note what a person says became of it: [`ledger::Operation`].
    Resolve(ledger::Word),
}

impl Ask {
    /// A question of the process itself, or else what is to be asked of its tasks and operations.
    pub(crate) fn sort(self) -> Result<OfOwner, OfStore> {
        match self {
            Ask::Status => Ok(OfOwner::Status),
            Ask::Stop { now } => Ok(OfOwner::Stop { now }),
            Ask::Restart { server } => Ok(OfOwner::Restart { server }),
            Ask::Tasks { after, limit } => Err(OfStore::Tasks { after, limit }),
            Ask::Task { id } => Err(OfStore::Task { id }),
            Ask::Outcome { id } => Err(OfStore::Outcome { id }),
            Ask::Cancel { id } => Err(OfStore::Cancel { id }),
            Ask::Operations(wanted) => Err(OfStore::Operations(wanted)),
            Ask::Operation { id } => Err(OfStore::Operation { id }),
            Ask::Reconcile { id } => Err(OfStore::Reconcile { id }),
            Ask::Resolve(word) => Err(OfStore::Resolve(word)),
        }
    }
}

/// What only the keeper answers.
pub(crate) enum OfOwner {
    Status,
    Stop { now: bool },
    Restart { server: String },
}

/// What whoever owns a store answers.
pub(crate) enum OfStore {
    Tasks { after: Option<(i64, String)>, limit: usize },
    Task { id: String },
    Outcome { id: String },
    Cancel { id: String },
    Operations(ledger::Wanted),
    Operation { id: String },
    Reconcile { id: String },
    Resolve(ledger::Word),
}

/// That it was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Done {}

/// How a keeper is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// Its folder.
    pub folder: String,
    /// Whether that is not the usual one, because nothing can be written there.
    pub is_fallback: bool,
    /// Whether it gives way to a newer version.
    pub draining: bool,
    /// Calls under way or waiting for their turn.
    pub live: usize,
    /// Calls that wait for a server that no host has started since the last keeper's end.
    pub parked: usize,
    /// Attached hosts.
    pub hosts: Vec<HostLine>,
    /// Servers with a host, or with work.
    pub servers: Vec<ServerLine>,
}

/// One attached host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostLine {
    /// Its attachment, shortened.
    pub attachment: String,
    /// Its process.
    pub pid: u32,
    /// What it calls itself.
    pub client: Option<String>,
    /// Its server.
    pub server: String,
    /// Since when.
    pub since_ms: i64,
}

/// One server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerLine {
    /// Its name.
    pub server: String,
    /// Its process; none while nobody has used it.
    pub pid: Option<u32>,
    /// What it calls itself.
    pub name: Option<String>,
    /// The protocol version that is spoken with it.
    pub protocol: Option<String>,
    /// Since when its process runs.
    pub since_ms: Option<i64>,
    /// Attached hosts.
    pub hosts: usize,
    /// Calls under way or waiting for their turn.
    pub calls: usize,
}

/// One task, without what was asked and answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// `working`, `input_required`, `completed`, `failed` or `cancelled`.
    pub state: String,
    /// Its tool.
    pub tool: String,
    /// Its server.
    pub server: String,
    /// Who can see it.
    pub scope: String,
    /// When it was made.
    pub created_ms: i64,
    /// When anything last changed.
    pub updated_ms: i64,
    /// Whether a host was given its result; none where there is none, or where nobody can tell.
    pub fetched: Option<bool>,
    /// What the server last said of it, or how it failed.
    pub message: Option<String>,
}

/// How a task ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Not yet.
    Unfinished,
    /// With this result of the server's.
    Result(Box<RawValue>),
    /// With this JSON-RPC error of the server's.
    Error(Box<RawValue>),
    /// With none, and why.
    None(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Ok(T),
    Error(String),
}

/// Asks the process at the other end of `stream`, after the hello of both.
///
/// # Errors
/// What it says is wrong, as [`io::ErrorKind::Other`]; else the connection's.
pub fn ask<T: DeserializeOwned>(stream: &mut BlockingStream, ask: &Ask) -> io::Result<T> {
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match serde_json::from_str(&answer)? {
        Answer::Ok(answer) => Ok(answer),
        Answer::Error(words) => Err(io::Error::other(words)),
    }
}

/// The questions of one connection, one after the other.
pub(crate) struct Questions {
    stream: UnixStream,
    read: BytesMut,
}

impl Questions {
    pub(crate) fn new(stream: UnixStream, read: BytesMut) -> Questions {
        Questions { stream, read }
    }

    /// The next one; `None` at the end. One that is not understood is answered with these words.
    pub(crate) async fn next(&mut self, not_understood: &str) -> io::Result<Option<Ask>> {
        loop {
            let line = loop {
                if let Some(at) = self.read.iter().position(|&byte| byte == b'\n') {
                    let mut line = self.read.split_to(at + 1);
                    line.truncate(at);
                    break line;
                }
                if self.read.len() > ASK_BYTES_MAX || self.stream.read_buf(&mut self.read).await? == 0 {
                    return Ok(None);
                }
            };
            match serde_json::from_slice(&line) {
                Ok(asked) => return Ok(Some(asked)),
                Err(_) => self.say::<()>(&Err(not_understood.to_owned())).await?,
            }
        }
    }

    pub(crate) async fn say<T: Serialize>(&mut self, answer: &Result<T, String>) -> io::Result<()> {
        let answer = match answer {
            Ok(answer) => Answer::Ok(answer),
            Err(words) => Answer::Error(words.clone()),
        };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        self.stream.write_all(&line).await
    }
}

/// Answers one connection's questions to the keeper.
pub(crate) async fn serve(keeper: &Arc<Keeper>, stream: UnixStream, read: BytesMut) -> io::Result<()> {
    let mut questions = Questions::new(stream, read);
    let desk = Desk::new(keeper.parts.engine.clone());
    while let Some(asked) =
        questions.next("this keeper does not know how to do that; stop it, and the next one will").await?
    {
        match asked.sort() {
            Err(asked) => desk.answer(&mut questions, asked).await?,
            Ok(OfOwner::Status) => questions.say(&Ok(keeper.status().await)).await?,
            Ok(OfOwner::Restart { server }) => questions.say(&keeper.restart(server).await).await?,
            Ok(OfOwner::Stop { now }) => {
                questions.say(&Ok(Done {})).await?;
                keeper.stop(now);
                // Whoever asked waits for the end of the connection, which is to come with that of the process.
                std::mem::forget(questions);
                return Ok(());
            }
        }
    }
    Ok(())
}

impl Keeper {
    async fn status(&self) -> Status {
        let engine = &self.parts.engine;
        let running = self.parts.servers.running();
        let recent = engine.list(Whose::Everyone, None, PAGE_MAX).await.unwrap_or_default();
        let calls = |server: &ServerName| {
            recent
                .iter()
                .filter(|summary| summary.server() == server && summary.phase() == Phase::Unfinished)
                .count()
        };
        let state = self.state.lock();
        let hosts = state
            .attached
            .values()
            .map(|attached| HostLine {
                attachment: attached.id.short(),
                pid: attached.host_pid,
                client: attached.client.clone(),
                server: attached.key.server.0.clone(),
                since_ms: attached.since.0,
            })
            .collect();
        let mut names: Vec<&ServerName> = state.known.keys().collect();
        names.sort();
        let servers = names
            .into_iter()
            .map(|server| {
                let session = running.iter().find(|session| session.server == *server);
                ServerLine {
                    server: server.0.clone(),
                    pid: session.and_then(|session| session.pid),
                    name: session
                        .and_then(|session| session.name.as_ref())
                        .map(|name| name.as_str().to_owned()),
                    protocol: session.map(|session| session.version.clone()),
                    since_ms: session.map(|session| session.since.0),
                    hosts: state.attached.values().filter(|attached| attached.key.server == *server).count(),
                    calls: calls(server),
                }
            })
            .collect();
        Status {
            pid: std::process::id(),
            version: self.parts.version.clone(),
            since_ms: self.since.0,
            folder: self.parts.place.folder().display().to_string(),
            is_fallback: self.parts.place.is_fallback(),
            draining: match self.stay_of(&state) {
                Stay::Draining => true,
                Stay::Ready => false,
            },
            live: engine.live(),
            parked: engine.parked(),
            hosts,
            servers,
        }
    }

    async fn restart(&self, server: String) -> Result<Done, String> {
        let name = ServerName(server);
        if !self.parts.servers.is_known(&name) {
            let known: Vec<_> = self.parts.servers.names().into_iter().map(|name| name.0).collect();
            return Err(format!("no server {:?} is running; these are: {}", name.0, known.join(", ")));
        }
        self.parts.servers.restart(&name).await;
        Ok(Done {})
    }
}
