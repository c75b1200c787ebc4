//! A server's own tasks: read, watched, answered, cancelled, in either dialect.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use taskgate_core::gate::BackTasks;
use taskgate_core::operation::Upstream;
use taskgate_core::task::QuestionKind;
use taskgate_engine::back::{Answer, BackEvent, Look, LookError, Reply, Stand};
use taskgate_wire::answer::{self, Refused};
use taskgate_wire::dialect::{self, BackTask, Status};
use taskgate_wire::json::{self, Object};
use taskgate_wire::rpc_error::code;
use taskgate_wire::splice::{Edit, splice};
use taskgate_wire::text::SafeText;
use taskgate_wire::{RpcError, result};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::core::{Ask, Core, Said};
use crate::heard::{Heard, Spoken};
use crate::opening::read_error;
use crate::traffic::Sort;

/// Characters of a timestamp that are kept.
const STAMP_CHARS: usize = 64;

/// What a task says of itself. `text` is the object that it was read from.
pub(crate) fn look_of(task: BackTask, text: &str, dialect: BackTasks) -> Result<Look, String> {
    let updated = json::at(text, &["lastUpdatedAt"]).and_then(json::string);
    let stand = match (task.status, dialect) {
        (Status::Working, _) => Stand::Working,
        (Status::InputRequired, _) => Stand::InputRequired,
        (Status::Cancelled, _) => Stand::Cancelled,
        (Status::Completed | Status::Failed, BackTasks::A | BackTasks::None) => Stand::Over,
        (Status::Completed, BackTasks::B) => match task.result {
            Some(result) => {
                let is_error = std::str::from_utf8(&result).is_ok_and(result::is_error);
                Stand::Ended(Box::new(Answer::Returned { result, is_error }))
            }
            // B-068: a creation shows no outcome yet; the next look does.
            None => Stand::Working,
        },
        (Status::Failed, BackTasks::B) => match task.error {
            Some(error) => {
                let code = read_error(&error).code;
                Stand::Ended(Box::new(Answer::Raised { code, error }))
            }
            None => Stand::Working,
        },
    };
    Ok(Look {
        stand,
        message: task.message.map(SafeText::into_string),
        last_updated_at: updated.map(|stamp| SafeText::new(&stamp, STAMP_CHARS).into_string()),
        poll: task.poll,
        questions: task.inputs,
    })
}

impl Core {
    pub(crate) async fn look(&self, upstream: &Upstream) -> Result<Look, LookError> {
        let said = self.ask_about(upstream, "tasks/get").await;
        let result = self.result_of(said)?;
        let text = std::str::from_utf8(&result).unwrap_or_default();
        let dialect = self.dialect();
        let read = match dialect {
            BackTasks::B => dialect::b::read_task(&result),
            BackTasks::A | BackTasks::None => dialect::a::read_task(text),
        };
        let look = read
            .map_err(|fault| fault.to_string())
            .and_then(|task| {
                if task.id == upstream.task_id {
                    look_of(task, text, dialect)
                } else {
                    Err(String::from("it answered with another task than the one it was asked about"))
                }
            })
            .map_err(|why| LookError::Nonsense(self.named(&why)))?;
        match look.stand {
            Stand::Working | Stand::InputRequired => self.task_seen(&upstream.task_id),
            // The result of a dialect A task is still to be fetched.
            Stand::Over => self.task_seen(&upstream.task_id),
            Stand::Ended(_) | Stand::Cancelled => self.task_over(&upstream.task_id),
        }
        Ok(look)
    }

    /// A final task's result.
    pub(crate) async fn result(&self, upstream: &Upstream) -> Result<Answer, LookError> {
        let said = self.ask_about(upstream, "tasks/result").await;
        let answer = match said.heard.spoken().map_err(|heard| self.trouble(heard))? {
            Spoken::Result(result) => {
                self.task_result(upstream, &result).await.map_err(LookError::Nonsense)?
            }
            Spoken::Error(error) => {
                let read = read_error(&error);
                match about_task(&read) {
                    // pmcp says so of a task that failed, too (against A-060).
                    // Leniency: failure-not-completed
                    About::NotYet => match self.failure(upstream).await {
                        Some(words) => raised(words),
                        None => return Err(LookError::Transient(self.named("it has no result yet"))),
                    },
                    About::Unknown => {
                        self.task_over(&upstream.task_id);
                        return Err(LookError::UnknownTask);
                    }
                    About::TheCall => Answer::Raised { code: read.code, error },
                }
            }
        };
        self.task_over(&upstream.task_id);
        Ok(answer)
    }

