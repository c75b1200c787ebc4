//! The front as a whole.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use taskgate_core::id::{Principal, ServerName, TaskId};
use taskgate_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::caps::Caps;
use crate::config::{GatewayConfig, ServerPolicy};
use crate::http::guard::Guard;
use crate::misses::Misses;
use crate::results;
use crate::seal::Sealer;
use crate::session::Sessions;
use crate::upstream::{Configured, Upstreams};
use crate::watches::Watches;

/// What a gateway is made of.
pub struct Parts {
    /// Owns the tasks.
    pub engine: Arc<Engine>,
    /// The servers behind us.
    pub servers: Arc<taskgate_client::Servers>,
    /// What the operator decided.
    pub config: GatewayConfig,
}

/// The front of all configured servers.
pub struct Gateway {
    pub(crate) engine: Arc<Engine>,
    pub(crate) upstreams: Arc<dyn Upstreams>,
    pub(crate) config: GatewayConfig,
    pub(crate) guard: Guard,
    pub(crate) sessions: Sessions,
    pub(crate) sealer: Sealer,
    /// What our URIs of kept results begin with.
    pub(crate) results_root: String,
    /// Where HTTP is served, once it is.
    pub(crate) address: OnceLock<SocketAddr>,
    pub(crate) watches: Arc<Watches>,
    /// Open `subscriptions/listen`.
    pub(crate) listens: Arc<Caps>,
    /// `tasks/result` that are held open.
    pub(crate) blocked: Arc<Caps>,
    /// Requests about tasks that the caller has not.
    pub(crate) misses: Misses,
    /// We are going down: nothing new is held open, and what is held is let go (G-021).
    pub(crate) stopping: CancellationToken,
    policies: RwLock<Policies>,
    is_ready: AtomicBool,
}

/// The servers that are served, by name and by path.
#[derive(Default)]
struct Policies {
    servers: HashMap<ServerName, Arc<ServerPolicy>>,
    paths: HashMap<String, Arc<ServerPolicy>>,
}

impl Policies {
    fn new(servers: &[ServerPolicy]) -> Policies {
        let servers = servers.iter().map(|policy| (policy.name.clone(), Arc::new(policy.clone()))).collect();
        let mut policies = Policies { servers, paths: HashMap::new() };
        policies.find_paths();
        policies
    }

    fn find_paths(&mut self) {
        let at_own = |policy: &Arc<ServerPolicy>| (path(&policy.path).to_owned(), policy.clone());
        self.paths = self.servers.values().map(at_own).collect();
        let mut all = self.servers.values();
        if let (Some(only), None) = (all.next(), all.next()) {
            self.paths.insert("/mcp".to_owned(), only.clone());
        }
    }
}

fn path(path: &str) -> &str {
    path.trim_end_matches('/')
}

impl Gateway {
    /// A gateway over these parts. It takes no calls until one of its listeners runs.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Gateway> {
        let servers = Configured::new(parts.servers);
        let gateway = Gateway::over(parts.engine, servers.clone(), parts.config);
        servers.attach(&gateway);
        gateway
    }

    /// A gateway over any servers, of which the engine has the same by its own side.
    #[must_use]
    pub fn over(engine: Arc<Engine>, upstreams: Arc<dyn Upstreams>, config: GatewayConfig) -> Arc<Gateway> {
        let limits = &config.limits;
        let sealer = Sealer::new(engine.store().secret());
        Arc::new(Gateway {
            guard: Guard::new(&config.allowed_hosts, &config.allowed_origins),
            sessions: Sessions::new(engine.clone(), limits.clone()),
            results_root: results::root(&sealer.tag("results")),
            address: OnceLock::new(),
            sealer,
            watches: Watches::new(upstreams.clone()),
            listens: Caps::new(limits.listens_max),
            blocked: Caps::new(limits.blocked_results_max),
            misses: Misses::default(),
            stopping: CancellationToken::new(),
            policies: RwLock::new(Policies::new(&config.servers)),
            is_ready: AtomicBool::new(true),
            engine,
            upstreams,
            config,
        })
    }

    /// The server that answers at a path.
    pub(crate) fn at(&self, at: &str) -> Option<Arc<ServerPolicy>> {
        self.policies.read().paths.get(path(at)).cloned()
    }

    pub(crate) fn server(&self, name: &ServerName) -> Option<Arc<ServerPolicy>> {
        self.policies.read().servers.get(name).cloned()
    }

    /// Serves one more server, or one by another policy than before. A client on a pipe keeps to the policy that it
    /// found when it came.
    ///
    /// The only server of a gateway also answers at `/mcp`.
    pub fn add_server(&self, policy: ServerPolicy) {
        let mut policies = self.policies.write();
        policies.servers.insert(policy.name.clone(), Arc::new(policy));
        policies.find_paths();
    }

    /// Serves a server no longer. Clients that are on a pipe stay; nobody new comes. `false` if it was not served.
    pub fn remove_server(&self, name: &ServerName) -> bool {
        let mut policies = self.policies.write();
        let was_there = policies.servers.remove(name).is_some();
        policies.find_paths();
        was_there
    }

    /// A message with the final result of a task has reached its client: an identical call from now on is a new one.
    pub async fn fetched(&self, principal: &Principal, id: &TaskId) {
        self.engine.fetched(principal, id).await;
    }

    /// Says at `/readyz` whether calls are welcome; they are from the start. Recovery may take that back for a while.
    pub fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Release);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire) && !self.stopping.is_cancelled() && !self.engine.is_lost()
    }
}
