//! One session: its line, what was agreed on it, and the sending of requests over it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::gate::TaskSupport;
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_engine::back::{BackEvent, Ended};
use taskgate_wire::json::{self, string_literal};
use taskgate_wire::message;
use taskgate_wire::meta::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, META, PROGRESS_TOKEN, PROTOCOL_VERSION,
};
use taskgate_wire::offers::Offers;
use taskgate_wire::splice::{Edit, splice};
use taskgate_wire::{Era, RequestId};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::config::{Options, ServerConfig};
use crate::guard::Guard;
use crate::heard::Heard;
use crate::hears::Voice;
use crate::http::{Care, Mirrored, Trace, mirrored};
use crate::link::{HttpLink, Link, Posting, cancelled};
use crate::manifest::Manifest;
use crate::opening::{Opened, Opening, client_info};
use crate::tools::ToolTable;
use crate::traffic::{Sort, Traffic};

/// The member of `_meta` that carries an idempotency key (design 7).
pub(crate) const IDEMPOTENCY_KEY: &str = "taskgate/idempotency-key";
/// A task that nobody asked about for this long is no reason to keep a session.
const TASK_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Tasks that are kept count of.
const TASKS_MAX: usize = 100_000;

/// The session.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) link: Link,
    /// Held by a call whose server could not say who asks (design 5). None if calls may run together.
    pub(crate) lane: Option<Lane>,
    /// What refusals taught about single tools.
    pub(crate) learned: Mutex<HashMap<String, TaskSupport>>,
    pub(crate) tools: Mutex<Option<(Arc<ToolTable>, Instant)>>,
    pub(crate) fetching: tokio::sync::Mutex<()>,
    /// Whether `tasks/result` is held until the task is over (peers.md row 5).
    pub(crate) holds_results: AtomicBool,
    /// Whether `subscriptions/listen` takes tasks.
    pub(crate) pushes_tasks: AtomicBool,
    guard: Arc<Guard>,
    pub(crate) voice: Arc<Voice>,
    options: Options,
    speech: Mutex<Arc<Speech>>,
    renewing: tokio::sync::Mutex<()>,
    tasks: Mutex<HashMap<String, Instant>>,
    running: AtomicUsize,
    used: Mutex<Instant>,
    pub(crate) opened: Instant,
    since: UnixMillis,
    /// Tasks of ours that hold the session without anybody using it.
    pub(crate) background: AtomicUsize,
    pub(crate) closing: CancellationToken,
}

/// What was agreed, and what we say of ourselves in every request.
#[derive(Debug)]
pub(crate) struct Speech {
    pub(crate) manifest: Arc<Manifest>,
    version_json: String,
    capabilities: String,
    capabilities_without_tasks: String,
    client_info: String,
}

impl Speech {
    fn new(manifest: Manifest, traffic: &Traffic, options: &Options) -> Arc<Speech> {
        let version = manifest.version();
        Arc::new(Speech {
            version_json: string_literal(version.as_str()),
            capabilities: traffic.offers().capabilities_json(version),
            capabilities_without_tasks: traffic.offers().capabilities_json_without_tasks(version),
            client_info: client_info(options),
            manifest: Arc::new(manifest),
        })
    }
}

/// A request, before it is put into the server's era.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    /// An object in no era.
    pub(crate) params: Option<&'a str>,
    /// What `Mcp-Name` says, where the caller knows it; else it is looked up in `params`.
    pub(crate) name: Option<&'a str>,
    pub(crate) sort: Sort,
    /// Whether a modern server hears that tasks are understood (B-055).
    pub(crate) declares_tasks: bool,
    /// Whether it gets a progress token though `params` has none.
    pub(crate) wants_progress: bool,
    /// What the caller of this very request can be asked, where that is not what the session offers.
    pub(crate) offers: Option<Offers>,
    /// Whether `params` may hold what only modern requests carry.
    pub(crate) is_foreign: bool,
    pub(crate) task_ttl: Option<Millis>,
    pub(crate) key: Option<&'a str>,
    /// Raw members of a further round (B-128).
    pub(crate) responses: Option<String>,
    pub(crate) state: Option<&'a str>,
    /// Headers for mirrored arguments (B-045).
    pub(crate) headers: Mirrored,
    /// The header for the idempotency key, on this request alone.
    pub(crate) key_header: Option<(String, String)>,
    pub(crate) care: Care,
    /// For the whole exchange.
    pub(crate) patience: Option<Duration>,
    pub(crate) events: Option<mpsc::UnboundedSender<BackEvent>>,
    /// Another MCP session than the present one.
    pub(crate) session: Option<Arc<str>>,
    pub(crate) stop: Option<&'a CancellationToken>,
    /// What learns over which connections it goes.
    pub(crate) trace: Option<Arc<Trace>>,
}

