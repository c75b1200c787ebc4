//! What a client reads when we ended its task ourselves.

use taskgate_core::task::Fault;

use crate::rpc_error::RpcError;
use crate::text::SafeText;

/// The error of a task that we ended: `-32603`, with a word for machines in `data.reason` and, where
/// something can be said of the effect, `data.outcome` (E-014, X-029, X-045, G-025, Q-031).
///
/// What ended after it was sent and without an answer is `unknown`: nobody may take the silence for "nothing happened"
/// (R4.5).
#[must_use]
pub fn fault_error(fault: &Fault) -> RpcError {
    RpcError::internal(fault_message(fault)).with_data(match fault {
        Fault::NeverSent(_) => "{\"reason\":\"never_sent\",\"outcome\":\"not_applied\"}",
        Fault::OutcomeUnknown(_) => "{\"reason\":\"answer_lost\",\"outcome\":\"unknown\"}",
        Fault::DeadlinePassed => "{\"reason\":\"deadline_passed\",\"outcome\":\"unknown\"}",
        Fault::UpstreamLost => "{\"reason\":\"upstream_lost\",\"outcome\":\"unknown\"}",
        Fault::UpstreamFault(_) => "{\"reason\":\"upstream_fault\",\"outcome\":\"unknown\"}",
        Fault::NoAnswer(_) => "{\"reason\":\"no_answer\"}",
        Fault::BudgetSpent(_) => "{\"reason\":\"budget_spent\",\"outcome\":\"unknown\"}",
    })
}

pub(super) fn fault_message(fault: &Fault) -> String {
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
    };
    let detail = SafeText::status(detail);
    if detail.is_empty() { String::from(sentence) } else { format!("{sentence} ({detail})") }
}
