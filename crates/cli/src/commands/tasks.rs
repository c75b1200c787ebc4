//! `tasks`: what all hosts of this user, or the clients of a `serve`, have under way, and what came of it.

use serde_json::Value;
use taskgate_engine::clock::{Clock, SystemClock};
use taskgate_keeper::control::{Ask, Outcome, Task};
use taskgate_wire::text::SafeText;

use super::keeper::ago;
use super::owner::{Owned, Owner, Owners, refused};
use crate::args::Tasks;
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::ui::{Tone, Ui};

/// Shown without `--all`.
const SHOWN: usize = 20;

/// Asked for at once.
const PAGE: usize = 500;

/// Longest name of a tool that is shown.
const TOOL_CHARS: usize = 40;

const WHAT: &str = "tasks";

pub(crate) fn main(args: &Tasks, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let mut owners = Owners::find(&args.owner, environment)?;
    match &args.id {
        None => list_all(args, &mut owners, ui),
        Some(id) if args.result => outcome(id, args.json, &mut owners, ui),
        Some(id) => {
            let (owner, mut task) = owners.ask_about::<Task>(&Ask::Task { id: id.clone() }, WHAT)?;
            if args.cancel {
                task = owner.ask(&Ask::Cancel { id: task.id }).map_err(refused)?;
            }
            if args.json {
                ui.json(&Owned { owner: owner.name.clone(), it: task });
            } else {
                show(&task, ui);
            }
            Ok(())
        }
    }
}

fn list_all(args: &Tasks, owners: &mut Owners, ui: Ui) -> Result<(), Failure> {
    if owners.all.is_empty() && !args.json {
        ui.out("no tasks: nothing has gone through `taskgate run` yet");
    }
    let mut all = Vec::new();
    for owner in &mut owners.all {
        let (tasks, is_more) = list(args, owner)?;
        all.push((owner.name.clone(), tasks, is_more));
    }
    if args.json {
        let owned: Vec<_> = all
            .into_iter()
            .flat_map(|(owner, tasks, _)| tasks.into_iter().map(move |it| Owned { owner: owner.clone(), it }))
            .collect();
        ui.json(&owned);
    } else {
        let filled: Vec<_> = all.iter().filter(|(_, tasks, _)| !tasks.is_empty()).collect();
        if filled.is_empty() && !all.is_empty() {
            ui.out("no tasks");
        }
        for (owner, tasks, is_more) in &filled {
            if filled.len() > 1 {
                ui.out(&format!("{owner}:"));
            }
            lines(tasks, ui);
            if *is_more {
                ui.note(&format!("the newest {SHOWN}; --all shows the others too"));
            }
        }
    }
    if let Some(absent) = &owners.absent {
        ui.note(&format!("{absent}: its tasks are not shown; start `taskgate serve`"));
    }
    Ok(())
}

/// Its newest tasks, and whether there are more.
fn list(args: &Tasks, owner: &mut Owner) -> Result<(Vec<Task>, bool), Failure> {
    let wanted = |task: &Task| args.server.as_deref().is_none_or(|server| task.server.starts_with(server));
    let limit = if args.all { usize::MAX } else { SHOWN };
    let mut tasks: Vec<Task> = Vec::new();
    let mut after = None;
    loop {
        let page: Vec<Task> = owner.ask(&Ask::Tasks { after, limit: PAGE }).map_err(refused)?;
        after = page.last().map(|task| (task.created_ms, task.id.clone()));
        let is_last = page.len() < PAGE;
        tasks.extend(page.into_iter().filter(wanted));
        if is_last || after.is_none() || tasks.len() > limit {
            break;
        }
    }
    let is_more = tasks.len() > limit;
    tasks.truncate(limit);
    Ok((tasks, is_more))
}

