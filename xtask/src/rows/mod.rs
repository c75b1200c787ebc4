//! Which rows of the specification have a test, which are excused, and which are missing.
//!
//! - [`cite`]: the rows that a test's name cites
//! - [`find`]: the tests there are, by their names
//! - [`leniency`]: what is read leniently, for whom, and what holds it
//! - [`lists`]: the committed lists of rows and exceptions

mod cite;
mod find;
pub(crate) mod leniency;
mod lists;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;

use self::cite::Row;
use self::find::Test;
use self::lists::{Exceptions, Rows};

/// What there is to say of all rows.
struct Coverage {
    rows: Rows,
    exceptions: Exceptions,
    /// Who cites what.
    tests: BTreeMap<Row, Vec<Test>>,
    faults: Vec<String>,
}

impl Coverage {
    fn read(root: &Path) -> anyhow::Result<Coverage> {
        let rows = Rows::read(&root.join("docs/spec/rows.toml"))?;
        let exceptions = Exceptions::read(&root.join("docs/spec/rows-without-a-test.toml"))?;
        let mut tests: BTreeMap<Row, Vec<Test>> = BTreeMap::new();
        let mut faults = Vec::new();
        for test in find::tests(root)? {
            match cite::cited(&test.name) {
                Ok(cited) => {
                    for row in cited {
                        tests.entry(row).or_default().push(test.clone());
                    }
                }
                Err(why) => faults.push(format!("{}: {}: {why}", test.file, test.name)),
            }
        }
        let mut coverage = Coverage { rows, exceptions, tests, faults };
        coverage.judge();
        Ok(coverage)
    }

    fn missing(&self, family: char) -> Vec<Row> {
        let rows = self.rows.of(family).filter(|(row, about)| {
            about.binds_us() && !self.tests.contains_key(row) && !self.exceptions.rows.contains_key(row)
        });
        rows.map(|(row, _)| row).collect()
    }

    fn judge(&mut self) {
        let mut faults = Vec::new();
        for (row, tests) in &self.tests {
            if self.rows.about(*row).is_none() {
                faults.push(format!("{row} is cited by {} and is no row", tests[0].name));
            }
        }
        for row in self.exceptions.rows.keys() {
            match self.rows.about(*row) {
                None => faults.push(format!("{row} is excused and is no row")),
                Some(about) if !about.binds_us() => {
                    faults.push(format!("{row} is excused, which it need not be: it binds nobody"));
                }
                Some(_) => {}
            }
            if let Some(tests) = self.tests.get(row) {
                faults.push(format!("{row} is excused, and tested by {}", tests[0].name));
            }
        }
        let missing: usize = lists::FAMILIES.iter().map(|(family, _)| self.missing(*family).len()).sum();
        let max = self.exceptions.missing_max;
        if missing > max {
            faults.push(format!("{missing} rows have neither a test nor an exception; {max} may"));
        }
        if missing < max {
            faults.push(format!("missing_max is {max} and only shrinks: write {missing}"));
        }
        self.faults.append(&mut faults);
    }

    fn table(&self) -> String {
        let mut out = String::from("family  rows  bind us  tested  listed  missing\n");
        let mut sums = [0; 5];
        for (family, name) in lists::FAMILIES {
            let bound: Vec<Row> =
                self.rows.of(family).filter(|(_, about)| about.binds_us()).map(|(row, _)| row).collect();
            let figures = [
                self.rows.of(family).count(),
                bound.len(),
                bound.iter().filter(|row| self.tests.contains_key(row)).count(),
                bound.iter().filter(|row| self.exceptions.rows.contains_key(row)).count(),
                self.missing(family).len(),
            ];
            out.push_str(&line(&family.to_string(), figures, name));
            for (sum, figure) in sums.iter_mut().zip(figures) {
                *sum += figure;
            }
        }
        out.push_str(&line("all", sums, ""));
        for (family, _) in lists::FAMILIES {
            for row in self.missing(family) {
                let title = self.rows.about(row).map_or("", |about| about.title.as_str());
                out.push_str(&format!("missing: {row} {title}\n"));
            }
        }
        out
    }

    /// One row, and what is known of it.
    fn about(&self, row: Row) -> String {
        let Some(about) = self.rows.about(row) else { return format!("{row} is no row\n") };
        let mut out = format!("{row} ({}, binds {}): {}\n", about.strength, about.binds, about.title);
        for test in self.tests.get(&row).into_iter().flatten() {
            out.push_str(&format!("  {}: {}\n", test.file, test.name));
        }
        if let Some(reason) = self.exceptions.rows.get(&row) {
            out.push_str(&format!("  no test: {reason}\n"));
        }
        out
    }
}

fn line(family: &str, [rows, bound, tested, listed, missing]: [usize; 5], name: &str) -> String {
    let line = format!("{family:<6}  {rows:>4}  {bound:>7}  {tested:>6}  {listed:>6}  {missing:>7}  {name}");
    format!("{}\n", line.trim_end())
}

/// Prints the coverage, or what is known of `wanted`. Fails where a row that binds us is missing.
pub(crate) fn run(wanted: &[String]) -> anyhow::Result<()> {
    let coverage = Coverage::read(&root())?;
    if !wanted.is_empty() {
        for text in wanted {
            match Row::parse(text) {
                Some(row) => print!("{}", coverage.about(row)),
                None => bail!("{text} is no row's number; one looks like A-047"),
            }
        }
        return Ok(());
    }
    print!("{}", coverage.table());
    if coverage.faults.is_empty() { Ok(()) } else { bail!("{}", coverage.faults.join("\n")) }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_that_binds_us_has_a_test_or_a_reason() {
        let coverage = Coverage::read(&root()).unwrap();
        assert!(coverage.faults.is_empty(), "{}\n{}", coverage.faults.join("\n"), coverage.table());
    }
}
