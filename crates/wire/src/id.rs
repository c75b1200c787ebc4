//! Ids of requests, as their sender wrote them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::json;

/// The id of a JSON-RPC request: the raw text of a JSON string or number, echoed byte for byte.
///
/// Two ids are equal if their texts are. Numbers that a float would spoil (2^53 + 1, `1.5`) stay what they
/// are, though A-002 and B-002 ask for strings and integers: an id is the sender's, and nobody but the sender
/// reads it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The number `id`.
    #[must_use]
    pub fn from_u64(id: u64) -> RequestId {
        RequestId(Arc::from(id.to_string()))
    }

    /// The string `id`, for instance `g-7`.
    #[must_use]
    pub fn from_name(id: &str) -> RequestId {
        RequestId(Arc::from(json::string_literal(id)))
    }

    /// Takes raw JSON text. `None` unless it is a string or a number.
    #[must_use]
    pub fn from_text(text: &str) -> Option<RequestId> {
        let text = text.trim_matches([' ', '\n', '\r', '\t']);
        let is_scalar =
            text.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit());
        (is_scalar && json::check(text).is_ok()).then(|| RequestId(Arc::from(text)))
    }

    /// The raw JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// What it says, if it is a string.
    #[must_use]
    pub fn as_name(&self) -> Option<Cow<'_, str>> {
        json::string(&self.0)
    }

    /// What it says, if it is a whole number that fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({})", self.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
