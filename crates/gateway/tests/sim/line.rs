//! The server as engine and gateway see it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use taskgate_client::{Manifest, Notice, RawAnswer, RawInFlight};
use taskgate_core::gate::{BackTasks, TaskSupport};
use taskgate_core::id::ServerName;
use taskgate_core::operation::{Effect, Replay, Stage, Upstream as Theirs};
use taskgate_core::recovery::Survival;
use taskgate_core::task::Question;
use taskgate_core::time::Millis;
use taskgate_engine::back::{
    Answer, Back, BackKey, Backs, InFlight, Look, LookError, Outgoing, Reply, Unreachable,
};
use taskgate_gateway::upstream::{ToolFacts, Upstream, Upstreams};
use taskgate_gateway::{ServerPolicy, ToolPolicy};
use taskgate_wire::handshake::BackSelf;
use taskgate_wire::json;
use taskgate_wire::offers::Offers;
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::version::Version;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::server::{Outline, Sent, Server};
use crate::world::Broken;
use taskgate_sim::History;

/// What a tool does, and what its operator says of it.
pub(crate) const TOOLS: &[(&str, Effect, Replay)] = &[
    ("pay", Effect::Consequential, Replay::Never),
    ("read", Effect::ReadOnly, Replay::Never),
    ("store", Effect::Consequential, Replay::Natural),
    ("book", Effect::Consequential, Replay::Keyed { window: Millis::hours(12) }),
];

pub(crate) fn replay(tool: &str) -> Replay {
    TOOLS.iter().find(|(name, _, _)| *name == tool).map_or(Replay::Never, |(_, _, replay)| *replay)
}

fn acts(tool: &str) -> bool {
    tool != "read"
}

pub(crate) fn server_name() -> ServerName {
    ServerName("s".to_owned())
}

pub(crate) fn policy() -> ServerPolicy {
    let mut policy = ServerPolicy::new(server_name());
    policy.tools = TOOLS
        .iter()
        .map(|&(name, effect, replay)| {
            (name.to_owned(), ToolPolicy { effect, replay, ..ToolPolicy::default() })
        })
        .collect::<BTreeMap<_, _>>();
    policy
}

static MANIFEST: LazyLock<Arc<Manifest>> = LazyLock::new(|| {
    Arc::new(Manifest {
        server: server_name(),
        back: BackSelf {
            version: Version::V2025_11_25,
            capabilities: "{\"tools\":{}}".to_owned(),
            server_info: Some("{\"name\":\"s\",\"version\":\"1\"}".to_owned()),
            instructions: None,
        },
        protocol_version: "2025-11-25".to_owned(),
        tasks: BackTasks::None,
        has_list: false,
        has_cancel: true,
        mirrors: false,
        evidence: Vec::new(),
    })
});

/// One session with the server.
pub(crate) struct Line {
    server: Arc<Server>,
    history: Arc<History>,
    broken: Arc<Broken>,
    can_ask: bool,
    notices: broadcast::Sender<Notice>,
}

#[async_trait]
impl Back for Line {
    fn tasks(&self) -> BackTasks {
        BackTasks::None
    }

    fn call(&self, call: Outgoing) -> InFlight {
        let params = String::from_utf8_lossy(&call.params).into_owned();
        let name = json::at(&params, &["arguments", "wish"]).and_then(json::string);
        let name = name.map(String::from).unwrap_or_default();
        if acts(&call.tool) {
            // INV-10: what leaves is on disk as dispatched.
            let is_recorded =
                self.history.lock().values().filter_map(|versions| versions.last()).any(|record| {
                    record.call.params == call.params && !matches!(record.operation.stage, Stage::Prepared)
                });
            if !is_recorded {
                let history = self.history.lock();
                let newest = history.values().filter_map(|versions| versions.last());
                let stages: Vec<_> = newest
                    .filter(|record| String::from_utf8_lossy(&record.call.params).contains(&name))
                    .map(|record| (&record.operation, &record.call.params))
                    .collect();
                self.broken
                    .say(format!("INV-10: {name} left before its record was on disk: {params} {stages:?}"));
            }
        }
        // What the caller of this very call can be asked.
        let can_ask = self.can_ask && call.offers.contains("elicitation");
        let round = call.round.map(|round| round.responses).unwrap_or_default();
        match self.server.send(&name, Outline { key: call.key, acts: acts(&call.tool), can_ask, round }) {
            Sent::Refused => InFlight::ready(Answer::NeverSent("refused".to_owned())),
            Sent::Away { answered, heard, stop, breaks } => {
                let broke = || Answer::Lost("the line broke".to_owned());
                let answer = async move {
                    let answered = async { answered.await.unwrap_or_else(|_| broke()) };
                    match breaks {
                        None => answered.await,
                        Some(after) => tokio::select! {
                            biased;
                            answer = answered => answer,
                            () = tokio::time::sleep(after) => broke(),
                        },
                    }
                };
                InFlight {
                    answer: Box::pin(answer),
                    events: heard,
                    stop,
                    closed: Box::pin(std::future::ready(())),
                }
            }
        }
    }

