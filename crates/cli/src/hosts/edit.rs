//! Putting `taskgate run --` in front of a command, and taking it out again.
//!
//! An edit moves the program's text, as it is written, from its place to the arguments, behind what is put in front. It is
//! made only if it is proved on the spot: read again, the file says the same but for this one command, which is the old
//! one behind taskgate, and taking it out again gives the old bytes. What cannot be proved is left alone.
//!
//! If there were no arguments, the member is made. It is written with a space inside each bracket, `[ "run", "--", "npx" ]`,
//! by which the undoing knows that the member was not there; an empty list that was there gets none.

use std::path::Path;

use super::entry::{self, Entry, Kind, Launch, Written};
use super::host::Host;
use super::shape::Shape;
use super::splice::{self, Splice};
use super::tree::{Format, Node};
use crate::config::problem::Problem;

/// A file's text and how it is read.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) format: Format,
    pub(crate) shape: Shape,
    pub(crate) host: Option<Host>,
    /// Without a byte order mark.
    pub(crate) text: String,
}

/// What is done to an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change<'a> {
    /// Put this program in front.
    Wrap { program: &'a str },
    /// Take taskgate out.
    Unwrap,
}

/// A text after its edits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Edited {
    pub(crate) text: String,
    /// Project and name of each entry that was changed.
    pub(crate) changed: Vec<(Option<String>, String)>,
    /// Of each that could not be, with the reason.
    pub(crate) left: Vec<(Option<String>, String, String)>,
}

impl Document {
    /// The same document with another text.
    fn with(&self, text: String) -> Document {
        Document { text, ..self.clone() }
    }

    fn parse(&self) -> Result<Node, Vec<Problem>> {
        self.format.parse(&self.text).map_err(|fault| {
            let what = format!("this is no {}: {}", self.format.title(), fault.what);
            vec![Problem { what, help: None, at: Some(fault.at) }]
        })
    }

    /// The servers, in the order of the file. `own` is the path of this taskgate.
    pub(crate) fn entries(&self, own: &Path) -> Result<Vec<Entry>, Vec<Problem>> {
        let root = self.parse()?;
        self.entries_in(&root, own)
    }

