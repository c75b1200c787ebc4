//! The side towards servers, as the front sees it. The `client` crate's sessions implement it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_client::{Asker, Manifest, Notice, RawAnswer, RawInFlight, Servers, Session, Sharing};
use taskgate_core::gate::TaskSupport;
use taskgate_core::id::{Principal, ServerName};
use taskgate_core::task::Question;
use taskgate_engine::back::{Back, BackKey, Reply, Unreachable};
use taskgate_wire::json::{self, string_literal};
use taskgate_wire::listing;
use taskgate_wire::rpc_error::RpcError;
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::dispatch::text;
use crate::gateway::Gateway;
use crate::passthrough;

/// Finds the session with a server, or opens one.
#[async_trait]
pub trait Upstreams: Send + Sync + 'static {
    /// The session for `key`, opened if there is none.
    ///
    /// # Errors
    /// [`Unreachable`]: it names the server and says what is wrong with it.
    async fn session(&self, key: &BackKey) -> Result<Arc<dyn Upstream>, Unreachable>;

    /// Whether a session is open, as far as is known without asking the server.
    fn is_open(&self, key: &BackKey) -> bool;

    /// Which session with the server a key leads to.
    fn home(&self, key: &BackKey) -> Home {
        Home { server: key.server.clone(), of: Some((key.principal.clone(), key.offers.clone())) }
    }
}

/// One session with a server: several keys lead to it where it is shared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Home {
    server: ServerName,
    /// Nobody in particular where there is one for all.
    of: Option<(Principal, String)>,
}

/// A session with a server: what the engine needs of it, and what is passed through.
#[async_trait]
pub trait Upstream: Back {
    /// What it says of itself.
    fn says(&self) -> Arc<Manifest>;

    /// What it says of a tool, by the list that is at hand. `None` if that has no such tool.
    ///
    /// # Errors
    /// [`Unreachable`]: the list could not be read.
    async fn tool(&self, name: &str) -> Result<Option<ToolFacts>, Unreachable>;

    /// Sends any request but `tools/call`, as a client of either era wrote it. A progress token asks for progress.
    fn request(&self, method: &str, params: Option<Bytes>) -> RawInFlight;

    /// What it announces to nobody in particular, from now on.
    fn notices(&self) -> broadcast::Receiver<Notice>;
}

/// What a server says of one of its tools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolFacts {
    /// Whether it can be called as a task.
    pub support: TaskSupport,
    /// Whether its server says that it changes nothing.
    pub is_read_only: bool,
    /// The raw schema of its arguments, if some of them are mirrored into headers (B-045).
    pub mirroring: Option<String>,
}

/// How long a server that asks is made to wait for the end of its client's handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(2);

/// Pages that are searched for one tool; more than this is a server that never ends.
const PAGES_MAX: usize = 100;

/// What a server says of a tool: by the list at hand, and once more by a fresh one, since not every server announces
/// a new tool.
pub(crate) async fn tool(upstream: &Arc<dyn Upstream>, name: &str) -> Result<Option<ToolFacts>, RpcError> {
    let known = upstream.tool(name).await.map_err(|unreachable| {
        tracing::warn!(error = %unreachable, "a list of tools could not be read");
        RpcError::internal(unreachable.to_string())
    })?;
    if known.is_some() {
        return Ok(known);
    }
    let mut params = None;
    for _ in 0..PAGES_MAX {
        let RawAnswer::Result(page) = upstream.request("tools/list", params).answer.await else { break };
        let Ok(tools) = listing::read_tools(text(&page)) else { break };
        if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
            if upstream.says().mirrors && tool.marks_fault().is_some() {
                break;
            }
            return Ok(Some(ToolFacts {
                support: tool.support,
                is_read_only: tool.read_only_hint == Some(true),
                mirroring: tool.mirroring().map(String::from),
            }));
        }
        let Some(cursor) = json::at(text(&page), &["nextCursor"]).and_then(json::string) else { break };
        params = Some(Bytes::from(format!("{{\"cursor\":{}}}", string_literal(&cursor))));
    }
    Ok(None)
}