    /// Holds `tasks/result` open.
    pub(crate) async fn hold_result(
        self: Arc<Self>,
        upstream: Upstream,
        events: mpsc::UnboundedSender<BackEvent>,
        stop: CancellationToken,
    ) -> Answer {
        let _watch = self.traffic.watch(self.traffic.next_id(), &upstream.task_id, events.clone());
        if !self.holds_results.load(Ordering::Relaxed) {
            return self.only_watch(&stop).await;
        }
        let params = dialect::params(&upstream.task_id);
        let ask = Ask {
            sort: Sort::Other,
            patience: None,
            events: Some(events),
            session: upstream.session.as_deref().map(Arc::from),
            stop: Some(&stop),
            ..Ask::read("tasks/result", Some(&params), self.config.read_timeout)
        };
        // Dropping an open stream is allowed at any time; on a pipe the request is cancelled.
        let said = tokio::select! {
            said = self.ask(ask) => said,
            () = stopped_over_http(&self, &stop) => {
                return Answer::Lost(self.named("its task is no longer watched"));
            }
        };
        match said.heard {
            Heard::Result(result) => match self.task_result(&upstream, &result).await {
                Ok(answer) => {
                    self.task_over(&upstream.task_id);
                    answer
                }
                Err(why) => Answer::Nonsense(why),
            },
            Heard::Error(error) => {
                let read = read_error(&error);
                match (about_task(&read), read.code) {
                    (About::NotYet, _) => {
                        // It does not hold results back until they are there. What it asked meanwhile stays asked.
                        self.holds_results.store(false, Ordering::Relaxed);
                        self.only_watch(&stop).await
                    }
                    (About::Unknown, _) => Answer::Lost(self.named("it does not know its task")),
                    (About::TheCall, code::METHOD_NOT_FOUND) => {
                        Answer::Lost(self.named("it has no tasks/result"))
                    }
                    (About::TheCall, code) => {
                        self.task_over(&upstream.task_id);
                        Answer::Raised { code, error }
                    }
                }
            }
            Heard::NeverSent(why) | Heard::Lost(why) => Answer::Lost(self.named(&why)),
            Heard::Nonsense(why) => Answer::Nonsense(self.named(&why)),
            Heard::Refused(status) => Answer::Lost(self.named(&format!("it answered HTTP {status}"))),
            Heard::SessionGone => Answer::Lost(self.named("its session is gone")),
        }
    }

    /// What the server says of the task arrives; the rest is found by polling.
    async fn only_watch(&self, stop: &CancellationToken) -> Answer {
        tokio::select! {
            () = stop.cancelled() => Answer::Lost(self.named("its task is no longer watched")),
            () = self.ended() => Answer::Lost(self.named("its process is gone")),
        }
    }

    /// Listens for pushes about one task (B-106 to B-112). Ends when the server ends it, or offers none.
    pub(crate) async fn listen_task(
        self: Arc<Self>,
        upstream: Upstream,
        events: mpsc::UnboundedSender<BackEvent>,
        stop: CancellationToken,
    ) -> Answer {
        let _watch = self.traffic.watch(self.traffic.next_id(), &upstream.task_id, events.clone());
        let params = dialect::b::listen_params(&[&upstream.task_id]);
        let ask = Ask {
            patience: None,
            events: Some(events),
            stop: Some(&stop),
            ..Ask::read("subscriptions/listen", Some(&params), self.config.read_timeout)
        };
        let said = self.ask(ask).await;
        if let Heard::Error(_) | Heard::Refused(_) | Heard::Nonsense(_) = said.heard {
            // Not offered, or not for tasks: polling does.
            self.pushes_tasks.store(false, Ordering::Relaxed);
        }
        Answer::Lost(self.named("it no longer tells of its task by itself"))
    }

    /// Answers one question of a dialect B task (B-088). A refusal that has no form there is not sent (B-147).
    pub(crate) async fn answer(
        &self,
        upstream: &Upstream,
        back_key: &str,
        reply: &Reply,
    ) -> Result<(), LookError> {
        let answer = match reply {
            Reply::Result(result) => answer::for_b(std::str::from_utf8(result).unwrap_or("{}")),
            Reply::Error { code, message } => {
                let error = RpcError::new(*code, message.clone()).to_json();
                // Which kind it was is not known here; only an elicitation can be refused in words.
                match answer::from_error(QuestionKind::Form, &error) {
                    Refused::Answer(text) => Bytes::from_static(text.as_bytes()),
                    Refused::NoAnswer(_) => return Ok(()),
                }
            }
        };
        let params = dialect::b::update_params(&upstream.task_id, &[(back_key.to_owned(), answer)]);
        let said = self.ask(Ask {
            name: Some(&upstream.task_id),
            ..Ask::read("tasks/update", Some(&params), self.config.read_timeout)
        });
        self.result_of(said.await).map(drop)
    }

    /// Passes a cancellation on.
    pub(crate) async fn cancel_task(&self, upstream: &Upstream) -> Result<(), LookError> {
        if !self.manifest().has_cancel {
            return Ok(());
        }
        let said = self.ask_about(upstream, "tasks/cancel").await;
        match said.heard.spoken().map_err(|heard| self.trouble(heard))? {
            Spoken::Result(_) => Ok(()),
            // Final already, or gone; both are as good as cancelled here.
            Spoken::Error(error) => match read_error(&error).code {
                code::INVALID_PARAMS | code::METHOD_NOT_FOUND => Ok(()),
                _ => Err(self.trouble(Heard::Error(error))),
            },
        }
    }

