//! The whole behind a front: store, servers, engine, gateway, put together and taken apart in the right order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use taskgate_client::config::ServerConfig;
use taskgate_client::{Options, Servers, WebClient};
use taskgate_core::id::Principal;
use taskgate_engine::Engine;
use taskgate_engine::back::BackKey;
use taskgate_engine::clock::SystemClock;
use taskgate_engine::engine::Parts as EngineParts;
use taskgate_engine::ids::SystemRandom;
use taskgate_engine::limits::Limits;
use taskgate_gateway::config::GatewayConfig;
use taskgate_gateway::{Gateway, Parts as GatewayParts};
use taskgate_keeper::counter::Counter;
use taskgate_keeper::place::Place;
use taskgate_store::Store;
use taskgate_store_sqlite::{Options as StoreOptions, SqliteStore};
use taskgate_wire::offers::Offers;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::renamed::{self, GONE};
use crate::args::GUARD;
use crate::config::Named;
use crate::exit;
use crate::failure::Failure;
use crate::rules::Workflows;

/// How long a process may take to end once its store is lost: its servers are told to end, and have their grace.
const ABANDONED: Duration = Duration::from_secs(10);

/// What a house is built from.
pub(crate) struct Plan {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) servers: Vec<ServerConfig>,
    pub(crate) engine: Limits,
    pub(crate) gateway: GatewayConfig,
    pub(crate) rules: Arc<Workflows>,
    /// The names of its workflows, where it has all that there are; the keeper's come with its hosts.
    pub(crate) named: Option<Vec<Named>>,
}

/// Commands are being answered.
pub(crate) struct Answering(Option<JoinHandle<()>>);

impl Answering {
    /// Waits for the end, which was asked for.
    pub(crate) async fn end(self) {
        if let Some(task) = self.0 {
            // It only fails by a panic, which was told.
            let _ = task.await;
        }
    }
}

/// The house, lived in.
pub(crate) struct House {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) servers: Arc<Servers>,
    workflows: Arc<Workflows>,
    housekeeping: JoinHandle<()>,
    reconciling: JoinHandle<()>,
    /// How long calls under way have to end.
    pub(crate) patience: Duration,
}

/// Opens the database; another process that has it, a full disk or a damaged file are told in the store's words.
pub(crate) async fn open_store(path: PathBuf, bytes_max: Option<u64>) -> Result<SqliteStore, Failure> {
    let options = StoreOptions { bytes_max };
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open_with(&path, options)).await;
    Ok(opened.context("could not open the database")??)
}

/// The database's path; without a home there is none by default.
pub(crate) fn store_path(configured: Option<&Path>) -> Result<PathBuf, Failure> {
    configured.map(Path::to_owned).ok_or_else(|| {
        Failure::new(
            exit::STORE,
            "there is no place to keep tasks: neither XDG_STATE_HOME nor HOME is set",
            "name a file: --store FILE, or `path` under [store]",
        )
    })
}

/// How servers are started by us.
pub(crate) fn client_options() -> Result<Options, Failure> {
    let me = taskgate_keeper::start::this_program();
    Ok(Options {
        guard: Some(vec![me.into_os_string(), GUARD.into()]),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Options::default()
    })
}

