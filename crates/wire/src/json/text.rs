//! Strings of JSON: out of their escapes and into them.

use std::borrow::Cow;

/// Reads what stands between the quotes of a valid string. A lone surrogate becomes U+FFFD.
pub(crate) fn unescape(inner: &str) -> Cow<'_, str> {
    unescape_counting(inner).0
}

/// Like [`unescape`], and whether something was lost.
pub(crate) fn unescape_counting(inner: &str) -> (Cow<'_, str>, bool) {
    if !inner.contains('\\') {
        return (Cow::Borrowed(inner), false);
    }
    let mut text = String::with_capacity(inner.len());
    let mut is_lossy = false;
    let mut rest = inner;
    while let Some(slash) = rest.find('\\') {
        text.push_str(rest.get(..slash).unwrap_or_default());
        let kind = rest.as_bytes().get(slash + 1).copied().unwrap_or_default();
        rest = rest.get(slash + 2..).unwrap_or_default();
        match kind {
            b'b' => text.push('\u{8}'),
            b'f' => text.push('\u{c}'),
            b'n' => text.push('\n'),
            b'r' => text.push('\r'),
            b't' => text.push('\t'),
            b'u' => {
                let first = hex(rest);
                rest = rest.get(4..).unwrap_or_default();
                let second = rest.strip_prefix("\\u").map(hex).filter(|low| (0xDC00..0xE000).contains(low));
                match (first, second) {
                    (0xD800..0xDC00, Some(low)) => {
                        let code = 0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00);
                        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        rest = rest.get(6..).unwrap_or_default();
                    }
                    _ => {
                        is_lossy |= char::from_u32(first).is_none();
                        text.push(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                }
            }
            other => text.push(char::from(other)),
        }
    }
    text.push_str(rest);
    (Cow::Owned(text), is_lossy)
}

fn hex(text: &str) -> u32 {
    text.get(..4).and_then(|four| u32::from_str_radix(four, 16).ok()).unwrap_or(0xFFFD)
}

/// Writes `text` as a JSON string, quotes included.
#[must_use]
pub fn string_literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    push_literal(&mut literal, text);
    literal
}

pub(crate) fn push_literal(into: &mut String, text: &str) {
    into.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1F => "",
            _ => continue,
        };
        into.push_str(text.get(plain..at).unwrap_or_default());
        plain = at + 1;
        if short.is_empty() {
            into.push_str("\\u00");
            for nibble in [byte >> 4, byte & 0xF] {
                into.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            }
        } else {
            into.push_str(short);
        }
    }
    into.push_str(text.get(plain..).unwrap_or_default());
    into.push('"');
}
