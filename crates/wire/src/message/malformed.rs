//! Why bytes are not a message.

use crate::id::RequestId;
use crate::json::SyntaxError;
use crate::rpc_error::{RpcError, code};

/// Bytes that are not one JSON-RPC message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// Not UTF-8.
    #[error("not UTF-8 from byte {at} on")]
    Utf8 {
        /// Where it stops being that.
        at: usize,
    },
    /// Not JSON, or nested too deeply.
    #[error("not readable as JSON: {0}")]
    Json(#[from] SyntaxError),
    /// A JSON array: a batch, which only 2025-03-26 has (D-005).
    #[error("a batch, which this protocol version does not have")]
    Batch,
    /// JSON, but no JSON-RPC message that MCP allows.
    #[error("not a JSON-RPC message: {what}")]
    Envelope {
        /// What is wrong with it.
        what: &'static str,
        /// The id, if at least that can be read.
        id: Option<RequestId>,
    },
}

impl Malformed {
    /// `-32700` if it cannot be read at all, else `-32600`.
    #[must_use]
    pub fn code(&self) -> i64 {
        match self {
            Malformed::Utf8 { .. } | Malformed::Json(_) => code::PARSE_ERROR,
            Malformed::Batch | Malformed::Envelope { .. } => code::INVALID_REQUEST,
        }
    }

    /// The id of what was meant to be a request.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        match self {
            Malformed::Envelope { id, .. } => id.as_ref(),
            Malformed::Utf8 { .. } | Malformed::Json(_) | Malformed::Batch => None,
        }
    }

    /// The answer to it.
    #[must_use]
    pub fn to_rpc(&self) -> RpcError {
        let mut message = self.to_string();
        if let Some(first) = message.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        RpcError::new(self.code(), message)
    }
}
