//! Sessions with real processes and over real sockets.

#![expect(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test fails by panicking")]

mod asking;
mod batches;
mod duties;
mod guard;
mod heard;
mod http;
mod keeping;
mod stdio;
mod support;
mod web;
