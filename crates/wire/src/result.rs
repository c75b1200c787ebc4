//! Results, and tool results above all, on their way between versions.

use bytes::Bytes;

use crate::json::{self, Object, string_literal};
use crate::meta::{META, RELATED_TASK, SERVER_INFO};
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
    edits.extend(without_meta(object, &[META, RELATED_TASK]));
    edited(result, object, &edits)
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
/// without what the version does not know (G-005, X-055). Content is turned into text rather than lost.
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
    let mut blocks = content.map(|content| blocks_for(content, version)).unwrap_or_default();
    if let Some(structured) = object.get("structuredContent")
        && !(version.has_structured_output() && json::is_object(structured))
    {
        edits.push(Edit::remove(&["structuredContent"]));
        let is_said =
            content.and_then(|content| json::elements(content).ok()).is_some_and(|all| !all.is_empty());
        if !is_said {
            blocks = Some(format!("[{}]", text_block(structured)));
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

/// The content for a version that lacks some of it; `None` if nothing has to change.
fn blocks_for(content: &str, version: Version) -> Option<String> {
    if version.has_structured_output() && version.has_icons() {
        return None;
    }
    let blocks = json::elements(content).ok()?;
    let is_foreign = |block: &&str| {
        let is_link = json::at(block, &["type"]) == Some("\"resource_link\"");
        is_link
            && (!version.has_structured_output()
                || (!version.has_icons() && json::at(block, &["icons"]).is_some()))
    };
    if !blocks.iter().any(is_foreign) {
        return None;
    }
    let rewritten = blocks.iter().map(|block| {
        if !is_foreign(block) {
            return String::from(*block);
        }
        if version.has_structured_output() {
            let edits = [Edit::remove(&["icons"])];
            let stripped = splice(block, &edits).ok().and_then(|bytes| String::from_utf8(bytes.into()).ok());
            return stripped.unwrap_or_else(|| String::from(*block));
        }
        let uri = json::at(block, &["uri"]).and_then(json::string).unwrap_or_default();
        match json::at(block, &["name"]).and_then(json::string) {
            Some(name) => text_block(&format!("{name}: {uri}")),
            None => text_block(&uri),
        }
    });
    Some(format!("[{}]", rewritten.collect::<Vec<_>>().join(",")))
}

/// The messages of a prompt, each of which has one block of content; `None` if nothing has to change.
fn messages_for(messages: &str, version: Version) -> Option<String> {
    let messages = json::elements(messages).ok()?;
    let mut is_changed = false;
    let mut all = Vec::with_capacity(messages.len());
    for message in messages {
        let block =
            json::at(message, &["content"]).and_then(|block| blocks_for(&format!("[{block}]"), version));
        let block = block.as_deref().and_then(|block| block.strip_prefix('[')?.strip_suffix(']'));
        let rewritten = block.and_then(|block| splice(message, &[Edit::set(&["content"], block)]).ok());
        is_changed |= rewritten.is_some();
        all.push(match rewritten.as_ref().and_then(text) {
            Some(rewritten) => String::from(rewritten),
            None => String::from(message),
        });
    }
    is_changed.then(|| format!("[{}]", all.join(",")))
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", string_literal(text))
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
