//! `tools/call`: in the form that was asked for, once more in the other form if that was refused, and what the
//! answer means.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use taskgate_core::gate::{Asking, BackTasks, TaskSupport};
use taskgate_core::operation::Upstream;
use taskgate_engine::back::{Accepted, Answer, BackEvent, Outgoing};
use taskgate_wire::dialect::{self, BackTask};
use taskgate_wire::json::{self, Object};
use taskgate_wire::meta::{META, TASKS_EXTENSION};
use taskgate_wire::offers::Offers;
use taskgate_wire::rpc_error::code;
use taskgate_wire::text::SafeText;
use taskgate_wire::{RpcError, header, mrtr, result};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::Sharing;
use crate::core::{Ask, Core, IDEMPOTENCY_KEY, Said};
use crate::heard::Heard;
use crate::http::{Care, Mirrored, Trace};
use crate::opening::read_error;
use crate::tasks::look_of;
use crate::traffic::Sort;

/// What an exchange of ours has beside the call itself.
pub(crate) struct Line {
    /// Where what the server says before the end goes.
    pub(crate) events: mpsc::UnboundedSender<BackEvent>,
    /// Cancelled when nobody waits any more.
    pub(crate) stop: CancellationToken,
    /// Learns over which connections it goes.
    pub(crate) trace: Arc<Trace>,
}

/// Makes the call and gives its end.
pub(crate) async fn call(core: Arc<Core>, call: Outgoing, line: Line) -> Answer {
    let stop = &line.stop;
    let form = core.form(&call.tool, call.asking);
    let said = core.send_call(&call, form, &line, Vec::new()).await;
    let answer = match core.other_form(&call.tool, form, &said.heard) {
        Some(other) => {
            tracing::debug!(server = core.config.name.0, "a call is repeated in the other form");
            let again = core.send_call(&call, other, &line, Vec::new()).await;
            if core.other_form(&call.tool, other, &again.heard).is_some() || !is_heard(&again.heard) {
                // It was not the form: the first refusal says what it was. Neither was carried out.
                let first = core.judge(form, said, true);
                if is_heard(&again.heard) { first } else { core.judge(other, again, true) }
            } else {
                core.learn(&call.tool, other);
                core.judge(other, again, false)
            }
        }
        None => match core.mirroring_headers(&call, &said.heard).await {
            Some(headers) => {
                let again = core.send_call(&call, form, &line, headers).await;
                core.judge(form, again, false)
            }
            None => core.judge(form, said, false),
        },
    };
    if let Answer::Task(accepted) = &answer {
        core.task_seen(&accepted.upstream.task_id);
        if stop.is_cancelled() {
            // the id is known only now.
            let _ = core.cancel_task(&accepted.upstream).await;
        }
    }
    answer
}

fn is_heard(heard: &Heard) -> bool {
    match heard {
        Heard::Result(_) | Heard::Error(_) => true,
        Heard::NeverSent(_)
        | Heard::Lost(_)
        | Heard::Nonsense(_)
        | Heard::Refused(_)
        | Heard::SessionGone => false,
    }
}

impl Core {
    /// The form that the session and what was learned allow. A back without tasks is never sent an augmentation
    ///
    fn form(&self, tool: &str, asking: Asking) -> Asking {
        let tasks = self.manifest().tasks;
        let learned = self.learned.lock().get(tool).copied();
        match (tasks, asking, learned) {
            (BackTasks::None, _, _) => Asking::Held,
            (BackTasks::A, Asking::Held, Some(TaskSupport::Required)) => Asking::Augmented,
            (BackTasks::A, Asking::Held, _) => Asking::Held,
            (BackTasks::A, Asking::Augmented | Asking::Directed, Some(TaskSupport::Forbidden)) => {
                Asking::Held
            }
            (BackTasks::A, Asking::Augmented | Asking::Directed, _) => Asking::Augmented,
            (BackTasks::B, Asking::Held, Some(TaskSupport::Required)) => Asking::Directed,
            (BackTasks::B, Asking::Held, _) => Asking::Held,
            (BackTasks::B, Asking::Augmented | Asking::Directed, _) => Asking::Directed,
        }
    }

