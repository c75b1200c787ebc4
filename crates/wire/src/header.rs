//! The headers of Streamable HTTP: names, the encoding of their values, and what must equal the body.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::json::{self, Object};
use crate::message::Request;
use crate::rpc_error::RpcError;
use crate::version::Version;

/// The protocol version, in lower case as HTTP libraries keep names.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The method of a modern request (B-040).
pub const METHOD: &str = "mcp-method";
/// What a modern request is about (B-041, B-042).
pub const NAME: &str = "mcp-name";
/// The session of a legacy request.
pub const SESSION_ID: &str = "mcp-session-id";
/// Where a broken legacy stream is taken up.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// What a mirrored tool argument's header begins with (B-045).
pub const PARAM_PREFIX: &str = "mcp-param-";

/// Whether a missing `Mcp-Name` on `tasks/*` is let through (G-018, Q-014).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum TaskName {
    /// It is: FastMCP 4.1 clients leave it out. One that is there must still be right.
    ///
    /// Leniency: no-mcp-name
    #[default]
    MayBeMissing,
    /// It is not.
    Required,
}

/// A header value that cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the value is no valid =?base64?…?= text")]
pub struct BadValue;

/// The word in a schema that marks an argument which is mirrored into a header (B-045).
pub(crate) const MARK: &str = "x-mcp-header";

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// A value as it goes into a header: as it is if it is plain ASCII without edge white space and does not look
/// encoded, else in Base64 between markers (B-043).
#[must_use]
pub fn encode(value: &str) -> Cow<'_, str> {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain && value.trim_matches(' ') == value && sentinel(value).is_none() {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(value)))
    }
}

/// The value that a header stands for.
///
/// # Errors
/// [`BadValue`]: it has the markers, but no Base64 of UTF-8 between them.
pub fn decode(header: &str) -> Result<Cow<'_, str>, BadValue> {
    let header = header.trim_matches([' ', '\t']);
    let Some(inner) = sentinel(header) else { return Ok(Cow::Borrowed(header)) };
    let bytes = STANDARD.decode(inner).map_err(|_| BadValue)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| BadValue)
}

fn sentinel(value: &str) -> Option<&str> {
    value.strip_prefix(OPEN)?.strip_suffix(CLOSE)
}

