//! Talks to MCP servers over stdio and Streamable HTTP, in every era.
//!
//! [`Servers`] holds what is configured and opens [`Session`]s: one per principal and set of offers, or one for all,
//! as each server's [`Sharing`] has it. A session calls
//! tools in whichever form the server has for it, follows the server's own tasks, passes every other request
//! through, and never loses the difference between *no byte left us* and *it may have arrived*.
//!
//! - [`config`], [`secret`]: how servers are reached
//! - `hears`, `conceal`: what they print and how they fare, for people
//! - `opening`: the era (D-014 to D-023) and the handshake
//! - `core`, `traffic`: requests of ours, and what servers say of themselves
//! - `stdio`, `http`, `link`: the two transports
//! - `call`, `tasks`: what the engine asks for
//! - `web`: single requests to systems of record and webhooks
//! - [`guard`]: no server process outlives us

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod asker;
mod call;
mod conceal;
pub mod config;
mod core;
mod gather;
pub mod guard;
mod heard;
mod hears;
mod http;
mod link;
mod manifest;
mod notice;
mod opening;
mod raw;
mod running;
pub mod secret;
mod servers;
mod session;
mod stdio;
mod subscribe;
mod tasks;
mod tools;
mod traffic;
mod web;

pub use asker::Asker;
pub use config::{EraChoice, InheritEnv, Options, Restart, ServerConfig, Sharing, Transport};
pub use hears::{Hears, ServerEvent};
pub use manifest::{Evidence, Manifest};
pub use notice::Notice;
pub use raw::{RawAnswer, RawInFlight};
pub use running::Running;
pub use secret::Secret;
pub use servers::Servers;
pub use session::Session;
pub use tools::{ToolFacts, ToolTable};
pub use web::WebClient;
