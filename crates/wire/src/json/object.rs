//! A shallow view of one object, in the order of its text.

use std::borrow::Cow;

use super::SyntaxError;
use super::scan::{RawMember, Scanner};
use super::text::unescape;

/// The members of one JSON object; the values stay text.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    text: &'a str,
    members: Vec<RawMember>,
}

/// One member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member<'a> {
    /// Its name, out of its escapes.
    pub name: Cow<'a, str>,
    /// Its value's text, without white space around it.
    pub value: &'a str,
}

impl<'a> Object<'a> {
    /// Reads the object that `text` is. Everything inside is checked to be JSON; nothing is decoded.
    ///
    /// # Errors
    /// [`SyntaxError`] if it is no object, no JSON, or nested too deeply.
    pub fn parse(text: &'a str) -> Result<Object<'a>, SyntaxError> {
        let mut scanner = Scanner::new(text);
        scanner.space();
        let members = scanner.members(0)?;
        scanner.end()?;
        Ok(Object { text, members })
    }

    /// The value of `name`; the last one if it is there more than once, as most readers have it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let member = self.members.iter().rev().find(|member| is_named(self.text, member, name))?;
        self.text.get(member.value.clone())
    }

    /// The value of `name` if it is a string.
    #[must_use]
    pub fn str(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(string)
    }

    /// The value of `name` if it is a whole number that fits.
    #[must_use]
    pub fn u64(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// The value of `name` if it is a whole number that fits.
    #[must_use]
    pub fn i64(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    /// The value of `name` if it is `true` or `false`.
    #[must_use]
    pub fn bool(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The value of `name` if it is an object.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<Object<'a>> {
        Object::parse(self.get(name)?).ok()
    }

    /// All members in order, repeated names included.
    pub fn members(&self) -> impl Iterator<Item = Member<'a>> + '_ {
        self.members.iter().map(|member| Member {
            name: name_of(self.text, member),
            value: self.text.get(member.value.clone()).unwrap_or_default(),
        })
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The text that it was read from.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) fn raw(&self) -> &[RawMember] {
        &self.members
    }
}

pub(crate) fn name_of<'a>(text: &'a str, member: &RawMember) -> Cow<'a, str> {
    let raw = text.get(member.name.clone()).unwrap_or_default();
    if member.is_escaped { unescape(raw) } else { Cow::Borrowed(raw) }
}

pub(crate) fn is_named(text: &str, member: &RawMember, name: &str) -> bool {
    name_of(text, member) == name
}

/// The value at a path of member names; `text` itself for an empty path.
#[must_use]
pub fn at<'a>(text: &'a str, path: &[&str]) -> Option<&'a str> {
    let mut value = text;
    for name in path {
        value = Object::parse(value).ok()?.get(name)?;
    }
    Some(value)
}

/// The elements of an array, as text.
///
/// # Errors
/// [`SyntaxError`] if it is no array or no JSON.
pub fn elements(text: &str) -> Result<Vec<&str>, SyntaxError> {
    let mut scanner = Scanner::new(text);
    scanner.space();
    let ranges = scanner.elements(0)?;
    scanner.end()?;
    Ok(ranges.into_iter().filter_map(|range| text.get(range)).collect())
}

/// What a string literal says. `None` for any other value.
#[must_use]
pub fn string(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    Some(unescape(inner))
}

/// Whether a value, without white space around it, is an object.
#[must_use]
pub fn is_object(value: &str) -> bool {
    value.starts_with('{')
}

/// Whether a value, without white space around it, is `null`.
#[must_use]
pub fn is_null(value: &str) -> bool {
    value == "null"
}
