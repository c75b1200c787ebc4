//! What passes on the lines to clients and servers, checked message by message against the official schemas.
//!
//! - [`http`]: HTTP/1.1 and streams of events, as they pass by
//! - [`tap`]: stands on a line, over HTTP or around a process, and writes down what passes
//! - [`schema`]: the official schemas, and which type of them a message has to be
//! - [`judge`]: a whole conversation: each answer by its request, and what must not be there
//! - [`rules`]: what HTTP has to look like around the messages
//!
//! A schema of MCP is open: it takes members that it does not know. So what a message must *not* have, because it
//! belongs to the other dialect, is checked beside it.

pub(crate) mod http;
pub(crate) mod judge;
mod proof;
mod rules;
pub(crate) mod schema;
pub(crate) mod tap;
