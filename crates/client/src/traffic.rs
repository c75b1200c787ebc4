//! Where a server's own messages go: to the call they belong to, to the task's watcher, or to whoever listens.

use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::task::{Question, QuestionKind};
use taskgate_engine::back::{BackEvent, Reply};
use taskgate_wire::json;
use taskgate_wire::message::{self, Notification, Request};
use taskgate_wire::meta::{self, META, RELATED_TASK, SUBSCRIPTION_ID};
use taskgate_wire::offers::Offers;
use taskgate_wire::rpc_error::code;
use taskgate_wire::splice::{Edit, splice};
use taskgate_wire::{Era, RequestId, RpcError, answer, dialect, question};
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio::time::{Duration, Instant, timeout};

use crate::asker::Asker;
use crate::notice::Notice;

/// Announcements that a slow listener may be behind by.
const NOTICES: usize = 256;
/// Questions kept for a task that nobody watches yet, and tasks that have some.
const PARKED_MAX: usize = 64;
/// How long a request that belongs to no call waits for somebody who answers such requests.
const ASKER_GRACE: Duration = Duration::from_secs(2);
/// Abandoned calls that are remembered because they may still ask something.
const GHOSTS_MAX: usize = 1_024;
/// Progress and log messages of one call: so many at once, and so many a second.
const BURST: f64 = 200.0;
const PER_SEC: f64 = 50.0;

/// Where a message came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A pipe, or a stream that hangs on no request.
    Pipe,
    /// The response stream of this request of ours.
    Stream(u64),
}

/// What sort of exchange a request of ours is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    /// A `tools/call` in its plain or directed form.
    Call,
    /// A `tools/call` with `params.task`.
    Augmented,
    /// A request of another method that may need input before it is answered (B-122).
    Reading,
    /// Anything else: it asks for nothing.
    Other,
}

type Events = mpsc::UnboundedSender<BackEvent>;
/// Sends the response to a server's request.
type Respond = Box<dyn FnOnce(Bytes) + Send>;

/// The switchboard of one session.
pub(crate) struct Traffic {
    server: String,
    era: Mutex<Era>,
    offers: Offers,
    ids: AtomicU64,
    asks: AtomicU64,
    tools_changed: AtomicBool,
    notices: broadcast::Sender<Notice>,
    asker: watch::Sender<Option<Arc<dyn Asker>>>,
    /// Whether all calls are one caller's, so that a question to the wrong one of them betrays nobody.
    is_one_caller: bool,
    state: Mutex<State>,
    /// No question waits any more for it to become clear whose it is.
    cleared: Notify,
}

#[derive(Default)]
struct State {
    exchanges: HashMap<u64, Exchange>,
    /// Given up by us, not yet by the server; with their tools.
    ghosts: HashMap<u64, Option<String>>,
    /// Tools that asked something during a call.
    asking: HashSet<String>,
    /// Questions of which it is not clear yet which call asks.
    unclear: Vec<Parked>,
    watchers: HashMap<String, Exchange>,
    /// Progress tokens that a task keeps after its creation.
    tokens: HashMap<u64, String>,
    parked: HashMap<String, Vec<Parked>>,
    open: HashMap<RequestId, Open>,
    /// Those that ask to visit a URL, by the ids under which the end of the visit is announced.
    flows: HashMap<String, Open>,
}

struct Exchange {
    serial: u64,
    sort: Sort,
    tool: Option<String>,
    events: Events,
    flow: Flow,
}

struct Parked {
    id: RequestId,
    question: Question,
    respond: Respond,
}

/// A request of the server's that waits.
struct Open {
    ask: u64,
    events: Events,
}

