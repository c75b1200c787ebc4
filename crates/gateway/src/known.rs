//! What a caller is told of a call that is not made (again) because of an operation in the ledger (R4.6, design 7).

use std::borrow::Cow;

use bytes::Bytes;
use taskgate_core::operation::{Effect, HandOff, Inquiry, Operation, Outcome, Stage, Verdict};
use taskgate_core::task::{Ending, Fault, Found, State};
use taskgate_store::ledger::{Busy, LedgerEntry};
use taskgate_store::record::{Key, KeyScope, Record};
use taskgate_wire::json::{self, string_literal};
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::splice::{Edit, splice};
use taskgate_wire::time;

use crate::dispatch::text;

/// The record of a call that failed since nobody knew what became of its effect, with what was found out since: for who
/// makes the same call again. What the task itself says never changes (INV-03).
pub(crate) fn up_to_date(record: &Record) -> Cow<'_, Record> {
    let Some(fault) = found_since(record) else { return Cow::Borrowed(record) };
    let mut shown = record.clone();
    if let State::Over { ending, .. } = &mut shown.task.state {
        *ending = Ending::Faulted(fault);
    }
    Cow::Owned(shown)
}

/// What its system of record or a person said after a task failed, where that is another thing than its failure says. The
/// server's own word is no finding (R4.3).
fn found_since(record: &Record) -> Option<Fault> {
    let said = match record.task.ending()? {
        // It says itself what is known, and nothing else is ever known of it.
        Ending::Faulted(Fault::NeverSent(_))
        | Ending::Returned { .. }
        | Ending::Raised { .. }
        | Ending::Cancelled => return None,
        Ending::Faulted(fault) => fault,
    };
    let operation = &record.operation;
    let found = match &operation.stage {
        Stage::Settled(Outcome::Confirmed(Verdict::NotApplied) | Outcome::Attested(Verdict::NotApplied))
            if is_disputed(operation) =>
        {
            Fault::OutcomeUnknown("one source says the opposite of another".to_owned())
        }
        Stage::Settled(Outcome::Confirmed(verdict) | Outcome::Attested(verdict)) => match verdict {
            Verdict::Applied => Fault::Found(Found::Applied),
            Verdict::NotApplied => Fault::Found(Found::NotApplied),
        },
        Stage::Settled(Outcome::Assumed) => Fault::Found(Found::AssumedNotApplied),
        Stage::Settled(Outcome::NoneExpected | Outcome::Reported(_))
        | Stage::Prepared
        | Stage::Dispatched { .. }
        | Stage::Observing { .. }
        | Stage::Unknown(_) => return None,
    };
    (found != *said).then_some(found)
}

fn is_disputed(operation: &Operation) -> bool {
    matches!(operation.inquiry, Inquiry::Person { why: HandOff::Contradiction, .. })
}

/// A call that was made before, and whose task is gone: what the ledger knows of it. It is not made again (INV-30). One that
/// certainly did nothing is not among them: it gave its key free (R4.6).
///
/// # Shape
/// `-32603` with `data: {"outcome": …, "operation": …}`, as for a task that ended without its answer.
pub(crate) fn known(entry: &LedgerEntry) -> RpcError {
    let (what, next) = standing(&entry.operation, entry.key.as_ref());
    let made = time::write(entry.created);
    RpcError::internal(format!(
        "This call was made before, at {made}, and was not made again; its result is no longer kept. {what}: {next}"
    ))
    .with_data(format!(
        "{{\"outcome\":\"{}\",\"operation\":{}}}",
        outcome(&entry.operation),
        string_literal(&entry.id.0)
    ))
}

/// What is known of an effect, and what its caller can do.
fn standing(operation: &Operation, key: Option<&Key>) -> (&'static str, &'static str) {
    match &operation.stage {
        // Its key is free, so a call that is made now is another one.
        Stage::Settled(Outcome::NoneExpected) => ("It has no effect", "call again"),
        Stage::Settled(Outcome::Confirmed(Verdict::NotApplied) | Outcome::Attested(Verdict::NotApplied))
            if is_disputed(operation) =>
        {
            ("Sources disagree whether it had its effect", "have that found out before it is called again")
        }
        Stage::Settled(Outcome::Confirmed(Verdict::Applied)) => ("Its effect was made", "do not call again"),
        Stage::Settled(Outcome::Reported(Verdict::Applied)) => {
            ("The server reported that its effect was made", "do not call again")
        }
        Stage::Settled(Outcome::Attested(Verdict::Applied)) => {
            ("A person found that its effect was made", "do not call again")
        }
        Stage::Settled(Outcome::Confirmed(Verdict::NotApplied) | Outcome::Attested(Verdict::NotApplied)) => {
            ("It had no effect", "call again")
        }
        Stage::Settled(Outcome::Reported(Verdict::NotApplied)) => {
            ("The server reported that it had no effect, which nobody confirmed", anew(key))
        }
        Stage::Settled(Outcome::Assumed) => (
            "It is assumed that it had no effect, which nobody confirmed",
            "have that found out before it is called again",
        ),
        Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Unknown(_) => (
            "Nobody knows whether it had its effect",
            "have that found out in the system that it acts on before it is called again",
        ),
    }
}