    fn attend(&self, _: &Theirs) -> Option<InFlight> {
        None
    }

    async fn look(&self, upstream: &Theirs) -> Result<Look, LookError> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.server.look(upstream)
    }

    async fn result(&self, upstream: &Theirs) -> Result<Answer, LookError> {
        Err(LookError::Nonsense(format!("{} has its result in its status", upstream.task_id)))
    }

    async fn answer(&self, upstream: &Theirs, key: &str, reply: &Reply) -> Result<(), LookError> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.server.answer(upstream, key, reply)
    }

    async fn cancel(&self, upstream: &Theirs) -> Result<(), LookError> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.server.cancel(upstream);
        Ok(())
    }
}

#[async_trait]
impl Upstream for Line {
    fn says(&self) -> Arc<Manifest> {
        MANIFEST.clone()
    }

    async fn tool(&self, name: &str) -> Result<Option<ToolFacts>, Unreachable> {
        let is_there = TOOLS.iter().any(|(tool, _, _)| *tool == name);
        let facts = ToolFacts { support: TaskSupport::Forbidden, is_read_only: false, mirroring: None };
        Ok(is_there.then_some(facts))
    }

    fn request(&self, method: &str, _: Option<Bytes>) -> RawInFlight {
        let answer = if method == "tools/list" {
            let tool =
                |name: &str| format!("{{\"name\":\"{name}\",\"inputSchema\":{{\"type\":\"object\"}}}}");
            let tools: Vec<String> = TOOLS.iter().map(|(name, _, _)| tool(name)).collect();
            RawAnswer::Result(Bytes::from(format!("{{\"tools\":[{}]}}", tools.join(","))))
        } else {
            RawAnswer::Error(Bytes::from_static(b"{\"code\":-32601,\"message\":\"no such method\"}"))
        };
        let (_, events) = mpsc::unbounded_channel();
        RawInFlight { answer: Box::pin(std::future::ready(answer)), events, stop: CancellationToken::new() }
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}

/// All sessions of one life.
pub(crate) struct Lines {
    pub(crate) server: Arc<Server>,
    pub(crate) history: Arc<History>,
    pub(crate) broken: Arc<Broken>,
    pub(crate) notices: broadcast::Sender<Notice>,
}

impl Lines {
    fn line(&self, key: &BackKey) -> Arc<Line> {
        Arc::new(Line {
            server: self.server.clone(),
            history: self.history.clone(),
            broken: self.broken.clone(),
            can_ask: key.offers.contains("elicitation"),
            notices: self.notices.clone(),
        })
    }
}

#[async_trait]
impl Upstreams for Lines {
    async fn session(&self, key: &BackKey) -> Result<Arc<dyn Upstream>, Unreachable> {
        Ok(self.line(key))
    }

    fn is_open(&self, _: &BackKey) -> bool {
        true
    }
}

#[async_trait]
impl Backs for Lines {
    async fn open(&self, key: &BackKey) -> Result<Arc<dyn Back>, Unreachable> {
        Ok(self.line(key))
    }

    fn refuses(&self, offers: &str, question: &Question) -> Option<Reply> {
        let RpcError { code, message, .. } = Offers::from_stored(offers).refuses(question)?;
        Some(Reply::Error { code, message })
    }

    fn survival(&self, _: &ServerName) -> Survival {
        self.server.survival
    }
}
