//! What is logged of tasks, and of whom: that one was made, ended, asked about, or asked about in vain.
//!
//! At `debug`, under a target of its own, so that it can be had alone: `TASKGATE_LOG=info,taskgate::audit=debug`. Ids are
//! shortened, as everywhere in logs.

use taskgate_core::id::{Principal, TaskId};
use taskgate_core::task::Ending;
use taskgate_store::record::Record;

const TARGET: &str = "taskgate::audit";

/// A record of it is on disk.
pub(crate) fn made(record: &Record) {
    let principal = record.principal.as_str();
    tracing::debug!(target: TARGET, task = ?record.id, principal, server = %record.call.server, "task made");
}

/// Its end is on disk.
pub(crate) fn ended(record: &Record) {
    let how = match record.task.ending() {
        Some(Ending::Returned { is_error: false, .. }) => "completed",
        Some(Ending::Returned { is_error: true, .. }) => "completed with a tool error",
        Some(Ending::Raised { .. }) => "failed by the server's error",
        Some(Ending::Faulted(_)) => "failed",
        Some(Ending::Cancelled) => "cancelled",
        None => return,
    };
    let principal = record.principal.as_str();
    tracing::debug!(target: TARGET, task = ?record.id, principal, how, "task ended");
}

/// Somebody asked about it; whether they found it.
pub(crate) fn asked(principal: &Principal, id: &TaskId, is_found: bool) {
    let principal = principal.as_str();
    if is_found {
        tracing::debug!(target: TARGET, task = ?id, principal, "task read");
    } else {
        tracing::debug!(target: TARGET, task = ?id, principal, "task asked about in vain");
    }
}
