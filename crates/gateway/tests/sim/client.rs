//! One client during one life of the gateway: requests and their answers, and what is heard beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_gateway::{Attached, Incoming};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::book::Stamp;
use crate::line::server_name;
use crate::mind::{Front, Mind, Why};
use crate::world::Life;

/// What came of a request.
pub(crate) enum Told {
    /// The whole message, as it came.
    Said(Bytes),
    /// Nothing, and nothing will.
    Lost,
}

/// A client.
pub(crate) struct Client {
    pub(crate) life: Arc<Life>,
    pub(crate) mind: Arc<Mutex<Mind>>,
    pub(crate) name: String,
    pub(crate) front: Front,
    pub(crate) is_piped: bool,
    pub(crate) can_ask: bool,
    pub(crate) principal: String,
    pub(crate) pipe: Option<mpsc::Sender<Incoming>>,
    pub(crate) waiting: Mutex<BTreeMap<String, oneshot::Sender<Bytes>>>,
    /// Requests whose answer nobody waits for any more, and those that have theirs.
    pub(crate) given_up: Mutex<BTreeMap<String, Why>>,
    pub(crate) answered: Mutex<BTreeSet<String>>,
    /// Questions that it was asked as requests.
    pub(crate) asked: Mutex<BTreeSet<String>>,
    /// How it is told that a task is not there.
    pub(crate) spied: Mutex<Option<String>>,
    /// What was last pushed on each subscription.
    pub(crate) pushed: Mutex<BTreeMap<String, Stamp>>,
    /// Wishes whose result it has read in this life, so that the gateway knows that it has it.
    pub(crate) has: Mutex<BTreeSet<usize>>,
    /// Progress tokens of calls that are answered.
    pub(crate) over: Mutex<BTreeSet<String>>,
}

pub(crate) const VERSION: &str = "2026-07-28";

impl Client {
    pub(crate) fn start(life: &Arc<Life>, mind: &Arc<Mutex<Mind>>) -> Arc<Client> {
        let known = mind.lock();
        let (pipe, served) = if known.is_piped {
            let (to, incoming) = mpsc::channel(64);
            let (outgoing, from) = mpsc::channel(256);
            let attached = Attached { server: server_name(), principal: known.principal.clone() };
            let (gateway, shutdown) = (life.gateway.clone(), life.shutdown.clone());
            tokio::spawn(async move { gateway.serve_pipe(attached, incoming, outgoing, shutdown).await });
            (Some(to), Some(from))
        } else {
            (None, None)
        };
        let client = Arc::new(Client {
            life: life.clone(),
            mind: mind.clone(),
            name: known.name(),
            front: known.front,
            is_piped: known.is_piped,
            can_ask: known.can_ask,
            principal: known.principal.as_str().to_owned(),
            pipe,
            waiting: Mutex::default(),
            given_up: Mutex::default(),
            answered: Mutex::default(),
            asked: Mutex::default(),
            spied: Mutex::default(),
            pushed: Mutex::default(),
            has: Mutex::default(),
            over: Mutex::default(),
        });
        drop(known);
        if let Some(from) = served {
            tokio::spawn(client.clone().hear(from));
        }
        client
    }

    pub(crate) fn below(&self, end: usize) -> usize {
        self.mind.lock().random.below(end)
    }

    pub(crate) fn one_in(&self, of: usize) -> bool {
        self.mind.lock().random.one_in(of)
    }

    pub(crate) fn count(&self, what: &str) {
        self.life.world.tally.count(what);
    }

    pub(crate) fn broke(&self, words: impl AsRef<str>) {
        self.life.world.broken.say(format!("{}: {}", self.name, words.as_ref()));
    }

    pub(crate) fn check(&self, checked: Result<(), String>) {
        if let Err(words) = checked {
            self.broke(words);
        }
    }

    pub(crate) fn trace(&self, way: &str, message: &[u8]) {
        let words = String::from_utf8_lossy(message);
        self.life.world.say(format!("{} {} {way} {words}", self.life.now(), self.name));
    }

    /// What a modern request declares.
    pub(crate) fn declared(&self, params: &mut Value) {
        let mut capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        if self.can_ask {
            capabilities["elicitation"] = json!({"form": {}});
        }
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    }

