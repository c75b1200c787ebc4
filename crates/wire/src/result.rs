//! Results, and tool results above all, on their way between versions.

use bytes::Bytes;

use crate::content::{blocks_for, is_said, messages_for, text_block};
use crate::json::{self, Object};
use crate::meta::{META, PRE_RELEASE_RELATED_TASK, RELATED_TASK, SERVER_INFO};
use crate::splice::{Edit, splice, splice_object};
use crate::version::Version;

/// What a result is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ResultKind {
    /// The thing itself.
    Complete,
    /// The back wants input and the same call again (B-122).
    InputRequired,
    /// A task was made.
    Task,
    /// A `resultType` that nobody negotiated: the answer cannot be used (B-012, G-025).
    Unknown,
}

/// What kind of result a back sent, given its era. A legacy result has no `resultType` that counts, and an
/// absent one of a modern back means complete (B-012).
#[must_use]
pub fn kind(result: &str, is_modern: bool) -> ResultKind {
    let Ok(object) = Object::parse(result) else { return ResultKind::Unknown };
    if !is_modern {
        let is_task = crate::dialect::a::is_create_result(&object);
        return if is_task { ResultKind::Task } else { ResultKind::Complete };
    }
    match (object.get("resultType"), object.str("resultType").as_deref()) {
        (None, _) | (Some(_), Some("complete")) => ResultKind::Complete,
        (Some(_), Some("input_required")) => ResultKind::InputRequired,
        (Some(_), Some("task")) => ResultKind::Task,
        (Some(_), Some(_) | None) => ResultKind::Unknown,
    }
}

/// The form in which a result is kept: without `resultType`, related-task metadata, and a `_meta` that is
/// then empty. Everything else keeps its bytes.
#[must_use]
pub fn canonical(result: &Bytes) -> Bytes {
    match text(result).map(Object::parse) {
        Some(Ok(object)) => canonical_of(result, &object),
        Some(Err(_)) | None => result.clone(),
    }
}

/// The same for a result that was read already; `object` is what `result` says.
#[must_use]
pub fn canonical_of(result: &Bytes, object: &Object<'_>) -> Bytes {
    let mut edits = Vec::new();
    if object.get("resultType").is_some() {
        edits.push(Edit::remove(&["resultType"]));
    }
    edits.extend(without_related_task(object));
    edited(result, object, &edits)
}

/// Takes the ids of the back's task out of `_meta`, and `_meta` with them if nothing else is in there: they are not our
/// clients'.
fn without_related_task(object: &Object<'_>) -> Vec<Edit<'static>> {
    const KEYS: [&str; 2] = [RELATED_TASK, PRE_RELEASE_RELATED_TASK];
    let Some(meta) = object.object(META) else { return Vec::new() };
    let is_there = |key: &&str| meta.get(key).is_some();
    if !KEYS.iter().any(is_there) {
        return Vec::new();
    }
    if meta.members().all(|member| KEYS.contains(&&*member.name)) {
        return vec![Edit::remove(&[META])];
    }
    let paths: [&'static [&'static str]; 2] = [&[META, RELATED_TASK], &[META, PRE_RELEASE_RELATED_TASK]];
    paths.into_iter().filter(|path| is_there(&path[1])).map(Edit::remove).collect()
}

/// Takes one key out of `_meta`, and `_meta` with it if nothing else is in there.
fn without_meta<'p>(object: &Object<'_>, path: &'p [&'p str; 2]) -> Option<Edit<'p>> {
    let meta = object.object(META)?;
    meta.get(path[1])?;
    let is_only = meta.members().all(|member| member.name == path[1]);
    Some(if is_only { Edit::remove(&path[..1]) } else { Edit::remove(path) })
}

/// Whether a tool result says `isError: true`.
#[must_use]
pub fn is_error(result: &str) -> bool {
    json::at(result, &["isError"]) == Some("true")
}

/// The text of the first text block of a tool result, out of its escapes.
#[must_use]
pub fn first_text(result: &str) -> Option<String> {
    let content = json::elements(json::at(result, &["content"])?).ok()?;
    content.into_iter().find_map(|block| Some(Object::parse(block).ok()?.str("text")?.into_owned()))
}

