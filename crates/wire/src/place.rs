//! Which way of speaking a front message belongs to, from its envelope and never from its method (D-001 to
//! D-013).

use crate::header;
use crate::message::{Malformed, Message};
use crate::meta::{META, modern};
use crate::rpc_error::{RpcError, supported_words};
use crate::version::Version;

pub use crate::meta::modern::RequestMeta;

/// The methods that the endpoint takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HttpMethod {
    /// A legacy stream.
    Get,
    /// A message.
    Post,
    /// The end of a legacy session.
    Delete,
}

/// What the gateway knows of the session that a request names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Session {
    /// It names none.
    Absent,
    /// It lives, at the version that it negotiated.
    Known(Version),
    /// It was never given out, has ended, or is another caller's.
    Unknown,
}

/// What stands around the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HttpFacts<'a> {
    /// How it was sent.
    pub method: HttpMethod,
    /// `MCP-Protocol-Version`.
    pub version_header: Option<&'a str>,
    /// What `MCP-Session-Id` names.
    pub session: Session,
}

/// Where a message belongs.
#[derive(Clone, PartialEq, Debug)]
pub enum Placement<'a> {
    /// A stateless request whose version is known and equals its header. The other mirrored headers come next
    /// ([`header::check`]).
    Modern(RequestMeta<'a>),
    /// A notification without a session: modern clients have nothing else to send it by (B-033, Q-038).
    ModernNotification,
    /// The opening of a legacy session (D-002, D-011).
    Initialize,
    /// A message of a legacy session at this version.
    Legacy(Version),
    /// A batch, to be taken apart (D-005).
    Batch,
    /// A legacy session's stream is opened (D-006).
    Stream,
    /// A legacy session is ended (D-006).
    EndSession,
    /// Nothing to do and nobody to answer.
    Ignore,
    /// It cannot be served.
    Refuse {
        /// The status, over HTTP.
        http_status: u16,
        /// The answer. Notifications and responses are not answered on stdio.
        error: RpcError,
    },
}

fn refuse<'a>(http_status: u16, error: RpcError) -> Placement<'a> {
    Placement::Refuse { http_status, error }
}

/// Places a request to the HTTP endpoint. `body` is what [`message::parse`](crate::message::parse) made of a
/// POST's body, nothing for the other methods.
///
/// # Source
/// D-001 to D-009; first match wins
#[must_use]
pub fn place_http<'a>(facts: &HttpFacts<'_>, body: Option<Result<&'a Message, &Malformed>>) -> Placement<'a> {
    match (facts.method, facts.session) {
        (HttpMethod::Get, Session::Known(_)) => return Placement::Stream,
        (HttpMethod::Delete, Session::Known(_)) => return Placement::EndSession,
        (HttpMethod::Get | HttpMethod::Delete, Session::Unknown) => {
            return refuse(404, RpcError::session_unknown());
        }
        (HttpMethod::Get | HttpMethod::Delete, Session::Absent) => {
            return refuse(405, RpcError::invalid_request("Only POST is served without a session"));
        }
        (HttpMethod::Post, Session::Absent | Session::Known(_) | Session::Unknown) => {}
    }
    match body {
        Some(Ok(message)) => place_message(facts, message),
        Some(Err(Malformed::Batch)) => match facts.session {
            Session::Known(version) if version.has_batches() => Placement::Batch,
            Session::Known(_) | Session::Absent | Session::Unknown => refuse(400, Malformed::Batch.to_rpc()),
        },
        Some(Err(malformed)) => refuse(400, malformed.to_rpc()),
        None => refuse(400, RpcError::invalid_request("The body is empty")),
    }
}

