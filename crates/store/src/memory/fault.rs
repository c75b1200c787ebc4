//! How the store can be made to misbehave.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::Error;

/// The kinds of command that faults are told apart by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CommandKind {
    /// [`create`](crate::Store::create)
    Create,
    /// [`append`](crate::Store::append)
    Append,
    /// [`fetched`](crate::Store::fetched)
    Fetched,
    /// [`settle`](crate::Store::settle)
    Settle,
    /// [`purge`](crate::Store::purge) and [`retire`](crate::Store::retire)
    Purge,
    /// Any that writes sessions.
    Session,
    /// Any that only reads.
    Read,
}

/// What one command suffers.
pub enum Fault {
    /// It answers with this error, and nothing was done.
    Fail(Error),
    /// It answers with this error, and yet it was done (INV-45).
    Ambiguous(Error),
    /// It waits for this before it does anything: a sleep on the test's clock, or a signal of the test's.
    Wait(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// It does what it does, and says so only after this.
    Late(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Fail(error) => f.debug_tuple("Fail").field(error).finish(),
            Fault::Ambiguous(error) => f.debug_tuple("Ambiguous").field(error).finish(),
            Fault::Wait(_) => f.write_str("Wait(…)"),
            Fault::Late(_) => f.write_str("Late(…)"),
        }
    }
}
