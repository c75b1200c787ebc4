//! What a modern request says about itself, read and written.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, META, PROGRESS_TOKEN, PROTOCOL_VERSION, TASKS_EXTENSION,
};
use crate::json::{self, Object, string_literal};
use crate::message::Malformed;
use crate::rpc_error::RpcError;
use crate::splice::{Edit, splice};
use crate::version::Version;

/// The `_meta` of a modern request. Every request stands for itself (B-008).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestMeta<'a> {
    /// The version it names; it may be one that we do not speak.
    pub version: Cow<'a, str>,
    /// Raw capabilities object.
    pub capabilities: &'a str,
    /// Raw implementation object.
    pub client_info: Option<&'a str>,
    /// Whether the capabilities hold the tasks extension. A legacy `tasks` there does not count (B-117).
    pub declares_tasks: bool,
    /// Raw string or number.
    pub progress_token: Option<&'a str>,
    /// The lowest level of log messages that it wants.
    pub log_level: Option<Cow<'a, str>>,
}

/// Whether a `_meta` object names a protocol version, which alone makes its request modern (D-001).
#[must_use]
pub fn names_version(meta: Option<&str>) -> bool {
    meta.and_then(|meta| Object::parse(meta).ok()).is_some_and(|meta| meta.get(PROTOCOL_VERSION).is_some())
}

/// Reads the `_meta` of `params`.
///
/// # Errors
/// `-32602`, for HTTP 400: a required field is missing or has the wrong shape (B-005, B-169).
pub fn read(params: Option<&str>) -> Result<RequestMeta<'_>, RpcError> {
    read_meta(params.and_then(|params| json::at(params, &[META])))
}

/// Like [`read`], given the `_meta` object itself.
///
/// # Errors
/// As [`read`].
pub fn read_meta(meta: Option<&str>) -> Result<RequestMeta<'_>, RpcError> {
    let missing = |what: &str| RpcError::invalid_params(format!("Missing {what}"));
    let meta = meta.and_then(|meta| Object::parse(meta).ok()).ok_or_else(|| missing("params._meta"))?;
    let version = meta.str(PROTOCOL_VERSION).ok_or_else(|| missing(PROTOCOL_VERSION))?;
    let capabilities = meta
        .get(CLIENT_CAPABILITIES)
        .filter(|value| json::is_object(value))
        .ok_or_else(|| missing(CLIENT_CAPABILITIES))?;
    let token = meta.get(PROGRESS_TOKEN);
    Ok(RequestMeta {
        version,
        capabilities,
        client_info: meta.get(CLIENT_INFO).filter(|value| json::is_object(value)),
        declares_tasks: declares_tasks(capabilities),
        progress_token: token.filter(|token| !token.starts_with(['n', 't', 'f', '{', '['])),
        log_level: meta.str(LOG_LEVEL),
    })
}

/// Whether a capabilities object, of a client or a server, holds the tasks extension (B-055, B-056).
#[must_use]
pub fn declares_tasks(capabilities: &str) -> bool {
    json::at(capabilities, &["extensions", TASKS_EXTENSION]).is_some_and(json::is_object)
}

/// What we say about ourselves to a modern back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModernMeta<'a> {
    /// The version.
    pub version: Version,
    /// Raw capabilities object, from [`Offers::capabilities_json`](crate::offers::Offers::capabilities_json).
    pub capabilities: &'a str,
    /// Raw implementation object: ours, not the client's.
    pub client_info: Option<&'a str>,
    /// Raw string or number.
    pub progress_token: Option<&'a str>,
    /// The lowest level of log messages wanted.
    pub log_level: Option<&'a str>,
}

/// Puts `ours` into the `_meta` of `params`, whatever the client had there under the same keys; other keys
/// stay.
///
/// # Errors
/// [`Malformed`] if `params` is no object.
pub fn add(params: Option<&str>, ours: &ModernMeta<'_>) -> Result<Bytes, Malformed> {
    fn or_gone<'e>(path: &'e [&'e str], value: Option<Cow<'e, str>>) -> Edit<'e> {
        value.map_or(Edit::Remove { path }, |value| Edit::Set { path, value })
    }
    let edits = [
        Edit::set(&[META, PROTOCOL_VERSION], string_literal(ours.version.as_str())),
        Edit::set(&[META, CLIENT_CAPABILITIES], ours.capabilities),
        or_gone(&[META, CLIENT_INFO], ours.client_info.map(Cow::Borrowed)),
        or_gone(&[META, PROGRESS_TOKEN], ours.progress_token.map(Cow::Borrowed)),
        or_gone(&[META, LOG_LEVEL], ours.log_level.map(|level| Cow::Owned(string_literal(level)))),
    ];
    splice(params.unwrap_or("{}"), &edits)
}

/// Takes what only modern requests carry out of `params`, for a legacy back. The progress token stays.
///
/// # Errors
/// [`Malformed`] if `params` is no object.
pub fn strip(params: &str) -> Result<Bytes, Malformed> {
    strip_keys(params, &[PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL])
}

/// Takes `keys` out of `_meta`, and `_meta` if nothing is left in it.
pub(crate) fn strip_keys(object: &str, keys: &[&str]) -> Result<Bytes, Malformed> {
    let paths: Vec<[&str; 2]> = keys.iter().map(|key| [META, *key]).collect();
    let mut edits: Vec<Edit<'_>> = paths.iter().map(|path| Edit::remove(path)).collect();
    if is_meta_only(object, keys) {
        edits.push(Edit::remove(&[META]));
    }
    splice(object, &edits)
}

/// Whether `_meta` holds nothing but `keys`.
pub(crate) fn is_meta_only(object: &str, keys: &[&str]) -> bool {
    let meta = Object::parse(object).ok().and_then(|object| object.object(META));
    meta.is_some_and(|meta| meta.members().all(|member| keys.contains(&member.name.as_ref())))
}
