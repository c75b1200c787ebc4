//! The demo: a server whose effects can be counted, and a play that shows what a gateway is good for.

pub(crate) mod play;
pub(crate) mod server;
