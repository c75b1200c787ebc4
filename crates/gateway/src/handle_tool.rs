//! The tool `taskgate_task`, by which a client without tasks follows a call that goes on (design 3).

use std::borrow::Cow;

use bytes::Bytes;
use taskgate_core::id::{Principal, TaskId};
use taskgate_core::task::{CancelRule, Ending, Question, QuestionKey, QuestionKind};
use taskgate_engine::Handle;
use taskgate_engine::back::Reply as Answer;
use taskgate_engine::engine::Answered;
use taskgate_store::record::Record;
use taskgate_store::summary::Summary;
use taskgate_wire::answer;
use taskgate_wire::dialect::{View, a, fault_error};
use taskgate_wire::json::{self, Object, string_literal};
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::text::SafeText;
use taskgate_wire::time;
use taskgate_wire::version::Version;

use crate::calls::Start;
use crate::dispatch::{Exchange, Failure, Via, text};
use crate::follow::{self, Follow, Known};
use crate::gateway::Gateway;
use crate::initialize::OWN_INFO;
use crate::pages::pages;
use crate::reply::{Reply, delivered};
use crate::results::{self, Tool};
use crate::tasks_a;
use crate::view::{outline, view};
use crate::wait::JOINED;

/// Its name. A server's tool of the same name is hidden where ours is shown.
pub(crate) const NAME: &str = "taskgate_task";

/// Characters of a question that are repeated in words; the rest is in the structured part.
const QUESTION_CHARS_MAX: usize = 500;

/// What is to be thought of a call of it.
const ANNOTATIONS: &str = ",\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":false,\"idempotentHint\":true,\
\"openWorldHint\":false}";

/// Its entry in `tools/list`.
pub(crate) fn definition(version: Version, principal: &Principal) -> String {
    let (actions, list) = if principal.is_shared() {
        ("\"wait\",\"result\",\"answer\",\"cancel\"", "")
    } else {
        ("\"wait\",\"result\",\"answer\",\"cancel\",\"list\"", "; list shows your tasks")
    };
    let title = if version.has_titles() { ",\"title\":\"Follow a long-running call\"" } else { "" };
    let annotations = if version.has_tool_annotations() { ANNOTATIONS } else { "" };
    format!(
        "{{\"name\":\"{NAME}\"{title},\"description\":\"Follows a call that goes on in the background. Use it with the \
taskId that an earlier tool result gave. wait waits for the call to end and shows its result; result shows a long result \
page by page; answer answers a question that the call asks; cancel asks the call to stop{list}. Never repeat the \
original call while its task is unfinished.\",\"inputSchema\":{{\"type\":\"object\",\"properties\":{{\
\"action\":{{\"type\":\"string\",\"enum\":[{actions}],\"description\":\"What to do\"}},\
\"taskId\":{{\"type\":\"string\",\"description\":\"The task, for every action but list\"}},\
\"page\":{{\"type\":\"integer\",\"minimum\":1,\"description\":\"For result: which page, from 1\"}},\
\"key\":{{\"type\":\"string\",\"description\":\"For answer: the key of the question\"}},\
\"reply\":{{\"type\":\"object\",\"description\":\"For answer: the answer, for a form {{\\\"action\\\":\\\"accept\\\",\
\\\"content\\\":{{…}}}}, or with the action decline or cancel\"}},\
\"cursor\":{{\"type\":\"string\",\"description\":\"For list: where the next page begins\"}}}},\
\"required\":[\"action\"]}}{annotations}}}"
    )
}

/// What the tool says.
struct Said {
    result: Bytes,
    /// The task whose final result, or a page of it, is in it.
    delivers: Option<TaskId>,
}

impl From<Bytes> for Said {
    fn from(result: Bytes) -> Said {
        Said { result, delivers: None }
    }
}

