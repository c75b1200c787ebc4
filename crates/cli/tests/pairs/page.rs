//! `docs/questions.md`: what the plays saw.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::call::Kind;
use crate::client::Front;
use crate::stage::Back;

/// What happens to an open question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Answered,
    Lacking,
    Smaller,
    Declined,
    Cancelled,
    Error,
    Silent,
    Unfit,
    Reconnected,
}

impl Event {
    fn title(self) -> &'static str {
        match self {
            Event::Answered => "It is answered",
            Event::Lacking => "The client declared nothing that it can be asked",
            Event::Smaller => "The client takes forms but no URLs, and sampling but no tools",
            Event::Declined => "The person declines",
            Event::Cancelled => "The person cancels",
            Event::Error => "The client answers with an error (-1)",
            Event::Silent => "Nobody ever answers",
            Event::Unfit => "The answer does not fit, and then one does",
            Event::Reconnected => "The client's connections break, and it comes back",
        }
    }
}

/// One cell.
pub(crate) struct Cell {
    pub(crate) front: Front,
    pub(crate) back: Back,
    pub(crate) kind: Kind,
    /// What was seen.
    pub(crate) said: String,
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/questions.md")
}

/// One table. Pairs that say the same share a row.
fn table(event: Event, cells: &[Cell]) -> String {
    let mut kinds: Vec<Kind> = cells.iter().map(|cell| cell.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut rows: BTreeMap<(Front, Back), Vec<&str>> = BTreeMap::new();
    for kind in &kinds {
        for cell in cells.iter().filter(|cell| cell.kind == *kind) {
            rows.entry((cell.front, cell.back)).or_default().push(&cell.said);
        }
    }
    // What each client's pairs say, server by server; then clients of which all that is the same.
    let mut said: Vec<(Vec<&str>, Vec<Back>, Vec<Front>)> = Vec::new();
    for front in Front::ALL {
        let mut of: Vec<(Vec<&str>, Vec<Back>)> = Vec::new();
        for ((_, back), words) in rows.iter().filter(|((its, _), _)| *its == front) {
            match of.iter_mut().find(|(same, _)| same == words) {
                Some((_, backs)) => backs.push(*back),
                None => of.push((words.clone(), vec![*back])),
            }
        }
        for (words, backs) in of {
            match said.iter_mut().find(|(same, its, _)| *same == words && *its == backs) {
                Some((_, _, fronts)) => fronts.push(front),
                None => said.push((words, backs, vec![front])),
            }
        }
    }
    let mut out = format!("## {}\n\n| clients | servers |", event.title());
    for kind in &kinds {
        out.push_str(&format!(" {} |", kind.key()));
    }
    out.push_str(&format!("\n| --- | --- |{}\n", " --- |".repeat(kinds.len())));
    for (words, backs, fronts) in said {
        let fronts: Vec<_> = fronts.into_iter().map(Front::name).collect();
        let backs: Vec<_> = backs.into_iter().map(Back::name).collect();
        out.push_str(&format!("| {} | {} |", fronts.join("; "), backs.join("; ")));
        words.iter().for_each(|words| out.push_str(&format!(" {words} |")));
        out.push('\n');
    }
    out
}

/// Compares an event's part of the page with what was seen, or writes it.
pub(crate) fn compare(event: Event, cells: &[Cell]) {
    static PAGE: Mutex<()> = Mutex::new(());
    // One table that is not as it should be says nothing of the others.
    let _page = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = table(event, cells);
    let page = fs::read_to_string(path()).unwrap_or_default();
    let head = format!("## {}\n", event.title());
    let from = page.find(&head);
    let to = from.map(|from| page[from + 3..].find("\n## ").map_or(page.len(), |at| from + 3 + at + 1));
    let kept = from.zip(to).map(|(from, to)| page[from..to].trim_end().to_owned() + "\n");
    #[expect(clippy::disallowed_methods, reason = "says what the test is to do, not what it tests")]
    let writes = std::env::var_os("UPDATE").is_some();
    if !writes {
        assert_eq!(kept.unwrap_or_default(), seen, "UPDATE=1 writes docs/questions.md");
        return;
    }
    let page = match from.zip(to) {
        Some((from, to)) => format!("{}{seen}\n{}", &page[..from], page[to..].trim_start()),
        None => format!("{}\n\n{seen}", page.trim_end()),
    };
    fs::write(path(), page.trim_end().to_owned() + "\n").unwrap();
}
