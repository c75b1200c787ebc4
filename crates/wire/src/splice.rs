//! Edits to JSON text that leave everything else byte for byte as it was.

use std::borrow::Cow;

use bytes::Bytes;

use crate::json::{Object, SyntaxError, push_literal};
use crate::message::Malformed;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit<'a> {
    /// Puts `value`, which must be JSON, at `path`. Missing parents are made; a parent that is no object
    /// becomes one.
    Set {
        /// Member names from the outside in.
        path: &'a [&'a str],
        /// The new value's text.
        value: Cow<'a, str>,
    },
    /// Takes what is at `path` away. Nothing happens if it is not there.
    Remove {
        /// Member names from the outside in.
        path: &'a [&'a str],
    },
}

impl<'a> Edit<'a> {
    /// A [`Edit::Set`].
    pub fn set(path: &'a [&'a str], value: impl Into<Cow<'a, str>>) -> Edit<'a> {
        Edit::Set { path, value: value.into() }
    }

    /// A [`Edit::Remove`].
    #[must_use]
    pub fn remove(path: &'a [&'a str]) -> Edit<'a> {
        Edit::Remove { path }
    }

    fn path(&self) -> &'a [&'a str] {
        match self {
            Edit::Set { path, .. } | Edit::Remove { path } => path,
        }
    }
}

/// Applies `edits`, in order, to the object that `text` is.
///
/// An edited name that is there more than once is there once afterwards, in the place of the last. Members
/// that no edit names keep their bytes, white space, escapes and number literals; new ones go to the end.
///
/// # Errors
/// [`Malformed`] if `text` is no JSON object, or a path is empty.
pub fn splice(text: &str, edits: &[Edit<'_>]) -> Result<Bytes, Malformed> {
    splice_object(&Object::parse(text)?, edits)
}

/// The same for an object that was read already.
///
/// # Errors
/// [`Malformed`] if a path is empty.
pub fn splice_object(object: &Object<'_>, edits: &[Edit<'_>]) -> Result<Bytes, Malformed> {
    let steps: Vec<Step<'_>> = edits.iter().map(|edit| Step { edit, path: edit.path() }).collect();
    Ok(Bytes::from(apply(object, &steps)?))
}

/// An edit, seen from some way down its path.
#[derive(Clone, Copy)]
struct Step<'e> {
    edit: &'e Edit<'e>,
    path: &'e [&'e str],
}

fn apply(object: &Object<'_>, steps: &[Step<'_>]) -> Result<String, SyntaxError> {
    let text = object.text();
    let mut heads: Vec<&str> = Vec::new();
    for step in steps {
        let Some(head) = step.path.first() else {
            return Err(SyntaxError { at: 0, what: "an edit without a path" });
        };
        if !heads.contains(head) {
            heads.push(head);
        }
    }
    let mut out = String::with_capacity(text.len() + 64);
    out.push('{');
    let raw = object.raw();
    // The edited name that each member has, and the last member that has each name.
    let mut edited: Vec<Option<usize>> = vec![None; raw.len()];
    let mut last: Vec<Option<usize>> = vec![None; heads.len()];
    for (at, member) in raw.iter().enumerate() {
        if let Some(head) = heads.iter().position(|head| crate::json::is_named(text, member, head)) {
            edited[at] = Some(head);
            last[head] = Some(at);
        }
    }
    let mut is_first = true;
    for (at, member) in raw.iter().enumerate() {
        let slice = |range| text.get(range).unwrap_or_default();
        match edited[at] {
            None => {
                comma(&mut out, &mut is_first);
                out.push_str(slice(member.chunk.clone()));
            }
            Some(head) if last[head] == Some(at) => {
                if let Some(value) = value(Some(slice(member.value.clone())), &under(steps, heads[head]))? {
                    comma(&mut out, &mut is_first);
                    out.push_str(slice(member.chunk.start..member.value.start));
                    out.push_str(&value);
                    out.push_str(slice(member.value.end..member.chunk.end));
                }
            }
            Some(_) => {}
        }
    }
    for (head, _) in heads.iter().zip(&last).filter(|(_, last)| last.is_none()) {
        if let Some(value) = value(None, &under(steps, head))? {
            comma(&mut out, &mut is_first);
            push_literal(&mut out, head);
            out.push(':');
            out.push_str(&value);
        }
    }
    out.push('}');
    Ok(out)
}

fn comma(out: &mut String, is_first: &mut bool) {
    if !core::mem::take(is_first) {
        out.push(',');
    }
}

fn under<'e>(steps: &[Step<'e>], head: &str) -> Vec<Step<'e>> {
    let is_under = |step: &&Step<'e>| step.path.first() == Some(&head);
    let deeper = |step: &Step<'e>| Step { edit: step.edit, path: step.path.get(1..).unwrap_or_default() };
    steps.iter().filter(is_under).map(deeper).collect()
}

/// What a member's value becomes; `None` if the member goes.
fn value<'v>(old: Option<&'v str>, steps: &[Step<'v>]) -> Result<Option<Cow<'v, str>>, SyntaxError> {
    let end = steps.iter().rposition(|step| step.path.is_empty());
    let (mut base, rest) = match end.and_then(|end| Some((steps.get(end)?, steps.get(end + 1..)?))) {
        Some((step, rest)) => match step.edit {
            Edit::Set { value, .. } => (Some(Cow::Borrowed(value.as_ref())), rest),
            Edit::Remove { .. } => (None, rest),
        },
        None => (old.map(Cow::Borrowed), steps),
    };
    if rest.is_empty() {
        return Ok(base);
    }
    let is_object = base.as_ref().is_some_and(|base| base.trim_start().starts_with('{'));
    if !is_object {
        if rest.iter().all(|step| matches!(step.edit, Edit::Remove { .. })) {
            return Ok(base);
        }
        base = Some(Cow::Borrowed("{}"));
    }
    let base = base.unwrap_or(Cow::Borrowed("{}"));
    Ok(Some(Cow::Owned(apply(&Object::parse(&base)?, rest)?)))
}
