//! One server of a host's file: how it is started, and which bytes say so.
//!
//! What is read relies on these facts:
//! - `mcpServers` and `servers` (Claude Desktop, Claude Code, Cursor, VS Code): `command` is one text, `args` a list of
//!   texts that may be left out, `url` stands for a remote server. `type` may be left out for `stdio`.
//! - VS Code: `sandboxEnabled` runs the server in a sandbox; `dev.debug` replaces its command by a debugger's.
//! - Zed: `command` is one text beside `args` (`ContextServerCommand`); before its migration of 2025-06-27 it was an
//!   object with `path` and `args`. An entry with neither `command` nor `url` belongs to an extension of Zed. `remote`
//!   runs it on another machine.
//! - goose (`ExtensionConfig`): `type: stdio` with `cmd` and `args`; `streamable_http` and `sse` have a `uri`; every other
//!   type is run by goose itself.
//! - opencode (`config/mcp.ts`): `command` is one list, program first; `type` is `local` or `remote`.
//! - `disabled: true` or `enabled: false` keep a server from being started.

use std::ops::Range;
use std::path::Path;

use super::host::Host;
use super::shape::{Found, Shape};
use super::tree::{Member, Node, Value};
use crate::config::problem::Problem;

const ALIAS: &str = "it stands for another place of the file (a YAML alias)";
/// taskgate answers a call within this time, with the result or with a handle (`limits.sync_budget`).
const ANSWER_MS: u64 = 45_000;

/// One server.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The folder that it is for, in a file that keeps several projects apart.
    pub(crate) project: Option<String>,
    pub(crate) name: String,
    pub(crate) is_disabled: bool,
    pub(crate) kind: Kind,
    /// What the person should know of it.
    pub(crate) note: Option<String>,
}

/// What a server is to us.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The host starts it.
    Local(Launch),
    /// The host starts taskgate, which starts it.
    Behind(Launch),
    /// It has a URL.
    Remote(String),
    /// None that we could stand before; with the reason.
    Apart(String),
}

/// How a server is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Launch {
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    pub(crate) written: Written,
    /// Whether other places of the file may share these bytes.
    pub(crate) is_shared: bool,
}

/// Which bytes say it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// The program in one member, the arguments in another, which may not be there.
    Split { name: Range<usize>, program: Range<usize>, args: Option<Args> },
    /// Both in one list.
    Joined(List),
}

/// The member with the arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Args {
    pub(crate) name: Range<usize>,
    pub(crate) list: List,
}

/// A list of texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct List {
    pub(crate) span: Range<usize>,
    pub(crate) items: Vec<Range<usize>>,
}

impl Written {
    /// The values that say how the server is started.
    pub(crate) fn spans(&self) -> Vec<Range<usize>> {
        match self {
            Written::Split { program, args, .. } => {
                let mut spans = vec![program.clone()];
                spans.extend(args.as_ref().map(|args| args.list.span.clone()));
                spans
            }
            Written::Joined(list) => vec![list.span.clone()],
        }
    }
}

/// Whether a command line is taskgate with a server behind it.
pub(crate) fn is_behind(argv: &[String], own: &Path) -> bool {
    let [program, command, ..] = argv else { return false };
    let program = Path::new(program);
    let is_own = program == own || program.file_stem().is_some_and(|stem| stem == "taskgate");
    is_own && command == "run"
}

