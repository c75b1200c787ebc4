//! A session with a server, as the engine and the gateway see it.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use taskgate_core::gate::BackTasks;
use taskgate_core::operation::Upstream;
use taskgate_core::task::QuestionKind;
use taskgate_engine::back::{
    Answer, Back, Ended, InFlight, Look, LookError, Outgoing, Reply, Unreachable, Visit,
};
use taskgate_wire::json::{self, string_literal};
use taskgate_wire::listing::{Cache, read_tools};
use taskgate_wire::rpc_error::code;
use taskgate_wire::{errors, question};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::asker::Asker;
use crate::call::{Line, call};
use crate::config::Sharing;
use crate::core::{Ask, Core};
use crate::heard::Heard;
use crate::http::{Care, Trace};
use crate::manifest::Manifest;
use crate::notice::Notice;
use crate::opening::read_error;
use crate::raw::{RawAnswer, RawInFlight};
use crate::tools::{PAGES_MAX, ToolTable};
use crate::traffic::Sort;

/// How long a modern server's list of tools is believed at least; it announces changes only to those who listen.
const LIST_KEPT_MIN: Duration = Duration::from_secs(60);
/// And a legacy server's that announces no changes.
const LIST_KEPT: Duration = Duration::from_secs(300);

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) core: Arc<Core>,
}

impl Session {
    /// What the server announced (R2.3).
    #[must_use]
    pub fn manifest(&self) -> Arc<Manifest> {
        self.core.manifest()
    }

    /// All its tools: fetched once, and again after an announced change, after a call showed that the list is out of
    /// date, and when it has grown old.
    ///
    /// # Errors
    /// [`Unreachable`]: it could not be fetched, and none is at hand.
    pub async fn tools(&self) -> Result<Arc<ToolTable>, Unreachable> {
        self.core.tool_table().await
    }

    /// Sends a request of any other method. `params` is an object as a client of either era wrote it; what goes out
    /// is in the server's era, with a progress token of ours in the place of one that is there.
    #[must_use]
    pub fn request(&self, method: &str, params: Option<Bytes>) -> RawInFlight {
        let (sender, events) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let (core, method, stopped) = (self.core.clone(), method.to_owned(), stop.clone());
        let answer = Box::pin(async move {
            let params = match params.as_deref().map(std::str::from_utf8) {
                Some(Err(_)) => return RawAnswer::NeverSent(core.named("the parameters are not UTF-8")),
                Some(Ok(params)) => Some(params),
                None => None,
            };
            let sort = match method.as_str() {
                "prompts/get" | "resources/read" => Sort::Reading,
                _ => Sort::Other,
            };
            let said = core
                .ask(Ask {
                    sort,
                    declares_tasks: false,
                    is_foreign: true,
                    patience: None,
                    care: if is_reading(&method) { Care::Again } else { Care::Once },
                    events: Some(sender),
                    stop: Some(&stopped),
                    ..Ask::read(&method, params, core.config.read_timeout)
                })
                .await;
            match said.heard {
                Heard::Result(result) => RawAnswer::Result(result),
                Heard::Error(error) => RawAnswer::Error(error),
                Heard::NeverSent(why) => RawAnswer::NeverSent(core.named(&why)),
                Heard::Lost(why) => RawAnswer::Lost(core.named(&why)),
                Heard::Nonsense(why) => RawAnswer::Nonsense(core.named(&why)),
                Heard::Refused(status) => RawAnswer::Error(Bytes::from(core.refusal(status).to_json())),
                Heard::SessionGone => RawAnswer::Error(Bytes::from(core.refusal(404).to_json())),
            }
        });
        RawInFlight { answer, events, stop }
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// [`Unreachable`]: it did not get it.
    pub async fn notify(&self, method: &str, params: Option<Bytes>) -> Result<(), Unreachable> {
        let params = params.as_deref().and_then(|params| std::str::from_utf8(params).ok());
        self.core.tell(method, params).await.map_err(|reason| self.core.unreachable(reason))
    }

    /// What the server announces from now on. A listener that falls far behind misses some.
    #[must_use]
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.core.traffic.notices()
    }

