//! What people and programs are shown of an import. Secrets are in none of it.

use std::path::Path;

use serde::Serialize;
use taskgate_wire::text::SafeText;

use super::Opened;
use crate::args::Import;
use crate::config::problem::{ProblemLine, Problems};
use crate::hosts::diff::{self, Tag};
use crate::hosts::edit::Edited;
use crate::hosts::entry::{Entry, Kind};
use crate::hosts::places::Scope;
use crate::hosts::program::Program;
use crate::hosts::{Host, mask};
use crate::ui::{Tone, Ui};

/// Characters of a name or command line that are shown.
const SHOWN_CHARS_MAX: usize = 160;

/// A peer's words on one line.
pub(super) fn clean(text: &str) -> String {
    SafeText::new(text, SHOWN_CHARS_MAX).into_string()
}

/// How things are shown.
pub(super) struct Shown<'a> {
    pub(super) args: &'a Import,
    pub(super) ui: Ui,
    pub(super) program: &'a Program,
}

impl Shown<'_> {
    pub(super) fn people(&self, opened: &[Opened], is_sound: bool, is_done: bool) {
        for file in opened {
            self.file(file);
        }
        if !is_sound || !is_done {
            let is_any_written = opened.iter().any(|file| file.done.is_written);
            if (self.args.write || self.args.undo) && !is_any_written {
                self.ui.note("nothing was written; a host or a file alone can be named (--host HOST, FILE)");
            }
            return;
        }
        let any =
            |test: fn(&Edited) -> bool| opened.iter().any(|file| file.edited.as_ref().is_some_and(test));
        let note = if opened.is_empty() {
            let whose = self.args.host.map_or("a known host", Host::title);
            format!(
                "there is no file of {whose} with servers, for this user or in this folder; a file can be named"
            )
        } else if self.args.list
            || any(|edited| !edited.changed.is_empty()) && (self.args.write || self.args.undo)
        {
            return;
        } else if any(|edited| !edited.changed.is_empty()) {
            "Nothing was written. The same command with --write makes this edit and keeps a backup beside the file."
                .to_owned()
        } else if any(|edited| !edited.left.is_empty()) {
            "nothing was changed; the reasons are above".to_owned()
        } else if self.args.undo {
            "there is nothing to undo: no server here is behind taskgate".to_owned()
        } else {
            "there is nothing to do: no server here could be put behind taskgate".to_owned()
        };
        self.ui.note(&note);
    }

    fn file(&self, file: &Opened) {
        let ui = self.ui;
        let path = clean(&file.target.file.display().to_string());
        let whose = match (file.target.host, file.target.scope) {
            (Some(host), Scope::User) => format!("{}, for you", host.title()),
            (Some(host), Scope::Project) => format!("{}, for this project", host.title()),
            (None, Scope::User | Scope::Project) => "mcp.json".to_owned(),
        };
        ui.out(&format!("{}: {path}", ui.tone(Tone::Strong, &whose)));
        if file.entries.is_empty() {
            ui.out("  no servers");
        }
        let mut project = None;
        let names = file.entries.iter().map(|entry| clean(&entry.name).chars().count());
        let width = names.max().unwrap_or(0).min(24);
        for entry in &file.entries {
            if entry.project != project {
                project.clone_from(&entry.project);
                let folder = project.as_deref().map(clean).unwrap_or_default();
                ui.out(&format!("  in {folder}"));
            }
            let state = state(entry, file.edited.as_ref(), self.args.undo);
            ui.out(&format!("  {:width$}  {state}", clean(&entry.name)));
            if let Some(note) = &entry.note {
                ui.out(&format!("  {:width$}  note: {note}", ""));
            }
        }
        if let Some(lines) = difference(file).filter(|lines| !lines.is_empty()) {
            ui.out(&format!("\n--- {path}\n+++ {path}"));
            for (tag, line) in lines {
                let line = match tag {
                    Tag::Place => ui.tone(Tone::Accent, &line),
                    Tag::Same => line,
                    Tag::Gone => ui.tone(Tone::Bad, &line),
                    Tag::New => ui.tone(Tone::Good, &line),
                };
                ui.out(&line);
            }
        }
        ui.out("");
        self.done(file, &path);
    }

    fn done(&self, file: &Opened, path: &str) {
        let changed = file.edited.as_ref().map_or(0, |edited| edited.changed.len());
        let puts_path = self.program.is_of_this_machine(file.target.scope) && !self.args.undo;
        if changed > 0 && puts_path {
            self.ui.note(
                "note: others read this file too, and the path of taskgate in it is one of this machine",
            );
        }
        if !file.done.is_written {
            if let Some(caution) = file.target.host.and_then(|host| host.caution(file.target.scope))
                && changed > 0
            {
                self.ui.note(&format!("note: {caution}"));
            }
            return;
        }
        let what = match (self.args.undo, changed) {
            (false, 1) => "1 server is behind taskgate now".to_owned(),
            (false, many) => format!("{many} servers are behind taskgate now"),
            (true, 1) => "taskgate was taken out of 1 server".to_owned(),
            (true, many) => format!("taskgate was taken out of {many} servers"),
        };
        self.ui.note(&format!("{path}: {what}"));
        match &file.done.backup {
            Some(backup) => self.ui.note(&format!("the file as it was before: {}", backup.display())),
            None if self.args.undo => {
                self.ui.note("the backup was the same as the file is now, and is removed")
            }
            None => {}
        }
        let restart = file.target.host.map_or("restart the host that reads it", Host::restart);
        self.ui.note(&format!("for it to count, {restart}"));
    }

    pub(super) fn json(&self, opened: &[Opened], problems: &[Problems]) {
        let report = Report {
            files: opened.iter().map(file_line).collect(),
            problems: problems.iter().flat_map(Problems::lines).collect(),
        };
        self.ui.json(&report);
    }
}