    pub(crate) fn next_id(&self) -> Value {
        let mut mind = self.mind.lock();
        mind.next_id += 1;
        if mind.next_id.is_multiple_of(2) {
            json!(mind.next_id)
        } else {
            json!(format!("id-{}", mind.next_id))
        }
    }

    /// Sends a request, and understands its answer. `bound` is the longest that it may take.
    pub(crate) async fn ask(self: &Arc<Self>, why: Why, method: &str, mut params: Value, bound: Duration) {
        if self.front == Front::B {
            self.declared(&mut params);
        }
        let id = self.next_id();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let message = Bytes::from(message.to_string());
        let since = self.stamp(&why);
        // Whoever only waits for a task would never see its end in the shortest of them.
        let least = if let Why::Result(_) = why { 25 } else { 0 };
        let patience = Duration::from_secs(self.mind.lock().patience.max(least));
        let gives_up = self.front == Front::Plain && method == "tools/call" && patience < bound;
        let name = params["name"].as_str().or_else(|| params["taskId"].as_str()).map(str::to_owned);
        let asking = async {
            match &self.pipe {
                Some(_) => self.ask_pipe(why.clone(), &id, message).await,
                None => self.ask_http(method, name.as_deref(), &id, message).await,
            }
        };
        let told = match tokio::time::timeout(if gives_up { patience } else { bound }, asking).await {
            Ok(told) => told,
            Err(_) if gives_up => {
                self.give_up(&id, &why).await;
                Told::Lost
            }
            Err(_) => {
                self.broke(format!("INV-35: {method} was not answered within {bound:?}"));
                Told::Lost
            }
        };
        self.understand(&why, &since, told);
    }

    pub(crate) fn stamp(&self, why: &Why) -> Stamp {
        let book = self.life.world.book.lock();
        match why {
            Why::Get(id) | Why::Result(id) | Why::Cancel(id) | Why::Answer(id, _, _) | Why::Listen(id) => {
                book.stamp(id)
            }
            Why::Open
            | Why::Call(_)
            | Why::Anew(_)
            | Why::Misuse(_)
            | Why::Late(_)
            | Why::List
            | Why::Spy(_) => Stamp::default(),
        }
    }

    /// A host that has waited long enough, and says so or not.
    pub(crate) async fn give_up(self: &Arc<Self>, id: &Value, why: &Why) {
        self.count("a host that gave up");
        if !self.is_piped {
            return;
        }
        let name = id.to_string();
        self.waiting.lock().remove(&name);
        self.given_up.lock().insert(name.clone(), why.clone());
        self.mind.lock().pending.retain(|_, pending| pending.id != name);
        if self.one_in(2) {
            let params = json!({"requestId": id, "reason": "timeout"});
            self.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
        }
    }

    /// Sends what is no request. The status of its POST, over HTTP.
    pub(crate) async fn say(self: &Arc<Self>, message: Value) -> Option<u16> {
        let text = message.to_string();
        self.trace(">", text.as_bytes());
        match &self.pipe {
            Some(pipe) => {
                let sequence = {
                    let mut mind = self.mind.lock();
                    mind.sequence += 1;
                    mind.sequence
                };
                let frame = Some(self.frame(sequence));
                let message = Bytes::from(text);
                let incoming = Incoming { message, frame, since: Instant::now(), is_again: false };
                pipe.send(incoming).await.ok()?;
                None
            }
            None => {
                let method = message["method"].as_str().unwrap_or_default().to_owned();
                let headers = self.headers(&method, None);
                let coming = self.open_http("POST", &headers, &text, None).await.ok()?;
                Some(coming.status)
            }
        }
    }

    /// Opens a session, if its era has any and it has none yet.
    pub(crate) async fn open(self: &Arc<Self>) {
        if self.front == Front::B || (!self.is_piped && self.mind.lock().session.is_some()) {
            return;
        }
        let mut capabilities = json!({});
        if self.can_ask {
            capabilities["elicitation"] = json!({});
        }
        let params = json!({"protocolVersion": self.version(), "capabilities": capabilities,
            "clientInfo": {"name": "sim", "version": "1"}});
        self.ask(Why::Open, "initialize", params, Duration::from_secs(10)).await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }
}