/// The member of `params` that `Mcp-Name` mirrors, for the methods that have one.
#[must_use]
pub fn name_param(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Checks the version header of a modern request against the body, and that we speak the version.
///
/// # Errors
/// `-32020` if the header is missing or differs (B-039), then `-32022` (B-020): the order of Q-015.
pub fn check_version(header: Option<&str>, body: &str) -> Result<Version, RpcError> {
    match header.map(str::trim) {
        None => return Err(RpcError::header_mismatch("Missing MCP-Protocol-Version header")),
        Some(header) if header != body => {
            return Err(RpcError::header_mismatch(
                "MCP-Protocol-Version does not equal the version in params._meta",
            ));
        }
        Some(_) => {}
    }
    known_version(body)
}

/// The version of a modern request, if we speak it statelessly.
///
/// # Errors
/// `-32022`, also for a legacy date: that one means `initialize`.
pub fn known_version(body: &str) -> Result<Version, RpcError> {
    match Version::parse(body) {
        Some(version) if version.is_modern() => Ok(version),
        Some(_) | None => Err(RpcError::unsupported_version(body)),
    }
}

/// Checks the other mirrored headers of a modern request, once its version is known to be right.
///
/// `header` looks a header up by its lower-case name.
///
/// # Errors
/// `-32020`, for HTTP 400: a header is missing, cannot be decoded or differs (B-040 to B-044).
pub fn check<'h>(
    request: &Request,
    header: impl Fn(&str) -> Option<&'h str>,
    task_name: TaskName,
) -> Result<(), RpcError> {
    let method = header(METHOD).ok_or_else(|| RpcError::header_mismatch("Missing Mcp-Method header"))?;
    if method.trim() != request.method() {
        return Err(RpcError::header_mismatch("Mcp-Method does not equal the method"));
    }
    let Some(param) = name_param(request.method()) else { return Ok(()) };
    let Some(name) = header(NAME) else {
        return match (param, task_name) {
            ("taskId", TaskName::MayBeMissing) => Ok(()),
            _ => Err(RpcError::header_mismatch("Missing Mcp-Name header")),
        };
    };
    let name = decode(name).map_err(|_| RpcError::header_mismatch("Mcp-Name cannot be decoded"))?;
    // A body without the member is left to the check of params, which comes later.
    match request.param(param).and_then(json::string) {
        Some(value) if value != name => {
            Err(RpcError::header_mismatch(format!("Mcp-Name does not equal params.{param}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks the mirrored headers of a modern notification, which need not be there.
///
/// # Errors
/// `-32020`, for HTTP 400: `Mcp-Method` is there and differs.
pub fn check_notification(method: &str, header: Option<&str>) -> Result<(), RpcError> {
    match header {
        Some(header) if header.trim() != method => {
            Err(RpcError::header_mismatch("Mcp-Method does not equal the method"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The headers that mirror the body of a request to a back (B-032, B-039 to B-042, A-136). A legacy back
/// hears its version only, and before 2025-06-18 not even that.
#[must_use]
pub fn for_request(version: Version, method: &str, params: Option<&str>) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if version.has_version_header() {
        headers.push((PROTOCOL_VERSION, String::from(version.as_str())));
    }
    if !version.is_modern() {
        return headers;
    }
    headers.push((METHOD, String::from(method)));
    let name = name_param(method).and_then(|param| json::string(json::at(params?, &[param])?));
    if let Some(name) = name {
        headers.push((NAME, encode(&name).into_owned()));
    }
    headers
}

/// The headers that mirror arguments of a tool whose schema marks them with `x-mcp-header` (B-045).
///
/// Strings, whole numbers and booleans are mirrored; an argument that is absent or null has no header. Names
/// that cannot stand in a header are passed over.
#[must_use]
pub fn for_arguments(input_schema: &str, arguments: Option<&str>) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    if let Some(arguments) = arguments {
        mirror(input_schema, arguments, &mut headers);
    }
    headers
}

/// Checks the headers that mirror arguments of a tool with this schema (B-045). Other headers are not looked at.
///
/// `header` looks a header up by its lower-case name.
///
/// # Errors
/// `-32020`, for HTTP 400: a header of a marked argument is missing, cannot be decoded, differs, or stands for an
/// argument that is not there.
pub fn check_arguments<'h>(
    input_schema: &str,
    arguments: Option<&str>,
    header: impl Fn(&str) -> Option<&'h str>,
) -> Result<(), RpcError> {
    let expected = for_arguments(input_schema, arguments);
    let mut marked = Vec::new();
    names(input_schema, &mut marked);
    for name in marked {
        let wanted = expected.iter().find(|(expected, _)| *expected == name).map(|(_, value)| value);
        match (header(&name), wanted) {
            (None, None) => {}
            (None, Some(_)) => return Err(RpcError::header_mismatch(format!("Missing {name} header"))),
            (Some(_), None) => {
                return Err(RpcError::header_mismatch(format!("{name} stands for no argument of the call")));
            }
            (Some(given), Some(wanted)) => {
                let given = decode(given)
                    .map_err(|_| RpcError::header_mismatch(format!("{name} cannot be decoded")))?;
                if decode(wanted).is_ok_and(|wanted| wanted != given) {
                    return Err(RpcError::header_mismatch(format!("{name} does not equal the argument")));
                }
            }
        }
    }
    Ok(())
}

/// The headers of all marked arguments, there or not.
fn names(schema: &str, found: &mut Vec<String>) {
    let properties = Object::parse(schema).ok().and_then(|schema| schema.object("properties"));
    for property in properties.iter().flat_map(Object::members) {
        match json::at(property.value, &[MARK]).and_then(json::string) {
            Some(name) if is_token(&name) => {
                found.push(format!("{PARAM_PREFIX}{}", name.to_ascii_lowercase()))
            }
            Some(_) => {}
            None => names(property.value, found),
        }
    }
}

fn mirror(schema: &str, arguments: &str, headers: &mut Vec<(String, String)>) {
    let properties = Object::parse(schema).ok().and_then(|schema| schema.object("properties"));
    let (Some(properties), Ok(arguments)) = (properties, Object::parse(arguments)) else { return };
    for property in properties.members() {
        let Some(value) = arguments.get(&property.name) else { continue };
        let marked = json::at(property.value, &[MARK]).and_then(json::string);
        match marked {
            Some(name) if is_token(&name) => {
                if let Some(text) = scalar(value) {
                    headers.push((format!("{PARAM_PREFIX}{}", name.to_ascii_lowercase()), text));
                }
            }
            Some(_) => {}
            None if json::is_object(value) => mirror(property.value, value, headers),
            None => {}
        }
    }
}

fn scalar(value: &str) -> Option<String> {
    if let Some(text) = json::string(value) {
        return Some(encode(&text).into_owned());
    }
    let is_whole = value.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    (is_whole || value == "true" || value == "false").then(|| String::from(value))
}

/// Where a schema stands in a tool's input schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    /// An argument, or a member of one, by `properties` alone.
    Argument,
    /// Below any other word: which argument it is about, if any, depends on the call.
    Elsewhere,
}

/// Words whose value is a schema, a list of schemas, or schemas by name.
const ONE: [&str; 11] = [
    "items",
    "contains",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "contentSchema",
    "not",
    "if",
    "then",
    "else",
];
const MANY: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const NAMED: [&str; 4] = ["$defs", "definitions", "patternProperties", "dependentSchemas"];

/// Why a tool with this schema must not be called over HTTP: its marks for headers break the rules (B-045). `None` if
/// they do not.
#[must_use]
pub fn marks_fault(input_schema: &str) -> Option<&'static str> {
    find_fault(input_schema, Place::Root, &mut BTreeSet::new())
}

fn find_fault(schema: &str, place: Place, seen: &mut BTreeSet<String>) -> Option<&'static str> {
    let object = Object::parse(schema).ok()?;
    let below = |schema: &str, seen: &mut BTreeSet<String>| find_fault(schema, Place::Elsewhere, seen);
    object.members().find_map(|member| match &*member.name {
        MARK => mark_fault(&object, member.value, place, seen),
        "properties" => {
            let place = if place == Place::Elsewhere { place } else { Place::Argument };
            let properties = Object::parse(member.value).ok()?;
            properties.members().find_map(|property| find_fault(property.value, place, seen))
        }
        word if ONE.contains(&word) => below(member.value, seen),
        word if MANY.contains(&word) => {
            json::elements(member.value).ok()?.into_iter().find_map(|schema| below(schema, seen))
        }
        word if NAMED.contains(&word) => {
            Object::parse(member.value).ok()?.members().find_map(|schema| below(schema.value, seen))
        }
        _ => None,
    })
}

fn mark_fault(
    schema: &Object<'_>,
    mark: &str,
    place: Place,
    seen: &mut BTreeSet<String>,
) -> Option<&'static str> {
    if place != Place::Argument {
        return Some("x-mcp-header marks what is no argument");
    }
    let Some(name) = json::string(mark) else { return Some("x-mcp-header is no text") };
    if !is_token(&name) {
        return Some("x-mcp-header cannot stand in a header's name");
    }
    if !matches!(schema.str("type").as_deref(), Some("string" | "integer" | "boolean")) {
        return Some("x-mcp-header marks an argument that is no string, integer or boolean");
    }
    if !seen.insert(name.to_ascii_lowercase()) {
        return Some("x-mcp-header names the same header twice");
    }
    None
}

fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
