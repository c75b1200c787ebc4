//! Servers over Streamable HTTP.

mod endpoint;
mod exchange;
mod listen;
mod pool;
mod stream;
mod trace;

pub(crate) use endpoint::{Endpoint, Got, Mirrored, Outgoing, mirrored};
pub(crate) use exchange::{Job, exchange};
pub(crate) use listen::listen;
pub(crate) use pool::{Care, Pool, SendError, host};
pub(crate) use trace::Trace;
