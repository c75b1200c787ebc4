//! A client of a gateway that speaks raw JSON, of every front, and repeats a call whose answer it lost as hosts do: under
//! the same key, or without one the identical call where its front has no tasks.
//!
//! The ids of its requests begin with the key of its effect, so that whoever reads the line can tell whose they are.

mod exchange;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock::now;

/// What the client speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Front {
    /// 2025-11-25 without tasks: the result, or words and a handle.
    Plain,
    /// 2026-07-28 that does not declare the tasks extension.
    PlainModern,
    /// 2025-11-25 with a task for each call.
    A,
    /// 2026-07-28 that declares the tasks extension.
    B,
}

impl Front {
    fn is_modern(self) -> bool {
        matches!(self, Front::PlainModern | Front::B)
    }

    /// Whether a call that is repeated without a key counts as the same: where a client holds no task.
    #[must_use]
    pub fn repeats_unkeyed(self) -> bool {
        matches!(self, Front::Plain | Front::PlainModern)
    }
}

/// One call and how it is made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// What is spoken.
    pub front: Front,
    /// Where the gateway listens, or a proxy before it.
    pub to: SocketAddr,
    /// The path of the endpoint.
    pub path: String,
    /// A session of 2025-11-25 that is open; without it one is opened.
    pub session: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments; their `key` says which effect it is.
    pub arguments: Value,
    /// The idempotency key, if it has one.
    pub idempotency: Option<String>,
    /// How often the call is made again after its answer was lost.
    pub repeats: u32,
    /// For how long it is followed, in milliseconds.
    pub patience: u64,
}

/// What a client learned, in this order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "heard")]
pub enum Heard {
    /// It sends the call.
    Sends {
        /// When, in milliseconds since 1970.
        #[serde(default)]
        at: i64,
    },
    /// It holds this task.
    Handle {
        /// Its id.
        task: String,
    },
    /// The tool's result.
    Result {
        /// `isError`.
        is_error: bool,
        /// The first text.
        text: String,
        /// `data.outcome`, where a front without errors of its own says it in the result.
        outcome: Option<String>,
    },
    /// A JSON-RPC error.
    Error {
        /// Its code.
        code: i64,
        /// Its words.
        text: String,
        /// `data.outcome`.
        outcome: Option<String>,
    },
    /// An answer was lost.
    Lost {
        /// When, in milliseconds since 1970.
        #[serde(default)]
        at: i64,
        /// To what.
        method: String,
        /// What broke.
        why: String,
    },
    /// The gateway could not reach the server, and says so: the call was not sent.
    Away {
        /// Its words.
        why: String,
    },
    /// What came is nothing that may come.
    Odd {
        /// What.
        what: String,
    },
    /// Nothing came in time.
    GaveUp,
}

/// How a call came out for its client, before it is known what it was.
enum Came {
    /// The response's `result`.
    Result(Value),
    /// The response's `error`.
    Error(Value),
}

/// Makes a call, follows it to its end, and tells `hears` what it learns as it learns it.
pub async fn play(call: &Call, mut hears: impl FnMut(Heard)) {
    let deadline = Instant::now() + Duration::from_millis(call.patience);
    let mut talk = Talk { call, session: call.session.clone(), number: 0, deadline };
    if !call.front.is_modern() && talk.session.is_none() && !talk.open(&mut hears).await {
        return hears(Heard::GaveUp);
    }
    let mut repeats = call.repeats;
    let came = loop {
        hears(Heard::Sends { at: now() });
        match talk.ask("tools/call", talk.params()).await {
            Ok(Came::Error(error)) if is_about_the_server(&error) => {
                hears(Heard::Away { why: error["message"].as_str().unwrap_or_default().to_owned() });
            }
            Ok(came) => break came,
            Err(error) => hears(lost("tools/call", &error)),
        }
        let same = call.idempotency.is_some() || call.front.repeats_unkeyed();
        if repeats == 0 || !same || !talk.pause().await {
            return;
        }
        repeats -= 1;
    };
    talk.follow(came, &mut hears).await;
}