    /// Installs who answers what the server asks outside of any call. Without one it is told `-32601`, two seconds
    /// after it asked.
    pub fn set_asker(&self, asker: Box<dyn Asker>) {
        self.core.traffic.set_asker(Arc::from(asker));
    }

    /// Who uses it.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        self.core.config.sharing
    }

    /// Why the session can no longer be used, once that is so; [`crate::Servers::session`] then opens another.
    #[must_use]
    pub fn over(&self) -> Option<String> {
        self.core.over()
    }
}

/// Whether a method only reads, so that it may be asked again when a kept connection breaks under it.
fn is_reading(method: &str) -> bool {
    matches!(
        method,
        "ping"
            | "completion/complete"
            | "logging/setLevel"
            | "prompts/get"
            | "prompts/list"
            | "resources/list"
            | "resources/read"
            | "resources/subscribe"
            | "resources/templates/list"
            | "resources/unsubscribe"
            | "tools/list"
    )
}

#[async_trait]
impl Back for Session {
    fn tasks(&self) -> BackTasks {
        self.core.manifest().tasks
    }

    /// The call is sent when the answer is first polled. Over modern HTTP there is no way to go without a word:
    /// dropping the answer closes the stream, which cancels the call (B-037).
    fn call(&self, outgoing: Outgoing) -> InFlight {
        let (sender, events) = mpsc::unbounded_channel();
        let (stop, trace) = (CancellationToken::new(), Arc::new(Trace::default()));
        let line = Line { events: sender, stop: stop.clone(), trace: trace.clone() };
        let let_go = CancellationToken::new();
        let closed: Ended = match self.core.process_ended() {
            Some(ended) => ended,
            None => {
                let let_go = let_go.clone();
                Box::pin(async move {
                    let_go.cancelled().await;
                    trace.gone().await;
                })
            }
        };
        let (core, held) = (self.core.clone(), let_go.drop_guard());
        let answer = Box::pin(async move {
            let answer = call(core, outgoing, line).await;
            drop(held);
            answer
        });
        InFlight { answer, events, stop, closed }
    }

    fn attend(&self, upstream: &Upstream) -> Option<InFlight> {
        let (sender, events) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let (core, upstream) = (self.core.clone(), upstream.clone());
        let answer: BoxFuture<'static, Answer> = if core.is_modern() {
            if !core.pushes_tasks.load(Ordering::Relaxed) {
                return None;
            }
            Box::pin(core.listen_task(upstream, sender, stop.clone()))
        } else {
            Box::pin(core.hold_result(upstream, sender, stop.clone()))
        };
        let closed = self.core.process_ended().unwrap_or_else(|| Box::pin(pending()));
        Some(InFlight { answer, events, stop, closed })
    }

    async fn look(&self, upstream: &Upstream) -> Result<Look, LookError> {
        self.core.look(upstream).await
    }

    async fn result(&self, upstream: &Upstream) -> Result<Answer, LookError> {
        self.core.result(upstream).await
    }

    async fn answer(&self, upstream: &Upstream, back_key: &str, reply: &Reply) -> Result<(), LookError> {
        self.core.answer(upstream, back_key, reply).await
    }

    fn visits(&self, error: &Bytes) -> Vec<Visit> {
        let urls = errors::url_elicitations(std::str::from_utf8(error).unwrap_or_default());
        let visits = urls.iter().map(|url| {
            let question = question::read("elicitation/create", Some(url), None).ok()?;
            let id = question::elicitation_id(&question)?;
            let is_url = question.kind == QuestionKind::Url;
            is_url.then(|| Visit { question, over: Box::pin(visited(self.notices(), id)) })
        });
        // One that cannot be heard of would be waited for in vain.
        visits.collect::<Option<_>>().unwrap_or_default()
    }

    fn agrees(&self, reply: &Reply) -> bool {
        match reply {
            Reply::Result(result) => {
                let text = std::str::from_utf8(result).unwrap_or_default();
                json::at(text, &["action"]).and_then(json::string).is_some_and(|action| action == "accept")
            }
            Reply::Error { .. } => false,
        }
    }

    async fn cancel(&self, upstream: &Upstream) -> Result<(), LookError> {
        self.core.cancel_task(upstream).await
    }

    fn ended(&self) -> Option<Ended> {
        self.core.process_ended()
    }
}