impl std::fmt::Debug for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traffic").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Traffic {
    /// `start` is unpredictable. A session with a server that was opened before our restart is asked about its tasks
    /// again, while it may still be at requests of before; were their ids used again, it would answer the one by the
    /// other.
    pub(crate) fn new(server: &str, offers: Offers, is_one_caller: bool, start: u32) -> Arc<Traffic> {
        Arc::new(Traffic {
            server: server.to_owned(),
            era: Mutex::new(Era::Legacy),
            offers,
            // A million ids before the next start, and no number that a double cannot hold.
            ids: AtomicU64::new((u64::from(start) << 20) + 1),
            asks: AtomicU64::new(1),
            tools_changed: AtomicBool::new(false),
            notices: broadcast::channel(NOTICES).0,
            asker: watch::channel(None).0,
            is_one_caller,
            state: Mutex::default(),
            cleared: Notify::new(),
        })
    }

    pub(crate) fn offers(&self) -> &Offers {
        &self.offers
    }

    pub(crate) fn speak(&self, era: Era) {
        *self.era.lock() = era;
    }

    /// A fresh id for a request of ours; it is its progress token too.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn set_asker(&self, asker: Arc<dyn Asker>) {
        self.asker.send_replace(Some(asker));
    }

    pub(crate) fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    /// Whether the list of tools was announced to have changed since the last time this was asked.
    pub(crate) fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn are_tools_changed(&self) -> bool {
        self.tools_changed.load(Ordering::Relaxed)
    }

    /// Opens an exchange: what the server says about request `id`, a call of `tool` if it is one, goes to `events`.
    pub(crate) fn open(self: &Arc<Self>, id: u64, sort: Sort, tool: Option<&str>, events: Events) -> Ticket {
        let exchange = Exchange { serial: id, sort, tool: tool.map(String::from), events, flow: Flow::new() };
        self.state.lock().exchanges.insert(id, exchange);
        Ticket { traffic: self.clone(), id, is_answered: false, may_haunt: false }
    }

    /// Sends what the server says about its task `task_id` to `events`, and what was kept of it until now.
    pub(crate) fn watch(self: &Arc<Self>, serial: u64, task_id: &str, events: Events) -> Watch {
        let parked = {
            let mut state = self.state.lock();
            let exchange =
                Exchange { serial, sort: Sort::Other, tool: None, events: events.clone(), flow: Flow::new() };
            state.watchers.insert(task_id.to_owned(), exchange);
            state.parked.remove(task_id).unwrap_or_default()
        };
        for Parked { id, question, respond } in parked {
            self.put(&id, question, &events, Some(task_id.to_owned()), respond);
        }
        Watch { traffic: self.clone(), serial, task_id: task_id.to_owned() }
    }

    /// The call with this token became a task, whose progress carries the same token.
    pub(crate) fn became_task(&self, id: u64, task_id: &str) {
        let mut state = self.state.lock();
        if state.tokens.len() < GHOSTS_MAX {
            state.tokens.insert(id, task_id.to_owned());
        }
    }

    /// The task is over: nothing of it needs to be kept.
    pub(crate) fn forget_task(&self, task_id: &str) {
        let mut state = self.state.lock();
        state.tokens.retain(|_, task| task != task_id);
        state.parked.remove(task_id);
    }

    /// An abandoned call was answered after all.
    pub(crate) fn answered_late(self: &Arc<Self>, id: u64) {
        self.state.lock().ghosts.remove(&id);
        self.look_again();
    }

    /// Whether calls of this server are one caller's, and so may run together until a tool has asked something.
    pub(crate) fn is_one_caller(&self) -> bool {
        self.is_one_caller
    }

    /// Whether `tool` asked something during an earlier call.
    pub(crate) fn is_asking(&self, tool: &str) -> bool {
        self.state.lock().asking.contains(tool)
    }

    /// Waits while a question is open of which nobody knows whose it is. A further call would only make it less clear.
    pub(crate) async fn clear(&self) {
        loop {
            let cleared = self.cleared.notified();
            tokio::pin!(cleared);
            cleared.as_mut().enable();
            if self.state.lock().unclear.is_empty() {
                return;
            }
            cleared.await;
        }
    }

    /// The session starts anew: what was open is void.
    pub(crate) fn reset(&self) {
        let mut state = self.state.lock();
        state.ghosts.clear();
        state.parked.clear();
        state.unclear.clear();
        drop(state);
        self.cleared.notify_waiters();
    }

    /// Hears a notification.
    pub(crate) fn notified(&self, origin: &Origin, notification: &Notification) {
        let params = || notification.params_bytes().unwrap_or_else(|| Bytes::from_static(b"{}"));
        match notification.method() {
            "notifications/progress" => {
                let token = notification.param("progressToken").and_then(|token| token.parse().ok());
                let params = without(params(), &[&["progressToken"]]);
                self.deliver(origin, token, notification.params(), || BackEvent::Progress(params));
            }
            "notifications/message" => {
                let params = without(params(), &[]);
                let mut params = Some(params);
                self.deliver(origin, None, notification.params(), || {
                    BackEvent::Log(params.take().unwrap_or_default())
                });
                if let Some(params) = params {
                    let _ = self.notices.send(Notice::Log(params));
                }
            }
            "notifications/cancelled" => self.unask(notification.param("requestId")),
            method if dialect::b::is_task_notification(method) => {
                if let Some(task_id) = notification.param("taskId").and_then(json::string) {
                    self.nudge(&task_id);
                }
            }
            "notifications/tools/list_changed" => {
                self.tools_changed.store(true, Ordering::Relaxed);
                let _ = self.notices.send(Notice::ToolsChanged);
            }
            "notifications/prompts/list_changed" => {
                let _ = self.notices.send(Notice::PromptsChanged);
            }
            "notifications/resources/list_changed" => {
                let _ = self.notices.send(Notice::ResourcesChanged);
            }
            "notifications/resources/updated" => {
                let _ = self.notices.send(Notice::ResourceUpdated(without(params(), &[])));
            }
            "notifications/elicitation/complete" => {
                self.visited(notification.param("elicitationId"));
                let _ = self.notices.send(Notice::ElicitationComplete(params()));
            }
            _ => tracing::debug!(server = self.server, "a notification that nobody waits for"),
        }
    }

    /// Hears a request, which `respond` answers.
    pub(crate) fn asked(
        self: &Arc<Self>,
        origin: &Origin,
        request: &Request,
        respond: impl FnOnce(Bytes) + Send + 'static,
    ) {
        let id = request.id();
        if *self.era.lock() == Era::Modern {
            // B-015: there is nothing a client could send back.
            tracing::warn!(server = self.server, "a modern server sent a request, which it must not");
            return;
        }
        if request.method() == "ping" {
            return respond(message::success(id, "{}"));
        }
        let question = match question::read(request.method(), request.params(), None) {
            Ok(question) => question,
            Err(error) => return respond(message::error(Some(id), &error)),
        };
        if let Some(error) = self.offers.refuses(&question) {
            return respond(message::error(Some(id), &error));
        }
        let related = request.params().and_then(meta::related_task);
        let respond: Respond = Box::new(respond);
        // Roots belong to the client as a whole. A server asks for them at its own time (server-everything, a moment
        // after the handshake), and a call that happens to run then is not what it asks about.
        let is_general = question.kind == QuestionKind::Roots
            && related.is_none()
            && *origin == Origin::Pipe
            && self.asker.borrow().as_ref().is_some_and(|asker| asker.reaches(&question));
        if is_general {
            return self.ask_asker(id.clone(), question, respond);
        }
        match self.whose(origin, related.as_deref()) {
            Whose::Call(events) => self.put(id, question, &events, related, respond),
            Whose::Unwatched => self.park(related.unwrap_or_default(), id.clone(), question, respond),
            Whose::Nobody => self.ask_asker(id.clone(), question, respond),
            Whose::Unclear if self.is_one_caller => {
                self.state.lock().unclear.push(Parked { id: id.clone(), question, respond });
                self.look_again();
            }
            Whose::Unclear => {
                // Design 5: such requests name no caller, and a wrong guess would show one caller's question to
                // another.
                let error =
                    RpcError::internal("Several calls are running, and the request names none of them");
                respond(message::error(Some(id), &error));
            }
        }
    }

    /// Looks again at the questions of which it was not clear whose they are: calls have ended since. The one that
    /// asks does not end, so at last it is the only one left. Where as many ask as there are calls, none of them
    /// would end; then they are asked of the client as a whole, as its server would without us.
    fn look_again(self: &Arc<Self>) {
        let (clear, hopeless) = {
            let mut state = self.state.lock();
            if state.unclear.is_empty() {
                return;
            }
            let calls = state.exchanges.values().filter(|exchange| exchange.sort == Sort::Call).count();
            if state.unclear.len() > 1 && state.unclear.len() >= calls + state.ghosts.len() {
                (Vec::new(), std::mem::take(&mut state.unclear))
            } else {
                match state.whose(&Origin::Pipe) {
                    Whose::Unclear => return,
                    Whose::Call(events) => (
                        std::mem::take(&mut state.unclear).into_iter().zip(iter::repeat(events)).collect(),
                        Vec::new(),
                    ),
                    Whose::Unwatched | Whose::Nobody => (Vec::new(), std::mem::take(&mut state.unclear)),
                }
            }
        };
        self.cleared.notify_waiters();
        for (Parked { id, question, respond }, events) in clear {
            self.put(&id, question, &events, None, respond);
        }
        for Parked { id, question, respond } in hopeless {
            self.ask_asker(id, question, respond);
        }
    }

    fn whose(&self, origin: &Origin, related: Option<&str>) -> Whose {
        let mut state = self.state.lock();
        if let Some(task_id) = related {
            return match state.watchers.get(task_id) {
                Some(watcher) => Whose::Call(watcher.events.clone()),
                None => Whose::Unwatched,
            };
        }
        state.whose(origin)
    }

    /// Puts a question to an exchange, and sends what it replies.
    fn put(
        self: &Arc<Self>,
        id: &RequestId,
        question: Question,
        events: &Events,
        task_id: Option<String>,
        respond: Respond,
    ) {
        let ask = self.asks.fetch_add(1, Ordering::Relaxed);
        let (reply, replied) = oneshot::channel();
        {
            let mut state = self.state.lock();
            state.open.insert(id.clone(), Open { ask, events: events.clone() });
            if let Some(flow) =
                question::elicitation_id(&question).filter(|_| question.kind == QuestionKind::Url)
            {
                // Those of exchanges that are over are of no use to anybody.
                state.flows.retain(|_, open| !open.events.is_closed());
                state.flows.insert(flow, Open { ask, events: events.clone() });
            }
        }
        if events.send(BackEvent::Asked { ask, question, reply }).is_err() {
            self.state.lock().open.remove(id);
            let error = RpcError::internal("Nobody waits for this call any more");
            return respond(message::error(Some(id), &error));
        }
        let (traffic, id) = (self.clone(), id.clone());
        tokio::spawn(async move {
            let reply = replied.await;
            // Withdrawn meanwhile: the server waits for nothing.
            if !traffic.close(&id, ask) {
                return;
            }
            // Dropped without a reply: we are going down, or watch the task anew. The question stays open at the
            // server, which may ask again (G-011).
            if let Ok(reply) = reply {
                respond(response(&id, reply, task_id.as_deref()));
            }
        });
    }

    fn park(&self, task_id: String, id: RequestId, question: Question, respond: Respond) {
        let refused = {
            let mut state = self.state.lock();
            if state.parked.len() >= PARKED_MAX && !state.parked.contains_key(&task_id) {
                Some((id, respond))
            } else {
                let parked = state.parked.entry(task_id).or_default();
                if parked.len() < PARKED_MAX {
                    parked.push(Parked { id, question, respond });
                    None
                } else {
                    Some((id, respond))
                }
            }
        };
        if let Some((id, respond)) = refused {
            let error = RpcError::internal("Too many requests for tasks that nobody watches");
            respond(message::error(Some(&id), &error));
        }
    }

    /// Requests may come right behind the handshake, before whoever opened the session had time to install one.
    fn ask_asker(&self, id: RequestId, question: Question, respond: Respond) {
        let mut asker = self.asker.subscribe();
        tokio::spawn(async move {
            let installed = timeout(ASKER_GRACE, asker.wait_for(Option::is_some)).await;
            let asker = installed.ok().and_then(|asker| asker.ok().and_then(|asker| asker.clone()));
            respond(match asker {
                Some(asker) => response(&id, asker.ask(question).await, None),
                None => message::error(Some(&id), &RpcError::method_not_found(question.kind.method())),
            });
        });
    }

    /// `true` if the request was open until now.
    fn close(&self, id: &RequestId, ask: u64) -> bool {
        let mut state = self.state.lock();
        let is_open = state.open.get(id).is_some_and(|open| open.ask == ask);
        if is_open {
            state.open.remove(id);
        }
        is_open
    }

    fn unask(&self, id: Option<&str>) {
        let Some(id) = id.and_then(RequestId::from_text) else { return };
        let mut state = self.state.lock();
        if let Some(open) = state.open.remove(&id) {
            let _ = open.events.send(BackEvent::Unasked { ask: open.ask });
        }
        for parked in state.parked.values_mut() {
            parked.retain(|parked| parked.id != id);
        }
        state.unclear.retain(|parked| parked.id != id);
        if state.unclear.is_empty() {
            self.cleared.notify_waiters();
        }
    }

    /// Who asked for this visit hears that it is over.
    fn visited(&self, elicitation_id: Option<&str>) {
        let Some(id) = elicitation_id.and_then(json::string) else { return };
        if let Some(Open { ask, events }) = self.state.lock().flows.remove(&*id) {
            let _ = events.send(BackEvent::Visited { ask });
        }
    }

    fn nudge(&self, task_id: &str) {
        if let Some(watcher) = self.state.lock().watchers.get(task_id) {
            let _ = watcher.events.send(BackEvent::Nudge);
        }
    }

    /// Gives the event to the exchange that it belongs to, within what that exchange takes. `event` is not called if
    /// it belongs to none.
    fn deliver(
        &self,
        origin: &Origin,
        token: Option<u64>,
        params: Option<&str>,
        event: impl FnOnce() -> BackEvent,
    ) {
        let mut state = self.state.lock();
        let State { exchanges, watchers, tokens, .. } = &mut *state;
        let by_token = token.and_then(|token| exchanges.get_mut(&token));
        let exchange = match by_token {
            Some(exchange) => Some(exchange),
            None => {
                let task = token.and_then(|token| tokens.get(&token).cloned());
                match task.or_else(|| params.and_then(meta::related_task)) {
                    Some(task_id) => watchers.get_mut(&task_id),
                    None => match origin {
                        Origin::Stream(id) => exchanges.get_mut(id),
                        Origin::Pipe => None,
                    },
                }
            }
        };
        if let Some(exchange) = exchange {
            let event = event();
            if exchange.flow.take() {
                let _ = exchange.events.send(event);
            }
        }
    }
}

