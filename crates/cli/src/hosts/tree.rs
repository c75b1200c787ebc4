//! A configuration file as a tree whose every part knows which bytes it is.

use std::ops::Range;

use super::{json, yaml};

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// JSON, with comments and trailing commas where somebody wrote them.
    Json,
    /// YAML 1.2, one document.
    Yaml,
}

/// One value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    /// Its bytes. For a map or list in YAML's indented form only the start is exact.
    pub(crate) span: Range<usize>,
    /// Whether other places of the file may stand for this one (a YAML anchor).
    pub(crate) is_anchored: bool,
    pub(crate) value: Value,
}

/// What a value is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Text(String),
    Number(String),
    Bool(bool),
    Null,
    List(Vec<Node>),
    Map(Vec<Member>),
    /// It stands for another place of the file.
    Alias,
}

/// One member of a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) name_span: Range<usize>,
    pub(crate) value: Node,
}

/// Why a text is no tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) at: Range<usize>,
}

/// Deeper than this nobody nests a configuration.
pub(super) const DEPTH_MAX: usize = 128;

impl Format {
    /// Told by the file's name, else by how it begins.
    pub(crate) fn of(file: &std::path::Path, text: &str) -> Format {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("yaml" | "yml") => Format::Yaml,
            Some("json" | "jsonc" | "json5") => Format::Json,
            Some(_) | None => {
                let begins = text.trim_start();
                let is_json =
                    begins.starts_with(['{', '[']) || begins.starts_with("//") || begins.starts_with("/*");
                if is_json { Format::Json } else { Format::Yaml }
            }
        }
    }

    /// Its name.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Format::Json => "JSON",
            Format::Yaml => "YAML",
        }
    }

    pub(crate) fn parse(self, text: &str) -> Result<Node, Fault> {
        match self {
            Format::Json => json::parse(text),
            Format::Yaml => yaml::parse(text),
        }
    }

    /// A text as it is written in this format.
    pub(crate) fn literal(self, text: &str) -> String {
        match self {
            Format::Json => json::literal(text),
            Format::Yaml => yaml::literal(text),
        }
    }
}

impl Node {
    /// The members of a map.
    pub(crate) fn members(&self) -> Option<&[Member]> {
        match &self.value {
            Value::Map(members) => Some(members),
            Value::Text(_)
            | Value::Number(_)
            | Value::Bool(_)
            | Value::Null
            | Value::List(_)
            | Value::Alias => None,
        }
    }

    /// A member of a map. Where one is written twice, the last counts, as it does for the hosts.
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members()?.iter().rfind(|member| member.name == name)
    }

    /// The value of a member.
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.member(name).map(|member| &member.value)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Number(_)
            | Value::Bool(_)
            | Value::Null
            | Value::List(_)
            | Value::Map(_)
            | Value::Alias => None,
        }
    }

    pub(crate) fn number(&self) -> Option<u64> {
        match &self.value {
            Value::Number(number) => number.parse().ok(),
            Value::Text(_) | Value::Bool(_) | Value::Null | Value::List(_) | Value::Map(_) | Value::Alias => {
                None
            }
        }
    }

    pub(crate) fn is(&self, wanted: bool) -> bool {
        self.value == Value::Bool(wanted)
    }

    /// What it is, for a sentence such as "expected a list, found …".
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a text",
            Value::Number(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Null => "nothing",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
            Value::Alias => "a reference to another place",
        }
    }

    /// A short span to point at: of a map or list only its first byte.
    pub(crate) fn point(&self) -> Range<usize> {
        match self.value {
            Value::List(_) | Value::Map(_) => self.span.start..self.span.start + 1,
            Value::Text(_) | Value::Number(_) | Value::Bool(_) | Value::Null | Value::Alias => {
                self.span.clone()
            }
        }
    }

    /// Whether both say the same, whatever bytes they are; what begins within `left_out` or `right_out` is left out.
    pub(crate) fn says_the_same(
        &self,
        left_out: &[Range<usize>],
        other: &Node,
        right_out: &[Range<usize>],
    ) -> bool {
        match (&self.value, &other.value) {
            (Value::Map(left), Value::Map(right)) => {
                let mut left = left.iter().filter(|member| !is_within(&member.value, left_out));
                let mut right = right.iter().filter(|member| !is_within(&member.value, right_out));
                loop {
                    match (left.next(), right.next()) {
                        (None, None) => return true,
                        (Some(left), Some(right)) => {
                            let is_same = left.name == right.name
                                && left.value.says_the_same(left_out, &right.value, right_out);
                            if !is_same {
                                return false;
                            }
                        }
                        (Some(_), None) | (None, Some(_)) => return false,
                    }
                }
            }
            (Value::List(left), Value::List(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|(left, right)| left.says_the_same(left_out, right, right_out))
            }
            (left, right) => left == right,
        }
    }
}

fn is_within(node: &Node, ranges: &[Range<usize>]) -> bool {
    ranges.iter().any(|range| range.start <= node.span.start && node.span.start < range.end)
}
