//! Makes decisions durable: load, decide, append, and only then act.
//!
//! The [`Engine`] owns every unfinished call. It asks `core` what to do, has the store write it down, and then
//! answers, sends or wakes. It knows no HTTP, no SQL and no JSON: the side towards servers is the [`back::Back`]
//! trait, the store is `taskgate_store::Store`, and payloads are bytes that it never looks into.

pub mod back;
pub mod clock;
pub mod ids;
pub mod limits;