    fn learn(&self, tool: &str, works: Asking) {
        let support = match works {
            Asking::Held => TaskSupport::Forbidden,
            Asking::Augmented | Asking::Directed => TaskSupport::Required,
        };
        self.learned.lock().insert(tool.to_owned(), support);
        // what the list said of it is out of date.
        *self.tools.lock() = None;
    }

    /// The form to try, if `heard` is a refusal of this one (E-004, X-004, Q-002).
    fn other_form(&self, tool: &str, form: Asking, heard: &Heard) -> Option<Asking> {
        let tasks = self.manifest().tasks;
        let error = match heard {
            Heard::Error(error) => read_error(error),
            Heard::Result(result) if form == Asking::Held && tasks == BackTasks::A => {
                // server-everything says it in a tool result.
                // Leniency: refusal-in-text
                let text = std::str::from_utf8(result).unwrap_or_default();
                let says_so = result::is_error(text)
                    && result::first_text(text)
                        .is_some_and(|said| said.starts_with("MCP error -32601") && said.contains("task"));
                return says_so.then_some(Asking::Augmented);
            }
            Heard::Result(_)
            | Heard::NeverSent(_)
            | Heard::Lost(_)
            | Heard::Nonsense(_)
            | Heard::Refused(_)
            | Heard::SessionGone => return None,
        };
        match (form, tasks, error.code) {
            (Asking::Held, BackTasks::A, code::METHOD_NOT_FOUND | code::INVALID_REQUEST) => {
                Some(Asking::Augmented)
            }
            // B-061
            (Asking::Held, BackTasks::B, code::MISSING_CLIENT_CAPABILITY) => {
                let wanted = error.data.as_deref().and_then(|data| {
                    json::at(data, &["requiredCapabilities", "extensions", TASKS_EXTENSION])
                });
                wanted.map(|_| Asking::Directed)
            }
            (Asking::Augmented, _, code::METHOD_NOT_FOUND | code::INVALID_REQUEST | code::INVALID_PARAMS) => {
                // Leniency: refusal-as-invalid. -32602 may be about the arguments; then the plain call is refused alike. Not where the tool is
                // known to take nothing but tasks.
                (self.known_support(tool) != Some(TaskSupport::Required)).then_some(Asking::Held)
            }
            (Asking::Held | Asking::Augmented | Asking::Directed, _, _) => None,
        }
    }

    fn known_support(&self, tool: &str) -> Option<TaskSupport> {
        let table = self.tools.lock().as_ref().map(|(table, _)| table.clone());
        table.and_then(|table| table.get(tool).map(|facts| facts.support))
    }

    async fn send_call(&self, call: &Outgoing, form: Asking, line: &Line, headers: Mirrored) -> Said {
        let stop = &line.stop;
        // Augmented calls name their task when they ask; only the others need to be alone (design 5).
        let _turn = match (&self.lane, form) {
            (Some(lane), Asking::Held | Asking::Directed) => {
                let turn = async {
                    self.traffic.clear().await;
                    if lane.is_for_all || self.traffic.is_asking(&call.tool) {
                        lane.turn.clone().acquire_owned().await.ok()
                    } else {
                        None
                    }
                };
                tokio::select! {
                    turn = turn => turn,
                    () = stop.cancelled() => {
                        let heard = Heard::NeverSent(String::from("it was stopped before its turn"));
                        return Said { id: 0, heard, session: None };
                    }
                }
            }
            (Some(_), Asking::Augmented) | (None, _) => None,
        };
        let headers = if headers.is_empty() { self.known_mirroring(call) } else { headers };
        let round = call.round.as_ref();
        let responses = round
            .filter(|round| !round.responses.is_empty())
            .map(|round| mrtr::answers_json(&round.responses));
        let state =
            round.and_then(|round| round.state.as_ref()).and_then(|state| std::str::from_utf8(state).ok());
        let is_augmented = form == Asking::Augmented;
        self.ask(Ask {
            method: "tools/call",
            params: std::str::from_utf8(&call.params).ok(),
            name: Some(&call.tool),
            sort: if is_augmented { Sort::Augmented } else { Sort::Call },
            declares_tasks: form == Asking::Directed,
            wants_progress: true,
            offers: self.own_offers(&call.offers),
            is_foreign: false,
            task_ttl: is_augmented.then_some(call.ttl),
            key: call.key.as_deref(),
            responses,
            state,
            headers,
            key_header: self.key_header(call),
            care: Care::Once,
            patience: is_augmented.then_some(self.config.open_timeout),
            events: Some(line.events.clone()),
            session: None,
            // an augmented call is not cancelled; its task is, once its id is known.
            stop: (!is_augmented).then_some(stop),
            trace: Some(line.trace.clone()),
        })
        .await
    }