/// What stands in for the result of a call that goes on.
pub(crate) fn stand_in(gateway: &Gateway, record: &Record, start: Start) -> Bytes {
    let id = record.id.expose();
    let mut words = match start {
        Start::Fresh => String::new(),
        // One that is over is not stood in for.
        Start::Joined | Start::Waiting => format!("{JOINED} "),
    };
    words.push_str(&format!(
        "The call of {} goes on in the background as task {id}. It has not failed; do not call the tool again. To wait \
for its result, call {NAME} with {{\"action\":\"wait\",\"taskId\":\"{id}\"}}.",
        SafeText::new(&record.call.tool, 80)
    ));
    words.push_str(&question_words(record));
    result(&[text_block(&words)], &structured(gateway, record, &[]), false)
}

/// A call of the tool.
pub(crate) async fn call(exchange: &Exchange, via: &Via) -> Result<Reply, Failure> {
    if let Via::Legacy(session) = via
        && session.version().has_tasks_a()
        && exchange.request.param("task").is_some_and(|task| !json::is_null(task))
    {
        // it is a short call by nature.
        return Err(RpcError::task_forbidden(NAME).into());
    }
    let arguments = exchange.request.param("arguments").unwrap_or("{}");
    let arguments =
        Object::parse(arguments).map_err(|_| RpcError::invalid_params("params.arguments is no object"))?;
    let said = match arguments.str("action").as_deref() {
        Some("list") => list(exchange, &arguments).await?.into(),
        Some(action @ ("wait" | "result" | "answer" | "cancel")) => {
            let action = action.to_owned();
            match find(exchange, &arguments).await? {
                Err(said) => said.into(),
                Ok(handle) => match action.as_str() {
                    "wait" => wait(exchange, via, handle).await?,
                    "result" => show_page(exchange, &handle.record(), &arguments),
                    "answer" => take_answer(exchange, &handle, &arguments).await?.into(),
                    _ => cancel(exchange, &handle).await?,
                },
            }
        }
        Some(_) | None => {
            let list = if exchange.principal.is_shared() { "" } else { ", list" };
            wrong(&format!("action is one of wait, result, answer, cancel{list}")).into()
        }
    };
    let reply = via.own_result(exchange.request.id(), &said.result, OWN_INFO);
    Ok(Reply { delivers: said.delivers.into_iter().collect(), ..reply })
}

/// The task that is meant. What cannot be one, is unknown or is someone else's is answered alike (G-015).
async fn find(exchange: &Exchange, arguments: &Object<'_>) -> Result<Result<Handle, Bytes>, Failure> {
    let unknown = || wrong("There is no such task: its taskId is wrong, or it has expired");
    let Some(id) = arguments.str("taskId") else { return Ok(Err(wrong("taskId is missing"))) };
    let Ok(id) = TaskId::parse(&id) else { return Ok(Err(unknown())) };
    match tasks_a::find_id(exchange, &id).await {
        Ok(handle) => Ok(Ok(handle)),
        Err(Failure::Ours(error)) if error == RpcError::unknown_task() => Ok(Err(unknown())),
        Err(failure) => Err(failure),
    }
}

/// Waits for the end, up to the sync budget. Questions that the client itself can be asked are asked on this call's
/// stream; others end the wait, since only the caller can answer them.
async fn wait(exchange: &Exchange, via: &Via, mut handle: Handle) -> Result<Said, Failure> {
    let gateway = &exchange.gateway;
    let limits = &gateway.config.limits;
    let until = exchange.sent.since + exchange.policy.sync_budget(limits).duration();
    let mut signals = handle.signals();
    let mut signals_open = true;
    let token = via.progress_token(&exchange.request);
    let mut waits = None;
    loop {
        let record = handle.record();
        if record.task.ending().is_some() {
            return Ok(end(gateway, &record).await);
        }
        if let Some(asked) = record.task.outstanding() {
            match via {
                Via::Legacy(session)
                    if asked.questions().values().all(|asked| session.negotiated.offers.takes(asked)) =>
                {
                    if waits.is_none() {
                        let follow = Follow::start(gateway, session, &handle, None, Known::AsHandle);
                        waits = Some(follow.wait_on(&exchange.outlet));
                    }
                }
                Via::Legacy(_) | Via::Modern(_) => return Ok(stand_in(gateway, &record, Start::Fresh).into()),
            }
        }
        tokio::select! {
            biased;
            _ = handle.changed() => {}
            () = tokio::time::sleep_until(until) => break,
            () = exchange.stopping.cancelled() => break,
            // Last, since a server may say more than there is time for.
            signal = signals.recv(), if signals_open => match signal {
                Ok(taskgate_engine::Signal::Progress(params)) => {
                    if let Some(token) = token {
                        exchange.outlet.send(follow::progress(&params, token, None));
                    }
                }
                Ok(taskgate_engine::Signal::Log(_) | taskgate_engine::Signal::Visited(_))
                | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => signals_open = false,
            },
        }
    }
    // It may have ended in this moment; then it does not "go on".
    let record = handle.record();
    Ok(match record.task.ending() {
        Some(_) => end(gateway, &record).await,
        None => stand_in(gateway, &record, Start::Fresh).into(),
    })
}

