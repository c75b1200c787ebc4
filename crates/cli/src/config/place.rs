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
