//! What a fault campaign is made of. Nothing here knows taskgate: it depends on no other crate of ours, so that what
//! it says of an effect is a second opinion.
//!
//! - [`bank`]: a service whose effects count, with books of its own that are on disk before it answers
//! - [`books`]: those books, as a checker reads them
//! - [`server`]: MCP servers of every kind that pay through the bank
//! - [`client`]: clients of every front that repeat what they lost
//! - [`proxy`]: what stands on a line and breaks it where it is told to
//! - [`bridge`]: makes a line out of a process's stdin and stdout, so that a proxy can stand on it
//! - [`parts`]: all of these as processes of their own

pub mod bank;
pub mod books;
pub mod bridge;
pub mod client;
mod clock;
pub mod parts;
pub mod proxy;
pub mod server;
mod web;
