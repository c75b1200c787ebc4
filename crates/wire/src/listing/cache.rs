//! The cache hints that modern lists have and legacy ones do not (B-153, X-054).

use bytes::Bytes;
use taskgate_core::time::Millis;

use crate::json;
use crate::message::Malformed;
use crate::splice::{Edit, splice};
use crate::version::Version;

/// How a client may keep a list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cache {
    /// For how long.
    pub ttl: Millis,
    /// Whether it may be shown to others.
    pub is_public: bool,
}

impl Cache {
    /// What is right if nothing is known: for nobody else, and no longer than now.
    pub const NONE: Cache = Cache { ttl: Millis(0), is_public: false };

    /// Reads a modern back's hints; what is missing or makes no sense counts as [`Cache::NONE`].
    #[must_use]
    pub fn read(result: &str) -> Cache {
        let Ok(object) = crate::json::Object::parse(result) else { return Cache::NONE };
        Cache {
            ttl: Millis(object.u64("ttlMs").unwrap_or(0)),
            is_public: object.str("cacheScope").as_deref() == Some("public"),
        }
    }

    pub(crate) fn scope_json(self) -> &'static str {
        if self.is_public { "\"public\"" } else { "\"private\"" }
    }
}

/// Gives the result of a list, `resources/read` or the like the fields that `front` has for it, and takes
/// away those that it has not, of the result and of what it lists (G-005).
///
/// # Errors
/// [`Malformed`] if `result` is no object.
pub fn for_front(result: &str, front: Version, cache: Cache) -> Result<Bytes, Malformed> {
    let mut edits = Vec::from(edits(front, cache));
    for list in LISTS {
        if let Some(plain) = json::at(result, list).and_then(|entries| without_foreign(entries, front)) {
            edits.push(Edit::set(list, plain));
        }
    }
    splice(result, &edits)
}

/// What is listed, besides tools.
const LISTS: [&[&str; 1]; 3] = [&["prompts"], &["resources"], &["resourceTemplates"]];

/// Entries without the icons and titles that `front` has not; `None` if nothing has to change.
fn without_foreign(entries: &str, front: Version) -> Option<String> {
    if front.has_icons() && front.has_titles() {
        return None;
    }
    let entries = json::elements(entries).ok()?;
    let plain: Vec<Option<String>> = entries.iter().map(|entry| plain(entry, front)).collect();
    if plain.iter().all(Option::is_none) {
        return None;
    }
    let all = entries.iter().zip(plain).map(|(entry, plain)| plain.unwrap_or_else(|| String::from(*entry)));
    Some(format!("[{}]", all.collect::<Vec<_>>().join(",")))
}

fn plain(entry: &str, front: Version) -> Option<String> {
    let has = |name| json::at(entry, &[name]).is_some();
    let mut edits = Vec::new();
    if has("icons") && !front.has_icons() {
        edits.push(Edit::remove(&["icons"]));
    }
    if has("title") && !front.has_titles() {
        edits.push(Edit::remove(&["title"]));
    }
    // A prompt's arguments have titles of their own.
    let arguments = json::at(entry, &["arguments"]).and_then(|arguments| without_foreign(arguments, front));
    if let Some(arguments) = arguments {
        edits.push(Edit::set(&["arguments"], arguments));
    }
    if edits.is_empty() {
        return None;
    }
    splice(entry, &edits).ok().and_then(|bytes| String::from_utf8(bytes.into()).ok())
}

pub(crate) fn edits(front: Version, cache: Cache) -> [Edit<'static>; 3] {
    if front.has_cache_hints() {
        [
            Edit::set(&["resultType"], "\"complete\""),
            Edit::set(&["ttlMs"], cache.ttl.0.to_string()),
            Edit::set(&["cacheScope"], cache.scope_json()),
        ]
    } else {
        [Edit::remove(&["resultType"]), Edit::remove(&["ttlMs"]), Edit::remove(&["cacheScope"])]
    }
}