impl<'a> Ask<'a> {
    /// A short request that only reads.
    pub(crate) fn read(method: &'a str, params: Option<&'a str>, patience: Duration) -> Ask<'a> {
        Ask {
            method,
            params,
            name: None,
            sort: Sort::Other,
            declares_tasks: true,
            wants_progress: false,
            offers: None,
            is_foreign: false,
            task_ttl: None,
            key: None,
            responses: None,
            state: None,
            headers: Vec::new(),
            key_header: None,
            care: Care::Again,
            patience: Some(patience),
            events: None,
            session: None,
            stop: None,
            trace: None,
        }
    }
}

/// What was heard, and over which MCP session.
#[derive(Debug)]
pub(crate) struct Said {
    /// The last request's id, which was its progress token.
    pub(crate) id: u64,
    pub(crate) heard: Heard,
    pub(crate) session: Option<Arc<str>>,
}

/// Where calls take turns, so that it is known who asks.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) turn: Arc<Semaphore>,
    /// All calls, and not only those of tools that have asked something before.
    pub(crate) is_for_all: bool,
}

impl Core {
    pub(crate) fn new(
        config: Arc<ServerConfig>,
        options: Options,
        guard: Arc<Guard>,
        voice: Arc<Voice>,
        traffic: Arc<Traffic>,
        opened: Opened,
    ) -> Arc<Core> {
        let since = options.clock.now();
        let speech = Speech::new(opened.manifest, &traffic, &options);
        let is_legacy_pipe = matches!(opened.link, Link::Pipe(_)) && speech.manifest.era() == Era::Legacy;
        let offers = traffic.offers();
        // Roots alone need no lane: they are asked of the client as a whole.
        let asks_in_calls = offers.elicitation.is_some() || offers.sampling.is_some();
        let lane = (is_legacy_pipe && asks_in_calls)
            .then(|| Lane { turn: Arc::new(Semaphore::new(1)), is_for_all: !traffic.is_one_caller() });
        Arc::new(Core {
            config,
            link: opened.link,
            lane,
            learned: Mutex::default(),
            tools: Mutex::new(None),
            fetching: tokio::sync::Mutex::default(),
            holds_results: AtomicBool::new(true),
            pushes_tasks: AtomicBool::new(true),
            guard,
            voice,
            options,
            traffic,
            speech: Mutex::new(speech),
            renewing: tokio::sync::Mutex::default(),
            tasks: Mutex::default(),
            running: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            opened: Instant::now(),
            since,
            background: AtomicUsize::new(0),
            closing: CancellationToken::new(),
        })
    }

    pub(crate) fn speech(&self) -> Arc<Speech> {
        self.speech.lock().clone()
    }

    pub(crate) fn manifest(&self) -> Arc<Manifest> {
        self.speech.lock().manifest.clone()
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.speech.lock().manifest.era() == Era::Modern
    }

    /// The MCP session id, where there is one.
    pub(crate) fn session_id(&self) -> Option<Arc<str>> {
        match &self.link {
            Link::Pipe(_) => None,
            Link::Http(http) => http.session(),
        }
    }

    /// Resolves when the server's process is gone, and all that it had under way with it. `None` for a server that is
    /// no process of ours. It keeps nothing open.
    pub(crate) fn process_ended(&self) -> Option<Ended> {
        match &self.link {
            Link::Pipe(process) => Some(Box::pin(process.ending())),
            Link::Http(_) => None,
        }
    }

