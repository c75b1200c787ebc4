//! A gateway on loopback in front of a scripted server.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_client::{Manifest, Notice, RawAnswer, RawInFlight};
use taskgate_core::gate::{BackTasks, TaskSupport, ToolMode};
use taskgate_core::id::{Principal, ServerName, TaskId};
use taskgate_core::operation::{Effect, Upstream as Theirs};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{Question, QuestionKind};
use taskgate_core::time::Millis;
use taskgate_engine::Engine;
use taskgate_engine::back::{
    Accepted, Answer, Back, BackEvent, BackKey, Backs, InFlight, Look, LookError, Outgoing, Reply, Stand,
    Unreachable,
};
use taskgate_engine::clock::SystemClock;
use taskgate_engine::engine::Parts;
use taskgate_engine::ids::SystemRandom;
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::Record;
use taskgate_store::{Store, Whose};
use taskgate_wire::handshake::BackSelf;
use taskgate_wire::offers::Offers;
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::version::Version;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::http_client::{self, Open, Response};
use crate::config::{GatewayConfig, ServerPolicy, ToolPolicy};
use crate::gateway::Gateway;
use crate::upstream::{ToolFacts, Upstream, Upstreams};

/// The gate opens; what waits for it goes on.
#[derive(Clone)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    fn new() -> Gate {
        Gate(watch::Sender::new(false))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn wait(&self) {
        let mut receiver = self.0.subscribe();
        receiver.wait_for(|open| *open).await.unwrap();
    }
}

/// A scripted server.
pub(crate) struct Fake {
    pub(crate) manifest: Arc<Manifest>,
    /// `tools/call` that arrived.
    pub(crate) calls: Mutex<Vec<(String, String)>>,
    /// Other requests that arrived.
    pub(crate) requests: Mutex<Vec<(String, String)>>,
    /// How many calls were stopped by the gateway.
    pub(crate) stopped: watch::Sender<usize>,
    /// How many calls arrived.
    pub(crate) called: watch::Sender<usize>,
    /// What requests are answered by.
    pub(crate) answers: Mutex<HashMap<String, Vec<RawAnswer>>>,
    /// What `echo` and `slow` return in the place of their own words.
    pub(crate) returns: Mutex<Option<Bytes>>,
    /// Lets `slow` and the like end.
    pub(crate) gate: Gate,
    pub(crate) notices: broadcast::Sender<Notice>,
    /// What the client of the session offers.
    pub(crate) keys: Mutex<Vec<BackKey>>,
    pub(crate) is_down: Mutex<bool>,
    /// Whether no byte of a call leaves.
    pub(crate) is_cut_off: Mutex<bool>,
    /// What its task asks.
    pub(crate) listed: Mutex<Vec<(String, Question)>>,
}

fn returned(text: &str) -> Answer {
    let result = json!({"content": [{"type": "text", "text": text}]}).to_string();
    Answer::Returned { result: Bytes::from(result), is_error: false }
}

pub(crate) fn form(back_key: Option<&str>) -> Question {
    let params = json!({
        "message": "Which colour?",
        "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}},
    });
    Question {
        kind: QuestionKind::Form,
        params: Bytes::from(params.to_string()),
        back_key: back_key.map(str::to_owned),
    }
}

impl Fake {
    pub(crate) fn new(version: Version, tasks: BackTasks) -> Arc<Fake> {
        let back = BackSelf {
            version,
            capabilities: json!({
                "tools": {"listChanged": true},
                "resources": {"subscribe": true, "listChanged": true},
                "prompts": {},
                "logging": {},
                "completions": {},
            })
            .to_string(),
            server_info: Some(json!({"name": "fake", "version": "1"}).to_string()),
            instructions: Some("Be kind.".to_owned()),
        };
        let manifest = Manifest {
            server: ServerName("fake".to_owned()),
            back,
            protocol_version: version.as_str().to_owned(),
            tasks,
            has_list: false,
            has_cancel: true,
            mirrors: version.is_modern(),
            evidence: Vec::new(),
        };
        Arc::new(Fake {
            manifest: Arc::new(manifest),
            calls: Mutex::default(),
            requests: Mutex::default(),
            stopped: watch::Sender::new(0),
            called: watch::Sender::new(0),
            answers: Mutex::default(),
            returns: Mutex::default(),
            gate: Gate::new(),
            notices: broadcast::channel(16).0,
            keys: Mutex::default(),
            is_down: Mutex::new(false),
            is_cut_off: Mutex::new(false),
            listed: Mutex::default(),
        })
    }