struct Talk<'a> {
    call: &'a Call,
    session: Option<String>,
    number: u32,
    deadline: Instant,
}

impl Talk<'_> {
    fn key(&self) -> String {
        self.call.arguments["key"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits a moment; whether there is time for more.
    async fn pause(&self) -> bool {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Instant::now() < self.deadline
    }

    async fn open(&mut self, hears: &mut impl FnMut(Heard)) -> bool {
        loop {
            match open(self.call.to, &self.call.path, &self.key()).await {
                Ok(session) => {
                    self.session = Some(session);
                    return true;
                }
                Err(error) => hears(lost("initialize", &error)),
            }
            if !self.pause().await {
                return false;
            }
        }
    }

    fn params(&self) -> Value {
        let mut params = json!({ "name": self.call.tool, "arguments": self.call.arguments });
        if let Some(key) = &self.call.idempotency {
            params["_meta"] = json!({ "taskgate/idempotency-key": key });
        }
        if self.call.front == Front::A {
            params["task"] = json!({});
        }
        params
    }

    async fn ask(&mut self, method: &str, mut params: Value) -> io::Result<Came> {
        self.number += 1;
        let id = format!("{}-{}-{}", self.key(), std::process::id(), self.number);
        let mut headers = Vec::new();
        if self.call.front.is_modern() {
            let extensions = match self.call.front {
                Front::B => json!({ "io.modelcontextprotocol/tasks": {} }),
                Front::Plain | Front::PlainModern | Front::A => json!({}),
            };
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({ "extensions": extensions });
            let name = params["taskId"].as_str().or(params["name"].as_str()).unwrap_or_default().to_owned();
            headers.push(("mcp-protocol-version", "2026-07-28".to_owned()));
            headers.push(("mcp-method", method.to_owned()));
            headers.push(("mcp-name", name));
        } else if let Some(session) = &self.session {
            headers.push(("mcp-session-id", session.clone()));
            headers.push(("mcp-protocol-version", "2025-11-25".to_owned()));
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let asking = exchange::post(self.call.to, &self.call.path, &headers, &message);
        let (_, messages) =
            tokio::time::timeout_at(self.deadline, asking).await.map_err(io::Error::other)??;
        let mut answer = messages
            .into_iter()
            .find(|message| message["id"] == id && message.get("method").is_none())
            .ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "no answer in what came"))?;
        match answer.get_mut("result") {
            Some(result) => Ok(Came::Result(result.take())),
            None => Ok(Came::Error(answer["error"].take())),
        }
    }

    /// Asks again and again until it is answered.
    async fn insist(&mut self, method: &str, params: &Value, hears: &mut impl FnMut(Heard)) -> Option<Came> {
        loop {
            match self.ask(method, params.clone()).await {
                Ok(came) => return Some(came),
                Err(error) => hears(lost(method, &error)),
            }
            if !self.pause().await {
                return None;
            }
        }
    }

    async fn follow(&mut self, came: Came, hears: &mut impl FnMut(Heard)) {
        let result = match came {
            Came::Error(error) => return hears(raised(&error)),
            Came::Result(result) => result,
        };
        let handle = match self.call.front {
            Front::A => result["task"]["taskId"].as_str(),
            Front::B if result["resultType"] == "task" => result["taskId"].as_str(),
            Front::B => None,
            Front::Plain | Front::PlainModern => working_handle(&result),
        };
        let Some(task) = handle.map(str::to_owned) else {
            return hears(returned(&result));
        };
        hears(Heard::Handle { task: task.clone() });
        match self.call.front {
            Front::A => self.follow_a(&task, hears).await,
            Front::B => self.follow_b(&task, hears).await,
            Front::Plain | Front::PlainModern => self.follow_plain(&task, hears).await,
        }
    }

    async fn follow_a(&mut self, task: &str, hears: &mut impl FnMut(Heard)) {
        let named = json!({ "taskId": task });
        loop {
            match self.insist("tasks/get", &named, hears).await {
                None => return hears(Heard::GaveUp),
                Some(Came::Error(error)) => return hears(odd("tasks/get", &error)),
                Some(Came::Result(shown)) if shown["taskId"] != task => {
                    return hears(odd("tasks/get", &shown));
                }
                Some(Came::Result(shown)) if shown["status"] != "working" => break,
                Some(Came::Result(_)) if !self.pause().await => return hears(Heard::GaveUp),
                Some(Came::Result(_)) => {}
            }
        }
        match self.insist("tasks/result", &named, hears).await {
            None => hears(Heard::GaveUp),
            Some(Came::Error(error)) => hears(raised(&error)),
            Some(Came::Result(result)) => hears(returned(&result)),
        }
    }

    async fn follow_b(&mut self, task: &str, hears: &mut impl FnMut(Heard)) {
        let named = json!({ "taskId": task });
        loop {
            let shown = match self.insist("tasks/get", &named, hears).await {
                None => return hears(Heard::GaveUp),
                Some(Came::Error(error)) => return hears(odd("tasks/get", &error)),
                Some(Came::Result(shown)) => shown,
            };
            match shown["status"].as_str() {
                Some("working") => {}
                Some("completed") => return hears(returned(&shown["result"])),
                Some("failed") => return hears(raised(&shown["error"])),
                _ => return hears(odd("tasks/get", &shown)),
            }
            if !self.pause().await {
                return hears(Heard::GaveUp);
            }
        }
    }

    async fn follow_plain(&mut self, task: &str, hears: &mut impl FnMut(Heard)) {
        let params = json!({ "name": "taskgate_task", "arguments": { "action": "wait", "taskId": task } });
        loop {
            match self.insist("tools/call", &params, hears).await {
                None => return hears(Heard::GaveUp),
                Some(Came::Error(error)) => return hears(raised(&error)),
                Some(Came::Result(result)) if working_handle(&result).is_none() => {
                    return hears(returned(&result));
                }
                Some(Came::Result(_)) if !self.pause().await => return hears(Heard::GaveUp),
                Some(Came::Result(_)) => {}
            }
        }
    }
}

