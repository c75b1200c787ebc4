//! Legacy sessions: what was negotiated, and the ways to the client.
//!
//! A session holds no task: tasks outlive it for the same principal. What must survive a restart is in the
//! store; the rest is connections, which a restart has closed anyway.

use std::collections::HashMap;
use std::sync::Arc;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use taskgate_core::id::{Principal, ServerName, TaskId};
use taskgate_core::task::{Question, QuestionKey};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_engine::Engine;
use taskgate_engine::back::BackKey;
use taskgate_store::record::{self, Record};
use taskgate_wire::offers::Offers;
use taskgate_wire::version::Version;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::asks::{AskedFor, Asks, TakenBack};
use crate::config::Limits;
use crate::follow::Follow;
use crate::level::Level;
use crate::outlet::Outlet;
use crate::requests::Requests;
use crate::watches::Watched;

/// How often its last use is written down.
const SEEN_STEP: Millis = Millis::mins(1);

/// What `initialize` negotiated.
#[derive(Clone, Debug)]
pub(crate) struct Negotiated {
    pub(crate) principal: Principal,
    pub(crate) server: ServerName,
    pub(crate) version: Version,
    pub(crate) offers: Offers,
    pub(crate) client_info: String,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    key: String,
    /// The one session of a pipe ends with it, so it is not stored.
    is_stored: bool,
    pub(crate) negotiated: Negotiated,
    /// Names the back session that goes with it.
    pub(crate) back_key: BackKey,
    created: UnixMillis,
    state: Mutex<State>,
    /// Questions that the client was asked and has not answered.
    pub(crate) asks: Asks,
    /// Requests of the client that are under way.
    pub(crate) requests: Arc<Requests>,
    /// Tasks whose news goes to this session.
    pub(crate) follows: Mutex<HashMap<TaskId, Arc<Follow>>>,
    /// The client ended it, or it was let go.
    pub(crate) ended: CancellationToken,
}

#[derive(Debug)]
struct State {
    seen: UnixMillis,
    log_level: Option<Level>,
    /// Open standing streams, newest last.
    streams: Vec<Outlet>,
    /// Resources whose changes the client wants to hear of.
    resources: HashMap<String, Watched>,
    is_pumped: bool,
    /// The client has said that it is ready, or behaves like it.
    is_ready: bool,
}

impl Session {
    fn new(key: String, negotiated: Negotiated, created: UnixMillis, asks: Asks, max: usize) -> Session {
        let back_key = BackKey {
            server: negotiated.server.clone(),
            principal: negotiated.principal.clone(),
            offers: negotiated.offers.to_stored(),
        };
        Session {
            key,
            is_stored: true,
            negotiated,
            back_key,
            created,
            state: Mutex::new(State {
                seen: created,
                log_level: None,
                streams: Vec::new(),
                resources: HashMap::new(),
                is_pumped: false,
                is_ready: false,
            }),
            asks,
            requests: Requests::new(max),
            follows: Mutex::new(HashMap::new()),
            ended: CancellationToken::new(),
        }
    }

    pub(crate) fn version(&self) -> Version {
        self.negotiated.version
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.negotiated.principal
    }

    /// The lowest level of log messages that the client wants; all if it never said.
    pub(crate) fn wants_log(&self, level: Level) -> bool {
        self.state.lock().log_level.is_none_or(|lowest| level >= lowest)
    }

    pub(crate) fn log_level(&self) -> Option<Level> {
        self.state.lock().log_level
    }

    pub(crate) fn set_log_level(&self, level: Level) {
        self.state.lock().log_level = Some(level);
    }

    /// Adds a standing stream. `false` if there are too many (G-024).
    pub(crate) fn add_stream(&self, outlet: &Outlet, max: usize) -> bool {
        let mut state = self.state.lock();
        state.streams.retain(Outlet::is_open);
        if state.streams.len() >= max {
            return false;
        }
        state.streams.push(outlet.clone());
        true
    }

    /// The newest standing stream that is open.
    /// None before the handshake is over.
    pub(crate) fn stream(&self) -> Option<Outlet> {
        let mut state = self.state.lock();
        if !state.is_ready {
            return None;
        }
        state.streams.retain(Outlet::is_open);
        state.streams.last().cloned()
    }

    /// Sends a question on `way`, or else on a standing stream. Where it went, unless it went nowhere.
    pub(crate) fn put(
        &self,
        question: &Question,
        to: AskedFor,
        task: Option<&TaskId>,
        way: &Outlet,
    ) -> Option<(u64, Outlet)> {
        let (count, message) = self.asks.open(question, to, task, self.version());
        let ways = [Some(way.clone()), self.stream()];
        let went = ways.into_iter().flatten().find(|way| way.send(message.clone()));
        match went {
            Some(way) => {
                self.asks.went(count, &way);
                Some((count, way))
            }
            None => {
                self.asks.forget(count);
                None
            }
        }
    }

