//! YAML as goose writes it, and as people do.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::json;
use super::tree::{DEPTH_MAX, Fault, Member, Node, Value};

pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let places = Places::of(text);
    let mut builder = Builder { places: &places, text, open: Vec::new(), root: None };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let at = places.byte(error.marker().index());
            let end = text[at..].chars().next().map_or(at, |next| at + next.len_utf8());
            Fault { what: error.info().to_owned(), at: at..end }
        })?;
        if matches!(event, Event::DocumentStart(_)) {
            documents += 1;
            if documents > 1 {
                let what = "it holds more than one document".to_owned();
                return Err(Fault { what, at: places.bytes(span) });
            }
        }
        builder.take(event, span)?;
    }
    builder.root.ok_or_else(|| Fault { what: "there is nothing in it".to_owned(), at: 0..0 })
}

/// A text on one line: as it is where YAML cannot take it for anything else, else as JSON writes it, which YAML reads.
pub(super) fn literal(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '@' | '+'))
        && plain(text) == Value::Text(text.to_owned());
    if is_plain { text.to_owned() } else { json::literal(text) }
}

/// Bytes for the parser's characters.
struct Places {
    /// Empty if the text is ASCII, where both are the same.
    starts: Vec<usize>,
    end: usize,
}

impl Places {
    fn of(text: &str) -> Places {
        let starts =
            if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
        Places { starts, end: text.len() }
    }

    fn byte(&self, index: usize) -> usize {
        if self.starts.is_empty() {
            return index.min(self.end);
        }
        self.starts.get(index).copied().unwrap_or(self.end)
    }

    fn bytes(&self, span: Span) -> Range<usize> {
        let start = self.byte(span.start.index());
        start..self.byte(span.end.index()).max(start)
    }
}

/// A map or list whose end has not come yet.
struct Open {
    start: usize,
    is_anchored: bool,
    parts: Parts,
}

enum Parts {
    List(Vec<Node>),
    Map(Vec<Member>, Option<(String, Range<usize>)>),
}

struct Builder<'a> {
    places: &'a Places,
    text: &'a str,
    open: Vec<Open>,
    root: Option<Node>,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let at = self.places.bytes(span);
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Alias(_) => self.add(Node { span: at, is_anchored: true, value: Value::Alias }),
            Event::Scalar(value, style, anchor, tag) => {
                let value = if style == ScalarStyle::Plain && tag.is_none() {
                    plain(&value)
                } else {
                    Value::Text(value.into_owned())
                };
                let length = length(self.text.get(at.clone()).unwrap_or_default(), style);
                let end = at.start + length;
                let is_anchored = anchor != 0 || tag.is_some();
                self.add(Node { span: at.start..end, is_anchored, value })
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(at, anchor != 0 || tag.is_some(), Parts::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(at, anchor != 0 || tag.is_some(), Parts::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { start, is_anchored, parts }) = self.open.pop() else { return Ok(()) };
                let value = match parts {
                    Parts::List(items) => Value::List(items),
                    Parts::Map(members, _) => Value::Map(members),
                };
                // The parser's span may have white space and a comment behind the bracket.
                let is_bracket = self.text.get(at.start..).is_some_and(|end| end.starts_with([']', '}']));
                let end = if is_bracket { at.start + 1 } else { at.end };
                self.add(Node { span: start..end.max(start), is_anchored, value })
            }
        }
    }

    fn begin(&mut self, at: Range<usize>, is_anchored: bool, parts: Parts) -> Result<(), Fault> {
        if self.open.len() >= DEPTH_MAX {
            return Err(Fault { what: format!("it nests deeper than {DEPTH_MAX}"), at });
        }
        self.open.push(Open { start: at.start, is_anchored, parts });
        Ok(())
    }

    fn add(&mut self, node: Node) -> Result<(), Fault> {
        match self.open.last_mut().map(|open| &mut open.parts) {
            None => self.root = Some(node),
            Some(Parts::List(items)) => items.push(node),
            Some(Parts::Map(members, name @ None)) => {
                // Names that are no text are none that we look for.
                let text = match &node.value {
                    Value::Text(text) | Value::Number(text) => text.clone(),
                    Value::Bool(bool) => bool.to_string(),
                    Value::Null => "null".to_owned(),
                    Value::List(_) | Value::Map(_) | Value::Alias => {
                        let what = format!("a name was expected here, not {}", node.kind());
                        return Err(Fault { what, at: node.point() });
                    }
                };
                let _ = members;
                *name = Some((text, node.span));
            }
            Some(Parts::Map(members, name @ Some(_))) => {
                if let Some((name, name_span)) = name.take() {
                    members.push(Member { name, name_span, value: node });
                }
            }
        }
        Ok(())
    }
}