/// The configured servers. What they ask outside of any call goes to the gateway's clients.
pub(crate) struct Configured {
    servers: Arc<Servers>,
    gateway: Mutex<Weak<Gateway>>,
}

impl Configured {
    pub(crate) fn new(servers: Arc<Servers>) -> Arc<Configured> {
        Arc::new(Configured { servers, gateway: Mutex::new(Weak::new()) })
    }

    pub(crate) fn attach(&self, gateway: &Arc<Gateway>) {
        *self.gateway.lock() = Arc::downgrade(gateway);
    }
}

#[async_trait]
impl Upstreams for Configured {
    async fn session(&self, key: &BackKey) -> Result<Arc<dyn Upstream>, Unreachable> {
        let session = self.servers.session(key).await?;
        // A client that offers nothing cannot be asked anything.
        if key.offers != "{}" {
            let sharing = session.sharing();
            session.set_asker(Box::new(Newest {
                gateway: self.gateway.lock().clone(),
                key: key.clone(),
                sharing,
            }));
        }
        Ok(session)
    }

    fn is_open(&self, key: &BackKey) -> bool {
        self.servers.is_open(key)
    }

    fn home(&self, key: &BackKey) -> Home {
        let sharing = self.servers.config(&key.server).map(|config| config.sharing);
        let of = match sharing {
            None | Some(Sharing::Apart) => Some((key.principal.clone(), key.offers.clone())),
            Some(Sharing::First | Sharing::Nobody) => None,
        };
        Home { server: key.server.clone(), of }
    }
}

#[async_trait]
impl Upstream for Session {
    fn says(&self) -> Arc<Manifest> {
        self.manifest()
    }

    async fn tool(&self, name: &str) -> Result<Option<ToolFacts>, Unreachable> {
        Ok(self.tools().await?.get(name).map(|facts| ToolFacts {
            support: facts.support,
            is_read_only: facts.read_only_hint == Some(true),
            mirroring: facts.mirroring.clone(),
        }))
    }

    fn request(&self, method: &str, params: Option<Bytes>) -> RawInFlight {
        Session::request(self, method, params)
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        Session::notices(self)
    }
}

/// Asks the newest client of a server session that can be reached, and can be asked this.
pub(crate) struct Newest {
    pub(crate) gateway: Weak<Gateway>,
    pub(crate) key: BackKey,
    pub(crate) sharing: Sharing,
}

impl Newest {
    fn asks(&self, session: &crate::session::Session, question: &Question) -> bool {
        let theirs = &session.back_key;
        let is_ours = match self.sharing {
            Sharing::Apart | Sharing::Nobody => *theirs == self.key,
            Sharing::First => (&theirs.server, &theirs.principal) == (&self.key.server, &self.key.principal),
        };
        is_ours && session.negotiated.offers.takes(question)
    }
}

#[async_trait]
impl Asker for Newest {
    /// A client of the modern era is asked in the course of its calls only (B-123, X-035).
    fn reaches(&self, question: &Question) -> bool {
        let Some(gateway) = self.gateway.upgrade() else { return false };
        !gateway.sessions.newest(|session| self.asks(session, question)).is_empty()
    }

    async fn ask(&self, question: Question) -> Reply {
        let Some(gateway) = self.gateway.upgrade() else { return passthrough::nobody(question.kind) };
        let until = Instant::now() + HANDSHAKE_PATIENCE;
        loop {
            let opened = gateway.sessions.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            let sessions = gateway.sessions.newest(|session| self.asks(session, &question));
            let is_opening = sessions.iter().all(|session| !session.is_ready());
            for session in sessions {
                if let Some(stream) = session.stream() {
                    return passthrough::ask(session, stream, question, gateway.config.limits.clone()).await;
                }
            }
            // A server may ask right behind its own handshake, before its client's is over.
            if !is_opening || tokio::time::timeout_at(until, opened).await.is_err() {
                return passthrough::nobody(question.kind);
            }
        }
    }
}
