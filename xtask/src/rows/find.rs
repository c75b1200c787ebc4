//! The tests there are, by their names.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::cite;

/// Where tests and what they test are.
const FOLDERS: [&str; 1] = ["crates"];

/// One test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Test {
    pub(super) name: String,
    /// Below the repository.
    pub(super) file: String,
}

/// All of them.
///
/// # Errors
///
/// If a source file cannot be read.
pub(super) fn tests(root: &Path) -> anyhow::Result<Vec<Test>> {
    let mut found = Vec::new();
    sources(root, &mut |file, text| {
        found.extend(names(text).map(|name| Test { name: name.to_owned(), file: file.to_owned() }));
    })?;
    Ok(found)
}

/// Shows each source file, below the repository, and its text.
///
/// # Errors
///
/// If one cannot be read.
pub(super) fn sources(root: &Path, show: &mut dyn FnMut(&str, &str)) -> anyhow::Result<()> {
    for folder in FOLDERS {
        walk(root, &root.join(folder), show)?;
    }
    Ok(())
}

fn walk(root: &Path, folder: &Path, show: &mut dyn FnMut(&str, &str)) -> anyhow::Result<()> {
    let unreadable = || format!("{} cannot be read", folder.display());
    let mut entries: Vec<_> = fs::read_dir(folder)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(unreadable)?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            let is_ours = path.file_name().is_some_and(|name| name != "target" && name != "node_modules");
            if is_ours {
                walk(root, &path, show)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            show(&path.strip_prefix(root).unwrap_or(&path).display().to_string(), &text);
        }
    }
    Ok(())
}

/// The names of functions under `#[test]` or `#[tokio::test]`, and those that a macro is given to make tests of: a line
/// that is such a name alone, or such a name with what stands behind its colon.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
            return None;
        }
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some(function) = function {
            let name = function.split(['(', '<']).next().unwrap_or_default();
            return std::mem::take(&mut is_test).then_some(name);
        }
        let name = line.split(':').next().unwrap_or_default();
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_given = name == line || line.ends_with(';');
        let is_row = is_word && is_given && cite::cited(name).is_ok_and(|rows| !rows.is_empty());
        is_row.then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_however_they_are_written() {
        let text = "
            #[test]
            fn a_001_one() {}
            #[tokio::test(start_paused = true)]
            // Why.
            #[expect(
                clippy::x,
                reason = \"y\"
            )]
            async fn a_002_two() {
                a_003_helper();
            }
            fn a_004_no_test() {}
            pairs! {
                a_005_of_a_macro: One, Two;
            }
            list {
                a_006_of_another
            }
            let a_007_no_test: u8 = 1;
        ";
        let found: Vec<&str> = names(text).collect();
        assert_eq!(found, ["a_001_one", "a_002_two", "a_005_of_a_macro", "a_006_of_another"]);
    }
}
