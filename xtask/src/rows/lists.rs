//! The committed lists of rows and exceptions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::cite::Row;

/// The families, in the order of the specification.
pub(super) const FAMILIES: [(char, &str); 7] = [
    ('A', "2025-11-25"),
    ('B', "2026-07-28"),
    ('D', "telling them apart"),
    ('G', "the gateway"),
    ('X', "side by side"),
    ('E', "errors"),
    ('Q', "readings"),
];

/// What is known of a row.
#[derive(Deserialize, Debug)]
#[serde(from = "(String, String, String)")]
pub(super) struct About {
    pub(super) strength: String,
    pub(super) binds: String,
    pub(super) title: String,
}

impl From<(String, String, String)> for About {
    fn from((strength, binds, title): (String, String, String)) -> About {
        About { strength, binds, title }
    }
}

impl About {
    /// A row that only allows, or that binds none of the parts that we play, needs no test.
    pub(super) fn binds_us(&self) -> bool {
        let is_free = self.strength.split('/').all(|word| word == "MAY" || word == "NOTE");
        !is_free && self.binds.split([',', '/']).any(|who| who.trim() != "host")
    }
}

/// All rows.
pub(super) struct Rows(BTreeMap<Row, About>);

impl Rows {
    /// # Errors
    ///
    /// If the file cannot be read, or says what makes no sense.
    pub(super) fn read(path: &Path) -> anyhow::Result<Rows> {
        let families: BTreeMap<String, BTreeMap<String, About>> = parse(path)?;
        let mut rows = BTreeMap::new();
        for (id, about) in families.into_values().flatten() {
            rows.insert(row(&id)?, about);
        }
        Ok(Rows(rows))
    }

    pub(super) fn about(&self, row: Row) -> Option<&About> {
        self.0.get(&row)
    }

    /// Those of one family, in order.
    pub(super) fn of(&self, family: char) -> impl Iterator<Item = (Row, &About)> {
        self.0.iter().filter(move |(row, _)| row.family == family).map(|(row, about)| (*row, about))
    }
}

/// The rows without a test.
pub(super) struct Exceptions {
    /// How many may have neither a test nor an exception.
    pub(super) missing_max: usize,
    /// Why it has none.
    pub(super) rows: BTreeMap<Row, String>,
}

impl Exceptions {
    /// # Errors
    ///
    /// If the file cannot be read, or excuses a row without a reason.
    pub(super) fn read(path: &Path) -> anyhow::Result<Exceptions> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            missing_max: usize,
            rows: BTreeMap<String, String>,
        }
        let file: File = parse(path)?;
        let mut rows = BTreeMap::new();
        for (id, reason) in file.rows {
            if reason.trim().is_empty() {
                bail!("{}: {id} has no reason", path.display());
            }
            rows.insert(row(&id)?, reason);
        }
        Ok(Exceptions { missing_max: file.missing_max, rows })
    }
}

fn row(id: &str) -> anyhow::Result<Row> {
    Row::parse(id).with_context(|| format!("{id} is no row's number; one looks like A-047"))
}

pub(super) fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} makes no sense", path.display()))
}
