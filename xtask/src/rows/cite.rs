//! The rows that a test's name cites.
//!
//! ```text
//! name     = rows "_" words
//! rows     = item *( [ "_and" ] "_" item )
//! item     = row [ "_to_" row ]              ; a span counts each row in it
//! row      = family "_" 3digit
//! family   = "a" / "b" / "d" / "e" / "g" / "q" / "x"
//! ```

use std::fmt;

/// A row's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Row {
    pub(super) family: char,
    pub(super) number: u16,
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{:03}", self.family, self.number)
    }
}

impl Row {
    /// As documents write it: `A-047`.
    pub(super) fn parse(text: &str) -> Option<Row> {
        let text = text.to_ascii_lowercase().replace('-', "_");
        read(&text).filter(|(_, rest)| rest.is_empty()).map(|(row, _)| row)
    }
}

/// The row at the beginning of `text`, and what follows it.
fn read(text: &str) -> Option<(Row, &str)> {
    let family = text.chars().next().filter(|family| "abdegqx".contains(*family))?;
    let digits = text.get(1..)?.strip_prefix('_')?.get(..3)?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    let rest = &text[5..];
    if !is_number || !(rest.is_empty() || rest.starts_with('_')) {
        return None;
    }
    Some((Row { family: family.to_ascii_uppercase(), number: digits.parse().ok()? }, rest))
}

/// The rows that a test of this name cites; none where its name begins with something else.
///
/// # Errors
///
/// In words, where a span makes no sense.
pub(super) fn cited(name: &str) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut rest = name;
    while let Some((first, after)) = read(rest) {
        let mut after = after;
        match after.strip_prefix("_to_").and_then(read) {
            Some((last, beyond)) => {
                if last.family != first.family || last.number <= first.number {
                    return Err(format!("{first} to {last} is no span"));
                }
                rows.extend((first.number..=last.number).map(|number| Row { family: first.family, number }));
                after = beyond;
            }
            None => rows.push(first),
        }
        let after = after.strip_prefix("_and").filter(|after| after.starts_with('_')).unwrap_or(after);
        rest = after.strip_prefix('_').unwrap_or_default();
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str) -> String {
        match cited(name) {
            Ok(rows) => rows.iter().map(Row::to_string).collect::<Vec<_>>().join(" "),
            Err(why) => why,
        }
    }

    #[test]
    fn a_name_cites_rows_at_its_beginning_only() {
        for (name, rows) in [
            ("a_047_it_is_flat", "A-047"),
            ("a_047_a_048_b_001_it_is_flat", "A-047 A-048 B-001"),
            ("d_019_and_d_020_say_nothing", "D-019 D-020"),
            ("d_001_to_d_003_are_placed", "D-001 D-002 D-003"),
            ("a_001_to_a_002_b_007_both", "A-001 A-002 B-007"),
            ("a_047", "A-047"),
            ("a_047_and_so_on", "A-047"),
            ("a_047_it_is_like_b_001_here", "A-047"),
            ("r3_3_nothing_leaves", ""),
            ("a_message_is_one_line", ""),
            ("a_04_too_short", ""),
            ("a_0471_too_long", ""),
            ("z_047_no_family", ""),
            ("b_0é", ""),
            ("a_003_to_a_001_backwards", "A-003 to A-001 is no span"),
            ("a_001_to_b_003_mixed", "A-001 to B-003 is no span"),
        ] {
            assert_eq!(words(name), rows, "{name}");
        }
    }

    #[test]
    fn a_row_is_read_as_documents_write_it() {
        assert_eq!(Row::parse("A-047"), Some(Row { family: 'A', number: 47 }));
        assert_eq!(Row::parse("b_009"), Some(Row { family: 'B', number: 9 }));
        assert_eq!(Row::parse("A-47"), None);
        assert_eq!(Row::parse("A-047-1"), None);
    }
}
