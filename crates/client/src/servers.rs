//! All configured servers, and the sessions with them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use taskgate_core::id::{Principal, ServerName};
use taskgate_core::recovery::Survival;
use taskgate_core::task::Question;
use taskgate_engine::back::{Back, BackKey, Backs, Reply, Unreachable};
use taskgate_wire::offers::Offers;
use taskgate_wire::{Era, RpcError};
use tokio::time::{Instant, sleep};

use crate::config::{Options, ServerConfig, Sharing, Transport};
use crate::core::Core;
use crate::guard::Guard;
use crate::hears::{ServerEvent, Voice};
use crate::opening::{Opened, Opening};
use crate::running::Running;
use crate::session::Session;
use crate::traffic::Traffic;

/// A start that is due within this time is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Why nothing is opened at a server that was taken out.
const REMOVED: &str = "it is no longer configured";

/// The servers.
#[derive(Debug)]
pub struct Servers {
    servers: RwLock<BTreeMap<ServerName, Arc<Server>>>,
    options: Options,
    guard: Arc<Guard>,
    is_sweeping: AtomicBool,
    is_over: AtomicBool,
    me: Weak<Servers>,
}

#[derive(Debug)]
struct Server {
    config: Arc<ServerConfig>,
    voice: Arc<Voice>,
    slots: Mutex<HashMap<SessionKey, Arc<Slot>>>,
    /// The verdict on its era (B-030).
    era: Mutex<Option<Era>>,
    trouble: Mutex<Trouble>,
    /// What the last user offered who opened the session for all.
    first: Mutex<Option<String>>,
    /// It was taken out: nothing is opened any more.
    is_removed: AtomicBool,
}

/// For whom a session is: nobody in particular where there is one for all.
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
        let named = |config: ServerConfig| (config.name.clone(), Server::new(config));
        Arc::new_cyclic(|me| Servers {
            servers: RwLock::new(configs.into_iter().map(named).collect()),
            guard: Arc::new(Guard::new(options.guard.clone())),
            options,
            is_sweeping: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            me: me.clone(),
        })
    }

    /// Adds a server; nothing is started yet. `false` if there is one of that name already, which stays as it is.
    pub fn add(&self, config: ServerConfig) -> bool {
        let mut servers = self.servers.write();
        if servers.contains_key(&config.name) {
            return false;
        }
        servers.insert(config.name.clone(), Server::new(config));
        true
    }

    /// Takes a server out, and closes its sessions in good order. `false` if there was none of that name.
    pub async fn remove(&self, name: &ServerName) -> bool {
        let Some(server) = self.servers.write().remove(name) else { return false };
        server.is_removed.store(true, Ordering::SeqCst);
        close(server.empty()).await;
        true
    }

    /// Whether there is a server of that name.
    #[must_use]
    pub fn is_known(&self, name: &ServerName) -> bool {
        self.servers.read().contains_key(name)
    }

    /// Closes those sessions with a server that nobody uses and that watch no task. The next use opens one anew.
    pub async fn retire(&self, name: &ServerName) {
        let Some(server) = self.server(name) else { return };
        close(server.take_stale(Duration::ZERO)).await;
    }

    /// Closes all sessions with a server in good order, whatever they do: what waits for an answer hears that none
    /// comes. The next use opens one anew, and at once, however often it failed before.
    pub async fn restart(&self, name: &ServerName) {
        let Some(server) = self.server(name) else { return };
        close(server.empty()).await;
        *server.trouble.lock() = Trouble::default();
        // It may be another program by now (B-030).
        *server.era.lock() = None;
    }

    /// The sessions that are open now, by the servers' names.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        self.all().iter().flat_map(|server| server.running()).collect()
    }

    /// The names of all servers, in order.
    #[must_use]
    pub fn names(&self) -> Vec<ServerName> {
        self.servers.read().keys().cloned().collect()
    }

    /// The configuration of one.
    #[must_use]
    pub fn config(&self, name: &ServerName) -> Option<Arc<ServerConfig>> {
        self.servers.read().get(name).map(|server| server.config.clone())
    }

    fn server(&self, name: &ServerName) -> Option<Arc<Server>> {
        self.servers.read().get(name).cloned()
    }

    fn all(&self) -> Vec<Arc<Server>> {
        self.servers.read().values().cloned().collect()
    }

    /// The session for `key`, opened if there is none; once, however many ask for it at the same time.
    ///
    /// # Errors
    /// [`Unreachable`]: it names the server and says what is wrong with it.
    pub async fn session(&self, key: &BackKey) -> Result<Arc<Session>, Unreachable> {
        let Some(server) = self.server(&key.server) else {
            let reason = String::from("it is not configured");
            return Err(Unreachable { server: key.server.0.clone(), reason });
        };
        let server = &*server;
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
                // Whoever took the server out meanwhile either found this session or is seen here.
                if server.is_removed.load(Ordering::SeqCst) {
                    slot.current.lock().take();
                    session.core.close().await;
                    return Err(server.unreachable(String::from(REMOVED)));
                }
                Ok(Arc::new(session))
            }
            Err(reason) => {
                *slot.failure.lock() = Some((Instant::now(), reason.clone()));
                Err(server.unreachable(reason))
            }
        }
    }

    /// Whether the session for `key` is open, as far as is known without asking the server. Nothing is opened.
    #[must_use]
    pub fn is_open(&self, key: &BackKey) -> bool {
        let Some(server) = self.server(&key.server) else { return false };
        let slot = server.slots.lock().get(&server.session_key(key)).cloned();
        slot.is_some_and(|slot| slot.current.lock().as_ref().is_some_and(|session| session.over().is_none()))
    }

    /// Ends all sessions in good order and starts none any more.
    pub async fn shutdown(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        close(self.all().iter().flat_map(|server| server.empty()).collect()).await;
    }

    async fn open_new(&self, server: &Server, key: &BackKey) -> Result<Session, String> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(String::from("it is being shut down"));
        }
        if server.is_removed.load(Ordering::SeqCst) {
            return Err(String::from(REMOVED));
        }
        server.wait_for_turn().await?;
        let config = &server.config;
        let offers = match config.sharing {
            Sharing::Apart => Offers::from_stored(&key.offers),
            Sharing::First => Offers::from_stored(&server.first_offers(key)),
            Sharing::Nobody => Offers::none(),
        };
        let opened = match self.open_as(server, offers.clone(), key).await {
            // The era that was found earlier no longer fits: ask again (B-030).
            Err(_) if server.era.lock().take().is_some() => self.open_as(server, offers, key).await,
            opened => opened,
        };
        match opened {
            Ok((traffic, opened)) => {
                *server.era.lock() = Some(opened.manifest.era());
                let version = opened.manifest.protocol_version.clone();
                tracing::info!(server = config.name.0, version, "a session with a server was opened");
                server.voice.event(&ServerEvent::Opened { version, name: opened.manifest.called() });
                let (options, guard) = (self.options.clone(), self.guard.clone());
                let core = Core::new(config.clone(), options, guard, server.voice.clone(), traffic, opened);
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
                server.voice.event(&ServerEvent::Failed { reason: reason.clone() });
                Err(reason)
            }
        }
    }

    async fn open_as(
        &self,
        server: &Server,
        offers: Offers,
        key: &BackKey,
    ) -> Result<(Arc<Traffic>, Opened), String> {
        let config = &server.config;
        let is_one_caller = match config.sharing {
            Sharing::Apart => !key.principal.is_shared(),
            // The keeper's servers: one person's, whoever of their hosts calls.
            Sharing::First => true,
            Sharing::Nobody => false,
        };
        let start = self.options.random.jitter();
        let traffic = Traffic::new(&config.name.0, offers, is_one_caller, start);
        let known = *server.era.lock();
        let opening = Opening {
            config,
            options: &self.options,
            traffic: &traffic,
            guard: &self.guard,
            voice: &server.voice,
            known,
        };
        let opened = match config.transport {
            Transport::Stdio { .. } => Box::pin(opening.stdio()).await,
            Transport::Http { .. } => Box::pin(opening.http()).await,
        };
        Ok((traffic, opened.map_err(|reason| server.voice.hide(reason))?))
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

    fn refuses(&self, offers: &str, question: &Question) -> Option<Reply> {
        let RpcError { code, message, .. } = Offers::from_stored(offers).refuses(question)?;
        Some(Reply::Error { code, message })
    }

    fn is_known(&self, server: &ServerName) -> bool {
        Servers::is_known(self, server)
    }

    fn survival(&self, server: &ServerName) -> Survival {
        match self.servers.read().get(server).map(|server| &server.config.transport) {
            Some(Transport::Http { .. }) => Survival::Survives,
            Some(Transport::Stdio { .. }) | None => Survival::DiedWithUs,
        }
    }
}

