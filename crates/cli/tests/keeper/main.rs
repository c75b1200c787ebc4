//! `run` and the keeper: real processes, real kills.
//!
//! Every test has a user of its own (a state folder in a temporary one) and a scripted server whose journal says how
//! often each call arrived. Nothing is installed but Python and the system's `setpriv` and `unshare`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test that meets what it does not expect fails"
)]

mod back;
mod bad;
mod commands;
mod crash;
mod end;
mod frames;
mod host;
mod life;
mod lost;
mod place;
mod safety;
mod scene;
mod sharing;
mod workflows;
