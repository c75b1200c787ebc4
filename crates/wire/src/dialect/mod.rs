//! Tasks on the wire, twice: the same record as dialect A and dialect B show it, and what backs of either
//! say.

pub mod a;
pub mod b;
mod back;
mod fault;
mod view;

pub use back::{BackStatus, BackTask};
pub use fault::fault_error;
pub use view::{Status, View};

pub use crate::mrtr::UpstreamFault;

use crate::json::{self, string_literal};
use crate::rpc_error::RpcError;
use taskgate_core::id::TaskId;

/// The `taskId` of a client's request, whatever dialect it is in.
///
/// # Errors
/// `-32602`: none, or one that no task of ours can have, which is answered like an unknown one (A-051,
/// B-081).
pub fn task_id(raw: Option<&str>) -> Result<TaskId, RpcError> {
    let raw = raw.ok_or_else(|| RpcError::invalid_params("Missing params.taskId"))?;
    let text = json::string(raw).ok_or_else(|| RpcError::invalid_params("params.taskId is no string"))?;
    TaskId::parse(&text).map_err(|_| RpcError::unknown_task())
}

/// The params of `tasks/get`, `tasks/result` and `tasks/cancel` to a back, with its own id.
#[must_use]
pub fn params(back_task_id: &str) -> String {
    format!("{{\"taskId\":{}}}", string_literal(back_task_id))
}