impl House {
    /// Builds it, and takes up what a crash interrupted. Nothing is answered yet.
    pub(crate) async fn build(plan: Plan) -> Result<House, Failure> {
        // Before anything is taken up: a renamed workflow would not find what it did before.
        if let Some(named) = &plan.named {
            for gone in renamed::check(&plan.store.held().await?, named)? {
                tracing::warn!(workflow = gone.workflow.0, open = gone.open, keys = gone.keys, "{GONE}");
            }
        }
        let patience = Duration::from_millis(plan.gateway.limits.drain.0);
        let servers = Servers::new(plan.servers, client_options()?);
        let workflows = plan.rules;
        let engine = Engine::new(EngineParts {
            store: plan.store,
            backs: servers.clone(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            rules: workflows.clone(),
            web: WebClient::new(env!("CARGO_PKG_VERSION")),
            limits: plan.engine,
        });
        let parts = GatewayParts { engine: engine.clone(), servers: servers.clone(), config: plan.gateway };
        // Before recovery: what servers ask of resumed work finds its way only through the gateway.
        let gateway = Gateway::new(parts);
        let found = engine.recover().await?;
        tracing::info!(
            sent = found.sent,
            sent_again = found.sent_again,
            resumed = found.resumed,
            given_up = found.given_up,
            in_doubt = found.doubted,
            asked_after = found.reconciling,
            waiting = found.parked,
            "took up the work that was unfinished"
        );
        let housekeeping = tokio::spawn({
            let engine = engine.clone();
            async move { engine.keep_house().await }
        });
        let reconciling = tokio::spawn({
            let engine = engine.clone();
            async move { engine.reconcile().await }
        });
        Ok(House { gateway, engine, servers, workflows, housekeeping, reconciling, patience })
    }

    /// Opens a session with every server, so that one that will not start is told now and not at the first call.
    pub(crate) fn knock(&self, principal: &Principal) {
        for server in self.servers.names() {
            let (servers, principal) = (self.servers.clone(), principal.clone());
            let workflows = self.workflows.clone();
            tokio::spawn(async move {
                let key = BackKey { server, principal, offers: Offers::none().to_stored() };
                let Ok(session) = servers.session(&key).await else {
                    // The client has said why.
                    return;
                };
                match session.tools().await {
                    Ok(tools) => {
                        tracing::info!(server = key.server.0, tools = tools.len(), "a server is ready");
                        for (workflow, rule, tool) in
                            workflows.missing(&key.server, |tool| tools.get(tool).is_some())
                        {
                            tracing::warn!(
                                server = key.server.0,
                                workflow,
                                tool,
                                "the {rule} of a workflow asks a tool that this server does not have: what becomes of its \
                                 effects cannot be looked up"
                            );
                        }
                    }
                    Err(error) => tracing::warn!(%error, "a server does not say what tools it has"),
                }
            });
        }
    }

    /// Answers the commands of this user about the store at `path`: `ops`, `op`, `reconcile`, `resolve`, `tasks`. Where
    /// no socket can be had, calls are served all the same.
    pub(crate) fn answer_commands(&self, path: &Path, shutdown: CancellationToken) -> Answering {
        match Counter::open(Place::of_store(path)) {
            Ok(counter) => {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                Answering(Some(tokio::spawn(counter.serve(self.engine.clone(), version, shutdown))))
            }
            Err(error) => {
                tracing::warn!(%error, "`taskgate ops` and `taskgate tasks` will not reach this process");
                Answering(None)
            }
        }
    }

    /// Ends what can be ended in time, and leaves the rest to the next start.
    ///
    /// # Errors
    /// The store is lost: see [`Engine::lost`].
    pub(crate) async fn leave(self) -> Result<(), Failure> {
        let patience = self.patience;
        self.leave_within(patience).await
    }

    /// The same, with this much patience.
    pub(crate) async fn leave_within(self, patience: Duration) -> Result<(), Failure> {
        let is_lost = self.engine.is_lost();
        if is_lost {
            end_in_any_case();
        }
        self.engine.shutdown(if is_lost { Duration::ZERO } else { patience }).await;
        self.servers.shutdown().await;
        self.housekeeping.abort();
        self.reconciling.abort();
        self.engine.store().close().await;
        if self.engine.is_lost() { Err(Failure::lost(&*self.engine.lost().await)) } else { Ok(()) }
    }
}

/// A process whose store is lost ends soon, whatever hangs in it: its supervisor is to start the next one.
fn end_in_any_case() {
    std::thread::spawn(|| {
        std::thread::sleep(ABANDONED);
        std::process::exit(i32::from(exit::STORE_LOST));
    });
}