/// What a call is told that joined one whose server answered with an error, or that was cancelled: that this is the answer
/// to the first, that nothing was sent now, and what is known of the effect. `None` for one without an effect.
pub(crate) fn not_sent(record: &Record) -> Option<String> {
    match record.operation.effect {
        Effect::ReadOnly => return None,
        Effect::Reversible | Effect::Consequential => {}
    }
    let made = time::write(record.task.lifetime.created);
    Some(format!(
        "This call was made before, at {made}; this is the answer to that one, and it was not made again. {}",
        what_and_next(record)
    ))
}

/// What is known of the effect of a recorded call, and what its caller can do, in a sentence.
pub(crate) fn what_and_next(record: &Record) -> String {
    let (what, next) = standing(&record.operation, record.call.key.as_ref());
    format!("{what}: {next}")
}

/// A server's error as the answer to a call that was repeated and not sent: its message says so, and all else of it is as
/// the server wrote it.
pub(crate) fn repeated_error(error: &Bytes, record: &Record) -> Bytes {
    let Some(words) = not_sent(record) else { return error.clone() };
    let theirs = json::at(text(error), &["message"]).and_then(json::string).unwrap_or_default();
    let joint = if theirs.is_empty() || theirs.ends_with(['.', '!', '?']) { " " } else { ". " };
    let message = string_literal(format!("{theirs}{joint}{words}").trim_start());
    splice(text(error), &[Edit::set(&["message"], message)]).map_or_else(|_| error.clone(), Into::into)
}

/// How what a key stands for can be asked for once more, while the key is taken.
pub(crate) fn anew(key: Option<&Key>) -> &'static str {
    match key.map(|key| key.scope) {
        None => "make the call again under an idempotency key of its own or with other arguments",
        Some(KeyScope::Caller) => {
            "make the call again under another idempotency key, or have a person say so with `taskgate resolve`, which gives \
             this one free"
        }
        Some(KeyScope::Tenant) => {
            "have a person say so with `taskgate resolve`, which gives its business key free; then make the call again"
        }
    }
}

/// A call whose key stands for another request.
///
/// # Shape
/// `-32602` with `data: {"reason": "key_reused"}`.
pub(crate) fn reused(key: Option<&Key>) -> RpcError {
    let message = match key.map(|key| key.scope) {
        // Its caller cannot choose it, and must not be talked into another order, say, that gives another key.
        Some(KeyScope::Tenant) => {
            "Another request was made before under the business key that follows from these arguments, so this one was \
             refused and nothing was sent: one key stands for one effect. Do not change the arguments to get around this; \
             a person finds the first with `taskgate ops --about`"
        }
        Some(KeyScope::Caller) | None => {
            "This idempotency key was used for another request, so this one was refused and nothing was sent; a new request \
             needs a new key"
        }
    };
    RpcError::invalid_params(message).with_data("{\"reason\":\"key_reused\"}")
}

/// A call that may not be made while another on the same object is open.
///
/// # Shape
/// `-32603` with `data: {"reason": "object_busy", "since": …}`, and `operation` where it is the caller's own (R6.1).
pub(crate) fn busy(busy: &Busy) -> RpcError {
    let since = time::write(busy.since);
    let (whose, operation) = match &busy.operation {
        Some(id) => ("", format!(",\"operation\":{}", string_literal(&id.0))),
        None => (" by somebody else", String::new()),
    };
    RpcError::internal(format!(
        "Another call on the same object{whose}, made at {since}, is not settled yet. Nothing was sent; call again when it is"
    ))
    .with_data(format!("{{\"reason\":\"object_busy\",\"since\":\"{since}\"{operation}}}"))
}

/// The word for machines.
fn outcome(operation: &Operation) -> &'static str {
    match &operation.stage {
        Stage::Settled(Outcome::Assumed) => "assumed_not_applied",
        Stage::Settled(outcome) => match outcome.verdict() {
            Some(Verdict::Applied) => "applied",
            Some(Verdict::NotApplied) => "not_applied",
            None => "none_expected",
        },
        Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Unknown(_) => "unknown",
    }
}
