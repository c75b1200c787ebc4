//! What is committed.

/// A kind of row: an id of 32 characters and one text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Row {
    /// The raw profile: a request of 300 bytes in a table of its own.
    Raw,
    /// As many bytes as the gateway keeps for one created task in all its tables and indexes together.
    Ours,
}

/// What the gateway writes for one create, by `SELECT sum(...)` over its tables: the task (≈ 300 bytes), its operation
/// (≈ 220), the params (≈ 90 and the key of the row), the event (≈ 80), and the keys of four indexes (≈ 300).
const OURS_BYTES: usize = 1_000;

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