impl State {
    /// Whose a question is that names no task.
    fn whose(&mut self, origin: &Origin) -> Whose {
        if let Origin::Stream(id) = origin
            && let Some(exchange) = self.exchanges.get(id)
        {
            return Whose::Call(exchange.events.clone());
        }
        for sort in [Sort::Call, Sort::Augmented, Sort::Reading] {
            let ghosts = if sort == Sort::Call { self.ghosts.len() } else { 0 };
            let mut of = self.exchanges.values().filter(|exchange| exchange.sort == sort);
            match (of.next(), of.count() + ghosts) {
                (None, 0) => {}
                (Some(only), 0) => {
                    let events = only.events.clone();
                    // Learnt for certain: it is the only one.
                    self.asking.extend(only.tool.clone());
                    return Whose::Call(events);
                }
                (Some(_), _) => return self.only_asking(sort),
                (None, _) => return Whose::Unclear,
            }
        }
        // FastMCP 3 does not say which task asks. Where there is one only, it is clear.
        // Leniency: unnamed-question
        let mut watched = self.watchers.values();
        match (watched.next(), watched.next()) {
            (Some(only), None) => Whose::Call(only.events.clone()),
            (Some(_), Some(_)) | (None, _) => Whose::Nobody,
        }
    }

    /// Of several calls the one whose tool is known to ask. Such calls take turns, so there is one at most, and what
    /// was given up.
    fn only_asking(&self, sort: Sort) -> Whose {
        let is_asking = |tool: &Option<String>| tool.as_ref().is_some_and(|tool| self.asking.contains(tool));
        let mut of =
            self.exchanges.values().filter(|exchange| exchange.sort == sort && is_asking(&exchange.tool));
        match (of.next(), of.next(), self.ghosts.values().any(is_asking)) {
            (Some(only), None, false) => Whose::Call(only.events.clone()),
            (_, _, _) => Whose::Unclear,
        }
    }
}

