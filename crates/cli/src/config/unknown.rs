//! Keys that nobody knows, all at once, each with the one that was probably meant.

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// The unknown keys of `document`, which `schema` describes.
pub(crate) fn keys(document: &DeTable<'_>, schema: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    walk(document, schema, &mut Vec::new(), &mut found);
    found
}

fn walk(table: &DeTable<'_>, schema: &Value, path: &mut Vec<String>, found: &mut Vec<Problem>) {
    let known = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties").filter(|others| others.is_object());
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let inner = known.and_then(|known| known.get(name)).or(others);
        let Some(inner) = inner else {
            let names: Vec<_> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            found.push(Problem {
                what: format!("unknown key `{name}` {}", place(path)),
                help: Some(help(name, &names)),
                at: Some(key.span()),
            });
            continue;
        };
        if let DeValue::Table(table) = value.get_ref() {
            // A table where none belongs is told by its type, later.
            if inner.get("properties").is_some() || inner.get("additionalProperties").is_some() {
                path.push(name.to_owned());
                walk(table, inner, path, found);
                path.pop();
            }
        }
    }
}

fn place(path: &[String]) -> String {
    if path.is_empty() { "at the top of the file".to_owned() } else { format!("in [{}]", path.join(".")) }
}

fn help(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.len() <= 12 => format!("known keys here: {}", known.join(", ")),
        None => "`taskgate config reference` lists all keys".to_owned(),
    }
}

/// The name that `name` was probably meant to be.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let squeeze = |text: &str| text.to_ascii_lowercase().replace(['-', '_', ' '], "");
    let wanted = squeeze(name);
    known
        .iter()
        .map(|candidate| (distance(&wanted, &squeeze(candidate)), *candidate))
        .filter(|(distance, _)| *distance <= 1 + wanted.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut above: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i; other.len() + 1];
        for j in 1..=other.len() {
            let changed = usize::from(one[i - 1] != other[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + changed);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                row[j] = row[j].min(above[j - 2] + 1);
            }
        }
        above = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_what_was_meant() {
        let known = ["sync_budget", "task_after", "ttl", "ttl_max", "command"];
        assert_eq!(nearest("sync-budget", &known), Some("sync_budget"));
        assert_eq!(nearest("syncBudget", &known), Some("sync_budget"));
        assert_eq!(nearest("tsak_after", &known), Some("task_after"));
        assert_eq!(nearest("tll", &known), Some("ttl"));
        assert_eq!(nearest("comand", &known), Some("command"));
        assert_eq!(nearest("colour", &known), None);
    }

    #[test]
    fn a_swap_of_neighbours_counts_once() {
        assert_eq!(distance("abcd", "abdc"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
