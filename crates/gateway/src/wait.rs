//! Waiting for a recorded call, and what its client gets when it lasts.

use std::borrow::Cow;
use std::collections::HashSet;

use taskgate_core::gate::{Carry, Route};
use taskgate_core::operation::{Effect, Stage};
use taskgate_core::task::{CancelRule, Ending, Fault, Found, Question, QuestionKey};
use taskgate_engine::{Handle, Signal};
use taskgate_seeded::Bug;
use taskgate_store::record::Record;
use taskgate_wire::dialect::{b, fault_error};
use taskgate_wire::json;
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::splice::{Edit, splice};
use taskgate_wire::time;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::Instant;

use crate::asks::AskedFor;
use crate::calls::{Checked, Start};
use crate::dispatch::{Failure, Via, text};
use crate::follow::{Follow, Known};
use crate::reply::Reply;
use crate::view::view;
use crate::{follow, handle_tool, known, results, retry};

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Until then.
    Until(Instant),
    /// It has lasted long enough: a task or handle is given at once, unless the result is there.
    Lasted,
}

/// Waits for the end of a call in its client's own time, and answers by what there is then.
pub(crate) async fn wait(
    checked: &Checked<'_>,
    handle: Handle,
    wait: Wait,
    start: Start,
) -> Result<Reply, Failure> {
    let is_modern = matches!(checked.via, Via::Modern(_));
    let mut abandoned = Abandoned { checked, handle: is_modern.then(|| handle.clone()) };
    let reply = hold(checked, handle, wait, start).await;
    if !matches!(reply, Err(Failure::Cancelled)) {
        // An answer that was given, a handle among them, leaves nothing to cancel.
        abandoned.handle = None;
    }
    reply
}

async fn hold(checked: &Checked<'_>, mut handle: Handle, wait: Wait, start: Start) -> Result<Reply, Failure> {
    let exchange = checked.exchange;
    let mut signals = handle.signals();
    let mut signals_open = true;
    let mut asked = HashSet::new();
    let mut is_ahead = !checked.ahead.is_empty();
    let until = match wait {
        Wait::Until(until) => Some(until),
        Wait::Lasted => None,
    };
    if let (Via::Legacy(_), Carry::Plain, Some(_)) = (checked.via, checked.carry, until) {
        // Should its stream break, the answer can be had by GET.
        exchange.outlet.resumable(&handle.record().id);
    }
    let cancelled = exchange.running.as_ref().map(|running| running.cancelled.clone());
    loop {
        let record = handle.record();
        if let Via::Legacy(session) = checked.via {
            session.take_back(&record);
        }
        if record.task.ending().is_some() {
            // What was said before the answer is shown before it.
            loop {
                match signals.try_recv() {
                    Ok(signal) => said(checked, &record, &signal),
                    Err(TryRecvError::Lagged(_)) => {}
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            let shown = results::bounded(&exchange.gateway, &record, checked.via.tool()).await;
            return over(checked, &shown, start);
        }
        if is_ahead && record.task.outstanding().is_some() {
            // They answer one round: the next one has other questions, also under the same names.
            is_ahead = false;
            if retry::take_ahead(checked, &handle).await? {
                continue;
            }
        }
        match questions(checked, &record, &mut asked) {
            Asked::Wait => {}
            Asked::Told(reply) => return Ok(reply),
            Asked::Nobody if checked.route != Route::Sync => {
                return Ok(lasts(checked, &handle, start, asked));
            }
            // It gets no handle, so there is nothing to wait for.
            Asked::Nobody => {
                checked.cancel(&handle, CancelRule::Wish);
                return Err(cannot_be_asked(&record));
            }
        }
        let Some(until) = until else { return Ok(lasts(checked, &handle, start, asked)) };
        tokio::select! {
            biased;
            _ = handle.changed() => {}
            () = async { match &cancelled { Some(token) => token.cancelled().await, None => std::future::pending().await } } => {
                // Its client does not want it any more, and hears nothing more of it.
                if let Via::Legacy(_) = checked.via {
                    // A-092, G-003
                    checked.cancel(&handle, CancelRule::Wish);
                }
                return Err(Failure::Cancelled);
            }
            // What it ends by will not be recorded here.
            _ = exchange.gateway.engine.lost() => return Err(checked.store_failed(&handle.record())),
            () = tokio::time::sleep_until(until) => {
                // It may have ended in this moment.
                if handle.record().task.ending().is_some() {
                    continue;
                }
                if checked.route == Route::Sync {
                    checked.cancel(&handle, CancelRule::Wish);
                    let record = handle.record();
                    let has_effect = record.operation.effect != Effect::ReadOnly;
                    return Err(checked.out_of_time(has_effect.then_some(&record.operation_id)));
                }
                return Ok(lasts(checked, &handle, start, asked));
            }
            // Last, since a server may say more than there is time for.
            signal = signals.recv(), if signals_open => match signal {
                Ok(signal) => said(checked, &record, &signal),
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => signals_open = false,
            },
        }
    }
}

/// What a server says while it is at work.
fn said(checked: &Checked<'_>, record: &Record, signal: &Signal) {
    match (signal, checked.via) {
        (Signal::Progress(params), _) if taskgate_seeded::is(Bug::ToldAfterAnswer) => late(checked, params),
        (Signal::Progress(params), _) => checked.progress(params),
        (Signal::Log(params), _) => checked.log(params),
        (Signal::Visited(key), Via::Legacy(session)) => {
            follow::tell_visited(session, &record.id, key, &checked.exchange.outlet);
        }
        (Signal::Visited(_), Via::Modern(_)) => {}
    }
}

/// What [`Bug::ToldAfterAnswer`] does with progress.
fn late(checked: &Checked<'_>, params: &bytes::Bytes) {
    let Some(token) = checked.via.progress_token(&checked.exchange.request) else { return };
    let (message, outlet) = (follow::progress(params, token, None), checked.exchange.outlet.clone());
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        outlet.send(message);
    });
}