/// Bytes of a scalar; the parser's span may have white space and a comment at its end.
fn length(written: &str, style: ScalarStyle) -> usize {
    let quote = match style {
        ScalarStyle::SingleQuoted => '\'',
        ScalarStyle::DoubleQuoted => '"',
        ScalarStyle::Plain | ScalarStyle::Literal | ScalarStyle::Folded => return written.trim_end().len(),
    };
    let mut chars = written.char_indices().skip(1).peekable();
    while let Some((at, next)) = chars.next() {
        if next == '\\' && quote == '"' {
            chars.next();
        } else if next == quote {
            // Two of them stand for one.
            if quote == '"' || chars.next_if(|(_, after)| *after == quote).is_none() {
                return at + 1;
            }
        }
    }
    written.trim_end().len()
}

/// A scalar without quotes, by the core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        text if text.parse::<f64>().is_ok() && text.contains(|c: char| c.is_ascii_digit()) => {
            Value::Number(text.to_owned())
        }
        text => Value::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_knows_its_bytes() {
        let text = "# ä\nextensions:\n  ö:\n    cmd: npx   # why\n    args:\n    - -y\n    - 'it''s'   # 'x'\n    list: [a, \"b\\\"\" ]  # \"y\"\n    n: 30\n";
        let node = parse(text).unwrap();
        let entry = node.get("extensions").unwrap().get("ö").unwrap();
        assert_eq!(&text[entry.get("cmd").unwrap().span.clone()], "npx");
        let Value::List(items) = &entry.get("args").unwrap().value else { panic!("a list") };
        assert_eq!(&text[items[0].span.clone()], "-y");
        assert_eq!(&text[items[1].span.clone()], "'it''s'");
        assert_eq!(items[1].text(), Some("it's"));
        assert_eq!(&text[entry.get("list").unwrap().span.clone()], "[a, \"b\\\"\" ]");
        let Value::List(items) = &entry.get("list").unwrap().value else { panic!("a list") };
        assert_eq!(&text[items[1].span.clone()], "\"b\\\"\"");
        assert_eq!(entry.get("n").unwrap().number(), Some(30));
    }

    #[test]
    fn what_is_no_single_document_is_refused() {
        assert!(parse("a: 1\n---\nb: 2\n").unwrap_err().what.contains("more than one document"));
        assert!(parse("a: [1\n").is_err());
        assert!(parse("").is_err());
        assert!(parse("? [a]\n: b\n").unwrap_err().what.contains("a name was expected"));
        assert!(parse(&"- ".repeat(5000)).is_err());
    }

    #[test]
    fn a_literal_is_read_back_as_the_same_text() {
        for text in ["npx", "/usr/bin/taskgate", "--", "true", "1e3", "a b", "", "ä", "- x", "/a: b", "C:\\x"]
        {
            let read = parse(&format!("a: {}\nb: [{}]\n", literal(text), literal(text))).unwrap();
            assert_eq!(read.get("a").unwrap().text(), Some(text));
            let Value::List(items) = &read.get("b").unwrap().value else { panic!("a list") };
            assert_eq!(items[0].text(), Some(text));
        }
    }
}