/// Opens a session of 2025-11-25 for one who is called `name`, and gives back its id.
///
/// # Errors
/// If the exchange breaks or no session comes.
pub async fn open(to: SocketAddr, path: &str, name: &str) -> io::Result<String> {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": name, "version": "1" },
    });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let (head, _) = exchange::post(to, path, &[], &message).await?;
    let session = exchange::header(&head, "mcp-session-id").ok_or_else(|| io::Error::other("no session"))?;
    let headers = [("mcp-session-id", session.clone()), ("mcp-protocol-version", "2025-11-25".to_owned())];
    let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    exchange::post(to, path, &headers, &opened).await?;
    Ok(session)
}

/// Whether the gateway could not reach the server and says nothing of the call: what hosts try again.
fn is_about_the_server(error: &Value) -> bool {
    let words = error["message"].as_str().unwrap_or_default();
    error["code"] == -32603 && error["data"].is_null() && words.starts_with("server \"")
}

/// The task's id, if the result is a stand-in that says that the work goes on.
fn working_handle(result: &Value) -> Option<&str> {
    let told = &result["structuredContent"]["taskgate"];
    (told["status"] == "working").then(|| told["taskId"].as_str()).flatten()
}

fn returned(result: &Value) -> Heard {
    let outcome = &result["structuredContent"]["taskgate"]["outcome"];
    Heard::Result {
        is_error: result["isError"] == true,
        text: result["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
        outcome: outcome.as_str().map(str::to_owned),
    }
}

fn raised(error: &Value) -> Heard {
    Heard::Error {
        code: error["code"].as_i64().unwrap_or_default(),
        text: error["message"].as_str().unwrap_or_default().to_owned(),
        outcome: error["data"]["outcome"].as_str().map(str::to_owned),
    }
}

fn lost(method: &str, error: &io::Error) -> Heard {
    Heard::Lost { at: now(), method: method.to_owned(), why: error.to_string() }
}

fn odd(method: &str, what: &Value) -> Heard {
    Heard::Odd { what: format!("{method}: {what}") }
}
