//! What a person's commands ask of the keeper: one line of JSON, and one in answer.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream as BlockingStream;
use std::sync::Arc;

use bytes::BytesMut;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use taskgate_core::id::{ServerName, TaskId};
use taskgate_core::task::{Ending, Fault, Found, State};
use taskgate_core::time::UnixMillis;
use taskgate_engine::engine::CancelError;
use taskgate_store::Whose;
use taskgate_store::record::{Phase, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::hello::State as Stay;
use crate::keeper::Keeper;

/// Longest question.
const ASK_BYTES_MAX: usize = 64 << 10;

/// Most tasks on one page.
const PAGE_MAX: usize = 1_000;

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
    /// Whether a host was given its result; none where there is none.
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

/// Asks the keeper at the other end of `stream`, after the hello of both.
///
/// # Errors
/// What the keeper says is wrong, as [`io::ErrorKind::Other`]; else the connection's.
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

/// Answers one connection's questions.
pub(crate) async fn serve(
    keeper: &Arc<Keeper>,
    mut stream: UnixStream,
    mut read: BytesMut,
) -> io::Result<()> {
    loop {
        let line = loop {
            if let Some(at) = read.iter().position(|&byte| byte == b'\n') {
                let mut line = read.split_to(at + 1);
                line.truncate(at);
                break line;
            }
            if read.len() > ASK_BYTES_MAX || stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        };
        let asked = match serde_json::from_slice(&line) {
            Ok(asked) => asked,
            Err(_) => {
                let words =
                    "this keeper does not know how to do that; stop it, and the next one will".to_owned();
                say::<()>(&mut stream, &Answer::Error(words)).await?;
                continue;
            }
        };
        if let Ask::Stop { now } = asked {
            say(&mut stream, &Answer::Ok(Done {})).await?;
            keeper.stop(now);
            // Whoever asked waits for the end of the connection, which is to come with that of the process.
            std::mem::forget(stream);
            return Ok(());
        }
        answer(keeper, &mut stream, asked).await?;
    }
}

async fn answer(keeper: &Arc<Keeper>, stream: &mut UnixStream, asked: Ask) -> io::Result<()> {
    match asked {
        Ask::Status => say(stream, &Answer::Ok(keeper.status().await)).await,
        // Handled by the caller.
        Ask::Stop { .. } => Ok(()),
        Ask::Restart { server } => {
            let name = ServerName(server);
            if !keeper.parts.servers.is_known(&name) {
                let known: Vec<_> = keeper.parts.servers.names().into_iter().map(|name| name.0).collect();
                let words = format!("no server {:?} is running; these are: {}", name.0, known.join(", "));
                return say::<()>(stream, &Answer::Error(words)).await;
            }
            keeper.parts.servers.restart(&name).await;
            say(stream, &Answer::Ok(Done {})).await
        }
        Ask::Tasks { after, limit } => {
            let after = after.and_then(|(created, id)| Some((UnixMillis(created), TaskId::parse(&id).ok()?)));
            let listed = keeper
                .parts
                .engine
                .list(Whose::Everyone, after, limit.min(PAGE_MAX))
                .await
                .map(|records| records.iter().map(task).collect::<Vec<_>>());
            say(stream, &listed.map_or_else(|error| Answer::Error(error.to_string()), Answer::Ok)).await
        }
        Ask::Task { id } => match keeper.find(&id).await {
            Ok(record) => say(stream, &Answer::Ok(task(&record))).await,
            Err(words) => say::<()>(stream, &Answer::Error(words)).await,
        },
        Ask::Outcome { id } => match keeper.find(&id).await {
            Ok(record) => say(stream, &Answer::Ok(outcome(&record))).await,
            Err(words) => say::<()>(stream, &Answer::Error(words)).await,
        },
        Ask::Cancel { id } => match keeper.cancel(&id).await {
            Ok(record) => say(stream, &Answer::Ok(task(&record))).await,
            Err(words) => say::<()>(stream, &Answer::Error(words)).await,
        },
    }
}

async fn say<T: Serialize>(stream: &mut UnixStream, answer: &Answer<T>) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

impl Keeper {
    async fn status(&self) -> Status {
        let engine = &self.parts.engine;
        let running = self.parts.servers.running();
        let recent = engine.list(Whose::Everyone, None, PAGE_MAX).await.unwrap_or_default();
        let calls = |server: &ServerName| {
            recent
                .iter()
                .filter(|record| record.call.server == *server && record.phase() == Phase::Unfinished)
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

    /// Finds a task by its id, or by the first characters of one.
    async fn find(&self, id: &str) -> Result<Record, String> {
        let unknown = || format!("no task {id:?} is kept; `taskgate tasks` lists them");
        let mut after = None;
        let mut found = Vec::new();
        loop {
            let page = self
                .parts
                .engine
                .list(Whose::Everyone, after, PAGE_MAX)
                .await
                .map_err(|error| error.to_string())?;
            let last = page.last().map(|record| (record.task.lifetime.created, record.id.clone()));
            let is_last = page.len() < PAGE_MAX;
            for record in page {
                if record.id.expose() == id {
                    return Ok(record);
                }
                if record.id.expose().starts_with(id) {
                    found.push(record);
                }
            }
            if is_last || last.is_none() {
                break;
            }
            after = last;
        }
        match (found.pop(), found.is_empty()) {
            (Some(record), true) => Ok(record),
            (Some(_), false) => Err(format!("several tasks begin with {id:?}; write more of the id")),
            (None, _) => Err(unknown()),
        }
    }

    async fn cancel(&self, id: &str) -> Result<Record, String> {
        let record = self.find(id).await?;
        let rule = taskgate_core::task::CancelRule::Wish;
        match self.parts.engine.cancel(&record.principal, &record.id, rule).await {
            Ok(Some(record)) => Ok((*record).clone()),
            Ok(None) => Err(format!("no task {id:?} is kept")),
            Err(CancelError::AlreadyOver(record)) => Ok((*record).clone()),
            Err(CancelError::Store(error)) => Err(error.to_string()),
        }
    }
}

fn task(record: &Record) -> Task {
    let (state, message) = match &record.task.state {
        State::Working => ("working", None),
        State::InputRequired(_) => ("input_required", None),
        State::Over { ending, .. } => match ending {
            Ending::Cancelled => ("cancelled", None),
            Ending::Returned { is_error: false, .. } => ("completed", None),
            Ending::Returned { is_error: true, .. } => {
                ("failed", Some("the tool says that it failed".to_owned()))
            }
            Ending::Raised { .. } => ("failed", Some("the server answered with an error".to_owned())),
            Ending::Faulted(fault) => ("failed", Some(fault_words(fault))),
        },
    };
    Task {
        id: record.id.expose().to_owned(),
        state: state.to_owned(),
        tool: record.call.tool.clone(),
        server: record.call.server.0.clone(),
        scope: record.principal.as_str().to_owned(),
        created_ms: record.task.lifetime.created.0,
        updated_ms: record.updated.0,
        fetched: record.is_returned().then(|| record.fetched.is_some()),
        message,
    }
}

fn fault_words(fault: &Fault) -> String {
    match fault {
        Fault::NeverSent(words) => format!("never sent: {words}"),
        Fault::OutcomeUnknown(words) => format!("nobody knows whether it happened: {words}"),
        Fault::DeadlinePassed => "its deadline passed".to_owned(),
        Fault::UpstreamLost => "the server no longer knows its own task".to_owned(),
        Fault::UpstreamFault(words) => format!("the server made no sense: {words}"),
        Fault::NoAnswer(words) => format!("a question could not be answered: {words}"),
        Fault::BudgetSpent(words) => format!("given up: {words}"),
        Fault::Found(Found::Applied) => "its answer was lost; its effect was made".to_owned(),
        Fault::Found(Found::NotApplied) => "its answer was lost; nothing was done".to_owned(),
        Fault::Found(Found::AssumedNotApplied) => {
            "its answer was lost; it is assumed that nothing was done, which nobody confirmed".to_owned()
        }
    }
}

fn outcome(record: &Record) -> Outcome {
    let raw = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        RawValue::from_string(text)
    };
    match record.task.ending() {
        None => Outcome::Unfinished,
        Some(Ending::Cancelled) => Outcome::None("it was cancelled".to_owned()),
        Some(Ending::Returned { result, .. }) => {
            raw(result).map_or_else(|_| Outcome::None("its result is no JSON".to_owned()), Outcome::Result)
        }
        Some(Ending::Raised { error }) => {
            raw(error).map_or_else(|_| Outcome::None("its error is no JSON".to_owned()), Outcome::Error)
        }
        Some(Ending::Faulted(fault)) => Outcome::None(fault_words(fault)),
    }
}
