//! All configured servers, and the sessions with them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskgate_core::id::{Principal, ServerName};
use taskgate_core::recovery::Survival;
use taskgate_engine::back::{Back, BackKey, Backs, Unreachable};
use taskgate_wire::Era;
use taskgate_wire::offers::Offers;
use tokio::time::{Instant, sleep};

use crate::config::{Options, ServerConfig, Transport};
use crate::core::Core;
use crate::guard::Guard;
use crate::opening::{Opened, Opening};
use crate::session::Session;
use crate::traffic::Traffic;

/// A start that is due within this time is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// The servers.
#[derive(Debug)]
pub struct Servers {
    servers: BTreeMap<ServerName, Server>,
    options: Options,
    guard: Arc<Guard>,
    is_sweeping: AtomicBool,
    is_over: AtomicBool,
    me: Weak<Servers>,
}

#[derive(Debug)]
struct Server {
    config: Arc<ServerConfig>,
    slots: Mutex<HashMap<SessionKey, Arc<Slot>>>,
    /// The verdict on its era (B-030).
    era: Mutex<Option<Era>>,
    trouble: Mutex<Trouble>,
}

/// For whom a session is: nobody in particular where it is shared.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SessionKey(Option<(Principal, String)>);

/// The place of one session.
#[derive(Debug, Default)]
struct Slot {
    current: Mutex<Option<Session>>,
    /// Held while one is opened, so that it is opened once.
    opening: tokio::sync::Mutex<()>,
    /// The last failure, for those who waited for the same opening.
    failure: Mutex<Option<(Instant, String)>>,
}

/// Failures in a row, and when it may be tried again.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    /// When the last one was, and what it was.
    last: Option<(Instant, String)>,
    not_before: Option<Instant>,
}

impl Servers {
    /// All of `configs`; of two with the same name the last counts. Nothing is started yet.
    #[must_use]
    pub fn new(configs: Vec<ServerConfig>, options: Options) -> Arc<Servers> {
        let server = |config: ServerConfig| {
            let server = Server {
                config: Arc::new(config),
                slots: Mutex::default(),
                era: Mutex::new(None),
                trouble: Mutex::default(),
            };
            (server.config.name.clone(), server)
        };
        Arc::new_cyclic(|me| Servers {
            servers: configs.into_iter().map(server).collect(),
            guard: Arc::new(Guard::new(options.guard.clone())),
            options,
            is_sweeping: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            me: me.clone(),
        })
    }

    /// The names of all servers, in order.
    #[must_use]
    pub fn names(&self) -> Vec<ServerName> {
        self.servers.keys().cloned().collect()
    }

    /// The configuration of one.
    #[must_use]
    pub fn config(&self, name: &ServerName) -> Option<&ServerConfig> {
        self.servers.get(name).map(|server| &*server.config)
    }

    /// The session for `key`, opened if there is none; once, however many ask for it at the same time.
    ///
    /// # Errors
    /// [`Unreachable`]: it names the server and says what is wrong with it.
    pub async fn session(&self, key: &BackKey) -> Result<Arc<Session>, Unreachable> {
        let Some(server) = self.servers.get(&key.server) else {
            let reason = String::from("it is not configured");
            return Err(Unreachable { server: key.server.0.clone(), reason });
        };
        let slot = server.slot(key).map_err(|reason| server.unreachable(reason))?;
        if let Some(session) = slot.usable(server) {
            return Ok(Arc::new(session));
        }
        self.sweep_from_now_on();
        let asked = Instant::now();
        let _turn = slot.opening.lock().await;
        if let Some(session) = slot.usable(server) {
            return Ok(Arc::new(session));
        }
        let failure = slot.failure.lock().clone();
        if let Some((at, reason)) = failure
            && at >= asked
        {
            return Err(server.unreachable(reason));
        }
        match self.open_new(server, key).await {
            Ok(session) => {
                *slot.current.lock() = Some(session.clone());
                Ok(Arc::new(session))
            }
            Err(reason) => {
                *slot.failure.lock() = Some((Instant::now(), reason.clone()));
                Err(server.unreachable(reason))
            }
        }
    }

    /// Ends all sessions in good order and starts none any more.
    pub async fn shutdown(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut sessions = Vec::new();
        for server in self.servers.values() {
            let slots: Vec<Arc<Slot>> = server.slots.lock().drain().map(|(_, slot)| slot).collect();
            sessions.extend(slots.iter().filter_map(|slot| slot.current.lock().take()));
        }
        let closing = sessions.iter().map(|session| session.core.close());
        futures_util::future::join_all(closing).await;
    }

    async fn open_new(&self, server: &Server, key: &BackKey) -> Result<Session, String> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(String::from("it is being shut down"));
        }
        server.wait_for_turn().await?;
        let config = &server.config;
        let offers = if config.shared { Offers::none() } else { Offers::from_stored(&key.offers) };
        let opened = match self.open_as(server, offers.clone()).await {
            // The era that was found earlier no longer fits: ask again (B-030).
            Err(_) if server.era.lock().take().is_some() => self.open_as(server, offers).await,
            opened => opened,
        };
        match opened {
            Ok((traffic, opened)) => {
                *server.era.lock() = Some(opened.manifest.era());
                let version = opened.manifest.protocol_version.clone();
                tracing::info!(server = config.name.0, version, "a session with a server was opened");
                let core =
                    Core::new(config.clone(), self.options.clone(), self.guard.clone(), traffic, opened);
                if self.is_over.load(Ordering::Relaxed) {
                    core.close().await;
                    return Err(String::from("it is being shut down"));
                }
                core.subscribe();
                Ok(Session { core })
            }
            Err(reason) => {
                server.failed(&reason);
                tracing::warn!(server = config.name.0, reason, "a server cannot be reached");
                Err(reason)
            }
        }
    }

    async fn open_as(&self, server: &Server, offers: Offers) -> Result<(Arc<Traffic>, Opened), String> {
        let config = &server.config;
        let traffic = Traffic::new(&config.name.0, offers, self.options.random.jitter());
        let known = *server.era.lock();
        let opening =
            Opening { config, options: &self.options, traffic: &traffic, guard: &self.guard, known };
        let opened = match config.transport {
            Transport::Stdio { .. } => Box::pin(opening.stdio()).await,
            Transport::Http { .. } => Box::pin(opening.http()).await,
        }?;
        Ok((traffic, opened))
    }

    fn sweep_from_now_on(&self) {
        if !self.is_sweeping.swap(true, Ordering::Relaxed) {
            tokio::spawn(sweep(self.me.clone()));
        }
    }
}

