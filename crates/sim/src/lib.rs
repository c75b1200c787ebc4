//! The parts of deterministic simulations (notes 3.3, H4). For tests only; nothing that is shipped links it.
//!
//! One thread, one paused clock, and every choice from a seed: whoever plays a seed again sees the same again. Each part
//! outlives the gateway under test, or is handed anew to each of its lives:
//!
//! - [`SimClock`]: the wall clock, which goes on over all lives and jumps where the simulation says so
//! - [`Ids`]: the ids and the jitter of one life
//! - [`Around`], [`Way`]: the store in memory, and what lies between it and who uses it
//! - [`SlowDisk`]: a way that takes its time, refuses, and stops in the middle of a write
//! - [`History`]: every version that came onto the disk, for the judge
//! - [`Server`]: the server with its own books, and the line to it. What was sent may arrive late, once or never, also
//!   when nobody waits for it any more; the books count what came and what was done
//! - [`Line`], [`Servers`]: the same server as the engine sees it
//! - [`Flow`], [`Flows`]: what an operator says of its tools, one workflow for each way of finding out
//! - [`Post`]: the webhook of those who decide
//! - [`Tally`]: how often each thing happened, so that no run passes by being empty
//!
//! A simulation builds one runtime for each life (`start_paused`), spawns [`Server::run`] on it, and drops it with all
//! that was under way; between two lives it lets the server work on by [`Server::pass`].

mod around;
mod clock;
mod disk;
mod ids;
mod post;
mod rules;
mod server;
mod tally;

pub use around::{Around, Done, Failed, Way};
pub use clock::{HOUR, SimClock};
pub use disk::{Grave, History, Retired, SlowDisk};
pub use ids::Ids;
pub use post::Post;
pub use rules::{Flow, Flows};
pub use server::{Entry, FENCE, LOOK, Line, PAY, Server, Servers, TAKES_AT_MOST};
pub use tally::Tally;
pub use taskgate_power::Random;
