//! The front: listeners, sessions, the methods of an MCP server, and tasks in both dialects.
//!
//! A request is placed by its envelope, never by its method (D-001 to D-013); then one handler carries it to its end.
//! Every way to answer is open on one endpoint: dialect A, dialect B and plain calls, side by side.
//!
//! - [`config`]: what the operator decides
//! - [`gateway`]: the front as a whole; `serve_http`, `serve_pipe` and `serve_stdio` are its listeners
//! - [`pipe`]: what goes over a pipe, by whomever it is carried
//!
//! Ways in and out:
//! - `http`, `pipe`, `stdio`: the transports
//! - `outlet`, `reply`, `event_id`: what a request sends, how it ends, and where its stream is taken up again
//! - `session`, `requests`, `asks`: legacy sessions, their requests under way, and the questions they were asked
//! - `incoming`, `standing`, `resume`: what else a legacy client sends and holds open
//!
//! Handlers:
//! - `dispatch`: which one
//! - `initialize`, `tools`, `passthrough`: what servers say and do
//! - `calls`, `flight`, `wait`, `known`, `retry`: a `tools/call` from the router to its answer
//! - `tasks_a`, `tasks_b`, `follow`, `subscriptions`, `handle_tool`, `pages`: following a call that goes on
//! - `results`: long results of tools with a workflow, told of by a handle
//!
//! - [`upstream`]: the servers, as the front sees them
//!
//! Helpers: `watches` (servers), `params`, `modern`, `level`, `view`, `seal`, `caps`.

mod admit;
mod asks;
mod batch;
mod calls;
mod caps;
pub mod config;
mod dispatch;
mod event_id;
mod flight;
mod follow;
pub mod gateway;
mod handle_tool;
mod http;
mod incoming;
mod initialize;
mod known;
mod level;
mod misses;
mod modern;
mod outlet;
mod pages;
mod params;
mod passthrough;
pub mod pipe;
mod reply;
mod requests;
mod results;
mod resume;
mod retry;
mod seal;
mod session;
mod standing;
mod stdio;
mod subscriptions;
mod tasks_a;
mod tasks_b;
mod tools;
pub mod upstream;
mod view;
mod wait;
mod watches;

pub use config::{GatewayConfig, Limits, Listing, Sees, ServerPolicy, ToolPolicy};
pub use gateway::{Gateway, Parts};
pub use pipe::{Attached, Incoming, Outgoing};
pub use results::INLINE_MIN;

#[cfg(test)]
mod tests;
