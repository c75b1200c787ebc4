//! The bank's books: one file, one line of JSON for each thing that happened, in the order in which it happened.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A request for the effect came in.
    Arrived,
    /// The effect was made. On disk before anybody is told.
    Applied,
    /// A request whose token was known already: nothing was done.
    Repeated,
    /// A request that was refused: nothing was done.
    Refused,
    /// From here on the key is refused for ever. On disk before anybody is told.
    Fenced,
    /// Somebody asked what became of the key.
    Probed,
    /// Somebody was told that a person is to decide about the operation that stands for the key.
    Noticed,
}

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// What happened.
    pub what: What,
    /// What the effect is called by those who want it made.
    pub key: String,
    /// What it is done to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// How much.
    #[serde(default)]
    pub amount: f64,
    /// What tells one request from a repetition of it, if the asker said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// When, in milliseconds since 1970.
    #[serde(default)]
    pub at: i64,
}

/// What is known of one key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// How often the effect was asked for.
    pub arrived: u32,
    /// How often it was made.
    pub applied: u32,
    /// How often it was not made again because its token was known.
    pub repeated: u32,
    /// How often it was refused.
    pub refused: u32,
    /// How often somebody asked about it.
    pub probed: u32,
    /// How often somebody was told that a person is to decide about it.
    pub noticed: u32,
    /// Whether it is refused for ever.
    pub fenced: bool,
    /// The tokens under which it was made.
    pub tokens: Vec<String>,
    /// When it was asked for, each time, in milliseconds since 1970.
    pub arrivals: Vec<i64>,
    /// When it was made, each time.
    pub effects: Vec<i64>,
}

/// All keys, as the file has them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Books {
    /// Key by key.
    pub accounts: BTreeMap<String, Account>,
}

/// The file, open for writing.
pub struct Writer {
    file: File,
    path: PathBuf,
}

impl Books {
    /// Reads the file of a bank, dead or alive. A last line without its end was being written when the bank died, and
    /// nobody was told of it.
    ///
    /// # Errors
    /// What the file system says; [`io::ErrorKind::InvalidData`] if a whole line is none of the bank's.
    pub fn read(path: &Path) -> io::Result<Books> {
        let text = fs::read_to_string(path)?;
        let mut books = Books::default();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let entry: Entry = serde_json::from_str(line).map_err(io::Error::from)?;
            books.enter(&entry);
        }
        Ok(books)
    }

    /// What is known of `key`; all zero if nothing is.
    #[must_use]
    pub fn account(&self, key: &str) -> Account {
        self.accounts.get(key).cloned().unwrap_or_default()
    }

    /// Enters one line.
    pub fn enter(&mut self, entry: &Entry) {
        let account = self.accounts.entry(entry.key.clone()).or_default();
        match entry.what {
            What::Arrived => {
                account.arrived += 1;
                account.arrivals.push(entry.at);
            }
            What::Applied => {
                account.applied += 1;
                account.effects.push(entry.at);
                account.tokens.extend(entry.token.clone());
            }
            What::Repeated => account.repeated += 1,
            What::Refused => account.refused += 1,
            What::Fenced => account.fenced = true,
            What::Probed => account.probed += 1,
            What::Noticed => account.noticed += 1,
        }
    }
}

impl Writer {
    /// Opens the file, new or old, and reads what is in it. What an earlier bank left half written is taken away.
    ///
    /// # Errors
    /// As [`Books::read`].
    pub fn open(path: &Path) -> io::Result<(Writer, Books)> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let text = fs::read(path)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(u64::try_from(whole).map_err(io::Error::other)?)?;
        }
        let books = Books::read(path)?;
        Ok((Writer { file, path: path.to_owned() }, books))
    }

    /// Appends one line, in one write. Effects and fences are on disk when this returns.
    ///
    /// # Errors
    /// What the file system says. Then the file may end with half a line, and nothing more may be written.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        match entry.what {
            What::Applied | What::Fenced => self.file.sync_data(),
            // These decide nothing, and survive the death of this process as they are.
            What::Arrived | What::Repeated | What::Refused | What::Probed | What::Noticed => Ok(()),
        }
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(what: What) -> Entry {
        Entry {
            what,
            key: "k".to_owned(),
            object: String::new(),
            amount: 1.0,
            token: Some("t".to_owned()),
            at: 7,
        }
    }

    #[test]
    fn half_a_line_of_a_dead_bank_counts_for_nothing_and_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("books");
        let (mut writer, empty) = Writer::open(&path).unwrap();
        assert_eq!(empty, Books::default());
        writer.append(&entry(What::Arrived)).unwrap();
        writer.append(&entry(What::Applied)).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"what\":\"appl").unwrap();
        let read = Books::read(&path).unwrap();
        assert_eq!((read.account("k").arrived, read.account("k").effects), (1, vec![7]));

        let (mut writer, again) = Writer::open(&path).unwrap();
        assert_eq!(again, read);
        writer.append(&entry(What::Fenced)).unwrap();
        assert!(Books::read(&path).unwrap().account("k").fenced);
    }
}
