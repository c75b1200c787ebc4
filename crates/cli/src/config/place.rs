//! Where in a TOML file a key stands.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// Bytes of the value at `path`; of the deepest table that is there if there is no such value.
pub(crate) fn of_value(document: &DeTable<'_>, path: &[&str]) -> Option<Range<usize>> {
    find(document, path).map(|(_, value)| value)
}

/// Bytes of the key at `path`; of the deepest key that is there if there is no such key.
pub(crate) fn of_key(document: &DeTable<'_>, path: &[&str]) -> Option<Range<usize>> {
    find(document, path).map(|(key, _)| key)
}

fn find(document: &DeTable<'_>, path: &[&str]) -> Option<(Range<usize>, Range<usize>)> {
    let mut table = document;
    let mut found = None;
    for name in path {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == name) else { break };
        found = Some((key.span(), value.span()));
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => break,
        }
    }
    found
}

/// Bytes of a part of the text that is written at `value`. `None` if it is written with escapes, so that its parts stand
/// elsewhere.
pub(crate) fn inside(file: &str, value: &Range<usize>, part: Range<usize>) -> Option<Range<usize>> {
    let written = file.get(value.clone())?;
    let (quotes, can_escape) = [("\"\"\"", true), ("'''", false), ("\"", true), ("'", false)]
        .into_iter()
        .find(|(quotes, _)| written.starts_with(quotes))?;
    if can_escape && written.contains('\\') {
        return None;
    }
    let mut start = value.start + quotes.len();
    if quotes.len() == 3 {
        // A line break right behind the quotes is not a part of the text.
        let rest = file.get(start..)?;
        start += if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    }
    let found = start + part.start..start + part.end;
    (found.end <= value.end && file.get(found.clone()).is_some()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn a_part_of_a_text_is_found_where_it_is_written_plainly() {
        for (file, part) in [
            ("k = \"abc\"", Some("b")),
            ("k = 'abc'", Some("b")),
            ("k = '''abc'''", Some("b")),
            ("k = \"\"\"\nabc\"\"\"", Some("b")),
            ("k = \"a\\u0062c\"", None),
        ] {
            let value = 4..file.len();
            assert_eq!(inside(file, &value, 1..2).map(|at| &file[at]), part, "{file}");
        }
        assert_eq!(inside("k = \"abc\"", &(4..9), 2..9), None);
    }
}