fn place_message<'a>(facts: &HttpFacts<'_>, message: &'a Message) -> Placement<'a> {
    let meta = message.param(META);
    // D-001
    if modern::names_version(meta) {
        return match message {
            Message::Request(request) if request.method() == "initialize" => {
                refuse(404, RpcError::no_initialize_here())
            }
            Message::Request(_) => match modern_request(meta, facts.version_header) {
                Ok(meta) => Placement::Modern(meta),
                Err(error) => refuse(400, error),
            },
            Message::Notification(_) | Message::Response(_) => Placement::ModernNotification,
        };
    }
    // D-002
    if matches!(message, Message::Request(request) if request.method() == "initialize") {
        return Placement::Initialize;
    }
    let header = facts.version_header.map(str::trim);
    // D-003
    if header.is_some_and(|header| header >= Version::MODERN.as_str()) {
        return match message {
            Message::Request(_) => refuse(
                400,
                modern::read_meta(meta)
                    .err()
                    .unwrap_or_else(|| RpcError::invalid_params("Missing params._meta")),
            ),
            Message::Notification(_) => Placement::ModernNotification,
            Message::Response(_) => {
                refuse(400, RpcError::invalid_request("A stateless client never sends a response"))
            }
        };
    }
    if let Some(header) = header
        && Version::parse(header).is_none()
    {
        let message = format!("Unsupported MCP-Protocol-Version; supported versions: {}", supported_words());
        return refuse(400, RpcError::invalid_request(message));
    }
    match facts.session {
        // D-004
        Session::Known(version) => Placement::Legacy(version),
        Session::Unknown => refuse(404, RpcError::session_unknown()),
        // D-008
        Session::Absent if header.is_some() => refuse(400, RpcError::session_required()),
        // D-009
        Session::Absent => {
            let message = format!("Missing MCP-Protocol-Version header; supported: {}", supported_words());
            refuse(400, RpcError::header_mismatch(message))
        }
    }
}

/// `_meta` presence, then the header against the body, then whether the version is spoken.
fn modern_request<'a>(meta: Option<&'a str>, header: Option<&str>) -> Result<RequestMeta<'a>, RpcError> {
    let meta = modern::read_meta(meta)?;
    header::check_version(header, &meta.version)?;
    Ok(meta)
}

/// Places one message on a pipe. `initialized` is the version that an `initialize` before it negotiated.
///
/// A notification or response without `_meta` belongs to whichever side knows its id.
///
/// # Source
/// D-010 to D-013
#[must_use]
pub fn place_stdio<'a>(
    message: Result<&'a Message, &Malformed>,
    initialized: Option<Version>,
) -> Placement<'a> {
    let message = match message {
        Ok(message) => message,
        Err(Malformed::Batch) if initialized.is_some_and(Version::has_batches) => return Placement::Batch,
        Err(malformed) => return refuse(400, malformed.to_rpc()),
    };
    let meta = message.param(META);
    if modern::names_version(meta) {
        let read = |meta| {
            let meta = modern::read_meta(meta)?;
            header::known_version(&meta.version)?;
            Ok(meta)
        };
        return match message {
            Message::Request(request) if request.method() == "initialize" => {
                refuse(404, RpcError::no_initialize_here())
            }
            Message::Request(_) => read(meta).map_or_else(|error| refuse(400, error), Placement::Modern),
            Message::Notification(_) | Message::Response(_) => Placement::ModernNotification,
        };
    }
    match (message, initialized) {
        (Message::Request(request), _) if request.method() == "initialize" => Placement::Initialize,
        (_, Some(version)) => Placement::Legacy(version),
        (Message::Request(request), None) if request.method() == "ping" => {
            Placement::Legacy(Version::NEWEST_LEGACY)
        }
        (Message::Request(_), None) => {
            let message = format!(
                "Missing {} in params._meta, and no initialize before; supported versions: {}",
                crate::meta::PROTOCOL_VERSION,
                supported_words()
            );
            refuse(400, RpcError::invalid_params(message))
        }
        (Message::Notification(_), None) => Placement::ModernNotification,
        (Message::Response(_), None) => Placement::Ignore,
    }
}
