//! JSON-RPC envelopes, read as borrowed slices of the bytes that came.

mod build;
mod malformed;
mod parse;

use bytes::Bytes;
use core::ops::Range;

pub use build::{error, error_raw, notification, request, success};
pub use malformed::Malformed;
pub use parse::{parse, parse_batch};

use crate::id::RequestId;
use crate::json::scan::RawMember;
use crate::json::{is_named, is_null};

/// One message.
#[derive(Clone, Debug)]
pub enum Message {
    /// It wants an answer.
    Request(Request),
    /// It wants none.
    Notification(Notification),
    /// It is one.
    Response(Response),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    id: RequestId,
    call: Call,
}

/// A notification.
#[derive(Clone, Debug)]
pub struct Notification {
    call: Call,
}

/// What requests and notifications share.
#[derive(Clone, Debug)]
struct Call {
    raw: Bytes,
    method: String,
    params: Option<Params>,
}

/// Where `params` and its members lie: they are found on the one pass over the message.
#[derive(Clone, Debug)]
struct Params {
    span: Range<usize>,
    members: Vec<RawMember>,
}

impl Call {
    fn params(&self) -> Option<&str> {
        text(&self.raw).get(self.params.as_ref()?.span.clone())
    }

    fn params_bytes(&self) -> Option<Bytes> {
        Some(self.raw.slice(self.params.as_ref()?.span.clone()))
    }

    fn param(&self, name: &str) -> Option<&str> {
        let text = text(&self.raw);
        let members = &self.params.as_ref()?.members;
        let member = members.iter().rev().find(|member| is_named(text, member, name))?;
        text.get(member.value.clone())
    }
}

impl Request {
    /// Its id, to be echoed.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// Its method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.call.method
    }

    /// The text of the `params` object. `null` counts as absent.
    #[must_use]
    pub fn params(&self) -> Option<&str> {
        self.call.params()
    }

    /// The bytes of the `params` object, shared with the message.
    #[must_use]
    pub fn params_bytes(&self) -> Option<Bytes> {
        self.call.params_bytes()
    }

    /// The raw value of one member of `params`, without reading the message again.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        self.call.param(name)
    }

    /// All bytes of the message.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        &self.call.raw
    }
}

impl Notification {
    /// Its method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.call.method
    }

    /// The text of the `params` object. `null` counts as absent.
    #[must_use]
    pub fn params(&self) -> Option<&str> {
        self.call.params()
    }

    /// The bytes of the `params` object, shared with the message.
    #[must_use]
    pub fn params_bytes(&self) -> Option<Bytes> {
        self.call.params_bytes()
    }

    /// The raw value of one member of `params`, without reading the message again.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        self.call.param(name)
    }

    /// All bytes of the message.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        &self.call.raw
    }
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    raw: Bytes,
    id: Option<RequestId>,
    is_error: bool,
    body: Range<usize>,
}

/// What a response says, as raw JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<'a> {
    /// The `result` object.
    Result(&'a str),
    /// The `error` object.
    Error(&'a str),
}

/// What a response says, as bytes shared with the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutcomeBytes {
    /// The `result` object.
    Result(Bytes),
    /// The `error` object.
    Error(Bytes),
}

impl Response {
    /// The id of the request it answers. An error may have none: TypeScript servers say `null` when they refuse
    /// before reading the request, and Python ones make up the string `server-error`.
    ///
    /// Leniency: unnamed-error
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    /// What it says.
    #[must_use]
    pub fn outcome(&self) -> Outcome<'_> {
        let body = text(&self.raw).get(self.body.clone()).unwrap_or_default();
        if self.is_error { Outcome::Error(body) } else { Outcome::Result(body) }
    }

    /// What it says, without a copy.
    #[must_use]
    pub fn outcome_bytes(&self) -> OutcomeBytes {
        let body = self.raw.slice(self.body.clone());
        if self.is_error { OutcomeBytes::Error(body) } else { OutcomeBytes::Result(body) }
    }

    /// All bytes of the message.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }
}

impl Message {
    /// All bytes of the message.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        match self {
            Message::Request(request) => request.raw(),
            Message::Notification(notification) => notification.raw(),
            Message::Response(response) => response.raw(),
        }
    }

    /// The method, unless it is a response.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match self {
            Message::Request(request) => Some(request.method()),
            Message::Notification(notification) => Some(notification.method()),
            Message::Response(_) => None,
        }
    }

    /// The id, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        match self {
            Message::Request(request) => Some(request.id()),
            Message::Notification(_) => None,
            Message::Response(response) => response.id(),
        }
    }

    /// The text of the `params` object.
    #[must_use]
    pub fn params(&self) -> Option<&str> {
        match self {
            Message::Request(request) => request.params(),
            Message::Notification(notification) => notification.params(),
            Message::Response(_) => None,
        }
    }

    /// The raw value of one member of `params`.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        match self {
            Message::Request(request) => request.param(name),
            Message::Notification(notification) => notification.param(name),
            Message::Response(_) => None,
        }
    }
}

/// The text of bytes that were found to be UTF-8 when they were parsed. The check is repeated because there
/// is no safe way around it; over ASCII it runs at many gigabytes a second.
fn text(raw: &Bytes) -> &str {
    core::str::from_utf8(raw).unwrap_or_default()
}

fn is_absent(value: &str) -> bool {
    value.is_empty() || is_null(value)
}
