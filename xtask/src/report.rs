//! Figures, marks, and the table that shows both.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    /// What it is held against, measured in the same run.
    pub(crate) reference: Option<(String, f64)>,
    pub(crate) mark: Option<Mark>,
    /// Whether the disk's speed bounds the value.
    pub(crate) is_durable: bool,
}

/// In what a figure is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Millis,
    PerSecond,
    Kibibytes,
    Mebibytes,
    Seconds,
    Commits,
}

/// What a figure should come to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Mark {
    /// The value, at most.
    AtMost(f64),
    /// The value, at least.
    AtLeast(f64),
    /// The value divided by the reference, at least.
    Ratio(f64),
    /// As [`Mark::Ratio`], wished for and not promised.
    Wish(f64),
}

impl Figure {
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: Unit) -> Figure {
        Figure { what: what.into(), value, unit, reference: None, mark: None, is_durable: false }
    }

    pub(crate) fn against(mut self, what: impl Into<String>, value: f64) -> Figure {
        self.reference = Some((what.into(), value));
        self
    }

    pub(crate) fn mark(mut self, mark: Mark) -> Figure {
        self.mark = Some(mark);
        self
    }

    /// Marks of it are scaled by the disk's slowness when they are checked.
    pub(crate) fn durable(mut self) -> Figure {
        self.is_durable = true;
        self
    }

    pub(crate) fn ratio(&self) -> Option<f64> {
        self.reference.as_ref().map(|(_, reference)| self.value / reference)
    }

    /// Whether the mark is met with all its bounds loosened by `slack`; `None` without one.
    pub(crate) fn meets(&self, slack: f64) -> Option<bool> {
        let ratio = self.ratio().unwrap_or(0.0);
        Some(match self.mark? {
            Mark::AtMost(most) => self.value <= most * slack,
            Mark::AtLeast(least) => self.value >= least / slack,
            Mark::Ratio(least) | Mark::Wish(least) => ratio >= least / slack,
        })
    }

    /// Whether a check fails by it.
    pub(crate) fn fails(&self, slack: f64, slowness: f64) -> bool {
        let slack = match self.mark {
            Some(Mark::Wish(_)) | None => return false,
            Some(Mark::AtMost(_) | Mark::AtLeast(_)) if self.is_durable => slack * slowness,
            Some(Mark::AtMost(_) | Mark::AtLeast(_) | Mark::Ratio(_)) => slack,
        };
        self.meets(slack) == Some(false)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "what": self.what,
            "value": self.value,
            "unit": self.unit.word(),
            "reference": self.reference.as_ref().map(|(what, value)| json!({"what": what, "value": value})),
            "ratio": self.ratio(),
            "mark": self.mark.map(|mark| mark.text(self.unit)),
            "met": self.meets(1.0),
        })
    }
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Unit::Millis => "ms",
            Unit::PerSecond => "/s",
            Unit::Kibibytes => "KiB",
            Unit::Mebibytes => "MiB",
            Unit::Seconds => "s",
            Unit::Commits => "commits",
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Unit::Millis | Unit::Seconds => format!("{value:.3} {}", self.word()),
            Unit::PerSecond => format!("{value:.0}/s"),
            Unit::Commits => format!("{value:.2} {}", self.word()),
            Unit::Kibibytes | Unit::Mebibytes => format!("{value:.1} {}", self.word()),
        }
    }
}

impl Mark {
    fn text(self, unit: Unit) -> String {
        match self {
            Mark::AtMost(most) => format!("≤ {most} {}", unit.word()),
            Mark::AtLeast(least) => format!("≥ {least}{}", unit.word()),
            Mark::Ratio(least) => format!("≥ {least} ×"),
            Mark::Wish(least) => format!("(≥ {least} ×)"),
        }
    }
}

/// The figures as a table in Markdown.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut rows = vec![["figure", "value", "reference", "ratio", "mark", ""].map(String::from)];
    for figure in figures {
        let reference = figure.reference.as_ref();
        rows.push([
            figure.what.clone(),
            figure.unit.text(figure.value),
            reference
                .map_or_else(String::new, |(what, value)| format!("{} {what}", figure.unit.text(*value))),
            figure.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2} ×")),
            figure.mark.map_or_else(String::new, |mark| mark.text(figure.unit)),
            figure.meets(1.0).map_or("", |met| if met { "met" } else { "missed" }).to_owned(),
        ]);
    }
    lay_out(&rows)
}

/// Rows of equal columns, the first being the heading.
pub(crate) fn lay_out<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a string cannot fail.
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if number == 0 {
            for width in widths {
                let _ = write!(text, "| {} ", "-".repeat(width.max(3)));
            }
            text.push_str("|\n");
        }
    }
    text
}

/// So many of them.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The one in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(value: f64) -> Figure {
        Figure::new("calls", value, Unit::PerSecond)
    }

    #[test]
    fn marks_are_met_or_missed() {
        assert_eq!(rate(99.0).meets(1.0), None);
        assert_eq!(rate(99.0).mark(Mark::AtLeast(100.0)).meets(1.0), Some(false));
        assert_eq!(rate(99.0).mark(Mark::AtLeast(100.0)).meets(1.1), Some(true));
        assert_eq!(rate(101.0).mark(Mark::AtMost(100.0)).meets(1.0), Some(false));
        let ratio = rate(60.0).against("bare", 100.0).mark(Mark::Ratio(0.6));
        assert_eq!((ratio.meets(1.0), ratio.ratio()), (Some(true), Some(0.6)));
    }

    #[test]
    fn a_slow_disk_loosens_what_waits_for_it_and_nothing_else() {
        let missed = rate(60.0).mark(Mark::AtLeast(100.0));
        assert!(missed.fails(1.0, 2.0));
        assert!(!missed.clone().durable().fails(1.0, 2.0));
        let ratio = rate(60.0).against("bare", 200.0).mark(Mark::Ratio(0.6));
        assert!(ratio.clone().durable().fails(1.0, 9.0));
        assert!(!ratio.mark(Mark::Wish(0.6)).fails(1.0, 1.0));
    }

    #[test]
    fn the_table_is_markdown() {
        let text = table(&[rate(9_999.6).against("direct", 20_000.0).mark(Mark::AtLeast(10_000.0))]);
        let row = text.lines().nth(2).unwrap();
        assert_eq!(row, "| calls  | 10000/s | 20000/s direct | 0.50 × | ≥ 10000/s | missed |");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![3.0, 1.0]), 2.0);
    }
}
