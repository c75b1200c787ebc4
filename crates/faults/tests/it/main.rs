//! The parts themselves: a campaign is worth no more than they are.
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect fails")]

mod bank;
mod proxy;
mod servers;
