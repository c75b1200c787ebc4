//! Many operations: a line each, those that wait for a person with all that is known, and the export.

use taskgate_core::time::UnixMillis;
use taskgate_engine::clock::{Clock, SystemClock};
use taskgate_keeper::control::Ask;
use taskgate_keeper::control::ledger::{After, Operation, Page, Wanted, Which};

use super::view::{self, is_twice, safe};
use crate::args::{Known, Ops, Since};
use crate::commands::keeper::ago;
use crate::commands::owner::{Owned, Owner, Owners, refused};
use crate::failure::Failure;
use crate::ui::{Tone, Ui};

/// Shown without `--all`.
const SHOWN: usize = 20;

/// Asked for at once.
const PAGE: usize = 500;

/// What one owner has.
struct Found {
    operations: Vec<Operation>,
    is_more: bool,
    waiting: usize,
}

pub(super) fn main(args: &Ops, mut owners: Owners, ui: Ui) -> Result<(), Failure> {
    let mut all: Vec<(String, Found)> = Vec::new();
    for owner in &mut owners.all {
        all.push((owner.name.clone(), find(args, owner)?));
    }
    if args.json {
        let owned: Vec<Owned<Operation>> = all
            .into_iter()
            .flat_map(|(owner, found)| {
                found.operations.into_iter().map(move |it| Owned { owner: owner.clone(), it })
            })
            .collect();
        ui.json(&owned);
    } else {
        show(args, &all, ui);
    }
    if let Some(absent) = &owners.absent {
        ui.note(&format!("{absent}: its operations are not shown; start `taskgate serve`"));
    }
    Ok(())
}

fn show(args: &Ops, all: &[(String, Found)], ui: Ui) {
    let now = SystemClock.now();
    let filled: Vec<_> = all.iter().filter(|(_, found)| !found.operations.is_empty()).collect();
    if filled.is_empty() {
        ui.out(if args.waiting { "no operation waits for a person" } else { "no operations" });
    }
    for (owner, found) in &filled {
        if filled.len() > 1 {
            ui.out(&format!("{owner}:"));
        }
        if args.waiting {
            found.operations.iter().for_each(|operation| view::waiting(operation, now, ui));
        } else {
            lines(&found.operations, now, ui);
        }
        if found.is_more {
            ui.note(&format!("the first {SHOWN}; --all shows the others too"));
        }
    }
    let waiting: usize = all.iter().map(|(_, found)| found.waiting).sum();
    if waiting > 0 && !args.waiting {
        let (verb, thing) = if waiting == 1 { ("waits", "operation") } else { ("wait", "operations") };
        ui.note(&format!("{waiting} {thing} {verb} for a person: `taskgate ops --waiting`"));
    }
}

fn lines(operations: &[Operation], now: UnixMillis, ui: Ui) {
    let width = |of: &dyn Fn(&Operation) -> String| {
        operations.iter().map(|operation| of(operation).chars().count()).max().unwrap_or(0)
    };
    let effect = |operation: &Operation| {
        let twice = if is_twice(operation) { ", TWICE?" } else { "" };
        format!("{}{twice}", view::effect(operation))
    };
    let task = |operation: &Operation| format!("task {}", operation.task.state);
    let tool = |operation: &Operation| safe(&operation.tool, 40);
    let what = |operation: &Operation| about(operation).map(|what| safe(what, 40)).unwrap_or_default();
    let (effects, tasks, tools, whats) = (width(&effect), width(&task), width(&tool), width(&what));
    for operation in operations {
        // None of them is about anything that has a name.
        let what = if whats == 0 { String::new() } else { format!("  {:whats$}", what(operation)) };
        ui.out(&format!(
            "{}  {:effects$}  {:tasks$}  {:tools$}{what}  {}  {} ago",
            ui.tone(Tone::Strong, &operation.id),
            effect(operation),
            task(operation),
            tool(operation),
            operation.server,
            ago(now, operation.created_ms)
        ));
    }
}

/// What tells it from others of its tool: its key, or else its object.
fn about(operation: &Operation) -> Option<&String> {
    operation.key.as_ref().or(operation.object.as_ref())
}

fn find(args: &Ops, owner: &mut Owner) -> Result<Found, Failure> {
    let which = match (args.waiting, args.open) {
        (true, _) => Which::Waiting,
        (false, true) => Which::Open,
        (false, false) => Which::All,
    };
    let limit = if args.all { usize::MAX } else { SHOWN };
    let mut found = Found { operations: Vec::new(), is_more: false, waiting: 0 };
    let mut after: Option<After> = None;
    loop {
        let begins = after.is_none();
        // What was learned so far stands in the history.
        let history = args.waiting && !args.json;
        let wanted = Wanted { which, after, limit: PAGE, since_ms: None, history };
        let page: Page = owner.ask(&Ask::Operations(wanted)).map_err(refused)?;
        if begins {
            found.waiting = page.waiting;
        }
        found.operations.extend(page.operations.into_iter().filter(|operation| is_wanted(args, operation)));
        after = page.next;
        if after.is_none() || found.operations.len() > limit {
            break;
        }
    }
    found.is_more = found.operations.len() > limit;
    found.operations.truncate(limit);
    Ok(found)
}

fn is_wanted(args: &Ops, operation: &Operation) -> bool {
    args.server.as_deref().is_none_or(|server| operation.server.starts_with(server))
        && args.workflow.as_deref().is_none_or(|workflow| operation.workflow.as_deref() == Some(workflow))
        && args.about.as_deref().is_none_or(|text| is_about(text, operation))
        && args.outcomes.iter().all(|known| is_known(*known, operation))
}

/// Whether a text stands in anything by which a person would know the operation again.
fn is_about(text: &str, operation: &Operation) -> bool {
    let texts = [
        &operation.key,
        &operation.object,
        &operation.object_version,
        &operation.intended_effect,
        &operation.receipt,
    ];
    texts.into_iter().flatten().any(|of| of.contains(text))
}

fn is_known(known: Known, operation: &Operation) -> bool {
    let outcome = |word: &str| operation.outcome.as_deref() == Some(word);
    let verdict = |word: &str| operation.verdict.as_deref() == Some(word);
    match known {
        Known::Applied => verdict("applied"),
        Known::NotApplied => verdict("not_applied"),
        Known::Confirmed => outcome("confirmed"),
        Known::Attested => outcome("attested"),
        Known::Reported => outcome("reported"),
        Known::Assumed => outcome("assumed"),
        Known::NoneExpected => outcome("none_expected"),
        Known::Unknown => operation.stage == "unknown",
        Known::Pending => matches!(operation.stage.as_str(), "prepared" | "dispatched" | "observing"),
    }
}

/// Prints a page as soon as it is there, so that nothing has to hold the whole.
pub(super) fn export(mut owners: Owners, since: Option<Since>, ui: Ui) -> Result<(), Failure> {
    let since_ms = since.map(|since| match since {
        Since::At(at) => at,
        Since::Ago(span) => SystemClock.now().0.saturating_sub_unsigned(span.0.0),
    });
    for owner in &mut owners.all {
        let mut after = None;
        loop {
            let wanted = Wanted { which: Which::All, after, limit: PAGE, since_ms, history: true };
            let page: Page = owner.ask(&Ask::Operations(wanted)).map_err(refused)?;
            for it in page.operations {
                ui.json(&Owned { owner: owner.name.clone(), it });
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    if let Some(absent) = &owners.absent {
        ui.note(&format!("{absent}: its operations are not part of this; start `taskgate serve`"));
    }
    Ok(())
}