    /// Why it can no longer be used, once that is so.
    pub(crate) fn over(&self) -> Option<String> {
        match &self.link {
            Link::Pipe(process) => process.over(),
            Link::Http(_) => None,
        }
    }

    /// Since when nothing has happened on it; `None` while something does, while somebody holds it, or while it
    /// watches over a task.
    pub(crate) fn idle_since(self: &Arc<Self>) -> Option<Instant> {
        if Arc::strong_count(self) > 1 + self.background.load(Ordering::Relaxed) {
            return None;
        }
        let has_tasks = {
            let mut tasks = self.tasks.lock();
            tasks.retain(|_, seen| seen.elapsed() < TASK_KEPT);
            !tasks.is_empty()
        };
        let is_busy = has_tasks || self.running.load(Ordering::Relaxed) > 0;
        (!is_busy).then(|| *self.used.lock())
    }

    /// What there is to tell of it; nothing once it is over.
    pub(crate) fn running(self: &Arc<Self>) -> Option<crate::Running> {
        if self.over().is_some() {
            return None;
        }
        let manifest = self.manifest();
        Some(crate::Running {
            server: self.config.name.clone(),
            pid: match &self.link {
                Link::Pipe(process) => Some(process.pid()),
                Link::Http(_) => None,
            },
            since: self.since,
            version: manifest.protocol_version.clone(),
            name: manifest.called(),
            busy: self.idle_since().is_none(),
        })
    }

    /// A task of the server's lives.
    pub(crate) fn task_seen(&self, task_id: &str) {
        let mut tasks = self.tasks.lock();
        if let Some(seen) = tasks.get_mut(task_id) {
            *seen = Instant::now();
        } else if tasks.len() < TASKS_MAX {
            tasks.insert(task_id.to_owned(), Instant::now());
        }
    }

    pub(crate) fn task_over(&self, task_id: &str) {
        self.tasks.lock().remove(task_id);
        self.traffic.forget_task(task_id);
    }

