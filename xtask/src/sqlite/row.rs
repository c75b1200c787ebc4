//! What is committed.

/// A kind of row: an id of 32 characters and one text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Row {
    /// The raw profile: a request of 300 bytes in a table of its own.
    Raw,
    /// As many bytes as the gateway writes for one created task into all its tables and indexes together.
    Ours,
}

/// What the gateway writes for one create, by the lengths of all columns: the task 178 bytes, its operation 155, the
/// params with their key 145, the event 98, and the entries of three indexes 58, 46 and 78. The id is 32 of them.
const OURS_BYTES: usize = 758 - 32;

const RAW_BYTES: usize = 300;

impl Row {
    /// The bytes of its text.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Row::Raw => RAW_BYTES,
            Row::Ours => OURS_BYTES,
        }
    }
}
