//! JSON as hosts write it: with comments and trailing commas, as VS Code, Zed and opencode allow in theirs.

use std::ops::Range;

use jsonc_parser::ast::{ObjectPropName, Value as Ast};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::tree::{DEPTH_MAX, Fault, Member, Node, Value};

/// Comments and trailing commas, and nothing else that JSON has not.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS).map_err(|error| {
        let range = error.range();
        let start = range.start.min(text.len());
        // Something to point at, also where something is missing.
        let next = text[start..].chars().next().map_or(start, |next| start + next.len_utf8());
        let end = range.end.clamp(start, text.len()).max(next);
        Fault { what: lower(&error.kind().to_string()), at: start..end }
    })?;
    let Some(value) = parsed.value else {
        return Err(Fault { what: "there is nothing in it".to_owned(), at: 0..0 });
    };
    node(&value, 0)
}

fn node(value: &Ast<'_>, depth: usize) -> Result<Node, Fault> {
    let (span, value) = match value {
        Ast::StringLit(text) => (text.range, Value::Text(text.value.to_string())),
        Ast::NumberLit(number) => (number.range, Value::Number(number.value.to_owned())),
        Ast::BooleanLit(bool) => (bool.range, Value::Bool(bool.value)),
        Ast::NullKeyword(null) => (null.range, Value::Null),
        Ast::Array(array) => {
            let items = array.elements.iter().map(|item| node(item, depth + 1)).collect::<Result<_, _>>()?;
            (array.range, Value::List(items))
        }
        Ast::Object(object) => {
            let mut members = Vec::new();
            for property in &object.properties {
                let (name, range) = match &property.name {
                    ObjectPropName::String(name) => (name.value.to_string(), name.range),
                    ObjectPropName::Word(name) => (name.value.to_owned(), name.range),
                };
                let value = node(&property.value, depth + 1)?;
                members.push(Member { name, name_span: bytes(range), value });
            }
            (object.range, Value::Map(members))
        }
    };
    if depth > DEPTH_MAX {
        return Err(Fault { what: format!("it nests deeper than {DEPTH_MAX}"), at: bytes(span) });
    }
    Ok(Node { span: bytes(span), is_anchored: false, value })
}

fn bytes(range: jsonc_parser::common::Range) -> Range<usize> {
    range.start..range.end
}

/// A text between quotes.
pub(crate) fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A sentence of the parser within one of ours.
fn lower(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_knows_its_bytes() {
        let text = "{ // ä\n \"a\": [\"b\\n\", 1, true, null,], }";
        let node = parse(text).unwrap();
        assert_eq!(&text[node.span.clone()], "{ // ä\n \"a\": [\"b\\n\", 1, true, null,], }");
        let list = node.get("a").unwrap();
        assert_eq!(&text[list.span.clone()], "[\"b\\n\", 1, true, null,]");
        let Value::List(items) = &list.value else { panic!("a list") };
        assert_eq!(&text[items[0].span.clone()], "\"b\\n\"");
        assert_eq!(items[0].text(), Some("b\n"));
        assert_eq!(&text[node.member("a").unwrap().name_span.clone()], "\"a\"");
    }

    #[test]
    fn what_json_has_not_is_refused_with_its_place() {
        for (text, at) in [("{a: 1}", 1..2), ("{\"a\": 1 \"b\": 2}", 7..8), ("{\"a\": 'b'}", 6..7)] {
            let fault = parse(text).unwrap_err();
            assert_eq!(fault.at, at, "{text}: {}", fault.what);
        }
        assert!(parse("").is_err());
        assert!(parse(" // nothing\n").is_err());
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&format!("{}{}", "[".repeat(300), "]".repeat(300))).is_err());
    }
}