    /// Ends it in good order.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        match &self.link {
            Link::Pipe(process) => process.close().await,
            Link::Http(http) => http.close(self.manifest().version()).await,
        }
    }

    /// Sends a request and waits for its end. A session that the server no longer knows is opened anew, once
    ///
    pub(crate) async fn ask(&self, ask: Ask<'_>) -> Said {
        let _running = Running::new(self);
        self.ask_quietly(ask).await
    }

    /// The same, without the session counting as used.
    pub(crate) async fn ask_quietly(&self, ask: Ask<'_>) -> Said {
        let mut other = ask.session.clone().filter(|other| self.session_id().as_ref() != Some(other));
        let mut is_renewed = false;
        loop {
            let session = other.clone().or_else(|| self.session_id());
            let id = self.traffic.next_id();
            let heard = self.ask_once(&ask, id, session.clone()).await;
            match (heard, &self.link) {
                // The old session is gone: perhaps the present one knows.
                (Heard::SessionGone, Link::Http(_)) if other.is_some() => other = None,
                (Heard::SessionGone, Link::Http(http)) if !is_renewed => {
                    is_renewed = true;
                    if let Err(why) = self.renew(http, session.as_ref()).await {
                        let why = self.voice.hide(why);
                        tracing::warn!(
                            server = self.config.name.0,
                            why,
                            "a session could not be opened anew"
                        );
                        return Said { id, heard: Heard::Refused(404), session };
                    }
                }
                (Heard::SessionGone, _) => return Said { id, heard: Heard::Refused(404), session },
                (heard, _) => return Said { id, heard, session },
            }
        }
    }

    async fn renew(&self, http: &HttpLink, dead: Option<&Arc<str>>) -> Result<(), String> {
        let _turn = self.renewing.lock().await;
        if http.session().as_ref() != dead {
            return Ok(());
        }
        let opening = Opening {
            config: &self.config,
            options: &self.options,
            traffic: &self.traffic,
            guard: &self.guard,
            voice: &self.voice,
            known: Some(Era::Legacy),
        };
        self.traffic.reset();
        let manifest = opening.greet(http).await?;
        tracing::info!(server = self.config.name.0, "a server forgot its session, and a new one was opened");
        *self.speech.lock() = Speech::new(manifest, &self.traffic, &self.options);
        *self.tools.lock() = None;
        self.learned.lock().clear();
        Ok(())
    }

    async fn ask_once(&self, ask: &Ask<'_>, id: u64, session: Option<Arc<str>>) -> Heard {
        let speech = self.speech();
        let params = match dress(ask, &speech, id) {
            Ok(params) => params,
            Err(error) => return Heard::NeverSent(format!("the parameters cannot be sent: {error}")),
        };
        let params = params.as_deref().map(|params| std::str::from_utf8(params).unwrap_or("{}"));
        let body = message::request(&RequestId::from_u64(id), ask.method, params);
        let mut ticket = ask.events.clone().map(|events| {
            self.traffic.open(id, ask.sort, ask.name.filter(|_| ask.sort == Sort::Call), events)
        });
        let stopped = async {
            match ask.stop {
                Some(stop) => stop.cancelled().await,
                None => pending().await,
            }
        };
        let late = async {
            match ask.patience {
                Some(patience) => sleep(patience).await,
                None => pending().await,
            }
        };
        tokio::pin!(stopped, late);
        let mut is_told = false;
        match &self.link {
            Link::Pipe(process) => {
                let mut waiting = match process.ask(id, body) {
                    Ok(waiting) => waiting,
                    Err(heard) => return heard,
                };
                if let Some(ticket) = &mut ticket {
                    ticket.haunts();
                }
                loop {
                    tokio::select! {
                        heard = &mut waiting => {
                            if let Some(ticket) = &mut ticket {
                                ticket.answered();
                            }
                            return heard;
                        }
                        () = &mut stopped, if !is_told => {
                            is_told = true;
                            if waiting.recall() {
                                return Heard::NeverSent(String::from("it was stopped before it was sent"));
                            }
                            let _ = process.tell(cancelled(id));
                            if let Some(ticket) = &mut ticket {
                                // It stops now.
                                ticket.answered();
                            }
                        }
                        () = &mut late => {
                            if waiting.recall() {
                                return Heard::NeverSent(String::from("it does not read its input"));
                            }
                            if !is_told && ask.sort != Sort::Augmented {
                                // A-013, B-138; not what may be a task by now.
                                let _ = process.tell(cancelled(id));
                            }
                            return Heard::Lost(self.silence(ask));
                        }
                    }
                }
            }
            Link::Http(http) => {
                let is_modern = speech.manifest.era() == Era::Modern;
                let mut headers = match (is_modern, ask.name) {
                    (true, Some(name)) => named(&speech, ask.method, name),
                    (true, None) | (false, _) => mirrored(speech.manifest.version(), ask.method, params),
                };
                headers.extend(ask.headers.iter().cloned());
                let posting = Posting {
                    mirrored: headers.clone(),
                    key: ask.key_header.clone(),
                    session: session.clone(),
                    care: ask.care,
                    // Behind our own, which tells the server.
                    patience: ask.patience.map(|patience| patience + Duration::from_secs(1)),
                    is_resumable: !is_modern,
                    trace: ask.trace.clone(),
                };
                let exchange = http.exchange(&self.traffic, id, body, posting);
                tokio::pin!(exchange);
                let mut telling = None;
                loop {
                    tokio::select! {
                        (heard, _) = &mut exchange => return heard,
                        () = &mut stopped, if !is_told => {
                            is_told = true;
                            if is_modern {
                                // Closing the stream is what tells it (B-037, B-137).
                                return Heard::Lost(String::from("it was stopped, and its stream closed"));
                            }
                            telling = Some(Box::pin(http.tell(cancelled(id), headers.clone(), session.clone())));
                        }
                        _ = async {
                            match &mut telling {
                                Some(telling) => telling.await,
                                None => pending().await,
                            }
                        } => telling = None,
                        () = &mut late => {
                            // A-013; a modern server sees its stream closed (B-138).
                            if !is_modern && !is_told && ask.sort != Sort::Augmented {
                                http.tell_by_the_way(cancelled(id), headers.clone(), session.clone());
                            }
                            return Heard::Lost(self.silence(ask));
                        }
                    }
                }
            }
        }
    }

    /// Sends a notification.
    pub(crate) async fn tell(&self, method: &str, params: Option<&str>) -> Result<(), String> {
        let body = message::notification(method, params);
        match &self.link {
            Link::Pipe(process) => process.tell(body).map_err(String::from),
            Link::Http(http) => {
                let version = self.manifest().version();
                http.tell(body, mirrored(version, method, params), http.session()).await
            }
        }
    }

    fn silence(&self, ask: &Ask<'_>) -> String {
        let secs = ask.patience.unwrap_or_default().as_secs_f32();
        format!("it did not answer {} within {secs} s", ask.method)
    }
}