/// A stateless client that goes away cancels what was not sent yet. What was sent is left to finish and be settled
/// (G-019, design 7).
struct Abandoned<'c> {
    checked: &'c Checked<'c>,
    handle: Option<Handle>,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && handle.record().operation.stage == Stage::Prepared
        {
            self.checked.cancel(&handle, CancelRule::Wish);
        }
    }
}

/// The answer of a call that is over.
fn over(checked: &Checked<'_>, record: &Record, start: Start) -> Result<Reply, Failure> {
    let id = checked.exchange.request.id();
    let record = &*match start {
        Start::Fresh => Cow::Borrowed(record),
        Start::Joined | Start::Waiting => known::up_to_date(record),
    };
    match record.task.ending() {
        Some(Ending::Returned { result, .. }) => {
            let info = &checked.info();
            if taskgate_seeded::is(Bug::GivenWhenMade) {
                checked.exchange.gateway.engine.handed_over(&record.principal, &record.id);
            }
            let reply = match start {
                Start::Fresh => checked.via.result(id, result, info),
                Start::Joined => checked.via.result(id, &say_joined(result, record, &joined(record)), info),
                Start::Waiting => {
                    checked.via.result(id, &say_joined(result, record, &was_waiting(record)), info)
                }
            };
            Ok(reply.delivering(record))
        }
        Some(Ending::Raised { error }) => Err(Failure::Theirs(match start {
            Start::Fresh => error.clone(),
            Start::Joined | Start::Waiting => known::repeated_error(error, record),
        })),
        Some(Ending::Faulted(fault)) => Err(joined_unknown(fault, record, start).into()),
        Some(Ending::Cancelled) => {
            let mut error = RpcError::task_cancelled(&record.id);
            if let (Start::Joined | Start::Waiting, Some(words)) = (start, known::not_sent(record)) {
                error.message.push_str(&format!(". {words}"));
            }
            Err(error.into())
        }
        None => Err(RpcError::internal("The call is not over").into()),
    }
}

/// The words for a result that a call joined. A result says itself that the effect was made, and an error of the tool does
/// not say that it was not.
fn joined(record: &Record) -> String {
    let is_error = matches!(record.task.ending(), Some(Ending::Returned { is_error: true, .. }));
    let has_effect = match record.operation.effect {
        Effect::ReadOnly => false,
        Effect::Reversible | Effect::Consequential => true,
    };
    if is_error && has_effect {
        format!("{JOINED} {}.", known::what_and_next(record))
    } else {
        JOINED.to_owned()
    }
}

/// A call that is repeated although nobody knows whether the first one happened is not sent (R4.5); its caller hears
/// what can be done instead.
fn joined_unknown(fault: &Fault, record: &Record, start: Start) -> RpcError {
    let mut error = fault_error(fault, record.operation.effect, &record.operation_id);
    let key = record.call.key.as_ref();
    match (fault, start) {
        (Fault::OutcomeUnknown(_), Start::Joined) => {
            error.message.push_str(
                ". This repeated call was not sent. Find out in the system that it acts on whether the first \
one happened; if it did not, ",
            );
            error.message.push_str(known::anew(key));
        }
        // It waited for the first, and gives its key free with that one's end (R4.6).
        (Fault::NeverSent(_) | Fault::Found(Found::NotApplied), Start::Joined)
            if record.operation.is_surely_undone() =>
        {
            error.message.push_str(". This repeated call was not sent either: to have it done, call again");
        }
        (_, Start::Joined) => error.message.push_str(". This repeated call was not sent"),
        (_, Start::Fresh | Start::Waiting) => {}
    }
    error
}