    async fn ask_about(&self, upstream: &Upstream, method: &'static str) -> Said {
        let params = dialect::params(&upstream.task_id);
        self.ask(Ask {
            name: Some(&upstream.task_id),
            session: upstream.session.as_deref().map(Arc::from),
            ..Ask::read(method, Some(&params), self.config.read_timeout)
        })
        .await
    }

    fn dialect(&self) -> BackTasks {
        if self.is_modern() { BackTasks::B } else { BackTasks::A }
    }

    async fn task_result(&self, upstream: &Upstream, result: &Bytes) -> Result<Answer, String> {
        let text = std::str::from_utf8(result).unwrap_or_default();
        let Ok(object) = Object::parse(text) else {
            return Err(self.named("its result is no object"));
        };
        let is_error = result::is_error(text);
        if object.get("content").is_some() {
            return Ok(Answer::Returned { is_error, result: result::canonical(result) });
        }
        // Python mcp 1.30 keeps no result of a task that failed; only its status says so, and why.
        // Leniency: failure-without-result
        if let Some(words) = self.failure(upstream).await {
            return Ok(raised(words));
        }
        let whole = splice(text, &[Edit::set(&["content"], "[]")]).unwrap_or_else(|_| result.clone());
        Ok(Answer::Returned { is_error, result: result::canonical(&whole) })
    }

    /// What a task says of its failure, if it failed.
    async fn failure(&self, upstream: &Upstream) -> Option<Option<String>> {
        let said = self.ask_about(upstream, "tasks/get").await;
        let status = self.result_of(said).ok()?;
        let task = dialect::a::read_task(std::str::from_utf8(&status).unwrap_or_default()).ok()?;
        (task.status == Status::Failed).then(|| task.message.map(SafeText::into_string))
    }

    fn result_of(&self, said: Said) -> Result<Bytes, LookError> {
        match said.heard.spoken().map_err(|heard| self.trouble(heard))? {
            Spoken::Result(result) => Ok(result),
            Spoken::Error(error) => match about_task(&read_error(&error)) {
                About::Unknown => Err(LookError::UnknownTask),
                About::NotYet | About::TheCall => {
                    if read_error(&error).code == code::INVALID_PARAMS {
                        return Err(LookError::UnknownTask);
                    }
                    Err(self.trouble(Heard::Error(error)))
                }
            },
        }
    }

    fn trouble(&self, heard: Heard) -> LookError {
        match heard {
            // The tasks of a process die with it: no later look can find one.
            Heard::NeverSent(_) | Heard::Lost(_) if self.is_gone() => LookError::UnknownTask,
            Heard::NeverSent(why) | Heard::Lost(why) => LookError::Transient(self.named(&why)),
            Heard::Nonsense(why) => LookError::Nonsense(self.named(&why)),
            Heard::Refused(status) => LookError::Transient(self.named(&format!("it answered HTTP {status}"))),
            Heard::SessionGone => LookError::Transient(self.named("its session is gone")),
            Heard::Error(error) => {
                let error = read_error(&error);
                let words =
                    format!("it answered with error {}: {}", error.code, SafeText::status(&error.message));
                match error.code {
                    code::METHOD_NOT_FOUND => LookError::Nonsense(self.named(&words)),
                    _ => LookError::Transient(self.named(&words)),
                }
            }
            Heard::Result(_) => LookError::Nonsense(self.named("it answered what makes no sense")),
        }
    }

    fn is_gone(&self) -> bool {
        match &self.link {
            crate::link::Link::Pipe(process) => process.is_gone(),
            crate::link::Link::Http(_) => false,
        }
    }

    async fn ended(&self) {
        match &self.link {
            crate::link::Link::Pipe(process) => process.ended().await,
            crate::link::Link::Http(_) => std::future::pending().await,
        }
    }
}

async fn stopped_over_http(core: &Core, stop: &CancellationToken) {
    match &core.link {
        crate::link::Link::Pipe(_) => std::future::pending().await,
        crate::link::Link::Http(_) => stop.cancelled().await,
    }
}

/// The error of a task of which no more is known than what its status says.
fn raised(words: Option<String>) -> Answer {
    let error =
        RpcError::internal(words.as_deref().unwrap_or("The task failed, and its server does not say why"));
    Answer::Raised { code: error.code, error: error.to_json().into() }
}

/// What an error in answer to `tasks/*` is about. The codes do not tell: `-32602` is an unknown task, a result that
/// is not there yet (FastMCP 2 and 3), and what the underlying call may have been answered with; pmcp has `-32603` for
/// an unknown task.
///
/// Leniency: unheld-result
/// Leniency: unknown-task-in-words
enum About {
    Unknown,
    NotYet,
    TheCall,
}

fn about_task(error: &RpcError) -> About {
    let said = error.message.to_ascii_lowercase();
    if said.contains("not completed") || said.contains("not complete yet") || said.contains("still running") {
        return About::NotYet;
    }
    let is_of_task = said.contains("task");
    let is_unknown = ["not found", "unknown", "expired", "no such", "does not exist", "no longer"]
        .iter()
        .any(|word| said.contains(word));
    if is_of_task && is_unknown && error.code != code::METHOD_NOT_FOUND {
        About::Unknown
    } else {
        About::TheCall
    }
}
