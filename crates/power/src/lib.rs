//! Power loss, for tests (notes 3.1, H11).
//!
//! `kill -9` cannot show what a store owes to its syncs, since the kernel keeps what was written. Here a thin layer
//! between SQLite and its own file system notes every write, truncation, sync, creation and deletion. From these
//! notes the disks can be made that a loss of power at any moment may leave: what was synced is there; of the rest,
//! each sector of 512 bytes is there or not.
//!
//! - [`Recording`]: what is done to the files of one folder
//! - [`Disk`]: what of it is durable, and what may be lost
//! - [`Image`]: the files after a loss
//!
//! SQLite's own file system does the work, with its locks and its shared memory; only syncs are left out, which
//! change nothing that a living process could see.

mod disk;
mod random;
mod trace;
mod vfs;

pub use disk::{Disk, Image, Loss};
pub use random::Random;
pub use trace::{Recording, Step};