impl Server {
    fn new(config: ServerConfig) -> Arc<Server> {
        Arc::new(Server {
            voice: Voice::new(&config),
            config: Arc::new(config),
            slots: Mutex::default(),
            era: Mutex::new(None),
            trouble: Mutex::default(),
            first: Mutex::default(),
            is_removed: AtomicBool::new(false),
        })
    }

    fn unreachable(&self, reason: String) -> Unreachable {
        Unreachable { server: self.config.name.0.clone(), reason }
    }

    fn session_key(&self, key: &BackKey) -> SessionKey {
        SessionKey(match self.config.sharing {
            Sharing::Apart => Some((key.principal.clone(), key.offers.clone())),
            Sharing::First | Sharing::Nobody => None,
        })
    }

    fn slot(&self, key: &BackKey) -> Result<Arc<Slot>, String> {
        let key = self.session_key(key);
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

    /// What a session for all is opened with. The gateway itself, which only looks something up, must not be the one who
    /// decides what others can be asked.
    fn first_offers(&self, key: &BackKey) -> String {
        let mut first = self.first.lock();
        if key.principal == Principal::gateway() {
            return first.clone().unwrap_or_else(|| key.offers.clone());
        }
        *first = Some(key.offers.clone());
        key.offers.clone()
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

    /// Takes out the sessions that nobody has used for `idle` and that watch no task.
    fn take_stale(&self, idle: Duration) -> Vec<Session> {
        let mut slots = self.slots.lock();
        let stale: Vec<SessionKey> = slots
            .iter()
            .filter(|(_, slot)| Arc::strong_count(slot) == 1 && slot.is_stale(idle))
            .map(|(key, _)| key.clone())
            .collect();
        stale.iter().filter_map(|key| slots.remove(key)?.current.lock().take()).collect()
    }

    /// Takes out all sessions.
    fn empty(&self) -> Vec<Session> {
        let slots: Vec<Arc<Slot>> = self.slots.lock().drain().map(|(_, slot)| slot).collect();
        slots.iter().filter_map(|slot| slot.current.lock().take()).collect()
    }

    fn running(&self) -> Vec<Running> {
        let slots: Vec<Arc<Slot>> = self.slots.lock().values().cloned().collect();
        slots.iter().filter_map(|slot| slot.current.lock().as_ref()?.core.running()).collect()
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
        let stale: Vec<Session> =
            servers.all().iter().flat_map(|server| server.take_stale(server.config.idle)).collect();
        drop(servers);
        for session in stale {
            tokio::spawn(async move { session.core.close().await });
        }
    }
}

async fn close(sessions: Vec<Session>) {
    futures_util::future::join_all(sessions.iter().map(|session| session.core.close())).await;
}