    /// Takes back what the client was asked for a task, but for the questions that are still open (A-092, G-011).
    pub(crate) fn take_back(&self, record: &Record) {
        let open = record.task.outstanding().map(|asked| asked.questions());
        let is_open = |key: &QuestionKey| open.is_some_and(|open| open.contains_key(key));
        self.tell_taken_back(self.asks.prune(&record.id, is_open));
    }

    /// Takes one question back.
    pub(crate) fn take_back_one(&self, count: u64) {
        self.tell_taken_back(self.asks.forget(count));
    }

    fn tell_taken_back(&self, questions: impl IntoIterator<Item = TakenBack>) {
        for TakenBack { message, way } in questions {
            // On the same stream, since a client may tell its streams apart; else wherever it hears us.
            if !way.send(message.clone()) {
                self.send(message);
            }
        }
    }

    /// Whether the handshake is over, so that the client may be sent requests and notifications.
    pub(crate) fn is_ready(&self) -> bool {
        self.state.lock().is_ready
    }

    /// The handshake is over; whether that is news.
    pub(crate) fn get_ready(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().is_ready, true)
    }

    /// Sends a message that belongs to no request, on exactly one stream. `false` if none is open.
    pub(crate) fn send(&self, message: bytes::Bytes) -> bool {
        self.stream().is_some_and(|stream| stream.send(message))
    }

    /// Whether the caller is to pump the server's notices into this session: it has a standing stream, and nobody
    /// does so yet.
    pub(crate) fn begin_pump(&self) -> bool {
        let mut state = self.state.lock();
        let begins = state.is_ready && !state.is_pumped && state.streams.iter().any(Outlet::is_open);
        state.is_pumped |= begins;
        begins
    }

    pub(crate) fn end_pump(&self) {
        self.state.lock().is_pumped = false;
    }

    /// Notes that the client wants to hear of changes of `uri`. `false` above `max` (G-024).
    pub(crate) fn subscribe(&self, uri: &str, watched: Watched, max: usize) -> bool {
        let mut state = self.state.lock();
        if state.resources.len() >= max {
            return false;
        }
        state.resources.insert(uri.to_owned(), watched);
        true
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        // Dropped only when the lock is free: it may be the last that wanted it.
        let _watched = self.state.lock().resources.remove(uri);
    }

    /// All that the client is subscribed to.
    pub(crate) fn subscriptions(&self) -> Vec<String> {
        self.state.lock().resources.keys().cloned().collect()
    }

    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        self.state.lock().resources.contains_key(uri)
    }

    fn has_stream(&self) -> bool {
        let mut state = self.state.lock();
        state.streams.retain(Outlet::is_open);
        !state.streams.is_empty()
    }

    fn stored(&self) -> record::Session {
        let state = self.state.lock();
        record::Session {
            key: self.key.clone(),
            principal: self.negotiated.principal.clone(),
            server: self.negotiated.server.clone(),
            version: self.negotiated.version.as_str().to_owned(),
            offers: self.back_key.offers.clone(),
            client_info: self.negotiated.client_info.clone(),
            log_level: state.log_level.map(|level| level.as_str().to_owned()),
            created: self.created,
            seen: state.seen,
        }
    }
}

/// All sessions.
pub(crate) struct Sessions {
    engine: Arc<Engine>,
    limits: Limits,
    live: Mutex<HashMap<String, Arc<Session>>>,
    /// A session was opened, or a client has become ready.
    pub(crate) opened: Notify,
}

impl Sessions {
    pub(crate) fn new(engine: Arc<Engine>, limits: Limits) -> Sessions {
        Sessions { engine, limits, live: Mutex::new(HashMap::new()), opened: Notify::new() }
    }

    /// Opens a session. Its id is 192 random bits in visible ASCII; only its hash is kept (R6.3).
    pub(crate) async fn open(
        &self,
        negotiated: Negotiated,
    ) -> Result<(String, Arc<Session>), taskgate_store::Error> {
        let now = self.engine.clock().now();
        let idle =
            UnixMillis(now.0.saturating_sub(i64::try_from(self.limits.session_idle.0).unwrap_or(i64::MAX)));
        let keep = self.limits.sessions_max.saturating_sub(1);
        let gone = self.engine.store().expire_sessions(idle, keep).await?;
        self.let_go(&gone);
        let mut random = [0; 24];
        self.engine.random().fill(&mut random);
        let id = BASE64URL_NOPAD.encode(&random);
        let session = Arc::new(self.make(key_of(&id), negotiated, now));
        self.engine.store().put_session(session.stored()).await?;
        self.live.lock().insert(session.key.clone(), session.clone());
        Ok((id, session))
    }

