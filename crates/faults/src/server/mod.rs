//! MCP servers that pay through the bank, of every kind that a gateway meets: with the tasks of either version or with
//! none, over HTTP and over lines. They keep nothing on disk: when one dies, its sessions and tasks are gone.
//!
//! Their tools: every name that begins with `pay` pays `{key, object, amount}`, `payment_status` `{key}` looks and
//! changes nothing, `fence_payment` `{key}` has the bank refuse the key for ever. What stands in `_meta` under
//! `taskgate/idempotency-key` is passed to the bank as the token of the order; `pay_keyed` asks it to honour that.
//!
//! - `legacy`, `modern`: the methods of 2025-11-25 and of 2026-07-28
//! - `work`: what a call does
//! - `tasks`: tasks of their own
//! - `http`, `lines`: the ways in

mod http;
mod legacy;
mod lines;
mod modern;
mod tasks;
mod work;

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::tasks::Tasks;

/// The tools that pay. They do the same; a gateway may have a policy for each.
pub const PAYMENTS: [&str; 9] = [
    "pay",
    "pay_keyed",
    "pay_receipt",
    "pay_probe",
    "pay_get",
    "pay_fence",
    "pay_settle",
    "pay_person",
    "pay_hand",
];

/// What a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// 2025-11-25 without tasks.
    Plain,
    /// 2026-07-28 without tasks.
    PlainModern,
    /// 2025-11-25 with tasks.
    A,
    /// 2026-07-28 with the tasks extension.
    B,
}

/// What a server answered to a call, in its own words: for comparing what is reported of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// A result without `isError`.
    Success,
    /// A result with it.
    ToolError,
    /// `-32602`.
    NotUnderstood,
    /// Another error.
    OtherError,
}

/// One line of the file in which a server notes what it is about to say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Said {
    /// Of which effect.
    pub key: String,
    /// What.
    pub word: Word,
}

struct Shop {
    kind: Kind,
    bank: SocketAddr,
    said: Option<Mutex<File>>,
    heard: Option<Mutex<File>>,
    tasks: Tasks,
    sessions: Mutex<HashSet<String>>,
    next: AtomicU64,
}

/// How a message is answered.
enum Reply {
    /// By this.
    Json(u16, Value),
    /// By this, and a session begins.
    Opened(Value, String),
    /// It wants no answer.
    Accepted,
}

/// One that pays through the bank, and notes what it hears and says.
pub struct Server(Arc<Shop>);

impl Server {
    /// Makes one: with its bank, where to note what it says of each effect ([`Said`]), and where to note the `params` of
    /// each call as they came, a line of JSON each.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub fn new(
        kind: Kind,
        bank: SocketAddr,
        said: Option<&Path>,
        heard: Option<&Path>,
    ) -> io::Result<Server> {
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let said = said.map(open).transpose()?.map(Mutex::new);
        let heard = heard.map(open).transpose()?.map(Mutex::new);
        Ok(Server(Arc::new(Shop {
            kind,
            bank,
            said,
            heard,
            tasks: Tasks::default(),
            sessions: Mutex::default(),
            next: AtomicU64::new(0),
        })))
    }

    /// Answers at `/mcp` of every connection.
    pub async fn http(&self, listener: tokio::net::TcpListener) {
        http::serve(self.0.clone(), listener).await;
    }

    /// Takes each connection for the stdin and stdout of a process.
    pub async fn lines(&self, listener: tokio::net::TcpListener) {
        lines::listen(self.0.clone(), listener).await;
    }

    /// Answers on stdin and stdout until stdin ends.
    ///
    /// # Errors
    /// What the pipes say.
    pub async fn stdio(&self) -> io::Result<()> {
        lines::talk(self.0.clone(), tokio::io::stdin(), tokio::io::stdout()).await
    }
}

/// Reads what servers noted.
///
/// # Errors
/// What the file system says.
pub fn said(path: &Path) -> io::Result<Vec<Said>> {
    let text = std::fs::read_to_string(path)?;
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}

impl Shop {
    /// Notes what is about to be said.
    fn says(&self, key: &str, word: Word) {
        note(self.said.as_ref(), &json!(Said { key: key.to_owned(), word }));
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Answers one message. `session` is what a legacy HTTP request named, `headers` whether there were any.
    async fn answer(self: &Arc<Self>, message: &Value) -> Reply {
        let (id, method) = (&message["id"], message["method"].as_str());
        let Some(method) = method else { return Reply::Accepted };
        if id.is_null() {
            return Reply::Accepted;
        }
        let params = &message["params"];
        if method == "tools/call" {
            note(self.heard.as_ref(), params);
        }
        match self.kind {
            Kind::Plain | Kind::A => legacy::answer(self, id, method, params).await,
            Kind::PlainModern | Kind::B => modern::answer(self, id, method, params).await,
        }
    }
}

/// A line, in one write, so that a kill leaves whole ones.
fn note(file: Option<&Mutex<File>>, what: &Value) {
    let Some(file) = file else { return };
    let mut line = what.to_string();
    line.push('\n');
    let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
}

fn ok(id: &Value, result: &Value) -> Reply {
    Reply::Json(200, json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

fn error(status: u16, id: &Value, code: i64, words: &str, data: Option<Value>) -> Reply {
    let mut error = json!({ "code": code, "message": words });
    if let Some(data) = data {
        error["data"] = data;
    }
    Reply::Json(status, json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}
