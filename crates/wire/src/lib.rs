//! What goes over the line.
//!
//! Bytes pass untouched: envelopes are looked at through borrowed slices and edited by splicing. We are
//! strict in what we write and lenient in what we read; every leniency names the peer that needs it. Nothing
//! here does IO.
//!
//! Text:
//! - [`json`]: shallow views of JSON text, canonical form, duplicates
//! - [`splice`](mod@splice): edits that leave everything else byte for byte
//! - [`text`]: peers' words made safe to show (R6.3)
//! - [`mod@time`] reads and writes timestamps
//! - [`sse`]: event streams
//!
//! Envelopes:
//! - [`id`], [`message`]: JSON-RPC
//! - [`rpc_error`], [`errors`]: errors that we author, and what becomes of a back's (E-001 to E-014)
//! - [`header`]: the headers of Streamable HTTP
//! - [`meta`]: `_meta` keys and what modern requests carry in them
//!
//! Peers:
//! - [`version`]: protocol versions and what each can carry
//! - [`offers`]: what a client can be asked for
//! - [`place`], [`probe`]: who speaks which way, on the front and on the back (D-001 to D-023)
//! - [`handshake`]: `initialize` and `server/discover`
//!
//! Contents:
//! - [`listing`]: tools and other lists
//! - [`result`](mod@result): tool results, across versions
//! - [`question`], [`answer`], [`mrtr`]: what backs ask of clients, and what they hear
//! - [`dialect`]: tasks, in dialect A and dialect B

pub mod answer;
pub mod content;
pub mod dialect;
pub mod errors;
pub mod handshake;
pub mod header;
pub mod id;
pub mod json;
pub mod listing;
pub mod message;
pub mod meta;
pub mod mrtr;
pub mod offers;
pub mod place;
pub mod probe;
pub mod question;
pub mod result;
pub mod rpc_error;
pub mod splice;
pub mod sse;
pub mod text;
pub mod time;
pub mod version;

pub use id::RequestId;
pub use message::{Malformed, Message};
pub use rpc_error::RpcError;
pub use version::{Era, Version};