    /// The one session of a pipe.
    pub(crate) fn on_pipe(&self, negotiated: Negotiated) -> Arc<Session> {
        let mut random = [0; 16];
        self.engine.random().fill(&mut random);
        let mut session = self.make(HEXLOWER.encode(&random), negotiated, self.engine.clock().now());
        session.is_stored = false;
        let session = Arc::new(session);
        self.live.lock().insert(session.key.clone(), session.clone());
        session
    }

    fn make(&self, key: String, negotiated: Negotiated, created: UnixMillis) -> Session {
        let asks = Asks::new(self.engine.random().jitter());
        Session::new(key, negotiated, created, asks, self.limits.requests_max)
    }

    /// Finds a session by the id that its client shows. `None` alike for one that is unknown, has ended, is another
    /// principal's, or was opened at another server.
    pub(crate) async fn find(
        &self,
        principal: &Principal,
        server: &ServerName,
        id: &str,
    ) -> Result<Option<Arc<Session>>, taskgate_store::Error> {
        let key = key_of(id);
        let known = self.live.lock().get(&key).cloned();
        let session = match known {
            Some(session) => Some(session),
            None => self.recall(key).await?,
        };
        let session = session
            .filter(|session| session.principal() == principal && session.negotiated.server == *server);
        if let Some(session) = &session {
            self.touch(session);
        }
        Ok(session)
    }

    /// A session from before our restart.
    async fn recall(&self, key: String) -> Result<Option<Arc<Session>>, taskgate_store::Error> {
        let Some(stored) = self.engine.store().session(&key).await? else { return Ok(None) };
        if self.engine.clock().now().since(stored.seen) > self.limits.session_idle {
            return Ok(None);
        }
        let Some(version) = Version::parse(&stored.version).filter(|version| version.has_sessions()) else {
            return Ok(None);
        };
        let negotiated = Negotiated {
            principal: stored.principal,
            server: stored.server,
            version,
            offers: Offers::from_stored(&stored.offers),
            client_info: stored.client_info,
        };
        let session = Arc::new(self.make(key.clone(), negotiated, stored.created));
        {
            let mut state = session.state.lock();
            state.seen = stored.seen;
            // Its handshake was over long before our restart.
            state.is_ready = true;
        }
        if let Some(level) = stored.log_level.as_deref().and_then(Level::parse) {
            session.set_log_level(level);
        }
        Ok(Some(self.live.lock().entry(key).or_insert(session).clone()))
    }

    /// Notes that a session is in use, to the minute.
    pub(crate) fn touch(&self, session: &Arc<Session>) {
        let now = self.engine.clock().now();
        {
            let mut state = session.state.lock();
            if now.since(state.seen) < SEEN_STEP {
                return;
            }
            state.seen = now;
        }
        self.save(session);
    }

    /// Writes a changed session. Nobody waits for it: what it holds can be negotiated again.
    pub(crate) fn save(&self, session: &Arc<Session>) {
        if !session.is_stored || session.ended.is_cancelled() {
            return;
        }
        let store = self.engine.store().clone();
        let stored = session.stored();
        tokio::spawn(async move {
            if let Err(error) = store.put_session(stored).await {
                tracing::warn!(%error, "a session could not be saved");
            }
        });
    }

    /// Ends a session.
    pub(crate) async fn end(&self, session: &Session) -> Result<(), taskgate_store::Error> {
        session.ended.cancel();
        self.live.lock().remove(&session.key);
        if session.is_stored {
            self.engine.store().end_session(&session.key).await?;
        }
        Ok(())
    }

    /// Ends what the store has let go, so that both agree on which sessions there are. One with an open stream lives on
    /// until that closes.
    fn let_go(&self, gone: &[String]) {
        let mut live = self.live.lock();
        for key in gone {
            if live.get(key).is_some_and(|session| !session.has_stream())
                && let Some(session) = live.remove(key)
            {
                session.ended.cancel();
            }
        }
    }

    /// Those of the sessions in memory, the newest first.
    pub(crate) fn newest(&self, those: impl Fn(&Session) -> bool) -> Vec<Arc<Session>> {
        let mut found: Vec<_> = self.live.lock().values().filter(|session| those(session)).cloned().collect();
        found.sort_by_key(|session| std::cmp::Reverse(session.created));
        found
    }
}

fn key_of(id: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(id.as_bytes()))
}