fn lines(tasks: &[Task], ui: Ui) {
    let now = SystemClock.now();
    let width = |of: fn(&Task) -> usize| tasks.iter().map(of).max().unwrap_or(0);
    let (states, tools) = (width(|task| words(task).len()), width(|task| tool(task).chars().count()));
    for task in tasks {
        ui.out(&format!(
            "{}  {:states$}  {:tools$}  {}  {} ago",
            ui.tone(Tone::Strong, &task.id),
            words(task),
            tool(task),
            task.server,
            ago(now, task.created_ms)
        ));
    }
}

/// Its state, and whether a result waits.
fn words(task: &Task) -> String {
    match task.fetched {
        Some(false) => format!("{}, not fetched", task.state),
        Some(true) | None => task.state.clone(),
    }
}

fn tool(task: &Task) -> String {
    SafeText::new(&task.tool, TOOL_CHARS).as_str().to_owned()
}

fn show(task: &Task, ui: Ui) {
    let now = SystemClock.now();
    ui.out(&format!("task     {}", task.id));
    ui.out(&format!("state    {}", words(task)));
    if let Some(message) = &task.message {
        ui.out(&format!("         {}", SafeText::new(message, 400).as_str()));
    }
    ui.out(&format!("tool     {}", tool(task)));
    ui.out(&format!("server   {}", task.server));
    ui.out(&format!("scope    {}", task.scope));
    ui.out(&format!("made     {} ago", ago(now, task.created_ms)));
    ui.out(&format!("changed  {} ago", ago(now, task.updated_ms)));
    if task.fetched.is_some() || task.state == "completed" {
        ui.note(&format!("`taskgate tasks {} --result` prints its result", task.id));
    }
}

fn outcome(id: &str, json: bool, owners: &mut Owners, ui: Ui) -> Result<(), Failure> {
    let (_, outcome) = owners.ask_about::<Outcome>(&Ask::Outcome { id: id.to_owned() }, WHAT)?;
    if json {
        ui.json(&outcome);
        return Ok(());
    }
    match outcome {
        Outcome::Unfinished => {
            Err(Failure::new(exit::FAILED, "it is not over yet", "`taskgate tasks` shows when it is"))
        }
        Outcome::Result(result) => {
            ui.raw(&text_of(result.get()));
            Ok(())
        }
        Outcome::Error(error) => {
            ui.out(error.get());
            Err(Failure::said(exit::FAILED))
        }
        Outcome::None(why) => {
            Err(Failure::new(exit::FAILED, format!("it has no result: {why}"), "call again"))
        }
    }
}

/// The text in a result; all of it, where there is other content too, or structured content that no text repeats.
fn text_of(result: &str) -> String {
    let parsed: Value = serde_json::from_str(result).unwrap_or_default();
    let texts: Option<Vec<&str>> = parsed["content"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|part| if part["type"] == "text" { part["text"].as_str() } else { None })
        .collect();
    let is_repeated = |structured: &Value, texts: &[&str]| {
        texts.iter().any(|text| serde_json::from_str::<Value>(text).is_ok_and(|text| text == *structured))
    };
    let is_whole = |texts: &[&str]| {
        parsed.get("structuredContent").is_none_or(|structured| is_repeated(structured, texts))
    };
    match texts {
        Some(texts) if !texts.is_empty() && is_whole(&texts) => texts.join("\n") + "\n",
        Some(_) | None => format!("{result}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_shown_as_its_text_or_else_whole() {
        assert_eq!(
            text_of(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#),
            "a\nb\n"
        );
        let repeated = r#"{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}"#;
        assert_eq!(text_of(repeated), "{\"a\": 1}\n");
        let apart = r#"{"content":[{"type":"text","text":"see the data"}],"structuredContent":{"a":1}}"#;
        assert_eq!(text_of(apart), format!("{apart}\n"));
        let image = r#"{"content":[{"type":"image","data":""}]}"#;
        assert_eq!(text_of(image), format!("{image}\n"));
        assert_eq!(text_of(r#"{"structuredContent":{}}"#), "{\"structuredContent\":{}}\n");
    }
}
