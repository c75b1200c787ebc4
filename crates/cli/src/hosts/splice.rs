//! Replacing pieces of a text and leaving every other byte as it is.

use std::ops::Range;

use super::entry::List;

/// One piece, and what comes in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Splice {
    pub(super) at: Range<usize>,
    pub(super) with: String,
}

/// Puts all pieces in place. `None` if they overlap or do not lie in the text.
pub(super) fn apply(text: &str, mut splices: Vec<Splice>) -> Option<String> {
    splices.sort_by_key(|splice| splice.at.start);
    let mut out = String::with_capacity(text.len() + 64);
    let mut done = 0;
    for Splice { at, with } in splices {
        out.push_str(text.get(done..at.start)?);
        out.push_str(&with);
        done = at.end;
    }
    out.push_str(text.get(done..)?);
    Some(out)
}

/// Whether the list stands between brackets.
pub(super) fn is_bracketed(text: &str, list: &List) -> bool {
    text.get(list.span.clone()).is_some_and(|list| list.starts_with('['))
}

/// New first items of a list, written in the manner of those that are there. `None` if that manner is not understood.
pub(super) fn prepend(text: &str, list: &List, literals: &[String]) -> Option<Splice> {
    let Some(first) = list.items.first() else {
        // Directly behind the bracket, so that whatever stands between the brackets stays as it is.
        let open = is_bracketed(text, list).then_some(list.span.start + 1)?;
        return Some(Splice { at: open..open, with: literals.join(", ") });
    };
    let separator = if is_bracketed(text, list) {
        bracketed_separator(text, list, first.start)
    } else {
        format!("{}{}", line_end(text, first.start), dash(text, first.start)?)
    };
    let with = literals.iter().flat_map(|literal| [literal.as_str(), &separator]).collect();
    Some(Splice { at: first.start..first.start, with })
}

/// What goes between two items: a line of its own for each where the first has one, else as between the first two.
fn bracketed_separator(text: &str, list: &List, first: usize) -> String {
    let before = text.get(list.span.start + 1..first).unwrap_or_default();
    let gap = before.get(before.trim_end().len()..).unwrap_or_default();
    if let Some(line) = gap.rfind('\n') {
        let line = if gap[..line].ends_with('\r') { line - 1 } else { line };
        return format!(",{}", &gap[line..]);
    }
    let between = match list.items.as_slice() {
        [first, second, ..] => text.get(first.end..second.start),
        [] | [_] => None,
    };
    if between == Some(",") { ",".to_owned() } else { ", ".to_owned() }
}

/// The indentation and the dash before an item of an indented list.
fn dash(text: &str, first: usize) -> Option<&str> {
    let start = text.get(..first)?.rfind('\n').map_or(0, |at| at + 1);
    let dash = text.get(start..first)?;
    (dash.trim() == "-").then_some(dash)
}

/// How lines end at this place.
pub(super) fn line_end(text: &str, at: usize) -> &'static str {
    let before = text.get(..at).unwrap_or_default();
    match before.rfind('\n') {
        Some(newline) if before[..newline].ends_with('\r') => "\r\n",
        Some(_) | None => "\n",
    }
}
