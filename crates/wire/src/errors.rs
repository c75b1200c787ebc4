//! What becomes of a back's error on its way to a client (E-001 to E-014), and which HTTP status goes with
//! it.

use std::borrow::Cow;

use crate::json::{self, Object, string_literal};
use crate::rpc_error::{RpcError, code};
use crate::splice::{Edit, splice};
use crate::text::SafeText;
use crate::version::{Era, Version};

/// The codes that mean only what the specification says (B-013).
const RESERVED: core::ops::RangeInclusive<i64> = -32099..=-32020;

/// A back's error for a modern client.
///
/// - `-32020` to `-32099` become `-32603` and stand in `data.upstreamCode`: what the back says there is about
///   our own request or has a meaning of its own (E-006 to E-008, E-011). So does `-32042`, with its URLs
///   (E-009, G-022). Whoever wants to pass a `-32021` on looks at [`required_capabilities`] first (E-007).
/// - `-32002` becomes `-32602` (E-010).
/// - Everything else is passed byte for byte (E-001, E-002, E-005, E-012).
#[must_use]
pub fn to_modern(error: &str) -> Cow<'_, str> {
    match read_code(error) {
        None => senseless(),
        Some(code) if RESERVED.contains(&code) => demoted(error, code),
        Some(code::RESOURCE_NOT_FOUND) => recoded(error, code::INVALID_PARAMS),
        Some(_) => Cow::Borrowed(error),
    }
}

/// A back's error for a client that speaks `version`.
///
/// - `-32020`, `-32021` and `-32022` become `-32603`: they are about our own request (E-006 to E-008).
/// - `-32042` is for 2025-11-25 only; older clients read the URLs in the message (E-009).
/// - Everything else is passed byte for byte.
#[must_use]
pub fn to_legacy(error: &str, version: Version) -> Cow<'_, str> {
    match read_code(error) {
        None => senseless(),
        Some(
            upstream @ (code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_VERSION),
        ) => demoted(error, upstream),
        Some(code::URL_ELICITATION_REQUIRED) if version < Version::V2025_11_25 => {
            let read = RpcError::read(error);
            let urls = urls(error).join(" ");
            let message = format!("{}: open {urls} first", SafeText::new(&read.message, 200));
            Cow::Owned(RpcError { code: code::INTERNAL_ERROR, message, data: read.data }.to_json())
        }
        Some(_) => Cow::Borrowed(error),
    }
}

/// A back's error for a client of either kind.
#[must_use]
pub fn to_client(error: &str, version: Version) -> Cow<'_, str> {
    match version.era() {
        Era::Modern => to_modern(error),
        Era::Legacy => to_legacy(error, version),
    }
}

/// What a `-32021` asks for: a capabilities object. `None` for any other error (E-007).
#[must_use]
pub fn required_capabilities(error: &str) -> Option<&str> {
    if read_code(error)? != code::MISSING_CLIENT_CAPABILITY {
        return None;
    }
    json::at(error, &["data", "requiredCapabilities"]).filter(|value| json::is_object(value))
}

/// The HTTP status of a JSON-RPC error in the answer to a POST (X-052, B-016, Q-030).
///
/// A missing `_meta` field is `-32602` with 400 (B-005); that one comes with its status from
/// [`place`](crate::place).
#[must_use]
pub fn http_status(code: i64, era: Era) -> u16 {
    match (code, era) {
        (code::PARSE_ERROR | code::INVALID_REQUEST, Era::Legacy | Era::Modern) => 400,
        (
            code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_VERSION,
            Era::Modern,
        ) => 400,
        (code::METHOD_NOT_FOUND, Era::Modern) => 404,
        (_, Era::Legacy | Era::Modern) => 200,
    }
}

/// The code of a well-formed error object.
fn read_code(error: &str) -> Option<i64> {
    let object = Object::parse(error).ok()?;
    object.str("message")?;
    object.i64("code")
}

fn senseless() -> Cow<'static, str> {
    Cow::Owned(RpcError::upstream_fault("an error without a code or a message").to_json())
}

fn recoded(error: &str, code: i64) -> Cow<'_, str> {
    let edits = [Edit::set(&["code"], code.to_string())];
    splice(error, &edits).map_or_else(|_| senseless(), into_text)
}

fn demoted(error: &str, upstream: i64) -> Cow<'_, str> {
    let upstream = upstream.to_string();
    let mut edits = vec![Edit::set(&["code"], code::INTERNAL_ERROR.to_string())];
    match json::at(error, &["data"]) {
        Some(data) if !json::is_object(data) && !json::is_null(data) => {
            edits.push(Edit::set(
                &["data"],
                format!("{{\"upstreamCode\":{upstream},\"upstreamData\":{data}}}"),
            ));
        }
        Some(_) | None => edits.push(Edit::set(&["data", "upstreamCode"], upstream)),
    }
    splice(error, &edits).map_or_else(|_| senseless(), into_text)
}

fn into_text(bytes: bytes::Bytes) -> Cow<'static, str> {
    String::from_utf8(Vec::from(bytes)).map_or_else(|_| senseless(), Cow::Owned)
}

/// The URLs of a `-32042`, cleaned.
fn urls(error: &str) -> Vec<String> {
    let elicitations = json::at(error, &["data", "elicitations"]).unwrap_or("[]");
    let all = json::elements(elicitations).unwrap_or_default();
    let url = |one: &str| Some(SafeText::new(&json::string(json::at(one, &["url"])?)?, 2000).into_string());
    all.into_iter().filter_map(url).collect()
}

/// A `-32042` that we author, for a 2025-11-25 client. Each element is the text of URL-mode
/// elicitation params with an `elicitationId`.
#[must_use]
pub fn url_elicitation_required(message: &str, elicitations: &[String]) -> String {
    format!(
        "{{\"code\":{},\"message\":{},\"data\":{{\"elicitations\":[{}]}}}}",
        code::URL_ELICITATION_REQUIRED,
        string_literal(message),
        elicitations.join(",")
    )
}

/// The URL-mode params in a back's `-32042`, as raw text. Empty for any other error.
#[must_use]
pub fn url_elicitations(error: &str) -> Vec<&str> {
    if read_code(error) != Some(code::URL_ELICITATION_REQUIRED) {
        return Vec::new();
    }
    let elicitations = json::at(error, &["data", "elicitations"]).unwrap_or("[]");
    json::elements(elicitations).unwrap_or_default().into_iter().filter(|one| json::is_object(one)).collect()
}
