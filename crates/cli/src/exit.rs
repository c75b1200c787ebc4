//! What the process says by its exit code. These are stable; `docs/commands.md` lists them.

/// All went well, or a signal ended what was to run until then.
pub(crate) const OK: u8 = 0;
/// Something failed that has no code of its own.
pub(crate) const FAILED: u8 = 1;
/// The command line was not understood.
pub(crate) const USAGE: u8 = 2;
/// The configuration cannot be used.
pub(crate) const CONFIG: u8 = 3;
/// The address cannot be listened at.
pub(crate) const ADDRESS: u8 = 4;
/// The database cannot be used.
pub(crate) const STORE: u8 = 5;
/// A server cannot be reached or started.
pub(crate) const SERVER: u8 = 6;
/// The demo saw something that it had not promised.
pub(crate) const DEMO: u8 = 7;
/// The database failed while it was used, and only the next start can tell what is on disk.
pub(crate) const STORE_LOST: u8 = 8;
/// A second signal ended the process before it was done (128 + SIGINT).
pub(crate) const INTERRUPTED: u8 = 130;
