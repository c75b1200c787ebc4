//! `tests/peers/conformance/expected-failures.yaml`: the suite reads it as YAML, and we the reasons from its comments.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use crate::stage::peers;

/// One check that fails and is to fail.
pub(crate) struct Entry {
    pub(crate) scenario: String,
    pub(crate) check: String,
    pub(crate) reason: String,
}

pub(crate) static ENTRIES: LazyLock<Vec<Entry>> =
    LazyLock::new(|| read(&fs::read_to_string(file()).unwrap()));

pub(crate) fn file() -> PathBuf {
    peers().join("conformance/expected-failures.yaml")
}

/// Why it may fail.
pub(crate) fn reason(scenario: &str, check: &str) -> Option<usize> {
    ENTRIES.iter().position(|entry| entry.scenario == scenario && entry.check == check)
}

/// Entries are `  - SCENARIO:CHECK`; a whole scenario is never excused. The comment lines before one are its reason.
fn read(yaml: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut reason: Vec<&str> = Vec::new();
    for line in yaml.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix('#') {
            reason.push(comment.trim());
        } else if let Some(entry) = line.strip_prefix("- ") {
            let (scenario, check) = entry.split_once(':').expect("an entry names one check");
            let (scenario, check) = (scenario.to_owned(), check.to_owned());
            assert!(!reason.is_empty(), "{entry} has no reason");
            entries.push(Entry { scenario, check, reason: reason.join(" ") });
            reason.clear();
        } else {
            reason.clear();
        }
    }
    entries
}