fn show_page(exchange: &Exchange, record: &Record, arguments: &Object<'_>) -> Said {
    let page = match arguments.get("page") {
        None | Some("null") => 1,
        Some(page) => match page.parse::<usize>() {
            Ok(page) if page >= 1 => page,
            Ok(_) | Err(_) => return wrong("page is a whole number from 1 on").into(),
        },
    };
    if record.task.ending().is_none() {
        return stand_in(&exchange.gateway, record, Start::Fresh).into();
    }
    show(&exchange.gateway, record, page)
}

/// A task that is over: what its call would have been answered by, or the first page of that.
async fn end(gateway: &Gateway, record: &Record) -> Said {
    match results::bounded(gateway, record, Tool::Listed).await {
        Cow::Borrowed(record) => show(gateway, record, 1),
        Cow::Owned(short) => match results::read::returned(&short) {
            Some(result) => Said { result, delivers: delivered(record) },
            None => show(gateway, record, 1),
        },
    }
}

/// A task that is over: the page of its result, or why there is none.
fn show(gateway: &Gateway, record: &Record, page: usize) -> Said {
    let error = match record.task.ending() {
        Some(Ending::Returned { result: whole, is_error }) => {
            let page_bytes = gateway.config.limits.page_bytes;
            let inline_max = results::inline_max(gateway, &record.call);
            let fits = whole.len() <= 2 * page_bytes && inline_max.is_none_or(|max| whole.len() <= max);
            // A block that cannot be cut, such as an image, is linked where no answer may be that long.
            let link = |number| results::block_link(gateway, record, whole, number);
            let pages = pages(text(whole), page_bytes, inline_max.map(|_| &link as &dyn Fn(usize) -> String));
            if pages.content.len() == 1 && fits {
                return match page {
                    1 => Said { result: whole.clone(), delivers: delivered(record) },
                    _ => wrong("The result has one page").into(),
                };
            }
            let pages = pages.all();
            let Some(blocks) = pages.get(page - 1) else {
                return wrong(&format!("The result has {} pages", pages.len())).into();
            };
            let mut blocks = blocks.clone();
            let id = record.id.expose();
            let mut words = format!("Page {page} of {}.", pages.len());
            if page < pages.len() {
                words.push_str(&format!(
                    " For the next, call {NAME} with {{\"action\":\"result\",\"taskId\":\"{id}\",\"page\":{}}}.",
                    page + 1
                ));
            }
            blocks.push(text_block(&words));
            let paging = [("page", page.to_string()), ("pages", pages.len().to_string())];
            let result = result(&blocks, &structured(gateway, record, &paging), *is_error);
            return Said { result, delivers: delivered(record) };
        }
        Some(Ending::Raised { error }) => RpcError::read(text(error)),
        Some(Ending::Faulted(fault)) => fault_error(fault, record.operation.effect, &record.operation_id),
        Some(Ending::Cancelled) => {
            RpcError::internal("The call was cancelled. What it had done by then was not undone")
        }
        None => RpcError::internal("The call is not over"),
    };
    let words = format!("{} (error {})", SafeText::new(&error.message, QUESTION_CHARS_MAX), error.code);
    result(&[text_block(&words)], &structured(gateway, record, &[]), true).into()
}

