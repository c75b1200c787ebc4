//! What is read leniently: the list of it, the marks in the code, the tests, and the page that shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::cite::Row;
use super::find;
use super::lists::{Rows, parse};

const LIST: &str = "docs/spec/leniencies.toml";
const PAGE: &str = "docs/leniency.md";
/// What stands before an id in the code.
const MARK: &str = "Leniency: ";

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Leniency {
    /// Who needs it.
    peer: String,
    /// What that peer does.
    does: String,
    /// What reading it to the letter would cost.
    strict: String,
    /// The row that the peer breaks, or that allows it.
    breaks: String,
    /// What holds it.
    tests: Vec<String>,
}

/// All that is known of leniencies, and what does not fit together.
pub(super) struct Leniencies {
    pub(super) page: String,
    pub(super) faults: Vec<String>,
}

impl Leniencies {
    /// # Errors
    ///
    /// If a file cannot be read, or makes no sense.
    pub(super) fn read(root: &Path) -> anyhow::Result<Leniencies> {
        let listed: BTreeMap<String, Leniency> = parse(&root.join(LIST))?;
        let marks = marks(root)?;
        let tests: BTreeMap<String, String> =
            find::tests(root)?.into_iter().map(|test| (test.name, test.file)).collect();
        let rows = Rows::read(&root.join("docs/spec/rows.toml"))?;
        let mut faults = Vec::new();
        for (id, leniency) in &listed {
            if !marks.contains_key(id) {
                faults.push(format!("{id} is listed, and no code says \"{MARK}{id}\""));
            }
            if leniency.tests.is_empty() {
                faults.push(format!("{id} has no test"));
            }
            for test in &leniency.tests {
                if !tests.contains_key(test) {
                    faults.push(format!("{id} names the test {test}, which there is not"));
                }
            }
            if Row::parse(&leniency.breaks).is_none_or(|row| rows.about(row).is_none()) {
                faults.push(format!("{id} is said to break {}, which is no row", leniency.breaks));
            }
            let said = [&leniency.peer, &leniency.does, &leniency.strict];
            if said.iter().any(|said| said.trim().is_empty()) {
                faults.push(format!("{id} does not say all that is to be said"));
            }
        }
        for (id, files) in &marks {
            if !listed.contains_key(id) {
                let files: Vec<&str> = files.iter().map(String::as_str).collect();
                faults.push(format!("{id} is marked in {} and is not in {LIST}", files.join(", ")));
            }
        }
        Ok(Leniencies { page: page(&listed, &marks), faults })
    }
}

/// The files that mark each id.
fn marks(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut marks: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    find::sources(root, &mut |file, text| {
        if file.contains("/src/") {
            for id in marked(text) {
                marks.entry(id.to_owned()).or_default().insert(file.to_owned());
            }
        }
    })?;
    Ok(marks)
}

/// The ids that a source file marks, in its comments.
fn marked(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (_, comment) = line.split_once("//")?;
        let (_, rest) = comment.split_once(MARK)?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        rest.get(..end).filter(|id| !id.is_empty())
    })
}

fn page(listed: &BTreeMap<String, Leniency>, marks: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut out = String::from(
        "# What is read leniently\n\n\
         taskgate is strict in what it sends and lenient in what it reads. Each leniency is here, with the peer that needs \
         it.\nThe code marks each with `Leniency: ID`. The tests whose names begin with `peers_` meet the real peer, and \
         fail on the\nday on which it has mended its ways (`cargo test -p taskgate-cli --test oddities`).\n\n\
         This page is written by `cargo xtask leniency --write` from `docs/spec/leniencies.toml`; a test compares them.\n\n\
         | id | peer | what it does | what reading it to the letter would cost | row | read in | held by |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (id, leniency) in listed {
        let files = marks.get(id).into_iter().flatten().map(|file| format!("`{file}`"));
        let tests = leniency.tests.iter().map(|test| format!("`{test}`"));
        out.push_str(&format!(
            "| {id} | {} | {} | {} | {} | {} | {} |\n",
            leniency.peer,
            leniency.does,
            leniency.strict,
            leniency.breaks,
            files.collect::<Vec<_>>().join("<br>"),
            tests.collect::<Vec<_>>().join("<br>"),
        ));
    }
    out
}

/// Prints the page, or writes it. Fails where the list, the code and the tests do not fit together.
pub(crate) fn run(write: bool) -> anyhow::Result<()> {
    let root = super::root();
    let Leniencies { page, faults } = Leniencies::read(&root)?;
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    if write {
        let path = root.join(PAGE);
        fs::write(&path, page).with_context(|| format!("{} cannot be written", path.display()))?;
    } else {
        print!("{page}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leniency_is_marked_listed_tested_and_shown() {
        let root = super::super::root();
        let Leniencies { page, faults } = Leniencies::read(&root).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        let shown = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
        assert!(shown == page, "docs/leniency.md is out of date: cargo xtask leniency --write");
    }

    #[test]
    fn marks_are_found_in_comments_only() {
        let text = "
            /// - Why.
            ///   Leniency: of-a-doc
            let a = b; // Leniency: of-a-line. And why.
            let c = \"Leniency: of-no-comment\";
            // Leniency, in general
        ";
        assert_eq!(marked(text).collect::<Vec<_>>(), ["of-a-doc", "of-a-line"]);
    }
}
