//! How a request ends, whatever the transport.

use ::http::StatusCode;
use bytes::Bytes;
use taskgate_core::id::TaskId;
use taskgate_store::record::Record;
use taskgate_wire::id::RequestId;
use taskgate_wire::message;
use taskgate_wire::rpc_error::RpcError;

use crate::follow::Telling;

/// The end of one request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// For HTTP, if the answer has not become a stream already.
    pub(crate) status: StatusCode,
    /// What is said.
    pub(crate) end: End,
    /// The id of a session that was opened.
    pub(crate) session: Option<String>,
    /// The tasks whose final results are in it; several only of a batch.
    pub(crate) delivers: Vec<TaskId>,
    /// The task that its client learns of by it, held until it was handed to the client's stream.
    pub(crate) telling: Option<Telling>,
}

/// The last word.
#[derive(Debug)]
pub(crate) enum End {
    /// A JSON-RPC message.
    Message(Bytes),
    /// Nothing is to be said: a notification, or a request that its client cancelled.
    Silence,
    /// The stream breaks off; its client resumes it (A-128, G-021).
    Severed,
}

impl Reply {
    pub(crate) fn result(id: &RequestId, result: &str) -> Reply {
        Reply::message(StatusCode::OK, message::success(id, result))
    }

    pub(crate) fn error(status: StatusCode, id: Option<&RequestId>, error: &RpcError) -> Reply {
        Reply::message(status, message::error(id, error))
    }

    pub(crate) fn message(status: StatusCode, body: Bytes) -> Reply {
        Reply { status, end: End::Message(body), session: None, delivers: Vec::new(), telling: None }
    }

    /// Notes that the record's result is in it, if it has one.
    pub(crate) fn delivering(self, record: &Record) -> Reply {
        Reply { delivers: delivered(record).into_iter().collect(), ..self }
    }

    /// 202 without a body.
    pub(crate) fn accepted() -> Reply {
        Reply {
            status: StatusCode::ACCEPTED,
            end: End::Silence,
            session: None,
            delivers: Vec::new(),
            telling: None,
        }
    }

    pub(crate) fn severed() -> Reply {
        Reply {
            status: StatusCode::SERVICE_UNAVAILABLE,
            end: End::Severed,
            session: None,
            delivers: Vec::new(),
            telling: None,
        }
    }
}

/// The task of a record, if a message that shows its end delivers a result that nobody was given.
pub(crate) fn delivered(record: &Record) -> Option<TaskId> {
    record.is_unfetched().then(|| record.id.clone())
}