/// The headers of a modern request whose name is known, without reading its params again.
fn named(speech: &Speech, method: &str, name: &str) -> Mirrored {
    use taskgate_wire::header;
    vec![
        (Cow::Borrowed(header::PROTOCOL_VERSION), speech.manifest.version().as_str().to_owned()),
        (Cow::Borrowed(header::METHOD), method.to_owned()),
        (Cow::Borrowed(header::NAME), header::encode(name).into_owned()),
    ]
}

/// The params as the server's era has them, in one edit.
fn dress(ask: &Ask<'_>, speech: &Speech, id: u64) -> Result<Option<Bytes>, message::Malformed> {
    let is_modern = speech.manifest.era() == Era::Modern;
    let mut edits: Vec<Edit<'_>> = Vec::with_capacity(8);
    let token = [META, PROGRESS_TOKEN];
    let has_token = ask.wants_progress || ask.params.and_then(|params| json::at(params, &token)).is_some();
    if has_token {
        edits.push(Edit::set(&[META, PROGRESS_TOKEN], id.to_string()));
    }
    if let Some(key) = ask.key {
        edits.push(Edit::set(&[META, IDEMPOTENCY_KEY], string_literal(key)));
    }
    if let Some(ttl) = ask.task_ttl {
        edits.push(Edit::set(&["task"], format!("{{\"ttl\":{}}}", ttl.0)));
    }
    if let Some(responses) = &ask.responses {
        edits.push(Edit::set(&["inputResponses"], responses.as_str()));
    }
    if let Some(state) = ask.state {
        edits.push(Edit::set(&["requestState"], state));
    }
    if is_modern {
        let version = speech.manifest.version();
        let capabilities = match (&ask.offers, ask.declares_tasks) {
            (None, true) => Cow::Borrowed(&speech.capabilities),
            (None, false) => Cow::Borrowed(&speech.capabilities_without_tasks),
            (Some(offers), true) => Cow::Owned(offers.capabilities_json(version)),
            (Some(offers), false) => Cow::Owned(offers.capabilities_json_without_tasks(version)),
        };
        edits.push(Edit::set(&[META, PROTOCOL_VERSION], speech.version_json.as_str()));
        edits.push(Edit::set(&[META, CLIENT_CAPABILITIES], capabilities.into_owned()));
        edits.push(Edit::set(&[META, CLIENT_INFO], speech.client_info.as_str()));
    } else if ask.is_foreign {
        edits.push(Edit::remove(&[META, PROTOCOL_VERSION]));
        edits.push(Edit::remove(&[META, CLIENT_CAPABILITIES]));
        edits.push(Edit::remove(&[META, CLIENT_INFO]));
        edits.push(Edit::remove(&[META, LOG_LEVEL]));
    }
    match (ask.params, edits.is_empty()) {
        (None, true) => Ok(None),
        (Some(params), true) => Ok(Some(Bytes::copy_from_slice(params.as_bytes()))),
        (None, false) if !is_modern && !has_token => Ok(None),
        (params, false) => splice(params.unwrap_or("{}"), &edits).map(Some),
    }
}

/// Counts an exchange as running.
struct Running<'a>(&'a Core);

impl<'a> Running<'a> {
    fn new(core: &'a Core) -> Running<'a> {
        core.running.fetch_add(1, Ordering::Relaxed);
        Running(core)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        *self.0.used.lock() = Instant::now();
    }
}
