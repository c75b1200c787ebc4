//! What the store on SQLite promises, with real files and real processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod child;
mod conforms;
mod crash;
mod differential;
mod disk;
mod evidence;
mod fences;
mod opening;
mod scale;
mod whole;
