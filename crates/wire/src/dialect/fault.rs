//! What a client reads when we ended its task ourselves.

use taskgate_core::id::OperationId;
use taskgate_core::operation::Effect;
use taskgate_core::task::{Fault, Found};

use crate::json::string_literal;
use crate::rpc_error::RpcError;
use crate::text::SafeText;

/// The error of a task that we ended: `-32603`, with a word for machines in `data.reason` and, where
/// something is known of the effect, `data.outcome` and the operation's id in `data.operation`, which a person needs
/// to look it up (E-014, X-029, X-045, G-025, Q-031, design 7). Whichever way an answer was lost, the effect of a call
/// that is not read-only is unknown by it (R4.2).
#[must_use]
pub fn fault_error(fault: &Fault, effect: Effect, operation: &OperationId) -> RpcError {
    let lost = is_in_doubt(fault, effect).then_some("unknown");
    let (reason, outcome) = match fault {
        Fault::NeverSent(_) => ("never_sent", Some("not_applied")),
        Fault::OutcomeUnknown(_) => ("answer_lost", Some("unknown")),
        Fault::DeadlinePassed => ("deadline_passed", lost),
        Fault::UpstreamLost => ("upstream_lost", lost),
        Fault::UpstreamFault(_) => ("upstream_fault", lost),
        Fault::NoAnswer(_) => ("no_answer", lost),
        Fault::BudgetSpent(_) => ("budget_spent", lost),
        Fault::Found(Found::Applied) => ("answer_lost", Some("applied")),
        Fault::Found(Found::NotApplied) => ("answer_lost", Some("not_applied")),
        Fault::Found(Found::AssumedNotApplied) => ("answer_lost", Some("assumed_not_applied")),
    };
    let mut data = format!("{{\"reason\":\"{reason}\"");
    if let Some(outcome) = outcome {
        let operation = string_literal(&operation.0);
        data.push_str(&format!(",\"outcome\":\"{outcome}\",\"operation\":{operation}"));
    }
    data.push('}');
    RpcError::internal(fault_message(fault, effect)).with_data(data)
}

/// Whether a call that ended in this way may have had its effect.
fn is_in_doubt(fault: &Fault, effect: Effect) -> bool {
    match fault {
        Fault::DeadlinePassed
        | Fault::UpstreamLost
        | Fault::UpstreamFault(_)
        | Fault::NoAnswer(_)
        | Fault::BudgetSpent(_) => effect != Effect::ReadOnly,
        // These say themselves what is known.
        Fault::NeverSent(_) | Fault::OutcomeUnknown(_) | Fault::Found(_) => false,
    }
}

pub(super) fn fault_message(fault: &Fault, effect: Effect) -> String {
    let (sentence, detail) = match fault {
        Fault::NeverSent(why) => ("The call was never sent, so nothing happened", why.as_str()),
        Fault::OutcomeUnknown(why) => {
            ("The outcome is unknown: the call may or may not have happened", why.as_str())
        }
        Fault::DeadlinePassed => ("The task has expired: it did not end in time", ""),
        Fault::UpstreamLost => ("The upstream server lost the task", ""),
        Fault::UpstreamFault(why) => ("The upstream server's answer cannot be used", why.as_str()),
        Fault::NoAnswer(why) => ("The server's question could not be answered", why.as_str()),
        Fault::BudgetSpent(why) => ("Gave up", why.as_str()),
        Fault::Found(Found::Applied) => {
            ("The effect was made; only the answer to the call was lost. Do not call again", "")
        }
        Fault::Found(Found::NotApplied) => (
            "The answer to the call was lost, and it is certain that nothing was done. It is safe to call again",
            "",
        ),
        Fault::Found(Found::AssumedNotApplied) => (
            "The answer to the call was lost. It is assumed that nothing was done, but that is not certain: have it found \
out before the call is made again",
            "",
        ),
    };
    let detail = SafeText::status(detail);
    let mut message =
        if detail.is_empty() { String::from(sentence) } else { format!("{sentence} ({detail})") };
    if is_in_doubt(fault, effect) {
        message.push_str("; the outcome is unknown: the call may or may not have happened");
    }
    message
}
