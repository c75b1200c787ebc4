//! From bytes to an envelope, on one pass.

use bytes::Bytes;
use core::ops::Range;

use super::{Call, Malformed, Message, Notification, Params, Request, Response, is_absent};
use crate::id::RequestId;
use crate::json::scan::{RawMember, Scanner};
use crate::json::{is_named, string};

/// Reads one message. Its bytes are kept as they are.
///
/// # Errors
/// [`Malformed`] says what is wrong and where; a JSON array is [`Malformed::Batch`].
///
/// # Leniency
/// - `params: null` is no params (clients that write every optional field).
///   Leniency: params-null
/// - A response with both `result` and `error` is an error, and one with `error: null` is a result (rmcp
///   before 3.6 wrote both).
///   Leniency: result-and-error
/// - Ids that are fractions or beyond 64 bits are kept as text.
///   Leniency: odd-ids
pub fn parse(raw: Bytes) -> Result<Message, Malformed> {
    let text = core::str::from_utf8(&raw).map_err(|error| Malformed::Utf8 { at: error.valid_up_to() })?;
    let mut scanner = Scanner::new(text);
    scanner.space();
    match scanner.peek() {
        Some(b'{') => {}
        Some(b'[') => {
            scanner.value(0)?;
            scanner.end()?;
            return Err(Malformed::Batch);
        }
        Some(_) | None => {
            scanner.value(0)?;
            return Err(Malformed::Envelope { what: "it is no object", id: None });
        }
    }
    let mut params = None;
    let members = scanner.members_with(0, |scanner, name, above| {
        let is_params = text.get(name).map(crate::json::unescape).as_deref() == Some("params");
        if is_params && scanner.peek() == Some(b'{') {
            let start = scanner.pos;
            let members = scanner.members(above)?;
            params = Some(Params { span: start..scanner.pos, members });
            Ok(start..scanner.pos)
        } else {
            if is_params {
                params = None;
            }
            scanner.value(above)
        }
    })?;
    scanner.end()?;
    let parts = Parts::pick(text, &members);
    let id = parts.id.and_then(RequestId::from_text);
    let fail = |what| Err(Malformed::Envelope { what, id: id.clone() });
    if parts.jsonrpc.and_then(string).as_deref() != Some("2.0") {
        return fail("jsonrpc is not \"2.0\"");
    }
    if let Some(method) = parts.method {
        let Some(method) = string(method) else { return fail("the method is no string") };
        let method = method.into_owned();
        match parts.params {
            Some(value) if !is_absent(value) && params.is_none() => return fail("params is no object"),
            Some(_) | None => {}
        }
        let has_id = parts.id.is_some();
        if has_id && id.is_none() {
            return fail("the id is neither a string nor a number");
        }
        let call = Call { method, params, raw };
        return Ok(match id {
            Some(id) => Message::Request(Request { id, call }),
            None => Message::Notification(Notification { call }),
        });
    }
    let (is_error, body) = match (parts.error, parts.result) {
        (Some((error, span)), _) if !is_absent(error) => {
            if !error.starts_with('{') {
                return fail("the error is no object");
            }
            (true, span)
        }
        (_, Some((result, span))) => {
            if !result.starts_with('{') {
                return fail("the result is no object");
            }
            if id.is_none() {
                return fail("a result without the id of its request");
            }
            (false, span)
        }
        (Some(_) | None, None) => return fail("it has neither method, result nor error"),
    };
    Ok(Message::Response(Response { id, is_error, body, raw }))
}

/// Reads a batch: each message on its own, in order (D-005).
///
/// # Errors
/// [`Malformed`] if it is no array, or an empty one.
pub fn parse_batch(raw: &Bytes) -> Result<Vec<Result<Message, Malformed>>, Malformed> {
    let text = core::str::from_utf8(raw).map_err(|error| Malformed::Utf8 { at: error.valid_up_to() })?;
    let mut scanner = Scanner::new(text);
    scanner.space();
    let elements = scanner.elements(0)?;
    scanner.end()?;
    if elements.is_empty() {
        return Err(Malformed::Envelope { what: "an empty batch", id: None });
    }
    Ok(elements.into_iter().map(|span| parse(raw.slice(span))).collect())
}

/// The members that matter; the last of each name.
#[derive(Default)]
struct Parts<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<(&'a str, Range<usize>)>,
    error: Option<(&'a str, Range<usize>)>,
}

impl<'a> Parts<'a> {
    fn pick(text: &'a str, members: &[RawMember]) -> Parts<'a> {
        let mut parts = Parts::default();
        for member in members {
            let value = text.get(member.value.clone()).unwrap_or_default();
            let is = |name| is_named(text, member, name);
            if is("jsonrpc") {
                parts.jsonrpc = Some(value);
            } else if is("id") {
                parts.id = Some(value);
            } else if is("method") {
                parts.method = Some(value);
            } else if is("params") {
                parts.params = Some(value);
            } else if is("result") {
                parts.result = Some((value, member.value.clone()));
            } else if is("error") {
                parts.error = Some((value, member.value.clone()));
            }
        }
        parts
    }
}
