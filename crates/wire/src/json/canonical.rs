//! One text for all ways of writing the same JSON, and the search for what makes a text ambiguous.
//!
//! Both take one pass, however deep the text is; the scanner bounds the depth, and so the recursion.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::scan::Scanner;
use super::{SyntaxError, push_literal, unescape, unescape_counting};

/// The same value in one fixed form, for digests: names sorted, white space and needless escapes gone, the
/// last of repeated members kept, and numbers as they were written, so that none is rounded.
///
/// A text that is not JSON comes back as it is.
#[must_use]
pub fn canonical(text: &str) -> Vec<u8> {
    let mut out = String::with_capacity(text.len());
    let mut scanner = Scanner::new(text);
    scanner.space();
    match write(&mut scanner, text, &mut out, 0).and_then(|()| scanner.end()) {
        Ok(()) => out.into_bytes(),
        Err(_) => text.as_bytes().to_vec(),
    }
}

fn write(scanner: &mut Scanner<'_>, text: &str, out: &mut String, above: u32) -> Result<(), SyntaxError> {
    match scanner.peek() {
        Some(b'{') => {
            let mut sorted: BTreeMap<Cow<'_, str>, String> = BTreeMap::new();
            scanner.members_with(above, |scanner, name, above| {
                let start = scanner.pos;
                let mut value = String::new();
                write(scanner, text, &mut value, above)?;
                sorted.insert(unescape(text.get(name).unwrap_or_default()), value);
                Ok(start..scanner.pos)
            })?;
            out.push('{');
            for (at, (name, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                push_literal(out, &name);
                out.push(':');
                out.push_str(&value);
            }
            out.push('}');
        }
        Some(b'[') => {
            out.push('[');
            let mut is_first = true;
            scanner.elements_with(above, |scanner, above| {
                if !core::mem::take(&mut is_first) {
                    out.push(',');
                }
                let start = scanner.pos;
                write(scanner, text, out, above)?;
                Ok(start..scanner.pos)
            })?;
            out.push(']');
        }
        Some(_) | None => {
            let value = text.get(scanner.value(above)?).unwrap_or_default();
            // Without a backslash there is only one way to write it.
            let inner = value.strip_prefix('"').filter(|inner| inner.contains('\\'));
            match inner.and_then(|inner| inner.strip_suffix('"')).map(unescape_counting) {
                Some((words, false)) => push_literal(out, &words),
                // Different lone surrogates must not fall together.
                Some((_, true)) | None => out.push_str(value),
            }
        }
    }
    Ok(())
}

/// The first name, at any depth, that one object has twice. Readers disagree about which of the two counts.
#[must_use]
pub fn duplicate_member(text: &str) -> Option<String> {
    let mut scanner = Scanner::new(text);
    let mut found = None;
    scanner.space();
    find_duplicate(&mut scanner, text, &mut found, 0).ok()?;
    scanner.end().ok()?;
    found
}

fn find_duplicate(
    scanner: &mut Scanner<'_>,
    text: &str,
    found: &mut Option<String>,
    above: u32,
) -> Result<(), SyntaxError> {
    match scanner.peek() {
        Some(b'{') => {
            let mut names = BTreeSet::new();
            scanner.members_with(above, |scanner, name, above| {
                let name = unescape(text.get(name).unwrap_or_default());
                if found.is_none() && !names.insert(name.clone()) {
                    *found = Some(name.into_owned());
                }
                let start = scanner.pos;
                find_duplicate(scanner, text, found, above)?;
                Ok(start..scanner.pos)
            })?;
        }
        Some(b'[') => {
            scanner.elements_with(above, |scanner, above| {
                let start = scanner.pos;
                find_duplicate(scanner, text, found, above)?;
                Ok(start..scanner.pos)
            })?;
        }
        Some(_) | None => {
            scanner.value(above)?;
        }
    }
    Ok(())
}
