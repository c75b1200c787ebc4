//! The front as a whole.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taskgate_core::id::ServerName;
use taskgate_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::caps::Caps;
use crate::config::{GatewayConfig, ServerPolicy};
use crate::http::guard::Guard;
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
    pub(crate) watches: Arc<Watches>,
    /// Open `subscriptions/listen`.
    pub(crate) listens: Arc<Caps>,
    /// `tasks/result` that are held open.
    pub(crate) blocked: Arc<Caps>,
    /// We are going down: nothing new is held open, and what is held is let go (G-021).
    pub(crate) stopping: CancellationToken,
    paths: HashMap<String, Arc<ServerPolicy>>,
    servers: HashMap<ServerName, Arc<ServerPolicy>>,
    is_ready: AtomicBool,
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

    pub(crate) fn over(
        engine: Arc<Engine>,
        upstreams: Arc<dyn Upstreams>,
        config: GatewayConfig,
    ) -> Arc<Gateway> {
        let servers: HashMap<ServerName, Arc<ServerPolicy>> =
            config.servers.iter().map(|policy| (policy.name.clone(), Arc::new(policy.clone()))).collect();
        let mut paths: HashMap<String, Arc<ServerPolicy>> = servers
            .values()
            .map(|policy| (policy.path.trim_end_matches('/').to_owned(), policy.clone()))
            .collect();
        if let ([_], Some(only)) = (config.servers.as_slice(), servers.values().next()) {
            paths.insert("/mcp".to_owned(), only.clone());
        }
        let limits = &config.limits;
        Arc::new(Gateway {
            guard: Guard::new(&config.allowed_hosts, &config.allowed_origins),
            sessions: Sessions::new(engine.clone(), limits.clone()),
            sealer: Sealer::new(engine.store().secret()),
            watches: Watches::new(upstreams.clone()),
            listens: Caps::new(limits.listens_max),
            blocked: Caps::new(limits.blocked_results_max),
            stopping: CancellationToken::new(),
            paths,
            servers,
            is_ready: AtomicBool::new(true),
            engine,
            upstreams,
            config,
        })
    }

    /// The server that answers at a path.
    pub(crate) fn at(&self, path: &str) -> Option<&Arc<ServerPolicy>> {
        self.paths.get(path.trim_end_matches('/'))
    }

    pub(crate) fn server(&self, name: &ServerName) -> Option<&Arc<ServerPolicy>> {
        self.servers.get(name)
    }

    /// Says at `/readyz` whether calls are welcome; they are from the start. Recovery may take that back for a while.
    pub fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Release);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire) && !self.stopping.is_cancelled()
    }
}
