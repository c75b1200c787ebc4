//! One operation: what the receiver reports of the request, what is known of the effect, and what happened (R4.7).

use taskgate_core::time::UnixMillis;
use taskgate_engine::clock::{Clock, SystemClock};
use taskgate_keeper::control::ledger::Operation;
use taskgate_wire::text::SafeText;
use taskgate_wire::time;

use super::history;
use crate::commands::keeper::ago;
use crate::ui::{Tone, Ui};

/// Others' words, made safe to show.
pub(super) fn safe(text: &str, chars_max: usize) -> String {
    SafeText::new(text, chars_max).as_str().to_owned()
}

/// What is known of the effect, in a few words.
pub(super) fn effect(operation: &Operation) -> String {
    match operation.stage.as_str() {
        "prepared" => "not sent yet".to_owned(),
        "dispatched" | "observing" => "under way".to_owned(),
        "unknown" => {
            let doubt = operation.doubt.as_deref().unwrap_or_default();
            format!("unknown: {}", history::doubt(doubt))
        }
        _ => history::outcome(operation.outcome.as_deref(), operation.verdict.as_deref()),
    }
}

/// What is being done to learn more; nothing where nothing is.
fn inquiry(operation: &Operation, now: UnixMillis) -> Option<String> {
    let inquiry = &operation.inquiry;
    let since = inquiry.since_ms.map(|since| ago(now, since)).unwrap_or_default();
    match inquiry.state.as_str() {
        "reconciling" if operation.awaits_host => Some(format!(
            "its system of record is asked once a host starts {} again; for {since} so far",
            safe(&operation.server, 60)
        )),
        "reconciling" => {
            let tries = match inquiry.tries.unwrap_or(0) {
                1 => "once".to_owned(),
                tries => format!("{tries} times"),
            };
            let last = match inquiry.last.as_deref() {
                Some(last) => format!(", the last time {}", history::finding(last)),
                None => String::new(),
            };
            let next = inquiry.next_ms.map(|next| format!("; next at {}", at(next))).unwrap_or_default();
            Some(format!("its system of record is being asked for {since}, {tries} so far{last}{next}"))
        }
        "person" => {
            let why = history::hand_off(inquiry.why.as_deref().unwrap_or_default());
            Some(format!("for {}, for {since}: {why}", owners(operation)))
        }
        _ => None,
    }
}

fn owners(operation: &Operation) -> String {
    if operation.owners.is_empty() { "a person".to_owned() } else { safe(&operation.owners.join(", "), 200) }
}

fn at(ms: i64) -> String {
    time::write(UnixMillis(ms))
}

/// What came after `version`, in one line.
pub(super) fn news(operation: &Operation, version: u64) -> String {
    let lines: Vec<String> = operation
        .history
        .iter()
        .flatten()
        .filter(|happening| happening.version > version)
        .flat_map(|happening| &happening.lines)
        .map(|line| history::words(line))
        .collect();
    lines.join("; ")
}

/// One of those that wait for a person.
pub(super) fn waiting(operation: &Operation, now: UnixMillis, ui: Ui) {
    ui.out(&format!(
        "{}  {} at {}, {} ago",
        ui.tone(Tone::Strong, &operation.id),
        safe(&operation.tool, 40),
        operation.server,
        ago(now, operation.created_ms)
    ));
    about(operation, ui);
    field(ui, "effect", &effect(operation));
    field(ui, "task", &state(operation));
    if let Some(words) = inquiry(operation, now) {
        field(ui, "waits", &words);
    }
    if let Some(words) = last(operation) {
        field(ui, "last", &words);
    }
    let id = &operation.id;
    if operation.can_be_asked && !operation.awaits_host {
        field(ui, "then", &format!("taskgate reconcile {id}"));
        field(ui, "or", &format!("taskgate resolve {id} applied|not-applied --reason TEXT"));
    } else {
        field(ui, "then", &format!("taskgate resolve {id} applied|not-applied --reason TEXT"));
    }
}

/// What the last look-up said, or the rule that could not be evaluated: that is why a person is asked.
fn last(operation: &Operation) -> Option<String> {
    let lines = operation.history.iter().flatten().flat_map(|happening| &happening.lines);
    lines.rev().find_map(|line| history::learned(line))
}