async fn take_answer(exchange: &Exchange, handle: &Handle, arguments: &Object<'_>) -> Result<Bytes, Failure> {
    let record = handle.record();
    let Some(key) = arguments.str("key") else { return Ok(wrong("key is missing")) };
    let Some(reply) = arguments.get("reply").filter(|reply| json::is_object(reply)) else {
        return Ok(wrong("reply is missing or no object"));
    };
    let key = QuestionKey(key.into_owned());
    let open = record.task.outstanding().and_then(|asked| asked.questions().get(&key));
    let gone = "No such question is open: it was answered already, or never asked";
    let Some(question) = open else { return Ok(wrong(gone)) };
    if let Err(error) = answer::check(question.kind, reply) {
        return Ok(wrong(&error.message));
    }
    let answer = Answer::Result(answer::for_b(reply));
    let engine = &exchange.gateway.engine;
    match engine.answer(&record.principal, &record.id, &key, answer).await? {
        Some(Answered::Taken) => Ok(stand_in(&exchange.gateway, &handle.record(), Start::Fresh)),
        Some(Answered::NotOutstanding) | None => Ok(wrong(gone)),
    }
}

/// A wish: the client is told what became of it by the task's own status (B-101).
async fn cancel(exchange: &Exchange, handle: &Handle) -> Result<Said, Failure> {
    let record = handle.record();
    let engine = &exchange.gateway.engine;
    match engine.cancel(&record.principal, &record.id, CancelRule::Wish).await {
        Ok(Some(record)) if record.task.ending().is_none() => {
            let id = record.id.expose();
            let words = format!(
                "Task {id} was asked to stop. It may still end in any way, and what it has done is not undone. To see how \
it ended, call {NAME} with {{\"action\":\"wait\",\"taskId\":\"{id}\"}}."
            );
            Ok(result(&[text_block(&words)], &structured(&exchange.gateway, &record, &[]), false).into())
        }
        Ok(Some(record)) => Ok(end(&exchange.gateway, &record).await),
        Ok(None) => Ok(wrong("There is no such task: its taskId is wrong, or it has expired").into()),
        Err(taskgate_engine::engine::CancelError::AlreadyOver(record)) => {
            Ok(end(&exchange.gateway, &record).await)
        }
        Err(taskgate_engine::engine::CancelError::Store(error)) => Err(error.into()),
    }
}

async fn list(exchange: &Exchange, arguments: &Object<'_>) -> Result<Bytes, Failure> {
    if exchange.principal.is_shared() {
        // R6.2
        return Ok(wrong("Tasks are not listed here, because callers cannot be told apart"));
    }
    let gateway = &exchange.gateway;
    let (records, next) = match tasks_a::page(exchange, arguments.get("cursor")).await {
        Ok(page) => page,
        Err(Failure::Ours(error)) if error == RpcError::bad_cursor() => {
            return Ok(wrong("cursor is not one of ours"));
        }
        Err(failure) => return Err(failure),
    };
    let lines: Vec<String> = records
        .iter()
        .map(|summary| {
            format!(
                "{} {}{} {} {}",
                summary.id().expose(),
                a::status(summary.task()).as_str(),
                if summary.is_unfetched() { ", its result has not been fetched," } else { "" },
                time::write(summary.created()),
                SafeText::new(summary.tool(), 80)
            )
        })
        .collect();
    let words = if lines.is_empty() { "There are no tasks.".to_owned() } else { lines.join("\n") };
    let shown = |summary: &Summary| {
        let fetched = (summary.has_frame() && summary.is_returned()).then(|| !summary.is_unfetched());
        fields(&outline(&gateway.engine, summary), summary.tool(), fetched, &[])
    };
    let tasks: Vec<String> = records.iter().map(shown).collect();
    let mut structured = format!("{{\"taskgate\":{{\"tasks\":[{}]", tasks.join(","));
    if let Some(next) = next {
        structured.push_str(&format!(",\"nextCursor\":{}", string_literal(&next)));
    }
    structured.push_str("}}");
    Ok(result(&[text_block(&words)], &structured, false))
}

