//! Makes decisions durable: load, decide, append, and only then act.
//!
//! The [`Engine`] owns every unfinished call. It asks `core` what to do, has the store write it down, and then
//! answers, sends or wakes. It knows no HTTP, no SQL and no JSON: the side towards servers is the [`back::Back`]
//! trait, the store is `taskgate_store::Store`, and payloads are bytes that it never looks into.
//!
//! - [`engine`]: what fronts ask for: submit, adopt, find, answer, cancel, list
//! - `fetched`: which results clients were given
//! - `audit`: what is logged of tasks, and of whom
//! - `house`: what keeps it in order, and how it ends
//! - [`handle`]: watching one task
//! - `newest`: what is shown of it, and who waits for more
//! - [`back`]: what the engine needs of the side towards servers
//! - `drive`, `observe`: one exchange with a back, from the send to the end
//! - `farewell`: what is still heard of an exchange after its task has ended, and that it is over
//! - `visit`: a URL that must be visited before a call can run
//! - [`recover`]: what is done after a crash, before anything else
//! - `parked`: what waits for its server after one
//! - [`ledger`]: what is known of effects: written with the end of an exchange, and learned after it
//! - `reconcile`: the operations whose system of record is being asked
//! - [`rules`]: what the engine asks of workflows
//! - [`web`]: systems of record that are asked over HTTP, and webhooks
//! - `objects`: operations that wait for another one on their object
//! - `draft`: a decision on its way to the store
//! - `written`: what became of a write that the store answered by an error
//! - `lost`: a store that is of no use to this process any more
//! - `slots`, `registry`: who may run now, and what is kept in memory

mod audit;
pub mod back;
pub mod clock;
mod draft;
mod drive;
pub mod engine;
mod farewell;
mod fetched;
pub mod handle;
mod house;
pub mod ids;
pub mod ledger;
pub mod limits;
mod lost;
mod newest;
mod objects;
mod observe;
mod parked;
mod reconcile;
pub mod recover;
mod registry;
pub mod rules;
mod slots;
mod visit;
pub mod web;
mod written;

pub use engine::Engine;
pub use handle::{Handle, Signal};