    /// Queues the answer to the next request of `method`; the last one stays.
    pub(crate) fn answers(&self, method: &str, result: Value) {
        let answer = RawAnswer::Result(Bytes::from(result.to_string()));
        self.answers.lock().entry(method.to_owned()).or_default().push(answer);
    }

    pub(crate) fn tools() -> Value {
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}});
        let names = [
            "echo",
            "slow",
            "fail",
            "raise",
            "ask",
            "twice",
            "mrtr",
            "mrtr_twice",
            "task",
            "progress",
            "later",
            "lose",
            "url_first",
            "url",
            "roots",
            "stubborn",
            "mirrored",
        ];
        json!({"tools": names.map(tool)})
    }

    pub(crate) async fn has_called(&self, count: usize) {
        self.called.subscribe().wait_for(|called| *called >= count).await.unwrap();
    }

    pub(crate) async fn has_stopped(&self, count: usize) {
        self.stopped.subscribe().wait_for(|stopped| *stopped >= count).await.unwrap();
    }
}

#[async_trait]
impl Back for Fake {
    fn tasks(&self) -> BackTasks {
        self.manifest.tasks
    }

    fn call(&self, call: Outgoing) -> InFlight {
        let (events, receiver) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        if *self.is_cut_off.lock() {
            return InFlight::ready(Answer::NeverSent("it is not running".to_owned()));
        }
        self.calls.lock().push((call.tool.clone(), String::from_utf8(call.params.to_vec()).unwrap()));
        let (gate, called, stopped, stopping) =
            (self.gate.clone(), self.called.clone(), self.stopped.clone(), stop.clone());
        let scripted = self.returns.lock().clone();
        let script = async move {
            called.send_modify(|count| *count += 1);
            if let Some(result) = scripted
                && ["echo", "slow"].contains(&call.tool.as_str())
            {
                if call.tool == "slow" {
                    gate.wait().await;
                }
                let is_error = taskgate_wire::result::is_error(std::str::from_utf8(&result).unwrap());
                return Answer::Returned { result, is_error };
            }
            match call.tool.as_str() {
                "echo" => returned(std::str::from_utf8(&call.params).unwrap()),
                "fail" => Answer::Returned {
                    result: Bytes::from_static(br#"{"content":[{"type":"text","text":"no luck"}],"isError":true}"#),
                    is_error: true,
                },
                "raise" => Answer::Raised {
                    code: -32050,
                    error: Bytes::from_static(br#"{"code":-32050,"message":"it broke"}"#),
                },
                "url_first" => Answer::Raised {
                    code: -32042,
                    error: Bytes::from_static(
                        br#"{"code":-32042,"message":"connect","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example/c","message":"Connect."}]}}"#,
                    ),
                },
                "lose" => Answer::Lost("it went away".to_owned()),
                "ask" => ask(&events, form(None)).await,
                "mirrored" => returned("fine"),
                "url" => {
                    let params = json!({"mode": "url", "elicitationId": "flow-1", "url": "https://a.example/c",
                        "message": "Connect."});
                    let params = Bytes::from(params.to_string());
                    ask(&events, Question { kind: QuestionKind::Url, params, back_key: None }).await
                }
                "roots" => {
                    let params = Bytes::from_static(b"{}");
                    ask(&events, Question { kind: QuestionKind::Roots, params, back_key: None }).await
                }
                "twice" => {
                    let first = ask(&events, form(None));
                    let second = ask(&events, form(None));
                    let (first, _) = tokio::join!(first, second);
                    first
                }
                "mrtr" => match call.round {
                    None => Answer::InputRequired {
                        questions: vec![("theirs".to_owned(), form(Some("theirs")))],
                        state: Some(Bytes::from_static(b"\"secret state\"")),
                    },
                    Some(round) => returned(std::str::from_utf8(&round.responses[0].1).unwrap()),
                },
                "mrtr_twice" => match call.round.as_ref().map(|round| round.state.as_deref()) {
                    Some(Some(b"\"second\"")) => returned("twice"),
                    asked => Answer::InputRequired {
                        questions: vec![("theirs".to_owned(), form(Some("theirs")))],
                        state: Some(Bytes::from_static(if asked.is_none() {
                            b"\"first\""
                        } else {
                            b"\"second\""
                        })),
                    },
                },
                "task" => Answer::Task(Accepted {
                    upstream: Theirs { task_id: "up-1".to_owned(), session: None },
                    look: look(Stand::Working),
                }),
                "progress" => {
                    let progress = Bytes::from_static(br#"{"progress":1,"total":2}"#);
                    events.send(BackEvent::Progress(progress)).unwrap();
                    let log = Bytes::from_static(br#"{"level":"warning","data":"careful"}"#);
                    events.send(BackEvent::Log(log)).unwrap();
                    gate.wait().await;
                    returned("done")
                }
                "later" | "stubborn" => {
                    gate.wait().await;
                    events.send(BackEvent::Progress(Bytes::from_static(br#"{"progress":1}"#))).unwrap();
                    events.send(BackEvent::Log(Bytes::from_static(br#"{"level":"info","data":1}"#))).unwrap();
                    called.send_modify(|count| *count += 100);
                    std::future::pending().await
                }
                _ => {
                    gate.wait().await;
                    returned("done")
                }
            }
        };
        let is_stubborn = self.calls.lock().last().is_some_and(|(tool, _)| tool == "stubborn");
        let answer = Box::pin(async move {
            if is_stubborn {
                // It does not stop when asked to.
                return script.await;
            }
            tokio::select! {
                answer = script => answer,
                () = stopping.cancelled() => {
                    stopped.send_modify(|count| *count += 1);
                    Answer::Raised { code: -32000, error: Bytes::from_static(br#"{"code":-32000,"message":"stopped"}"#) }
                }
            }
        });
        InFlight { answer, events: receiver, stop, closed: Box::pin(std::future::ready(())) }
    }

    fn attend(&self, _: &Theirs) -> Option<InFlight> {
        None
    }

    async fn look(&self, _: &Theirs) -> Result<Look, LookError> {
        let questions = self.listed.lock().clone();
        if !questions.is_empty() {
            return Ok(Look { questions, ..look(Stand::InputRequired) });
        }
        let is_open = *self.gate.0.borrow();
        Ok(look(if is_open { Stand::Ended(Box::new(returned("done upstream"))) } else { Stand::Working }))
    }

    async fn result(&self, _: &Theirs) -> Result<Answer, LookError> {
        Ok(returned("done upstream"))
    }

    async fn answer(&self, _: &Theirs, _: &str, _: &Reply) -> Result<(), LookError> {
        Ok(())
    }

    async fn cancel(&self, _: &Theirs) -> Result<(), LookError> {
        Ok(())
    }
}

fn look(stand: Stand) -> Look {
    Look { stand, message: None, last_updated_at: None, poll: Some(Millis(50)), questions: Vec::new() }
}

/// Asks, and returns what was answered.
async fn ask(events: &mpsc::UnboundedSender<BackEvent>, question: Question) -> Answer {
    let (reply, answer) = oneshot::channel();
    events.send(BackEvent::Asked { ask: 1, question, reply }).unwrap();
    match answer.await {
        Ok(Reply::Result(result)) => returned(std::str::from_utf8(&result).unwrap()),
        Ok(Reply::Error { message, .. }) => returned(&format!("refused: {message}")),
        Err(_) => returned("nobody answered"),
    }
}

#[async_trait]
impl Upstream for Fake {
    fn says(&self) -> Arc<Manifest> {
        self.manifest.clone()
    }

    async fn tool(&self, name: &str) -> Result<Option<ToolFacts>, Unreachable> {
        let tools = Fake::tools();
        let is_there = tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == name);
        let support = match self.manifest.tasks {
            BackTasks::A => TaskSupport::Optional,
            BackTasks::None | BackTasks::B => TaskSupport::Forbidden,
        };
        let mirroring = (name == "mirrored").then(|| {
            r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#
                .to_owned()
        });
        Ok(is_there.then_some(ToolFacts { support, is_read_only: false, mirroring }))
    }

    fn request(&self, method: &str, params: Option<Bytes>) -> RawInFlight {
        let params = params.map(|params| String::from_utf8(params.to_vec()).unwrap()).unwrap_or_default();
        self.requests.lock().push((method.to_owned(), params));
        let answer = {
            let mut answers = self.answers.lock();
            match answers.get_mut(method) {
                Some(queue) if queue.len() > 1 => queue.remove(0),
                Some(queue) => queue[0].clone(),
                None if method == "tools/list" => RawAnswer::Result(Bytes::from(Fake::tools().to_string())),
                None => RawAnswer::Result(Bytes::from_static(b"{\"ok\" : true}")),
            }
        };
        let (_, events) = mpsc::unbounded_channel();
        RawInFlight { answer: Box::pin(std::future::ready(answer)), events, stop: CancellationToken::new() }
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}

/// Always the same server.
pub(crate) struct Only(pub(crate) Arc<Fake>);

impl Only {
    fn fake(&self, key: &BackKey) -> Result<Arc<Fake>, Unreachable> {
        if *self.0.is_down.lock() {
            return Err(Unreachable { server: key.server.0.clone(), reason: "it is not running".to_owned() });
        }
        self.0.keys.lock().push(key.clone());
        Ok(self.0.clone())
    }
}

#[async_trait]
impl Upstreams for Only {
    async fn session(&self, key: &BackKey) -> Result<Arc<dyn Upstream>, Unreachable> {
        let fake: Arc<dyn Upstream> = self.fake(key)?;
        Ok(fake)
    }

    fn is_open(&self, _: &BackKey) -> bool {
        !*self.0.is_down.lock()
    }
}

#[async_trait]
impl Backs for Only {
    async fn open(&self, key: &BackKey) -> Result<Arc<dyn Back>, Unreachable> {
        let fake: Arc<dyn Back> = self.fake(key)?;
        Ok(fake)
    }

    fn refuses(&self, offers: &str, question: &Question) -> Option<Reply> {
        let RpcError { code, message, .. } = Offers::from_stored(offers).refuses(question)?;
        Some(Reply::Error { code, message })
    }

    fn survival(&self, _: &ServerName) -> Survival {
        Survival::DiedWithUs
    }
}

/// A gateway that runs.
pub(crate) struct Rig {
    pub(crate) addr: SocketAddr,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) fake: Arc<Fake>,
    pub(crate) store: MemoryStore,
    pub(crate) shutdown: CancellationToken,
}

pub(crate) const READS: [&str; 3] = ["echo", "progress", "ask"];

/// A configuration in which nothing takes long.
pub(crate) fn config() -> GatewayConfig {
    let mut policy = ServerPolicy::new(ServerName("fake".to_owned()));
    policy.tools = BTreeMap::new();
    for name in READS {
        policy
            .tools
            .insert(name.to_owned(), ToolPolicy { effect: Effect::ReadOnly, ..ToolPolicy::default() });
    }
    policy.tools.insert("raise".to_owned(), ToolPolicy { mode: ToolMode::Auto, ..ToolPolicy::default() });
    let mut config = GatewayConfig::new(vec![policy]);
    config.limits.task_after = Millis::secs(60);
    config.limits.sync_budget = Millis::secs(60);
    config.limits.stream_after = Millis(20);
    config.limits.drain = Millis(500);
    config
}

/// For calls that are to outlast what their callers wait. All others are waited for, however busy the machine is.
pub(crate) fn hasty() -> GatewayConfig {
    let mut config = config();
    config.limits.task_after = Millis(150);
    config.limits.sync_budget = Millis(200);
    config
}

impl Rig {
    pub(crate) async fn start() -> Rig {
        Rig::with(config()).await
    }

    pub(crate) async fn hasty() -> Rig {
        Rig::with(hasty()).await
    }

    pub(crate) async fn with(config: GatewayConfig) -> Rig {
        Rig::before(Fake::new(Version::V2025_11_25, BackTasks::None), config).await
    }

    pub(crate) async fn before(fake: Arc<Fake>, config: GatewayConfig) -> Rig {
        Rig::over(fake, config, MemoryStore::new()).await
    }

    pub(crate) async fn over(fake: Arc<Fake>, config: GatewayConfig, store: MemoryStore) -> Rig {
        let engine = Engine::new(Parts {
            store: Arc::new(store.clone()),
            backs: Arc::new(Only(fake.clone())),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            rules: Arc::new(taskgate_engine::rules::NoRules),
            web: Arc::new(taskgate_engine::web::NoWeb),
            limits: taskgate_engine::limits::Limits::default(),
        });
        engine.recover().await.unwrap();
        let gateway = Gateway::over(engine, Arc::new(Only(fake.clone())), config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let (serving, stop) = (gateway.clone(), shutdown.clone());
        tokio::spawn(async move { serving.serve_http(listener, stop).await.unwrap() });
        Rig { addr, gateway, fake, store, shutdown }
    }

    pub(crate) async fn raw(&self, method: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Open {
        http_client::open(self.addr, method, "/mcp", headers, body).await
    }

    /// A POST with the headers that every client sends.
    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: &str) -> Open {
        let mut all =
            vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        all.retain(|(name, _)| !headers.iter().any(|(have, _)| have.eq_ignore_ascii_case(name)));
        all.extend_from_slice(headers);
        self.raw("POST", &all, Some(body.as_bytes())).await
    }

    /// A stateless request with the right headers.
    pub(crate) async fn modern_open(&self, method: &str, capabilities: Value, params: Value) -> Open {
        let (body, name) = modern_body(method, capabilities, params);
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if let Some(name) = &name {
            headers.push(("mcp-name", name));
        }
        self.post(&headers, &body).await
    }

    pub(crate) async fn modern(&self, method: &str, capabilities: Value, params: Value) -> Response {
        self.modern_open(method, capabilities, params).await.finish().await
    }

    /// Opens a session.
    pub(crate) async fn session(&self, version: &str, capabilities: Value) -> Client<'_> {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"},
        }});
        let response = self.post(&[], &body.to_string()).await.finish().await;
        assert_eq!(response.status, 200, "{}", response.body);
        let id = response.header("mcp-session-id").expect("a session id").to_owned();
        let said = response.json();
        Client { rig: self, id, version: version.to_owned(), said, next: Mutex::new(0) }
    }

    /// The records of the anonymous caller.
    pub(crate) async fn records(&self) -> Vec<Record> {
        let (me, fake) = (Principal::anonymous(), ServerName("fake".to_owned()));
        let mut records = vec![];
        for listed in self.store.list(Whose::Server(&me, &fake), None, 100).await.unwrap() {
            records.extend(self.store.load(&me, listed.id()).await.unwrap());
        }
        records
    }

    pub(crate) async fn record(&self, id: &str) -> Option<Record> {
        self.store.load(&Principal::anonymous(), &TaskId::parse(id).unwrap()).await.unwrap()
    }
}

/// The capabilities of a client that knows tasks.
pub(crate) fn with_tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

pub(crate) fn modern_body(method: &str, capabilities: Value, mut params: Value) -> (String, Option<String>) {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    let name = ["name", "uri", "taskId"].iter().find_map(|name| params[name].as_str()).map(str::to_owned);
    let is_named = taskgate_wire::header::name_param(method).is_some();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    (body.to_string(), name.filter(|_| is_named))
}

/// A legacy client.
pub(crate) struct Client<'r> {
    pub(crate) rig: &'r Rig,
    pub(crate) id: String,
    version: String,
    pub(crate) said: Value,
    next: Mutex<u64>,
}

impl Client<'_> {
    pub(crate) fn headers(&self) -> [(&str, &str); 2] {
        [("mcp-session-id", &self.id), ("mcp-protocol-version", &self.version)]
    }

    pub(crate) async fn open(&self, method: &str, params: Value) -> Open {
        let id = {
            let mut next = self.next.lock();
            *next += 1;
            *next
        };
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.rig.post(&self.headers(), &body.to_string()).await
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Response {
        self.open(method, params).await.finish().await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await.json()
    }

    /// An augmented call; the task's id.
    pub(crate) async fn task(&self, tool: &str) -> String {
        let said = self.ask("tools/call", json!({"name": tool, "arguments": {}, "task": {}})).await.json();
        said["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    /// Sends what is no request.
    pub(crate) async fn say(&self, message: Value) -> Response {
        self.rig.post(&self.headers(), &message.to_string()).await.finish().await
    }

    pub(crate) async fn stream(&self, last_event: Option<&str>) -> Open {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(self.headers());
        if let Some(last) = last_event {
            headers.push(("last-event-id", last));
        }
        self.rig.raw("GET", &headers, None).await
    }
}

/// Ids and times redacted, so that the rest can be compared.
pub(crate) fn redact(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members.iter_mut() {
                    match name.as_str() {
                        "taskId" | "createdAt" | "lastUpdatedAt" | "pollInterval" | "pollIntervalMs"
                        | "requestState" => {
                            *member = json!(format!("[{name}]"));
                        }
                        _ => walk(member),
                    }
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(walk),
            Value::String(text) => {
                while let Some(at) = text.find(" t0").or_else(|| text.find("\"t0")) {
                    let end = text[at + 1..]
                        .find(|c: char| !c.is_ascii_alphanumeric())
                        .map_or(text.len(), |end| at + 1 + end);
                    text.replace_range(at + 1..end, "[taskId]");
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    walk(&mut value);
    value
}
