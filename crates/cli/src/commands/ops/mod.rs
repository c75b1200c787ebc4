//! `ops`, `op show`, `reconcile`, `resolve`: what was to be done in the world, and what is known of it (R4.7, design 1).
//!
//! - `list`: many of them, for people and as an export
//! - `view`: one of them
//! - `history`: what happened, in words

mod history;
mod list;
mod view;

use std::thread;
use std::time::Duration;

use nix::unistd::{User, geteuid};
use taskgate_keeper::control::Ask;
use taskgate_keeper::control::ledger::{Operation, Word};
use tokio::time::Instant;

use super::owner::{Owned, Owner, Owners, refused};
use crate::args::{Op, Ops, OpsCommand, Reconcile, Resolve, Verdict};
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::ui::Ui;

/// How often it is looked whether the system of record has answered.
const LOOK: Duration = Duration::from_millis(100);

const WHAT: &str = "operations";

pub(crate) fn main(args: &Ops, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    match &args.command {
        Some(OpsCommand::Export { owner, since }) => {
            list::export(Owners::find(owner, environment)?, *since, ui)
        }
        None => list::main(args, Owners::find(&args.owner, environment)?, ui),
    }
}

pub(crate) fn show(command: &Op, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let Op::Show { id, owner, json } = command;
    let mut owners = Owners::find(owner, environment)?;
    let (owner, operation) = owners.ask_about::<Operation>(&Ask::Operation { id: id.clone() }, WHAT)?;
    print(operation, owner, *json, ui);
    Ok(())
}

pub(crate) fn reconcile(args: &Reconcile, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let mut owners = Owners::find(&args.owner, environment)?;
    let (owner, found) = owners.ask_about::<Operation>(&Ask::Operation { id: args.id.clone() }, WHAT)?;
    let begun: Operation = owner.ask(&Ask::Reconcile { id: found.id }).map_err(refused)?;
    let since = Instant::now();
    loop {
        let now: Operation = owner.ask(&Ask::Operation { id: begun.id.clone() }).map_err(refused)?;
        if now.version > begun.version {
            if !args.json {
                ui.note(&format!("asked; {}", view::news(&now, begun.version)));
            }
            print(now, owner, args.json, ui);
            return Ok(());
        }
        if since.elapsed() >= args.wait.duration() {
            return Err(Failure::new(
                exit::FAILED,
                format!("the system of record has not answered within {}; it goes on being asked", args.wait),
                format!("`taskgate op show {}` shows what came of it", begun.id),
            ));
        }
        thread::sleep(LOOK);
    }
}

pub(crate) fn resolve(args: &Resolve, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    if args.reason.trim().is_empty() {
        return Err(Failure::new(
            exit::USAGE,
            "a reason is needed: whoever reads this later must be able to weigh it",
            "say how you know: --reason \"the bank's statement of 30 November, line 12\"",
        ));
    }
    let name = match &args.name {
        Some(name) if !name.trim().is_empty() => name.clone(),
        Some(_) | None => user_name(),
    };
    let mut owners = Owners::find(&args.owner, environment)?;
    let (owner, found) = owners.ask_about::<Operation>(&Ask::Operation { id: args.id.clone() }, WHAT)?;
    let word = Word {
        id: found.id,
        applied: match args.verdict {
            Verdict::Applied => true,
            Verdict::NotApplied => false,
        },
        name,
        reason: args.reason.clone(),
        correct: args.correct,
    };
    let resolved: Operation = owner.ask(&Ask::Resolve(word)).map_err(refused)?;
    print(resolved, owner, args.json, ui);
    Ok(())
}

/// The name of this process's user, by the system's word: the environment's could be anybody's.
fn user_name() -> String {
    let user = geteuid();
    User::from_uid(user).ok().flatten().map_or_else(|| format!("user {user}"), |user| user.name)
}

fn print(operation: Operation, owner: &Owner, json: bool, ui: Ui) {
    if json {
        ui.json(&Owned { owner: owner.name.clone(), it: operation });
    } else {
        view::show(&operation, ui);
    }
}
