//! Spans of time and sizes as people write them: `45s`, `4MiB`.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use taskgate_core::time::Millis;

/// A span of time with its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span(pub(crate) Millis);

/// A size with its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size(pub(crate) usize);

/// A text that is no span or size. Its `Display` says what one looks like.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// Not a number with a unit.
    #[error("{0:?} is no {1}, such as {2}")]
    Form(String, &'static str, &'static str),
    /// Beyond what can be counted.
    #[error("{0:?} is too much")]
    TooMuch(String),
}

const SPAN_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZE_UNITS: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

const SPAN_WORDS: &str = "span of time with its unit (ms, s, m, h or d)";
const SIZE_WORDS: &str = "size with its unit (B, KiB, MiB or GiB)";

impl Span {
    /// Reads `45s`, `500ms`, `10m`, `24h`, `7d`.
    pub(crate) fn parse(text: &str) -> Result<Span, Unreadable> {
        count(text, &SPAN_UNITS, SPAN_WORDS, "\"45s\" or \"10m\"").map(|millis| Span(Millis(millis)))
    }

    pub(crate) fn duration(self) -> Duration {
        self.0.duration()
    }
}

impl Size {
    /// Reads `4MiB`, `512KiB`, `1GiB`, `100B`.
    pub(crate) fn parse(text: &str) -> Result<Size, Unreadable> {
        let bytes = count(text, &SIZE_UNITS, SIZE_WORDS, "\"4MiB\"")?;
        usize::try_from(bytes).map(Size).map_err(|_| Unreadable::TooMuch(text.to_owned()))
    }
}

fn count(
    text: &str,
    units: &[(&str, u64)],
    words: &'static str,
    example: &'static str,
) -> Result<u64, Unreadable> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit.trim_start()).map(|(_, factor)| *factor);
    match (number.is_empty(), factor) {
        (false, Some(factor)) => number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            // More milliseconds than a signed integer holds cannot be added to a point in time.
            .filter(|total| i64::try_from(*total).is_ok())
            .ok_or_else(|| Unreadable::TooMuch(text.to_owned())),
        (true, _) | (false, None) => Err(Unreadable::Form(text.to_owned(), words, example)),
    }
}

fn write(f: &mut fmt::Formatter<'_>, count: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fitting = units.iter().rev().find(|(_, factor)| count >= *factor && count.is_multiple_of(*factor));
    let (unit, factor) = fitting.unwrap_or(&units[0]);
    write!(f, "{}{unit}", count / factor)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nobody thinks of zero as so many milliseconds.
        if self.0.0 == 0 { f.write_str("0s") } else { write(f, self.0.0, &SPAN_UNITS) }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0 as u64, &SIZE_UNITS)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a text by `parse`; anything else is told what is expected.
struct Reader<T>(fn(&str) -> Result<T, Unreadable>, &'static str);

impl<T> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} in quotes", self.1)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_str(Reader(Span::parse, SPAN_WORDS))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        deserializer.deserialize_str(Reader(Size::parse, SIZE_WORDS))
    }
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+ *(ms|s|m|h|d)$", "x-unit": "time" })
    }
}

impl JsonSchema for Size {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+ *(B|KiB|MiB|GiB)$", "x-unit": "size" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_are_written_as_they_are_read() {
        for text in ["0s", "1ms", "1500ms", "45s", "90s", "10m", "24h", "7d"] {
            let span = Span::parse(text).unwrap();
            assert_eq!(Span::parse(&span.to_string()), Ok(span), "{text}");
        }
        assert_eq!(Span::parse("90s").unwrap().to_string(), "90s");
        assert_eq!(Span::parse("24h").unwrap().to_string(), "1d");
        for text in ["0B", "100B", "512KiB", "4MiB", "1GiB"] {
            assert_eq!(Size::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_span_is_told_what_one_looks_like() {
        for bad in ["", "45", "s", "45 seconds", "-1s", "1.5s", "9999999999999999999s", "99999999999999999d"]
        {
            assert!(Span::parse(bad).is_err(), "{bad}");
        }
        let said = Span::parse("45").unwrap_err().to_string();
        assert_eq!(
            said,
            r#""45" is no span of time with its unit (ms, s, m, h or d), such as "45s" or "10m""#
        );
    }
}