#[async_trait]
impl Backs for Servers {
    async fn open(&self, key: &BackKey) -> Result<Arc<dyn Back>, Unreachable> {
        let session: Arc<dyn Back> = self.session(key).await?;
        Ok(session)
    }

    fn survival(&self, server: &ServerName) -> Survival {
        match self.servers.get(server).map(|server| &server.config.transport) {
            Some(Transport::Http { .. }) => Survival::Survives,
            Some(Transport::Stdio { .. }) | None => Survival::DiedWithUs,
        }
    }
}

impl Server {
    fn unreachable(&self, reason: String) -> Unreachable {
        Unreachable { server: self.config.name.0.clone(), reason }
    }

    fn slot(&self, key: &BackKey) -> Result<Arc<Slot>, String> {
        let key = SessionKey((!self.config.shared).then(|| (key.principal.clone(), key.offers.clone())));
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(&key) {
            return Ok(slot.clone());
        }
        if slots.len() >= self.config.sessions_max {
            // The one that was idle longest makes room.
            let idle = slots
                .iter()
                .filter_map(|(key, slot)| Some((slot.idle_since()?, key.clone())))
                .min_by_key(|(since, _)| *since);
            let Some((_, oldest)) = idle else {
                return Err(format!("{} sessions with it are in use, which is the limit", slots.len()));
            };
            if let Some(slot) = slots.remove(&oldest) {
                slot.retire();
            }
        }
        let slot = Arc::new(Slot::default());
        slots.insert(key, slot.clone());
        Ok(slot)
    }

    /// Waits out what is left of the time since the last failure, if that is soon.
    async fn wait_for_turn(&self) -> Result<(), String> {
        let (not_before, last) = {
            let trouble = self.trouble.lock();
            (trouble.not_before, trouble.last.as_ref().map(|(_, reason)| reason.clone()))
        };
        let Some(not_before) = not_before else { return Ok(()) };
        let wait = not_before.saturating_duration_since(Instant::now());
        if wait > PATIENCE {
            let reason = last.unwrap_or_default();
            return Err(format!(
                "{reason} (it failed several times, and is tried again in {} s)",
                wait.as_secs()
            ));
        }
        sleep(wait).await;
        Ok(())
    }

    fn failed(&self, reason: &str) {
        let restart = self.config.restart;
        let mut trouble = self.trouble.lock();
        let now = Instant::now();
        if trouble.last.as_ref().is_some_and(|(at, _)| now - *at > restart.calm + restart.max) {
            trouble.failures = 0;
        }
        trouble.failures += 1;
        trouble.last = Some((now, reason.to_owned()));
        // The first failure is followed by a start at once, the others by longer and longer waits.
        trouble.not_before = trouble
            .failures
            .checked_sub(2)
            .map(|doublings| now + restart.first.saturating_mul(1 << doublings.min(16)).min(restart.max));
    }

    fn sweep(&self) -> Vec<Session> {
        let mut slots = self.slots.lock();
        let stale: Vec<SessionKey> = slots
            .iter()
            .filter(|(_, slot)| Arc::strong_count(slot) == 1 && slot.is_stale(self.config.idle))
            .map(|(key, _)| key.clone())
            .collect();
        stale.iter().filter_map(|key| slots.remove(key)?.current.lock().take()).collect()
    }
}

impl Slot {
    fn usable(&self, server: &Server) -> Option<Session> {
        let mut current = self.current.lock();
        let session = current.as_ref()?;
        let Some(reason) = session.over() else { return Some(session.clone()) };
        if session.core.opened.elapsed() < server.config.restart.calm {
            // It answered the handshake and did not last.
            server.failed(&reason);
        }
        *current = None;
        None
    }

    fn idle_since(&self) -> Option<Instant> {
        self.current.lock().as_ref()?.core.idle_since()
    }

    fn is_stale(&self, idle: Duration) -> bool {
        match self.current.lock().as_ref() {
            // Nothing was opened, or it failed; somebody may be at it.
            None => self.opening.try_lock().is_ok(),
            Some(session) => {
                session.over().is_some()
                    || session.core.idle_since().is_some_and(|since| since.elapsed() >= idle)
            }
        }
    }

    fn retire(&self) {
        if let Some(session) = self.current.lock().take() {
            tokio::spawn(async move { session.core.close().await });
        }
    }
}

async fn sweep(servers: Weak<Servers>) {
    loop {
        sleep(SWEEP).await;
        let Some(servers) = servers.upgrade() else { return };
        let stale: Vec<Session> = servers.servers.values().flat_map(Server::sweep).collect();
        drop(servers);
        for session in stale {
            tokio::spawn(async move { session.core.close().await });
        }
    }
}