/// The words for a call that joined another (design 3).
pub(crate) const JOINED: &str =
    "An identical call was made before, so this one joined it: nothing was started a second time.";

/// The words for a call that found the result of an earlier one (design 4).
fn was_waiting(record: &Record) -> String {
    format!(
        "This call was made before at {} and its result, which nobody had fetched, is this one: nothing was started a \
second time. To have it done again, call again.",
        time::write(record.task.lifetime.created)
    )
}

/// Tells the caller, in its own content, that nothing was done twice.
fn say_joined(result: &bytes::Bytes, record: &Record, words: &str) -> bytes::Bytes {
    let content = json::at(text(result), &["content"]).and_then(|content| json::elements(content).ok());
    let Some(mut blocks) = content else { return result.clone() };
    let note = format!("{{\"type\":\"text\",\"text\":{}}}", json::string_literal(words));
    blocks.push(&note);
    let blocks = format!("[{}]", blocks.join(","));
    let joined = format!("\"{}\"", record.id.expose());
    let edits = [Edit::set(&["content"], blocks), Edit::set(&["_meta", "taskgate/joined"], joined)];
    splice(text(result), &edits).unwrap_or_else(|_| result.clone())
}

/// What open questions mean for a call that is still waited for.
enum Asked {
    /// There are none, or the client has them.
    Wait,
    /// They are the answer.
    Told(Reply),
    /// This client cannot be asked: they come with its task or handle.
    Nobody,
}

fn questions(checked: &Checked<'_>, record: &Record, asked: &mut HashSet<QuestionKey>) -> Asked {
    let Some(open) = record.task.outstanding() else { return Asked::Wait };
    let open = open.questions();
    let offers = match checked.via {
        Via::Modern(modern) => &modern.offers,
        Via::Legacy(session) => &session.negotiated.offers,
    };
    // A server that many share asks what only some of them can be asked.
    let can_ask = open.values().all(|question| offers.takes(question));
    match (checked.via, checked.carry) {
        _ if !can_ask => Asked::Nobody,
        (Via::Modern(_), Carry::Extension) if !is_before_task(record, open.values()) => {
            Asked::Told(created(checked, record))
        }
        (Via::Modern(_), Carry::Extension | Carry::Plain | Carry::Augmented) => {
            Asked::Told(retry::ask(checked, record, open))
        }
        (Via::Legacy(session), _) => {
            // G-004: asked on the call's own stream while it is waited for, or else when its handle is given.
            for (key, question) in open {
                if asked.contains(key) {
                    continue;
                }
                let to = AskedFor::Task { task: record.id.clone(), key: key.clone() };
                if session.put(question, to, None, &checked.exchange.outlet).is_some() {
                    asked.insert(key.clone());
                }
            }
            Asked::Wait
        }
    }
}

fn cannot_be_asked(record: &Record) -> Failure {
    let mut open = record.task.outstanding().into_iter().flat_map(|asked| asked.questions().values());
    let kind = open.next().map_or("", |question| question.kind.method());
    RpcError::internal(format!(
        "The server asks by {kind}, which this client cannot be asked, so the call was asked to stop"
    ))
    .into()
}

/// Whether the server asks before it decides between a result and a task. Such rounds are finished on the original
/// request (B-069); once there is a task, here or there, questions go through it.
fn is_before_task<'q>(record: &Record, mut open: impl Iterator<Item = &'q Question>) -> bool {
    matches!(record.operation.stage, Stage::Dispatched { .. })
        && open.all(|question| question.back_key.is_some())
}

/// What a call gets that lasts: a task or a handle.
fn lasts(checked: &Checked<'_>, handle: &Handle, start: Start, asked: HashSet<QuestionKey>) -> Reply {
    let record = handle.record();
    match (checked.via, checked.carry) {
        (Via::Modern(_), Carry::Extension) => created(checked, &record),
        (via, _) => {
            if let Via::Legacy(session) = via {
                // Questions that come later still reach a client with an open stream.
                Follow::start(&checked.exchange.gateway, session, handle, None, Known::AsHandle).has(asked);
            }
            let result = handle_tool::stand_in(&checked.exchange.gateway, &record, start);
            via.own_result(checked.exchange.request.id(), &result, &checked.info())
        }
    }
}

/// `CreateTaskResult` (B-065). The record is on disk, so `tasks/get` will find it (B-067, X-008).
fn created(checked: &Checked<'_>, record: &Record) -> Reply {
    let created = b::create_result(&view(&checked.exchange.gateway.engine, record));
    Reply::result(checked.exchange.request.id(), text(&created))
}