fn about(operation: &Operation, ui: Ui) {
    if let Some(workflow) = &operation.workflow {
        field(ui, "workflow", workflow);
    }
    if let Some(intended) = &operation.intended_effect {
        field(ui, "intended", &safe(intended, 400));
    }
    if let Some(object) = &operation.object {
        let version =
            operation.object_version.as_ref().map(|version| format!(", version {}", safe(version, 100)));
        let is_assumed = operation.outcome.as_deref() == Some("assumed");
        let kept = match operation.object_conflict.as_deref() {
            Some("refuse") if is_assumed => "; other calls about it are refused until somebody decides",
            Some("queue") if is_assumed => "; other calls about it wait until somebody decides",
            Some(_) | None => "",
        };
        field(ui, "object", &format!("{}{}{kept}", safe(object, 200), version.unwrap_or_default()));
    }
    if let Some(key) = &operation.key {
        let scope = match operation.key_scope.as_deref() {
            Some("tenant") => " (counts for all callers)",
            Some(_) | None => "",
        };
        let given = match &operation.key_given_to {
            Some(to) => format!("; {} has it now", safe(to, 60)),
            None => String::new(),
        };
        field(ui, "key", &format!("{}{scope}{given}", safe(key, 200)));
    }
    if let Some(words) = twice(operation) {
        field(ui, "TWICE?", &ui.tone(Tone::Bad, &words));
    }
    if let Some(receipt) = &operation.receipt {
        field(ui, "receipt", &safe(receipt, 300));
    }
}

/// What must not be overlooked: its key was given to another operation, and yet it may have had its effect.
fn twice(operation: &Operation) -> Option<String> {
    let to = operation.key_given_to.as_ref().filter(|_| is_twice(operation))?;
    let to = safe(to, 60);
    Some(format!("its key was given to {to}, so this may have been done twice: look at both"))
}

/// Whether there may be two effects under one key.
pub(super) fn is_twice(operation: &Operation) -> bool {
    let is_in_doubt = operation.verdict.as_deref() == Some("applied")
        || operation.inquiry.why.as_deref() == Some("contradiction");
    operation.key_given_to.is_some() && is_in_doubt
}

fn field(ui: Ui, name: &str, value: &str) {
    ui.out(&format!("  {name:10} {value}"));
}

fn state(operation: &Operation) -> String {
    let task = &operation.task;
    match (&*task.state, &task.ending) {
        ("gone", _) => "no longer kept; what is known of the effect is".to_owned(),
        (state, Some(ending)) => format!("{state}: {}", history::ending(ending)),
        (state, None) => state.to_owned(),
    }
}

/// All of it.
pub(super) fn show(operation: &Operation, ui: Ui) {
    let now = SystemClock.now();
    ui.out(&format!(
        "operation {}, {} at {}, {} ago",
        ui.tone(Tone::Strong, &operation.id),
        safe(&operation.tool, 40),
        operation.server,
        ago(now, operation.created_ms)
    ));
    field(ui, "asked by", &operation.scope);
    let again = match operation.replay.as_str() {
        "natural" => "; may be sent again",
        "keyed" => "; may be sent again under its key",
        _ => "",
    };
    field(ui, "kind", &format!("{}{again}", operation.effect.replace('_', " ")));
    about(operation, ui);

    ui.out("");
    ui.out("what the receiver reports of the request");
    field(ui, "task", &operation.task.id);
    field(ui, "state", &state(operation));
    if let Some(ended) = operation.task.ended_ms {
        field(ui, "ended", &at(ended));
    }
    if let Some(wished) = operation.task.cancel_wished_ms {
        field(ui, "cancel", &format!("asked for at {}", at(wished)));
    }
    field(ui, "sent", &sent(operation));

    ui.out("");
    ui.out("what is known of the effect");
    field(ui, "outcome", &effect(operation));
    match operation.inquiry.state.as_str() {
        "person" => {
            if let Some(words) = inquiry(operation, now) {
                field(ui, "waits", &words);
            }
        }
        _ => {
            if let Some(words) = inquiry(operation, now) {
                field(ui, "inquiry", &words);
            }
        }
    }

    ui.out("");
    ui.out("what happened");
    for happening in operation.history.iter().flatten() {
        let mut time = at(happening.at_ms);
        let mut version = format!("v{}", happening.version);
        for line in &happening.lines {
            ui.out(&format!("  {version:4} {time:24}  {}", history::words(line)));
            // The other lines are of the same moment.
            version.clear();
            time.clear();
        }
    }
}

fn sent(operation: &Operation) -> String {
    let Some(first) = operation.first_sent_ms else { return "never".to_owned() };
    let times = match operation.attempts {
        1 => format!("once, at {}", at(first)),
        times => format!("{times} times, first at {}", at(first)),
    };
    match operation.closed_ms {
        Some(closed) => format!("{times}; its connection is proved closed since {}", at(closed)),
        None => times,
    }
}