    /// The header for the idempotency key, where the server takes one.
    fn key_header(&self, call: &Outgoing) -> Option<(String, String)> {
        let name = self.config.key_headers.get(&call.tool)?;
        let carried = || {
            let params = std::str::from_utf8(&call.params).ok()?;
            json::at(params, &[META, IDEMPOTENCY_KEY]).and_then(json::string).map(Cow::into_owned)
        };
        Some((name.clone(), call.key.clone().or_else(carried)?))
    }

    /// What is said of the caller, where a modern server's session is used by several who can be asked different things.
    fn own_offers(&self, offers: &str) -> Option<Offers> {
        let is_shared = match self.config.sharing {
            Sharing::First => self.is_modern(),
            Sharing::Apart | Sharing::Nobody => false,
        };
        is_shared.then(|| Offers::from_stored(offers)).filter(|offers| offers != self.traffic.offers())
    }

    /// The headers for mirrored arguments, if the tool's schema is at hand (B-045).
    fn known_mirroring(&self, call: &Outgoing) -> Mirrored {
        let table = self.tools.lock().as_ref().map(|(table, _)| table.clone());
        let schema = table.and_then(|table| table.get(&call.tool).and_then(|facts| facts.mirroring.clone()));
        let Some(schema) = schema.filter(|_| self.is_modern()) else { return Vec::new() };
        let params = std::str::from_utf8(&call.params).unwrap_or("{}");
        let headers = header::for_arguments(&schema, json::at(params, &["arguments"]));
        headers.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect()
    }

    /// A modern server that misses a mirrored argument refused the call unread: learn the schema, then say it right.
    async fn mirroring_headers(&self, call: &Outgoing, heard: &Heard) -> Option<Mirrored> {
        let Heard::Error(error) = heard else { return None };
        if !self.is_modern() || read_error(error).code != code::HEADER_MISMATCH {
            return None;
        }
        *self.tools.lock() = None;
        self.tool_table().await.ok()?;
        let headers = self.known_mirroring(call);
        (!headers.is_empty()).then_some(headers)
    }

    /// What the end of the exchange means. `is_refusal`: both forms were refused, so a result that says so in
    /// words is an error all the same.
    fn judge(&self, form: Asking, said: Said, is_refusal: bool) -> Answer {
        let result = match said.heard {
            Heard::Result(result) => result,
            Heard::Error(error) => {
                let code = read_error(&error).code;
                return Answer::Raised { code, error };
            }
            Heard::NeverSent(why) => return Answer::NeverSent(self.named(&why)),
            Heard::Lost(why) => return Answer::Lost(self.named(&why)),
            Heard::Nonsense(why) => return Answer::Nonsense(self.named(&why)),
            Heard::Refused(status) => return self.refused(status),
            Heard::SessionGone => return self.refused(404),
        };
        let Ok(text) = std::str::from_utf8(&result) else {
            return Answer::Nonsense(self.named("its result is not UTF-8"));
        };
        let Ok(object) = Object::parse(text) else {
            return Answer::Nonsense(self.named("its result is no object"));
        };
        if self.is_modern() {
            return self.judge_modern(form, &result, text, &object);
        }
        // A server that ignores `task` gives a plain result. One that makes a task unasked breaks A-018,
        // but with no content beside it, it can only be that.
        let may_be_task = form == Asking::Augmented
            || (self.manifest().tasks == BackTasks::A && !is_refusal && object.get("content").is_none());
        if may_be_task {
            match dialect::a::read_create(text) {
                Ok(Some(task)) => {
                    return self.accepted(task, said.id, said.session.as_deref(), text, BackTasks::A);
                }
                Ok(None) => {}
                Err(fault) => return Answer::Nonsense(self.named(&fault.to_string())),
            }
        }
        if let Some(kind) = object.get("resultType").map(json::string)
            && kind.as_deref() != Some("complete")
            && object.get("content").is_none()
        {
            // The shape of another version (rmcp 3.11 has it for clients that declare the extension in 2025-11-25).
            return self.not_agreed(kind.as_deref());
        }
        self.returned(&result, &object)
    }

