//! Values of the wire as expressions see them, and back.
//!
//! A number that a 64-bit number does not hold as it was written is seen as its text. Two such numbers are equal only
//! if they were written alike; rounded, two identifiers could fall together.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value;
use cel::objects::{Key, Map};
use taskgate_wire::json::{self, Object, SyntaxError};

/// Whole numbers above it have neighbours that a double cannot tell apart.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Why a text is not taken for JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    /// It is none, or nested deeper than the wire layer reads.
    Syntax,
    /// An object names a member twice. Readers differ in which of the two counts, so it says both and neither.
    Twice,
}

impl From<SyntaxError> for Unread {
    fn from(_: SyntaxError) -> Unread {
        Unread::Syntax
    }
}

/// Reads a JSON text.
///
/// # Errors
/// [`Unread`].
pub(crate) fn read(text: &str) -> Result<Value, Unread> {
    // The check bounds the depth of what follows.
    json::check(text)?;
    value(text.trim_matches([' ', '\n', '\r', '\t']))
}

fn value(text: &str) -> Result<Value, Unread> {
    Ok(match text.as_bytes().first() {
        Some(b'{') => {
            let object = Object::parse(text)?;
            let mut map = HashMap::new();
            for member in object.members() {
                let name = Key::String(Arc::new(member.name.into_owned()));
                if map.insert(name, value(member.value)?).is_some() {
                    return Err(Unread::Twice);
                }
            }
            Value::Map(Map { map: Arc::new(map) })
        }
        Some(b'[') => {
            let elements = json::elements(text)?;
            Value::List(Arc::new(elements.into_iter().map(value).collect::<Result<_, _>>()?))
        }
        Some(b'"') => Value::String(Arc::new(json::string(text).unwrap_or_default().into_owned())),
        Some(b't') => Value::Bool(true),
        Some(b'f') => Value::Bool(false),
        Some(b'n') => Value::Null,
        Some(_) | None => number(text),
    })
}

fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<i64>() {
        return Value::Int(whole);
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Value::UInt(whole);
    }
    match text.parse::<f64>() {
        Ok(number) if number.abs() < EXACT_MAX && decimal(text) == decimal(&format!("{number:e}")) => {
            Value::Float(number)
        }
        Ok(_) | Err(_) => Value::String(Arc::new(text.to_owned())),
    }
}

/// Sign, digits without zeros around them, and the power of ten of the last digit.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - kept.len()).ok()?;
    let power = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(zeros)?;
    let kept = kept.trim_start_matches('0');
    if kept.is_empty() {
        Some((false, String::new(), 0))
    } else {
        Some((is_negative, kept.to_owned(), power))
    }
}

/// Why a value cannot be written as JSON: what it is.
pub(crate) type NoJson = &'static str;

/// Writes `value` as JSON; members in the order of their names.
pub(crate) fn write(value: &Value, out: &mut String) -> Result<(), NoJson> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "which variants there are depends on cel's features")]
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::UInt(number) => out.push_str(&number.to_string()),
        Value::Float(number) if number.is_finite() => out.push_str(&format!("{number:?}")),
        Value::String(text) => out.push_str(&json::string_literal(text)),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut members = Vec::with_capacity(map.map.len());
            for (key, value) in map.map.iter() {
                match key {
                    Key::String(name) => members.push((name, value)),
                    Key::Int(_) | Key::Uint(_) | Key::Bool(_) => return Err("a map whose keys are no texts"),
                }
            }
            members.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&json::string_literal(name));
                out.push(':');
                write(value, out)?;
            }
            out.push('}');
        }
        other => return Err(kind(other)),
    }
    Ok(())
}

/// What a value is, without saying what it says.
pub(crate) fn kind(value: &Value) -> &'static str {
    #[expect(clippy::wildcard_enum_match_arm, reason = "which variants there are depends on cel's features")]
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Int(_) | Value::UInt(_) => "a whole number",
        Value::Float(_) => "a number with a fraction",
        Value::String(_) => "a text",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_text() {
        assert_eq!(number("12"), Value::Int(12));
        assert_eq!(number("-9223372036854775808"), Value::Int(i64::MIN));
        assert!(matches!(number("18446744073709551615"), Value::UInt(u64::MAX)));
        for text in ["18446744073709551616", "-9223372036854775809", "100000000000000000001", "1e400"] {
            assert!(matches!(number(text), Value::String(found) if *found == text), "{text}");
        }
        for text in ["1.5", "12.50", "0.1", "0.30000000000000004", "1e3", "-0.0", "1.0", "5e-324", "1E-7"] {
            assert!(matches!(number(text), Value::Float(_)), "{text}");
        }
        // Rounded, each of these would equal a number that was written differently.
        for text in ["0.1000000000000000055", "9007199254740993.0", "1.00000000000000000001"] {
            assert!(matches!(number(text), Value::String(_)), "{text}");
        }
    }

    #[test]
    fn what_is_read_is_written() {
        let text = r#"{"a":[1,-2,1.5,true,null,"x\n"],"b":{"c":18446744073709551615}}"#;
        let mut out = String::new();
        write(&read(text).unwrap(), &mut out).unwrap();
        assert_eq!(out, text);
        assert!(read("{").is_err() && read("[1").is_err() && read("").is_err());
    }
}