    fn entries_in(&self, root: &Node, own: &Path) -> Result<Vec<Entry>, Vec<Problem>> {
        let found = self.shape.servers(root).map_err(|misplaced| {
            vec![Problem { what: misplaced.what, help: None, at: Some(misplaced.at) }]
        })?;
        let mut entries = Vec::new();
        let mut problems = Vec::new();
        for found in found {
            match entry::read(&found, self.shape, self.host, own) {
                Ok(entry) => entries.push(entry),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(entries) } else { Err(problems) }
    }

    /// Changes the entries that `wanted` names, one after the other.
    pub(crate) fn change(&self, change: Change<'_>, own: &Path, wanted: impl Fn(&Entry) -> bool) -> Edited {
        let mut edited = Edited { text: self.text.clone(), changed: Vec::new(), left: Vec::new() };
        let entries = self.entries(own).unwrap_or_default();
        for entry in entries.iter().filter(|entry| wanted(entry)) {
            let is_meant = match (&entry.kind, change) {
                (Kind::Local(_), Change::Wrap { .. }) | (Kind::Behind(_), Change::Unwrap) => true,
                (Kind::Local(_) | Kind::Behind(_) | Kind::Remote(_) | Kind::Apart(_), _) => false,
            };
            if !is_meant {
                continue;
            }
            let key = (entry.project.clone(), entry.name.clone());
            match self.with(edited.text.clone()).one(change, entry) {
                Ok(text) => {
                    edited.text = text;
                    edited.changed.push(key);
                }
                Err(why) => edited.left.push((key.0, key.1, why)),
            }
        }
        edited
    }

    /// The text with one entry changed, if that is proved right.
    fn one(&self, change: Change<'_>, entry: &Entry) -> Result<String, String> {
        const UNSURE: &str = "the way it is written is not one that taskgate edits; put its command and arguments on plain lines";
        let unsure = || UNSURE.to_owned();
        let before = self.parse().map_err(|_| unsure())?;
        let launch = self.launch_of(&before, entry).ok_or_else(unsure)?;
        let (text, argv) = match change {
            Change::Wrap { program } => {
                let argv: Vec<_> = [program, "run", "--"].map(str::to_owned).into_iter().collect();
                let argv = argv.into_iter().chain(launch.argv.iter().cloned()).collect();
                (wrap(&self.text, self.format, &launch, program).ok_or_else(unsure)?, argv)
            }
            Change::Unwrap => {
                let behind = behind(&launch.argv)
                    .ok_or_else(|| "there is no command after `--` that could be put back".to_owned())?;
                let argv: Vec<_> = launch.argv[behind..].to_vec();
                (unwrap(&self.text, &launch, behind).ok_or_else(unsure)?, argv)
            }
        };
        let changed = self.with(text);
        let after = changed.parse().map_err(|_| unsure())?;
        let now = changed.launch_of(&after, entry).ok_or_else(unsure)?;
        let is_right =
            now.argv == argv && before.says_the_same(&launch.written.spans(), &after, &now.written.spans());
        let comes_back = match change {
            Change::Wrap { .. } => unwrap(&changed.text, &now, 3).is_some_and(|text| text == self.text),
            Change::Unwrap => true,
        };
        if is_right && comes_back { Ok(changed.text) } else { Err(unsure()) }
    }

    fn launch_of(&self, root: &Node, wanted: &Entry) -> Option<Launch> {
        let found = self.shape.servers(root).ok()?;
        let found = found.iter().find(|found| {
            found.project == wanted.project.as_deref() && found.name == wanted.name && !found.is_twice
        })?;
        entry::launch(found, self.shape)
    }
}

/// Where the server's own command begins in a command line of taskgate.
fn behind(argv: &[String]) -> Option<usize> {
    let dashes = argv.iter().position(|part| part == "--")?;
    (dashes + 1 < argv.len()).then_some(dashes + 1)
}

fn wrap(text: &str, format: Format, launch: &Launch, program: &str) -> Option<String> {
    let front = ["run", "--"].map(|part| format.literal(part));
    let splices = match &launch.written {
        Written::Joined(list) => {
            let front: Vec<_> = [format.literal(program)].into_iter().chain(front).collect();
            vec![splice::prepend(text, list, &front)?]
        }
        Written::Split { name, program: old, args } => {
            let moved = text.get(old.clone())?.to_owned();
            let front: Vec<_> = front.into_iter().chain([moved]).collect();
            let arguments = match args {
                Some(args) => splice::prepend(text, &args.list, &front)?,
                None => member(text, format, name.start, old.end, &front)?,
            };
            vec![Splice { at: old.clone(), with: format.literal(program) }, arguments]
        }
    };
    splice::apply(text, splices)
}

/// The member `args` behind the member of the program, which begins at `start` and ends at `end`.
fn member(text: &str, format: Format, start: usize, end: usize, items: &[String]) -> Option<Splice> {
    let line = text.get(..start)?.rfind('\n').map_or(0, |at| at + 1);
    let indent = text.get(line..start)?;
    let has_own_line = line > 0 && indent.trim().is_empty();
    let items = items.join(", ");
    let with = match format {
        Format::Json if has_own_line => {
            format!(",{}{indent}\"args\": [ {items} ]", splice::line_end(text, start))
        }
        Format::Json => format!(", \"args\": [ {items} ]"),
        // goose demands `args`: an entry without them is none that it starts.
        Format::Yaml => return None,
    };
    Some(Splice { at: end..end, with })
}

/// Takes out what stands before the command line's part `behind`, where the server's own command begins.
fn unwrap(text: &str, launch: &Launch, behind: usize) -> Option<String> {
    let splices = match &launch.written {
        Written::Joined(list) => {
            let (first, own) = (list.items.first()?, list.items.get(behind)?);
            vec![Splice { at: first.start..own.start, with: String::new() }]
        }
        Written::Split { program, args, .. } => {
            let args = args.as_ref()?;
            let list = &args.list;
            // The list lacks the program, with which the command line begins.
            let (first, own) = (list.items.first()?, list.items.get(behind - 1)?);
            let back = Splice { at: program.clone(), with: text.get(own.clone())?.to_owned() };
            let arguments = match list.items.get(behind) {
                Some(next) => Splice { at: first.start..next.start, with: String::new() },
                None => emptied(text, program.end, args, first.start, own.end)?,
            };
            vec![back, arguments]
        }
    };
    splice::apply(text, splices)
}

/// The arguments when none is left: without the member if we made it, else an empty list.
fn emptied(text: &str, program_end: usize, args: &entry::Args, first: usize, last: usize) -> Option<Splice> {
    let list = &args.list.span;
    if !splice::is_bracketed(text, &args.list) {
        let colon = args.name.end + text.get(args.name.end..first)?.find(':')? + 1;
        return Some(Splice { at: colon..last, with: " []".to_owned() });
    }
    let (open, close) = (list.start + 1, list.end.checked_sub(1)?);
    let is_ours = text.get(open..first) == Some(" ")
        && text.get(last..close) == Some(" ")
        && text.get(program_end..args.name.start).is_some_and(|between| between.trim() == ",");
    if is_ours {
        return Some(Splice { at: program_end..list.end, with: String::new() });
    }
    if first == open {
        // A comma behind the last item must not stay alone.
        let rest = text.get(last..close)?;
        let comma = rest.trim_start().starts_with(',').then(|| rest.len() - rest.trim_start().len() + 1);
        return Some(Splice { at: first..last + comma.unwrap_or(0), with: String::new() });
    }
    // Somebody's formatter went over it since.
    Some(Splice { at: list.clone(), with: "[]".to_owned() })
}