enum Whose {
    Call(Events),
    /// It names a task that nobody watches yet.
    Unwatched,
    Nobody,
    Unclear,
}

/// The response to a server's request; with related-task metadata where the request had it.
fn response(id: &RequestId, reply: Reply, task_id: Option<&str>) -> Bytes {
    match reply {
        Reply::Result(result) => {
            let result = answer::for_a(std::str::from_utf8(&result).unwrap_or("{}"), task_id);
            message::success(id, std::str::from_utf8(&result).unwrap_or("{}"))
        }
        Reply::Error { code, message } => {
            let code = if code == 0 { code::INTERNAL_ERROR } else { code };
            message::error(Some(id), &RpcError::new(code, message))
        }
    }
}

/// Params without these members, and without what is between the server and us: its task's id and the id of our
/// subscription.
fn without(params: Bytes, paths: &[&[&str]]) -> Bytes {
    let mut edits: Vec<Edit<'_>> = paths.iter().map(|path| Edit::remove(path)).collect();
    edits.push(Edit::remove(&[META, RELATED_TASK]));
    edits.push(Edit::remove(&[META, SUBSCRIPTION_ID]));
    std::str::from_utf8(&params).ok().and_then(|text| splice(text, &edits).ok()).unwrap_or(params)
}

/// Bounds what one exchange is told.
#[derive(Debug)]
struct Flow {
    left: f64,
    at: Instant,
}

