//! Content blocks, as far as a version knows them (G-005).
//!
//! | since | blocks may be | and have |
//! | --- | --- | --- |
//! | 2024-11-05 | `text`, `image`, `resource` | `annotations` |
//! | 2025-03-26 | `audio` | |
//! | 2025-06-18 | `resource_link` | |
//! | 2025-11-25 | | `icons`, on links |

use std::borrow::Cow;

use bytes::Bytes;

use crate::json::{self, Object, string_literal};
use crate::splice::{Edit, splice};
use crate::version::Version;

/// A list of blocks for `version`, as raw JSON; `None` if nothing has to change. What the version does not know
/// becomes text and, where it has bytes of its own, a resource beside it.
#[must_use]
pub fn blocks_for(content: &str, version: Version) -> Option<String> {
    if version.has_icons() {
        return None;
    }
    let mut is_changed = false;
    let mut all: Vec<Cow<'_, str>> = Vec::new();
    for block in json::elements(content).ok()? {
        match block_for(block, version) {
            Some(blocks) => {
                is_changed = true;
                all.extend(blocks.into_iter().map(Cow::Owned));
            }
            None => all.push(Cow::Borrowed(block)),
        }
    }
    is_changed.then(|| format!("[{}]", all.join(",")))
}

/// What stands for one block; `None` if it can stay.
fn block_for(block: &str, version: Version) -> Option<Vec<String>> {
    let read = Object::parse(block).ok()?;
    match read.str("type").as_deref() {
        Some("resource_link") if !version.has_resource_links() => {
            let uri = read.str("uri").unwrap_or_default();
            let words = [read.str("title"), read.str("name"), read.str("description")];
            let words: Vec<Cow<'_, str>> = words.into_iter().flatten().collect();
            Some(vec![text_block(&match words.is_empty() {
                true => uri.into_owned(),
                false => format!("{}: {uri}", words.join(", ")),
            })])
        }
        Some("resource_link") if !version.has_icons() && read.get("icons").is_some() => {
            let plain = splice(block, &[Edit::remove(&["icons"])]).ok()?;
            Some(vec![String::from_utf8(plain.into()).ok()?])
        }
        Some("audio") if !version.has_audio() => Some(vec![audio_words(&read), audio_resource(&read)]),
        Some(_) | None => None,
    }
}

/// Audio in words. How many bytes it has follows from the length of its base64.
fn audio_words(audio: &Object<'_>) -> String {
    let kind = audio.str("mimeType").unwrap_or(Cow::Borrowed("audio"));
    let base64 = audio.str("data").unwrap_or_default();
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    text_block(&format!("Audio, {kind}, {bytes} bytes"))
}

/// Audio as an embedded resource, which every version has, so that it is not lost.
fn audio_resource(audio: &Object<'_>) -> String {
    let member = |name| audio.get(name).filter(|value| json::string(value).is_some());
    format!(
        "{{\"type\":\"resource\",\"resource\":{{\"uri\":\"content:audio\",\"mimeType\":{},\"blob\":{}}}}}",
        member("mimeType").unwrap_or("\"application/octet-stream\""),
        member("data").unwrap_or("\"\"")
    )
}

/// The messages of a prompt, each of which has one block of content, for `version`; `None` if nothing has to change.
/// A block that becomes two makes two messages of the same role.
#[must_use]
pub fn messages_for(messages: &str, version: Version) -> Option<String> {
    if version.has_icons() {
        return None;
    }
    let mut is_changed = false;
    let mut all: Vec<Cow<'_, str>> = Vec::new();
    for message in json::elements(messages).ok()? {
        let blocks = json::at(message, &["content"]).and_then(|block| block_for(block, version));
        match blocks.map(|blocks| blocks.into_iter().map(|block| with_content(message, block)).collect()) {
            Some(Some(rewritten)) => {
                let rewritten: Vec<String> = rewritten;
                is_changed = true;
                all.extend(rewritten.into_iter().map(Cow::Owned));
            }
            Some(None) | None => all.push(Cow::Borrowed(message)),
        }
    }
    is_changed.then(|| format!("[{}]", all.join(",")))
}

fn with_content(message: &str, block: String) -> Option<String> {
    let bytes: Bytes = splice(message, &[Edit::set(&["content"], block)]).ok()?;
    String::from_utf8(bytes.into()).ok()
}

/// Whether the blocks of `content` say in text what `structured` says, as servers do for clients that do not know
/// structured content (2025-06-18, Tools, Structured Content). Python servers wrap a plain value as `result`.
#[must_use]
pub fn is_said(content: &str, structured: &str) -> bool {
    let Ok(blocks) = json::elements(content) else { return false };
    let wrapped = Object::parse(structured).ok().and_then(|object| {
        let is_only = object.members().count() == 1;
        object.get("result").filter(|_| is_only)
    });
    let whole = json::canonical(structured);
    blocks.iter().any(|block| {
        let Some(text) = Object::parse(block).ok().and_then(|block| block.str("text").map(Cow::into_owned))
        else {
            return false;
        };
        let said = json::canonical(text.trim());
        said == whole
            || wrapped.is_some_and(|value| {
                json::string(value).is_some_and(|value| value == text) || json::canonical(value) == said
            })
    })
}

/// A text block as raw JSON.
#[must_use]
pub fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", string_literal(text))
}
