//! `import`: puts `taskgate run --` in front of the servers in hosts' configurations, and takes it out again.
//!
//! All files are read and understood before the first is written; if one of them cannot be, none is.
//!
//! - `show`: what people and programs are shown of it

mod show;

use std::collections::BTreeSet;
use std::path::PathBuf;

use self::show::{Shown, clean};
use crate::args::Import;
use crate::config::problem::{Problem, Problems};
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::hosts::edit::{Change, Document, Edited};
use crate::hosts::entry::Entry;
use crate::hosts::keep::{Original, Refusal};
use crate::hosts::places::{self, Scope, System};
use crate::hosts::program::Program;
use crate::hosts::shape::Shape;
use crate::hosts::tree::{Format, Node};
use crate::hosts::{Host, blind};
use crate::ui::Ui;

const BYTE_ORDER_MARK: &str = "\u{FEFF}";

/// A file to look into.
struct Target {
    host: Option<Host>,
    scope: Scope,
    file: PathBuf,
    /// Whether the person named it: then it must have servers.
    is_named: bool,
}

/// A file that was understood.
struct Opened {
    target: Target,
    original: Original,
    has_mark: bool,
    /// `None`: there is no section for servers in it.
    document: Option<Document>,
    entries: Vec<Entry>,
    edited: Option<Edited>,
    done: Done,
}

/// What was done to a file.
#[derive(Default)]
struct Done {
    is_written: bool,
    backup: Option<PathBuf>,
    removed: Vec<PathBuf>,
}

pub(crate) fn main(args: &Import, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let current = std::env::current_exe().map_err(anyhow::Error::new)?;
    let program = Program::find(current, environment);
    let mut opened = Vec::new();
    let mut problems = Vec::new();
    for target in targets(args, environment)? {
        match open(target, &program) {
            Ok(file) => opened.extend(file),
            Err(found) => problems.push(found),
        }
    }
    check_names(args, &opened, &problems)?;
    for file in &mut opened {
        file.edited = edit(file, args, &program)?;
    }
    let outcome =
        if problems.is_empty() && (args.write || args.undo) { write(&mut opened, args) } else { Ok(()) };
    let shown = Shown { args, ui, program: &program };
    if args.json {
        shown.json(&opened, &problems);
    } else {
        shown.people(&opened, problems.is_empty(), outcome.is_ok());
    }
    outcome?;
    match problems.is_empty() {
        true => Ok(()),
        false if args.json => Err(Failure::said(exit::CONFIG)),
        false => Err(problems.into()),
    }
}

/// The file that was named, or the files that the hosts would read.
fn targets(args: &Import, environment: &Environment) -> Result<Vec<Target>, Failure> {
    let project = std::env::current_dir().map_err(anyhow::Error::new)?;
    let known = places::known(System::here(), environment, &project);
    if let Some(file) = &args.file {
        let guess = places::guess(file, &known);
        if let (Some(host), Some(guess)) = (args.host, &guess)
            && guess.is_certain
            && guess.host != host
        {
            let what =
                format!("{} is a file of {}, not of {}", file.display(), guess.host.title(), host.title());
            return Err(Failure::new(exit::USAGE, what, "leave --host out"));
        }
        let host = args.host.or(guess.as_ref().map(|guess| guess.host));
        let scope = guess.map_or(Scope::User, |guess| guess.scope);
        return Ok(vec![Target { host, scope, file: file.clone(), is_named: true }]);
    }
    let mut seen = BTreeSet::new();
    let mut targets = Vec::new();
    for place in known {
        if args.host.is_some_and(|host| host != place.host) || place.file.symlink_metadata().is_err() {
            continue;
        }
        // In the home folder a file of the project may be one of the user.
        let real = std::fs::canonicalize(&place.file).unwrap_or_else(|_| place.file.clone());
        if seen.insert((place.host, real)) {
            targets.push(Target {
                host: Some(place.host),
                scope: place.scope,
                file: place.file,
                is_named: false,
            });
        }
    }
    Ok(targets)
}

/// Reads a file; `None` if it is of no interest: one that nobody named, without servers.
fn open(target: Target, program: &Program) -> Result<Option<Opened>, Problems> {
    let name = target.file.display().to_string();
    let whole = |what: String, help: &str| {
        Problems::new(&name, "", vec![Problem { what, help: Some(help.to_owned()), at: None }])
    };
    let original = Original::read(&target.file).map_err(|error| {
        whole(
            format!("{name} cannot be read: {error}"),
            "check the path, and that this user may read the file",
        )
    })?;
    let text = std::str::from_utf8(&original.bytes).map_err(|error| {
        let what = format!("{name} is no text in UTF-8: byte {} is none", error.valid_up_to());
        whole(what, "hosts write their configurations in UTF-8; check that this is one")
    })?;
    let has_mark = text.starts_with(BYTE_ORDER_MARK);
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    if text.trim().is_empty() {
        if !target.is_named {
            return Ok(None);
        }
        return Err(whole(format!("{name} is empty"), "name a file in which a host keeps its servers"));
    }
    let format = Format::of(&target.file, text);
    // Lines around a problem are shown, and may hold what nobody should read over a shoulder.
    let shown = blind::without_values(text, format);
    let root = format.parse(text).map_err(|fault| {
        let what = format!("{name} is no {}: {}", format.title(), fault.what);
        let help = "correct it here; the host cannot read it either, or reads it otherwise".to_owned();
        Problems::new(&name, &shown, vec![Problem { what, help: Some(help), at: Some(fault.at) }])
    })?;
    let Some((host, shape)) = understand(&target, &root).map_err(|(what, help)| whole(what, &help))? else {
        let file = Opened {
            target,
            original,
            has_mark,
            document: None,
            entries: Vec::new(),
            edited: None,
            done: Done::default(),
        };
        return Ok(file.target.is_named.then_some(file));
    };
    let document = Document { format, shape, host, text: text.to_owned() };
    let entries =
        document.entries(program.path()).map_err(|problems| Problems::new(&name, &shown, problems))?;
    let target = Target { host, ..target };
    let done = Done::default();
    Ok(Some(Opened { target, original, has_mark, document: Some(document), entries, edited: None, done }))
}