impl Flow {
    fn new() -> Flow {
        Flow { left: BURST, at: Instant::now() }
    }

    fn take(&mut self) -> bool {
        let now = Instant::now();
        let gained = now.saturating_duration_since(self.at).max(Duration::ZERO).as_secs_f64() * PER_SEC;
        self.left = (self.left + gained).min(BURST);
        self.at = now;
        if self.left < 1.0 {
            return false;
        }
        self.left -= 1.0;
        true
    }
}

/// An open exchange; closed when dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    traffic: Arc<Traffic>,
    id: u64,
    is_answered: bool,
    may_haunt: bool,
}

impl Ticket {
    /// On a pipe, a call that is dropped before its answer goes on at the server.
    pub(crate) fn haunts(&mut self) {
        self.may_haunt = true;
    }

    pub(crate) fn answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        {
            let mut state = self.traffic.state.lock();
            let closed = state.exchanges.remove(&self.id).filter(|exchange| exchange.sort == Sort::Call);
            if let Some(call) = closed
                && self.may_haunt
                && !self.is_answered
                && state.ghosts.len() < GHOSTS_MAX
            {
                state.ghosts.insert(self.id, call.tool);
            }
        }
        self.traffic.look_again();
    }
}

/// Watches one task of the server's; ends when dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    traffic: Arc<Traffic>,
    serial: u64,
    task_id: String,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.traffic.state.lock();
        if state.watchers.get(&self.task_id).is_some_and(|watcher| watcher.serial == self.serial) {
            state.watchers.remove(&self.task_id);
        }
    }
}