    /// B-058, B-012, G-025
    fn not_agreed(&self, kind: Option<&str>) -> Answer {
        let kind = SafeText::new(kind.unwrap_or_default(), 40);
        Answer::Nonsense(self.named(&format!("its result is of type {kind}, which was not agreed on")))
    }

    fn returned(&self, result: &Bytes, object: &Object<'_>) -> Answer {
        let is_task = object.object("task").is_some() || object.get("taskId").is_some();
        if is_task && object.get("content").is_none() && object.get("structuredContent").is_none() {
            let why = "it answered with a task where none was agreed on, or in the shape of another version";
            return Answer::Nonsense(self.named(why));
        }
        let is_error = object.bool("isError") == Some(true);
        Answer::Returned { result: result::canonical_of(result, object), is_error }
    }

    fn judge_modern(&self, form: Asking, result: &Bytes, text: &str, object: &Object<'_>) -> Answer {
        match object.get("resultType").map(json::string) {
            None => self.returned(result, object),
            Some(Some(kind)) if kind == "complete" => self.returned(result, object),
            Some(Some(kind)) if kind == "input_required" => match mrtr::read(text) {
                Ok(input) => Answer::InputRequired {
                    questions: input.questions,
                    state: object.get("requestState").map(|state| result.slice_ref(state.as_bytes())),
                },
                Err(fault) => Answer::Nonsense(self.named(&fault.to_string())),
            },
            Some(Some(kind)) if kind == "task" && form == Asking::Directed => {
                match dialect::b::read_create(text) {
                    Ok(task) => self.accepted(task, 0, None, text, BackTasks::B),
                    Err(fault) => Answer::Nonsense(self.named(&fault.to_string())),
                }
            }
            Some(kind) => self.not_agreed(kind.as_deref()),
        }
    }

    fn accepted(
        &self,
        task: BackTask,
        token: u64,
        session: Option<&str>,
        text: &str,
        dialect: BackTasks,
    ) -> Answer {
        if dialect == BackTasks::A {
            self.traffic.became_task(token, &task.id);
        }
        let upstream = Upstream { task_id: task.id.clone(), session: session.map(String::from) };
        let nested = match dialect {
            BackTasks::A => json::at(text, &["task"]).unwrap_or(text),
            BackTasks::B | BackTasks::None => text,
        };
        match look_of(task, nested, dialect) {
            Ok(look) => Answer::Task(Accepted { upstream, look }),
            Err(why) => Answer::Nonsense(self.named(&why)),
        }
    }

    /// An HTTP refusal with nothing in it that says more, as an error.
    fn refused(&self, status: u16) -> Answer {
        let error = self.refusal(status);
        Answer::Raised { code: error.code, error: Bytes::from(error.to_json()) }
    }

    pub(crate) fn refusal(&self, status: u16) -> RpcError {
        RpcError::internal(self.named(&format!("it answered HTTP {status}")))
            .with_data(format!("{{\"httpStatus\":{status}}}"))
    }

    /// Words with the server's name before them, and without our secrets.
    pub(crate) fn named(&self, why: &str) -> String {
        format!("server {:?}: {}", self.config.name.0, self.voice.hide(why.to_owned()))
    }
}
