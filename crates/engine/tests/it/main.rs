//! The engine over a scripted back and the store in memory.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets what it does not expect fails"
)]

mod audit;
mod calls;
mod crash;
mod doubtful;
mod fetched;
mod ledger;
mod lost;
mod parked;
mod questions;
mod reconcile;
mod stage;
mod watching;