/// Reads one entry. `own` is the path of this taskgate.
pub(crate) fn read(
    found: &Found<'_>,
    shape: Shape,
    host: Option<Host>,
    own: &Path,
) -> Result<Entry, Problem> {
    let Found { project, name, node, is_twice, is_shared } = found;
    let wrong = |what: String, help: &str, at| Problem {
        what: format!("server {name:?}: {what}"),
        help: Some(help.to_owned()),
        at: Some(at),
    };
    if node.members().is_none() && node.value != Value::Alias {
        let what = format!("an object was expected, found {}", node.kind());
        return Err(wrong(what, how_it_reads(shape), node.point()));
    }
    let reader = Reader { shape, node };
    let kind = if *is_twice {
        Kind::Apart("its name stands twice in the file, and only one of the two counts".to_owned())
    } else if node.value == Value::Alias {
        Kind::Apart(ALIAS.to_owned())
    } else {
        match reader.launch().map_err(|(what, at)| wrong(what, how_it_reads(shape), at))? {
            Start::Local(launch) if is_behind(&launch.argv, own) => Kind::Behind(launch),
            Start::Local(launch) => {
                reader.obstacle(&launch, *is_shared, host).map_or(Kind::Local(launch), Kind::Apart)
            }
            Start::Remote(url) => Kind::Remote(url),
            Start::Apart(why) => Kind::Apart(why.to_owned()),
        }
    };
    let is_local = matches!(kind, Kind::Local(_) | Kind::Behind(_));
    let limit = node.get("timeout").and_then(Node::number).filter(|_| is_local);
    let limit = limit.and_then(|timeout| host?.call_limit_ms(timeout));
    let note = limit.filter(|limit| *limit <= ANSWER_MS).map(|limit| {
        format!(
            "its `timeout` ends a call after {} s; taskgate answers within {} s, so raise it above that",
            limit / 1000,
            ANSWER_MS / 1000
        )
    });
    Ok(Entry {
        project: project.map(str::to_owned),
        name: (*name).to_owned(),
        is_disabled: node.get("disabled").is_some_and(|it| it.is(true))
            || node.get("enabled").is_some_and(|it| it.is(false)),
        kind,
        note,
    })
}

/// How an entry is started, whatever else there is to say of it.
pub(super) fn launch(found: &Found<'_>, shape: Shape) -> Option<Launch> {
    match (Reader { shape, node: found.node }).launch().ok()? {
        Start::Local(launch) => Some(launch),
        Start::Remote(_) | Start::Apart(_) => None,
    }
}

fn how_it_reads(shape: Shape) -> &'static str {
    match shape {
        Shape::McpServers | Shape::ClaudeCode | Shape::Servers => {
            "an entry reads {\"command\": \"PROGRAM\", \"args\": [\"…\"]}"
        }
        Shape::ContextServers => "an entry reads {\"command\": \"PROGRAM\", \"args\": [\"…\"], \"env\": {}}",
        Shape::Extensions => "an entry has `type: stdio`, `cmd: PROGRAM` and `args:` with a list",
        Shape::Mcp => "an entry reads {\"type\": \"local\", \"command\": [\"PROGRAM\", \"…\"]}",
    }
}

enum Start {
    Local(Launch),
    Remote(String),
    Apart(&'static str),
}

type Wrong = (String, Range<usize>);

struct Reader<'a> {
    shape: Shape,
    node: &'a Node,
}

