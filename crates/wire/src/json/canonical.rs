//! One text for all ways of writing the same JSON, and the search for what makes a text ambiguous.

use std::collections::BTreeMap;

use super::object::{Object, elements, name_of};
use super::{push_literal, unescape_counting};

/// The same value in one fixed form, for digests: names sorted, white space and needless escapes gone, the last
/// of repeated members kept, and numbers as they were written, so that none is rounded.
///
/// A text that is not JSON comes back as it is.
#[must_use]
pub fn canonical(text: &str) -> Vec<u8> {
    if super::check(text).is_err() {
        return text.as_bytes().to_vec();
    }
    let mut out = String::with_capacity(text.len());
    write(text.trim_matches([' ', '\n', '\r', '\t']), &mut out);
    out.into_bytes()
}

// The check before has bounded the depth, and so the recursion.
fn write(value: &str, out: &mut String) {
    if let Ok(object) = Object::parse(value) {
        let sorted: BTreeMap<_, _> = object.members().map(|member| (member.name, member.value)).collect();
        out.push('{');
        for (at, (name, value)) in sorted.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            push_literal(out, &name);
            out.push(':');
            write(value, out);
        }
        out.push('}');
    } else if let Ok(elements) = elements(value) {
        out.push('[');
        for (at, element) in elements.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write(element, out);
        }
        out.push(']');
    } else if let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        match unescape_counting(inner) {
            // Different lone surrogates must not fall together.
            (_, true) => out.push_str(value),
            (text, false) => push_literal(out, &text),
        }
    } else {
        out.push_str(value);
    }
}

/// The first name, at any depth, that one object has twice. Readers disagree about which of the two counts.
#[must_use]
pub fn duplicate_member(text: &str) -> Option<String> {
    super::check(text).ok()?;
    find_duplicate(text)
}

fn find_duplicate(value: &str) -> Option<String> {
    if let Ok(object) = Object::parse(value) {
        let mut names: Vec<_> = object.raw().iter().map(|member| name_of(value, member)).collect();
        names.sort_unstable();
        let twice = names.windows(2).find_map(|pair| match pair {
            [one, two] if one == two => Some(one.to_string()),
            _ => None,
        });
        return twice.or_else(|| object.members().find_map(|member| find_duplicate(member.value)));
    }
    elements(value).ok()?.into_iter().find_map(find_duplicate)
}
