//! What a caller is told of a call that is not made (again) because of an operation in the ledger (R4.6, design 7).

use taskgate_core::operation::{HandOff, Inquiry, Operation, Outcome, Stage, Verdict};
use taskgate_store::ledger::{Busy, LedgerEntry};
use taskgate_store::record::{Key, KeyScope};
use taskgate_wire::json::string_literal;
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::time;

/// A call that was made before, and whose task is gone: what the ledger knows of it. It is not made again (INV-30). One that
/// certainly did nothing is not among them: it gave its key free (R4.6).
///
/// # Shape
/// `-32603` with `data: {"outcome": …, "operation": …}`, as for a task that ended without its answer.
pub(crate) fn known(entry: &LedgerEntry) -> RpcError {
    let is_disputed = matches!(entry.operation.inquiry, Inquiry::Person { why: HandOff::Contradiction, .. });
    let (what, next) = match &entry.operation.stage {
        // Its key is free, so a call that is made now is another one.
        Stage::Settled(Outcome::NoneExpected) => ("It has no effect", "call again"),
        Stage::Settled(Outcome::Confirmed(Verdict::NotApplied) | Outcome::Attested(Verdict::NotApplied))
            if is_disputed =>
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
            ("The server reported that it had no effect, which nobody confirmed", anew(entry.key.as_ref()))
        }
        Stage::Settled(Outcome::Assumed) => (
            "It is assumed that it had no effect, which nobody confirmed",
            "have that found out before it is called again",
        ),
        Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Unknown(_) => (
            "Nobody knows whether it had its effect",
            "have that found out in the system that it acts on before it is called again",
        ),
    };
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