impl Reader<'_> {
    fn launch(&self) -> Result<Start, Wrong> {
        match self.shape {
            Shape::McpServers | Shape::ClaudeCode | Shape::Servers => self.split("command", "args", "url"),
            Shape::ContextServers => match self.node.get("command") {
                Some(command) if command.members().is_some() => {
                    let nested = Reader { shape: self.shape, node: command };
                    nested.split("path", "args", "url")
                }
                Some(_) => self.split("command", "args", "url"),
                None if self.node.get("url").is_some() => self.split("command", "args", "url"),
                None => Ok(Start::Apart("an extension of Zed starts it")),
            },
            Shape::Extensions => match self.node.get("type").and_then(Node::text) {
                Some("stdio") => self.split("cmd", "args", "uri"),
                Some("streamable_http" | "sse") => Ok(Start::Remote(self.url("uri"))),
                Some(_) => Ok(Start::Apart("goose runs it itself")),
                None => Ok(Start::Apart("it has no `type`")),
            },
            Shape::Mcp => self.joined(),
        }
    }

    fn url(&self, name: &str) -> String {
        self.node.get(name).and_then(Node::text).unwrap_or_default().to_owned()
    }

    fn split(&self, program: &str, args: &str, url: &str) -> Result<Start, Wrong> {
        let Some(member) = self.once(program)? else {
            return Ok(if self.node.get(url).is_some() {
                Start::Remote(self.url(url))
            } else {
                Start::Apart("it has neither a command nor a URL")
            });
        };
        if [program, args].iter().any(|name| self.node.get(name).is_some_and(|it| it.value == Value::Alias)) {
            return Ok(Start::Apart(ALIAS));
        }
        let Some(text) = member.value.text() else {
            let what =
                format!("{program:?} names a program: a text was expected, found {}", member.value.kind());
            return Err((what, member.value.point()));
        };
        let mut argv = vec![text.to_owned()];
        let mut is_shared = self.node.is_anchored || member.value.is_anchored;
        let args = match self.once(args)?.filter(|args| args.value.value != Value::Null) {
            None => None,
            Some(args) => {
                is_shared |= args.value.is_anchored;
                let list = self.list(args, &mut argv)?;
                Some(Args { name: args.name_span.clone(), list })
            }
        };
        let written =
            Written::Split { name: member.name_span.clone(), program: member.value.span.clone(), args };
        Ok(Start::Local(Launch { argv, written, is_shared }))
    }

    fn joined(&self) -> Result<Start, Wrong> {
        let Some(member) = self.once("command")? else {
            return Ok(if self.node.get("url").is_some() {
                Start::Remote(self.url("url"))
            } else {
                Start::Apart("it has neither a command nor a URL")
            });
        };
        let mut argv = Vec::new();
        let list = self.list(member, &mut argv)?;
        if argv.is_empty() {
            return Ok(Start::Apart("its command is empty"));
        }
        let is_shared = self.node.is_anchored || member.value.is_anchored;
        Ok(Start::Local(Launch { argv, written: Written::Joined(list), is_shared }))
    }

    /// A member that must not be written twice: nobody could tell which of the two to edit.
    fn once(&self, name: &str) -> Result<Option<&Member>, Wrong> {
        let members = self.node.members().unwrap_or_default();
        let mut named = members.iter().filter(|member| member.name == name);
        let first = named.next();
        match named.next() {
            None => Ok(first),
            Some(second) => Err((format!("{name:?} stands here twice"), second.name_span.clone())),
        }
    }

    fn list(&self, member: &Member, argv: &mut Vec<String>) -> Result<List, Wrong> {
        let Value::List(items) = &member.value.value else {
            let what =
                format!("{:?}: a list of texts was expected, found {}", member.name, member.value.kind());
            return Err((what, member.value.point()));
        };
        let mut spans = Vec::new();
        for item in items {
            let Some(text) = item.text() else {
                let what = format!("{:?} holds texts only, found {}", member.name, item.kind());
                return Err((what, item.point()));
            };
            argv.push(text.to_owned());
            spans.push(item.span.clone());
        }
        Ok(List { span: member.value.span.clone(), items: spans })
    }

    /// Why we had better not stand before it.
    fn obstacle(&self, launch: &Launch, is_shared: bool, host: Option<Host>) -> Option<String> {
        let program = launch.argv.first().map(String::as_str).unwrap_or_default();
        let keeps_tilde = !host.is_some_and(Host::expands_tilde_in_args);
        let why = if program.trim().is_empty() {
            "its command is empty"
        } else if program.starts_with('~') && keeps_tilde {
            "its command begins with ~, which would not be expanded any more: write the whole path"
        } else if program.contains(char::is_whitespace) && !Path::new(program).exists() {
            "its command is several words: leave the program there and put the others into the arguments"
        } else if self.node.get("sandboxEnabled").is_some_and(|it| it.is(true)) {
            "VS Code runs it in a sandbox, and taskgate would start it outside"
        } else if self.node.get("dev").is_some_and(|dev| dev.get("debug").is_some()) {
            "VS Code starts it under a debugger"
        } else if self.shape == Shape::ContextServers && self.node.get("remote").is_some_and(|it| it.is(true))
        {
            "Zed starts it on another machine"
        } else if launch.is_shared || is_shared {
            "other places of the file share its lines (a YAML anchor or tag)"
        } else {
            return None;
        };
        Some(why.to_owned())
    }
}