/// Resolves when the server announces that what was to be done at a URL is done.
async fn visited(mut notices: broadcast::Receiver<Notice>, elicitation_id: String) {
    loop {
        match notices.recv().await {
            Ok(Notice::ElicitationComplete(params)) => {
                let text = std::str::from_utf8(&params).unwrap_or_default();
                let id = json::at(text, &["elicitationId"]).and_then(json::string);
                if id.is_some_and(|id| id == elicitation_id) {
                    return;
                }
            }
            Ok(
                Notice::ToolsChanged
                | Notice::PromptsChanged
                | Notice::ResourcesChanged
                | Notice::ResourceUpdated(_)
                | Notice::Log(_),
            )
            | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Core {
    pub(crate) fn unreachable(&self, reason: String) -> Unreachable {
        Unreachable { server: self.config.name.0.clone(), reason: self.voice.hide(reason) }
    }

    pub(crate) async fn tool_table(&self) -> Result<Arc<ToolTable>, Unreachable> {
        if let Some(table) = self.fresh_tools() {
            return Ok(table);
        }
        let _turn = self.fetching.lock().await;
        if let Some(table) = self.fresh_tools() {
            return Ok(table);
        }
        self.traffic.take_tools_changed();
        let (table, kept) = self.fetch_tools().await.map_err(|reason| self.unreachable(reason))?;
        let table = Arc::new(table);
        self.learned.lock().clear();
        *self.tools.lock() = Some((table.clone(), Instant::now() + kept));
        Ok(table)
    }

    fn fresh_tools(&self) -> Option<Arc<ToolTable>> {
        if self.traffic.are_tools_changed() {
            return None;
        }
        let tools = self.tools.lock();
        tools.as_ref().filter(|(_, until)| Instant::now() < *until).map(|(table, _)| table.clone())
    }

    /// All pages (A-080, B-155), and how long they are believed.
    async fn fetch_tools(&self) -> Result<(ToolTable, Duration), String> {
        let mut table = ToolTable::default();
        let mut kept = if self.is_modern() { Duration::MAX } else { LIST_KEPT };
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let params = cursor.as_ref().map(|cursor| format!("{{\"cursor\":{}}}", string_literal(cursor)));
            let ask = Ask {
                sort: Sort::Other,
                ..Ask::read("tools/list", params.as_deref(), self.config.open_timeout)
            };
            let result = match self.ask(ask).await.heard {
                Heard::Result(result) => result,
                // A server without tools.
                Heard::Error(error) if read_error(&error).code == code::METHOD_NOT_FOUND => break,
                Heard::Error(error) => {
                    let error = read_error(&error);
                    let words = taskgate_wire::text::SafeText::status(&error.message);
                    return Err(format!("it answered tools/list with error {}: {words}", error.code));
                }
                Heard::NeverSent(why) | Heard::Lost(why) | Heard::Nonsense(why) => return Err(why),
                Heard::Refused(status) => return Err(format!("it answered tools/list with HTTP {status}")),
                Heard::SessionGone => return Err(String::from("its session is gone")),
            };
            let text = std::str::from_utf8(&result).unwrap_or_default();
            for tool in
                read_tools(text).map_err(|error| format!("its list of tools cannot be read: {error}"))?
            {
                match tool.marks_fault().filter(|_| self.manifest().mirrors) {
                    None => table.add(&tool),
                    Some(fault) => {
                        let tool = taskgate_wire::text::SafeText::new(&tool.name, 80);
                        tracing::warn!(server = %self.config.name, %tool, fault, "a tool is left out");
                    }
                }
            }
            if self.is_modern() {
                kept = kept.min(Duration::from_millis(Cache::read(text).ttl.0).max(LIST_KEPT_MIN));
            }
            // An empty cursor is a cursor; only its absence is the end (B-155).
            cursor = json::at(text, &["nextCursor"]).and_then(json::string).map(String::from);
            if cursor.is_none() {
                return Ok((table, kept.min(LIST_KEPT.max(LIST_KEPT_MIN))));
            }
        }
        Ok((table, LIST_KEPT_MIN))
    }
}
