//! The background process behind `taskgate run`, and the pipe that leads to it (design 4).
//!
//! A host that quits kills its stdio children, so work behind `run` lives in one *keeper* per user; `run` itself is a
//! *pipe* to it. The keeper owns the user's store and all server processes; it is started on demand and ends by itself.
//!
//! Shared by both:
//! - [`place`], [`lock`](mod@lock), [`start`], [`reach`]: where the keeper is, that there is one, how it is started and found
//! - [`hello`], [`frame`], [`attachment`]: what they say to each other
//! - [`peer`]: that both belong to one user
//!
//! The pipe: [`pipe`].
//!
//! The keeper:
//! - [`key`]: what an agent can see, and which server process is its own
//! - [`door`], `attend`: who comes in, and one pipe at this side
//! - [`keeper`], `servers`: who is attached, what lives, and when it is time to go
//! - [`control`]: what a person's commands ask, `desk`: what of it any owner of a store answers
//! - [`logs`]: its log and the servers'
//! - [`workflows`]: what it asks of whoever understands the workflows that hosts bring
//!
//! `serve`, which owns a store of its own: [`counter`]

#![cfg_attr(not(test), warn(clippy::expect_used))]

pub mod attachment;
mod attend;
pub mod control;
pub mod counter;
mod desk;
pub mod door;
pub mod frame;
pub mod hello;
pub mod keeper;
pub mod key;
pub mod lock;
pub mod logs;
pub mod peer;
pub mod pipe;
pub mod place;
pub mod reach;
mod servers;
pub mod start;
pub mod workflows;
