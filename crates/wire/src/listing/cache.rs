//! The cache hints that modern lists have and legacy ones do not (B-153, X-054).

use bytes::Bytes;
use taskgate_core::time::Millis;

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
/// away those that it has not.
///
/// # Errors
/// [`Malformed`] if `result` is no object.
pub fn for_front(result: &str, front: Version, cache: Cache) -> Result<Bytes, Malformed> {
    splice(result, &edits(front, cache))
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