fn has(list: &[(Option<String>, String)], entry: &Entry) -> bool {
    list.iter().any(|(project, name)| *project == entry.project && *name == entry.name)
}

/// Why an entry was left alone although it was meant.
fn left<'a>(edited: Option<&'a Edited>, entry: &Entry) -> Option<&'a str> {
    let mut left = edited?.left.iter();
    let found = left.find(|(project, name, _)| *project == entry.project && *name == entry.name);
    found.map(|(_, _, why)| why.as_str())
}

/// What there is to say of an entry, on one line.
fn state(entry: &Entry, edited: Option<&Edited>, is_undo: bool) -> String {
    let line = |argv: &[String]| clean(&mask::command_line(argv).join(" "));
    let said = match &entry.kind {
        Kind::Local(launch) => line(&launch.argv),
        Kind::Behind(launch) if is_undo => line(&launch.argv),
        Kind::Behind(launch) => format!("behind taskgate already: {}", line(&launch.argv)),
        Kind::Remote(url) => {
            let url = if url.is_empty() { "a URL".to_owned() } else { clean(&mask::address(url)) };
            format!("remote, left alone: {url} (`taskgate serve` is for those)")
        }
        Kind::Apart(why) => format!("left alone: {why}"),
    };
    let left = left(edited, entry).map(|why| format!(" (left alone: {why})")).unwrap_or_default();
    let disabled = if entry.is_disabled { " (disabled, and stays so)" } else { "" };
    format!("{said}{left}{disabled}")
}

/// The edit as it may be shown; `None` if there is none.
fn difference(file: &Opened) -> Option<Vec<(Tag, String)>> {
    let (document, edited) = (file.document.as_ref()?, file.edited.as_ref()?);
    if edited.changed.is_empty() {
        return None;
    }
    let shown = |text: &str| mask::masked(text, document.format, document.shape);
    Some(diff::lines(&shown(&document.text), &shown(&edited.text)))
}

#[derive(Serialize)]
struct Report<'a> {
    files: Vec<FileLine>,
    problems: Vec<ProblemLine<'a>>,
}

#[derive(Serialize)]
struct FileLine {
    file: String,
    host: Option<Host>,
    scope: Scope,
    servers: Vec<ServerLine>,
    /// A unified difference without secrets.
    diff: Option<String>,
    written: bool,
    backup: Option<String>,
    removed_backups: Vec<String>,
}

#[derive(Serialize)]
struct ServerLine {
    name: String,
    project: Option<String>,
    /// `local`, `behind`, `remote` or `apart`, as found.
    kind: &'static str,
    command: Option<Vec<String>>,
    url: Option<String>,
    disabled: bool,
    /// Whether the edit changes it.
    edit: bool,
    /// Why it is left alone.
    left_alone: Option<String>,
    note: Option<String>,
}

fn file_line(file: &Opened) -> FileLine {
    let text = |path: &Path| path.display().to_string();
    let diff = difference(file).map(|lines| {
        let head = format!("--- {0}\n+++ {0}\n", text(&file.target.file));
        lines.into_iter().fold(head, |diff, (_, line)| diff + &line + "\n")
    });
    FileLine {
        file: text(&file.target.file),
        host: file.target.host,
        scope: file.target.scope,
        servers: file.entries.iter().map(|entry| server_line(entry, file.edited.as_ref())).collect(),
        diff,
        written: file.done.is_written,
        backup: file.done.backup.as_deref().map(text),
        removed_backups: file.done.removed.iter().map(|path| text(path)).collect(),
    }
}

fn server_line(entry: &Entry, edited: Option<&Edited>) -> ServerLine {
    let (kind, command, url, apart) = match &entry.kind {
        Kind::Local(launch) => ("local", Some(mask::command_line(&launch.argv)), None, None),
        Kind::Behind(launch) => ("behind", Some(mask::command_line(&launch.argv)), None, None),
        Kind::Remote(url) => ("remote", None, Some(mask::address(url)), None),
        Kind::Apart(why) => ("apart", None, None, Some(why.clone())),
    };
    ServerLine {
        name: entry.name.clone(),
        project: entry.project.clone(),
        kind,
        command,
        url,
        disabled: entry.is_disabled,
        edit: edited.is_some_and(|edited| has(&edited.changed, entry)),
        left_alone: apart.or_else(|| left(edited, entry).map(str::to_owned)),
        note: entry.note.clone(),
    }
}