/// A kept result for a modern client (B-011, X-018).
#[must_use]
pub fn for_modern(result: &Bytes) -> Bytes {
    if let Some(whole) = in_front(result, &["resultType"], "\"resultType\":\"complete\"") {
        return whole;
    }
    with(result, &[Edit::set(&["resultType"], "\"complete\"")])
}

/// The same with who answers: `server_info` is a raw implementation object (B-006).
#[must_use]
pub fn for_modern_from(result: &Bytes, server_info: &str) -> Bytes {
    let members = format!("\"resultType\":\"complete\",\"{META}\":{{\"{SERVER_INFO}\":{server_info}}}");
    if let Some(whole) = in_front(result, &["resultType", META], &members) {
        return whole;
    }
    let info = [META, SERVER_INFO];
    with(result, &[Edit::set(&["resultType"], "\"complete\""), Edit::set(&info, server_info)])
}

/// Puts `members` in front of an object that has none of `names` anywhere, and no escapes that could hide one. Such a
/// search costs a tenth of a reading, and results are large. `None` where only a reading tells.
fn in_front(result: &Bytes, names: &[&str], members: &str) -> Option<Bytes> {
    let rest = text(result)?.strip_prefix('{')?;
    let is_there = |name: &&str| rest.contains(&format!("\"{name}\""));
    if rest.contains("\\u") || names.iter().any(is_there) {
        return None;
    }
    let is_empty = rest.trim_start_matches([' ', '\n', '\r', '\t']).starts_with('}');
    let comma = if is_empty { "" } else { "," };
    let mut whole = Vec::with_capacity(rest.len() + members.len() + 2);
    for part in ["{", members, comma, rest] {
        whole.extend_from_slice(part.as_bytes());
    }
    Some(Bytes::from(whole))
}

/// A tool result for a legacy client of `version`: without `resultType` and a modern server's `_meta`, and
/// without what the version does not know (G-005, X-055). Content is turned into text rather than lost: structured
/// content that no text block says is put behind the others.
#[must_use]
pub fn for_legacy(result: &Bytes, version: Version) -> Bytes {
    let Some(text) = text(result) else { return result.clone() };
    let Ok(object) = Object::parse(text) else { return result.clone() };
    let mut edits = Vec::new();
    if object.get("resultType").is_some() {
        edits.push(Edit::remove(&["resultType"]));
    }
    edits.extend(without_meta(&object, &[META, SERVER_INFO]));
    let content = object.get("content");
    let mut blocks = content.and_then(|content| blocks_for(content, version));
    if let Some(structured) = object.get("structuredContent")
        && !(version.has_structured_output() && json::is_object(structured))
    {
        edits.push(Edit::remove(&["structuredContent"]));
        if !is_said(content.unwrap_or("[]"), structured) {
            let said = blocks.as_deref().or(content).unwrap_or("[]");
            blocks = Some(appended(said, &text_block(structured)));
        }
    }
    if let Some(blocks) = blocks {
        edits.push(Edit::set(&["content"], blocks));
    }
    if let Some(messages) = object.get("messages").and_then(|messages| messages_for(messages, version)) {
        edits.push(Edit::set(&["messages"], messages));
    }
    edited(result, &object, &edits)
}

/// A list of blocks with one more at its end.
fn appended(blocks: &str, block: &str) -> String {
    match json::elements(blocks) {
        Ok(all) if !all.is_empty() => format!("[{},{block}]", all.join(",")),
        Ok(_) | Err(_) => format!("[{block}]"),
    }
}

pub(crate) fn text(bytes: &Bytes) -> Option<&str> {
    core::str::from_utf8(bytes).ok()
}

fn edited(result: &Bytes, object: &Object<'_>, edits: &[Edit<'_>]) -> Bytes {
    if edits.is_empty() {
        return result.clone();
    }
    splice_object(object, edits).unwrap_or_else(|_| result.clone())
}

fn with(result: &Bytes, edits: &[Edit<'_>]) -> Bytes {
    text(result).and_then(|text| splice(text, edits).ok()).unwrap_or_else(|| result.clone())
}