type Understood = Option<(Option<Host>, Shape)>;

/// Whose file it is and where its servers stand; `None` if there are none in a file that may well have none.
fn understand(target: &Target, root: &Node) -> Result<Understood, (String, String)> {
    let name = target.file.display();
    if root.members().is_none() {
        let what = format!("{name} holds {}, and an object was expected", root.kind());
        return Err((what, "name a file in which a host keeps its servers".to_owned()));
    }
    let by_content = Shape::of(root);
    let Some(host) = target.host else {
        return match by_content {
            Some(shape) => Ok(Some((None, shape))),
            None => {
                let what = format!("there are no servers in {name}");
                let sections = "`mcpServers`, `servers`, `context_servers`, `mcp` or `extensions`";
                Err((what, format!("they would stand in one of {sections}")))
            }
        };
    };
    if host.shape().is_in(root) {
        return Ok(Some((Some(host), host.shape())));
    }
    match by_content {
        // Told by its name alone: what stands in it counts for more.
        Some(shape) if target.is_named => {
            let section = host.shape().section();
            let what = format!(
                "{name} is no file of {}: its servers stand in `{}`, and not in `{section}`",
                host.title(),
                shape.section()
            );
            Err((what, "name the host whose file it is with --host, or leave --host out".to_owned()))
        }
        Some(_) | None => Ok(None),
    }
}

/// A server that was asked for must be there.
fn check_names(args: &Import, opened: &[Opened], problems: &[Problems]) -> Result<(), Failure> {
    if !problems.is_empty() {
        return Ok(());
    }
    let known: BTreeSet<_> = opened.iter().flat_map(|file| &file.entries).map(|entry| &entry.name).collect();
    let Some(unknown) = args.servers.iter().find(|name| !known.contains(name)) else { return Ok(()) };
    let names: Vec<_> = known.into_iter().map(|name| clean(name)).collect();
    let help = if names.is_empty() {
        "no server was found at all".to_owned()
    } else {
        format!("these were found: {}", names.join(", "))
    };
    Err(Failure::new(exit::USAGE, format!("there is no server {unknown:?}"), help))
}

fn edit(file: &Opened, args: &Import, program: &Program) -> Result<Option<Edited>, Failure> {
    let Some(document) = file.document.as_ref().filter(|_| !args.list) else { return Ok(None) };
    let wanted = |entry: &Entry| args.servers.is_empty() || args.servers.contains(&entry.name);
    if args.undo {
        return Ok(Some(document.change(Change::Unwrap, program.path(), wanted)));
    }
    let Some(front) = program.for_host(file.target.host, file.target.scope) else {
        let help = "install it in a folder whose name is UTF-8";
        return Err(Failure::new(exit::FAILED, "the path of this taskgate is no text", help));
    };
    Ok(Some(document.change(Change::Wrap { program: &front }, program.path(), wanted)))
}

fn write(opened: &mut [Opened], args: &Import) -> Result<(), Failure> {
    for file in opened {
        let Some(edited) = file.edited.as_ref().filter(|edited| !edited.changed.is_empty()) else { continue };
        let mark = if file.has_mark { BYTE_ORDER_MARK } else { "" };
        let bytes = format!("{mark}{}", edited.text).into_bytes();
        let name = file.target.file.display();
        let backup = file.original.replace(&bytes).map_err(|refusal| {
            let help = match refusal {
                Refusal::Changed => "a host may write it while it runs: quit the host, and try again",
                Refusal::Linked(_) => "edit it by hand",
                Refusal::Backups => "remove some of them",
                Refusal::Io { .. } => {
                    "check the rights of the file and of its folder, and the space on the disk"
                }
            };
            Failure::new(exit::FAILED, format!("{name} was not written: {refusal}"), help)
        })?;
        file.done.is_written = true;
        if args.undo {
            // What stands in the file now needs no copy; a copy of the file with taskgate in it is worth nothing
            // either, as soon as the undoing led back to what was there before.
            file.done.removed = file.original.drop_backups(&bytes);
            if !file.done.removed.is_empty() {
                file.done.removed.extend(file.original.drop_backups(&file.original.bytes));
            }
        }
        file.done.backup = Some(backup).filter(|backup| backup.exists());
    }
    Ok(())
}
