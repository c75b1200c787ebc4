//! How an exchange with a server ended, before anyone has judged what was said.

use bytes::Bytes;
use taskgate_wire::message::{OutcomeBytes, Response};

/// The end of one exchange.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    /// A result object.
    Result(Bytes),
    /// An error object.
    Error(Bytes),
    /// No byte of the request left us.
    NeverSent(String),
    /// It may have arrived; no answer can come.
    Lost(String),
    /// It was answered by what is no answer.
    Nonsense(String),
    /// It was refused by HTTP, with nothing in the body that says more.
    Refused(u16),
    /// The server refused it because the session is gone: it was not looked at.
    SessionGone,
}

/// What a server said, or why nothing was heard: [`Heard`] with the two told apart.
#[derive(Debug)]
pub(crate) enum Spoken {
    Result(Bytes),
    Error(Bytes),
}

impl Heard {
    /// What the server said, or this back.
    pub(crate) fn spoken(self) -> Result<Spoken, Heard> {
        match self {
            Heard::Result(result) => Ok(Spoken::Result(result)),
            Heard::Error(error) => Ok(Spoken::Error(error)),
            Heard::NeverSent(_)
            | Heard::Lost(_)
            | Heard::Nonsense(_)
            | Heard::Refused(_)
            | Heard::SessionGone => Err(self),
        }
    }

    pub(crate) fn response(response: &Response) -> Heard {
        match response.outcome_bytes() {
            OutcomeBytes::Result(result) => Heard::Result(result),
            OutcomeBytes::Error(error) => Heard::Error(error),
        }
    }
}