fn question_words(record: &Record) -> String {
    let Some(asked) = record.task.outstanding() else { return String::new() };
    let id = record.id.expose();
    asked
        .questions()
        .iter()
        .map(|(key, question)| {
            format!(
                " It waits for an answer to question {}: {} Ask the user, then call {NAME} with \
{{\"action\":\"answer\",\"taskId\":\"{id}\",\"key\":\"{}\",\"reply\":{}}}.",
                key.0,
                asked_words(question),
                key.0,
                reply_form(question.kind)
            )
        })
        .collect()
}

fn asked_words(question: &Question) -> String {
    let params = text(&question.params);
    let part = |name: &str| json::at(params, &[name]).and_then(json::string).unwrap_or_default();
    let message = SafeText::new(&part("message"), QUESTION_CHARS_MAX);
    match question.kind {
        QuestionKind::Form => format!("\"{message}\"."),
        QuestionKind::Url => {
            format!("\"{message}\", which means opening {}.", SafeText::new(&part("url"), 2_000))
        }
        QuestionKind::Sampling => "it wants text from a model.".to_owned(),
        QuestionKind::Roots => "it wants the list of roots.".to_owned(),
    }
}

fn reply_form(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Form => "{\"action\":\"accept\",\"content\":{…}}",
        QuestionKind::Url => "{\"action\":\"accept\"}",
        QuestionKind::Sampling => {
            "{\"role\":\"assistant\",\"model\":\"…\",\"content\":{\"type\":\"text\",\"text\":\"…\"}}"
        }
        QuestionKind::Roots => "{\"roots\":[]}",
    }
}

fn structured(gateway: &Gateway, record: &Record, more: &[(&str, String)]) -> String {
    let fetched = (record.call.frame.is_some() && record.is_returned()).then(|| !record.is_unfetched());
    format!("{{\"taskgate\":{}}}", fields(&view(&gateway.engine, record), &record.call.tool, fetched, more))
}

/// What is said of a task: `fetched` where it is noted whether its result was.
fn fields(view: &View<'_>, tool: &str, fetched: Option<bool>, more: &[(&str, String)]) -> String {
    let mut out = format!(
        "{{\"taskId\":\"{}\",\"status\":\"{}\",\"tool\":{},\"createdAt\":\"{}\",\"lastUpdatedAt\":\"{}\",\"ttlMs\":{},\"pollIntervalMs\":{}",
        view.id.expose(),
        a::status(view.task).as_str(),
        string_literal(tool),
        time::write(view.created),
        time::write(view.updated),
        view.task.ttl(view.now).0,
        view.poll.0,
    );
    if let Some(asked) = view.task.outstanding() {
        let questions: Vec<String> = asked
            .questions()
            .iter()
            .map(|(key, question)| {
                format!(
                    "{{\"key\":{},\"method\":\"{}\",\"params\":{}}}",
                    string_literal(&key.0),
                    question.kind.method(),
                    text(&question.params)
                )
            })
            .collect();
        out.push_str(&format!(",\"questions\":[{}]", questions.join(",")));
    }
    if let Some(fetched) = fetched {
        out.push_str(&format!(",\"fetched\":{fetched}"));
    }
    for (name, value) in more {
        out.push_str(&format!(",\"{name}\":{value}"));
    }
    out.push('}');
    out
}

/// A call that cannot be carried out as it is: the model is told, and may try again.
fn wrong(words: &str) -> Bytes {
    Bytes::from(format!("{{\"content\":[{}],\"isError\":true}}", text_block(words)))
}

fn result(blocks: &[String], structured: &str, is_error: bool) -> Bytes {
    Bytes::from(format!(
        "{{\"content\":[{}],\"structuredContent\":{structured},\"isError\":{is_error}}}",
        blocks.join(",")
    ))
}

fn text_block(words: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", string_literal(words))
}
