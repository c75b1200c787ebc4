//! A record without its payloads (R5.5).

use bytes::Bytes;
use taskgate_core::id::{OperationId, Principal, ServerName, TaskId};
use taskgate_core::operation::Operation;
use taskgate_core::task::{Ending, State, Task};
use taskgate_core::time::UnixMillis;

use crate::record::{Phase, Record};

/// A record without what was called with and what came of it, for lists and walks: whatever its payloads weigh, it costs the same.
/// Made of a record it lets go of them, so that it cannot hold any; nothing can be appended by it.
///
/// An error that is no longer than [`Summary::SAID_BYTES_MAX`] is kept, since lists say why a task failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary(Record);

impl Summary {
    /// The longest error, a tool's own or one of the protocol, of which a list repeats the words.
    pub const SAID_BYTES_MAX: usize = 4096;

    /// The summary of a record.
    #[must_use]
    pub fn of(mut record: Record) -> Summary {
        record.call.params = Bytes::new();
        if let State::Over { ending, .. } = &mut record.task.state {
            match ending {
                Ending::Returned { result, is_error: false } => *result = Bytes::new(),
                Ending::Returned { result: error, is_error: true } | Ending::Raised { error } => {
                    if error.len() > Summary::SAID_BYTES_MAX {
                        *error = Bytes::new();
                    }
                }
                Ending::Cancelled | Ending::Faulted(_) => {}
            }
        }
        Summary(record)
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.0.id
    }

    /// Whose it is.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// The server that was called.
    #[must_use]
    pub fn server(&self) -> &ServerName {
        &self.0.call.server
    }

    /// The tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.0.call.tool
    }

    /// Whether it came by a frame.
    #[must_use]
    pub fn has_frame(&self) -> bool {
        self.0.call.frame.is_some()
    }

    /// The task. The result that it ended with is empty, and so is an error that is long.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.0.task
    }

    /// The operation's id.
    #[must_use]
    pub fn operation_id(&self) -> &OperationId {
        &self.0.operation_id
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        &self.0.operation
    }

    /// When it was made.
    #[must_use]
    pub fn created(&self) -> UnixMillis {
        self.0.task.lifetime.created
    }

    /// When the work must be over.
    #[must_use]
    pub fn deadline(&self) -> UnixMillis {
        self.0.deadline
    }

    /// When anything last changed.
    #[must_use]
    pub fn updated(&self) -> UnixMillis {
        self.0.updated
    }

    /// When a client was first given the final result.
    #[must_use]
    pub fn fetched(&self) -> Option<UnixMillis> {
        self.0.fetched
    }

    /// See [`Record::phase`].
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.0.phase()
    }

    /// See [`Record::is_returned`].
    #[must_use]
    pub fn is_returned(&self) -> bool {
        self.0.is_returned()
    }

    /// See [`Record::notes_fetch`].
    #[must_use]
    pub fn notes_fetch(&self) -> bool {
        self.0.notes_fetch()
    }

    /// See [`Record::is_unfetched`].
    #[must_use]
    pub fn is_unfetched(&self) -> bool {
        self.0.is_unfetched()
    }
}
