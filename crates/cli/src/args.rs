//! The command line as it is typed.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::config::units::Span;
use crate::hosts::Host;

/// Puts any MCP server behind durable tasks for any MCP client.
#[derive(Parser, Debug)]
#[command(name = "taskgate", version, max_term_width = 100)]
#[command(after_help = "Documentation: README.md, docs/commands.md, docs/configuration.md")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run the HTTP gateway for the configured servers
    Serve(Serve),
    /// Run one server behind the gateway over stdin and stdout: what a host's mcp.json starts
    Run(Run),
    /// The background process that holds the servers of `run`: how it is, stop, restart, logs
    Keeper {
        #[command(subcommand)]
        command: Keeper,
    },
    /// List the tasks of all hosts that go through `run`, or of a `serve`; show one, or print its result
    Tasks(Tasks),
    /// List operations: what was to be done in the world, and what is known of whether it was
    Ops(Ops),
    /// Show one operation: what the server reports, what is known of the effect, and all that happened
    Op {
        #[command(subcommand)]
        command: Op,
    },
    /// Ask the system of record now what became of an operation
    Reconcile(Reconcile),
    /// Say what became of an operation, where nothing else can tell
    Resolve(Resolve),
    /// Show the gateway at work, with nothing to configure: a long call survives a kill
    Demo(Demo),
    /// Connect to a server and print what it can do
    Probe(Probe),
    /// Put taskgate in front of the servers in a host's configuration: shows the edit, writes it when asked
    Import(Import),
    /// Check a configuration, or print what can be configured
    Config {
        #[command(subcommand)]
        command: Config,
    },
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// The server that the demo calls
    #[command(hide = true)]
    DemoServer(DemoServer),
    /// Kills server processes that we would leave behind
    #[command(hide = true, name = GUARD)]
    Guard,
    /// The keeper itself
    #[command(hide = true, name = taskgate_keeper::start::COMMAND)]
    KeeperProcess(KeeperProcess),
}

/// The hidden argument by which the guard is started.
pub(crate) const GUARD: &str = "__guard";

/// Where the configuration stands.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(crate) struct Given {
    /// Configuration in TOML [env: TASKGATE_CONFIG]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Servers of an mcp.json, with everything else by default
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_json: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) given: Given,
    /// Listen here instead of at the configured address [env: TASKGATE_LISTEN]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Keep tasks in this SQLite file instead of the configured one [env: TASKGATE_STORE]
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// How log lines on stderr are written
    #[arg(long, value_name = "FORM", default_value = "human")]
    pub(crate) log: LogForm,
    /// Print the endpoints as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Stop when stdin ends, so that nobody who starts it for a while leaves it behind
    #[arg(long, hide = true)]
    pub(crate) until_stdin_ends: bool,
}

/// How log lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogForm {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Keep everything in this process: when it ends, no server and no work goes on
    #[arg(long)]
    pub(crate) foreground: bool,
    /// A name for this server: whoever uses it shares its process and its tasks, whatever folder and environment
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Give this host a server process of its own, also where another host runs the same command
    #[arg(long, conflicts_with = "foreground")]
    pub(crate) apart: bool,
    /// Believe the server where it says that a tool changes nothing: such a call may be sent again
    #[arg(long)]
    pub(crate) trust_annotations: bool,
    /// Answer within this time, with a handle where the result is not there yet [default: 45s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) answer_within: Option<Span>,
    /// Take the treatment of tools from this configuration: its server of that name
    #[arg(long, short, value_name = "FILE", requires = "name")]
    pub(crate) config: Option<PathBuf>,
    /// With --foreground: forget all tasks at the end, instead of keeping them in the state folder
    #[arg(long, conflicts_with = "store", requires = "foreground")]
    pub(crate) ephemeral: bool,
    /// With --foreground: keep tasks in this SQLite file
    #[arg(long, value_name = "FILE", requires = "foreground")]
    pub(crate) store: Option<PathBuf>,
    /// With --foreground: how log lines on stderr are written [default: human]
    #[arg(long, value_name = "FORM", requires = "foreground")]
    pub(crate) log: Option<LogForm>,
    /// Start nothing: print the entry by which this host would run the command (--name names the entry)
    #[arg(long, value_name = "HOST", conflicts_with_all = ["foreground", "ephemeral", "store", "config"])]
    pub(crate) print_config: Option<Host>,
    /// The server's command and its arguments [with --config: may be left out]
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "config")]
    pub(crate) command: Vec<OsString>,
}

fn span(text: &str) -> Result<Span, String> {
    Span::parse(text).map_err(|error| error.to_string())
}

#[derive(Subcommand, Debug)]
pub(crate) enum Keeper {
    /// Say whether it runs, who is attached, and which servers it holds
    Status {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// End it and all its servers; calls under way have 5 s to end
    Stop {
        /// Give calls under way no time
        #[arg(long)]
        now: bool,
    },
    /// Start it anew, or only the process of one server
    Restart {
        /// A server's name, as `keeper status` shows it
        server: Option<String>,
    },
    /// Show its log, or a server's: what that wrote to stderr, its starts and ends
    Logs {
        /// A server's name, or the beginning of it
        server: Option<String>,
        /// Stay, and show what comes
        #[arg(long, short)]
        follow: bool,
        /// How many lines
        #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 50)]
        lines: usize,
    },
}

/// Which process is asked about its tasks and operations.
#[derive(Args, Debug, Default)]
pub(crate) struct Owner {
    /// Ask the `serve` that keeps them in this file [env: TASKGATE_STORE]
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) store: Option<PathBuf>,
    /// Ask the `serve` of this configuration [env: TASKGATE_CONFIG]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Ops {
    #[command(subcommand)]
    pub(crate) command: Option<OpsCommand>,
    #[command(flatten)]
    pub(crate) owner: Owner,
    /// Only those that are not settled
    #[arg(long)]
    pub(crate) open: bool,
    /// Only those that wait for a person, the longest waiting first, with all that is known of them
    #[arg(long, conflicts_with = "open")]
    pub(crate) waiting: bool,
    /// Only those whose key, object, version, intended effect or receipt holds this text, such as an order's number
    #[arg(long, value_name = "TEXT")]
    pub(crate) about: Option<String>,
    /// Only those of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
    /// Only those of this server: its name, or the beginning of it
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Only those of which this is known; may be repeated, then all of it must hold
    #[arg(long = "outcome", value_name = "WORD")]
    pub(crate) outcomes: Vec<Known>,
    /// All, instead of the first 20
    #[arg(long)]
    pub(crate) all: bool,
    /// Print them as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is known of an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Known {
    /// Its effect was made, by whatever says so.
    Applied,
    /// Its effect was not made, by whatever says so.
    NotApplied,
    /// Certain: the system of record says so, or it never left us.
    Confirmed,
    /// A person says so.
    Attested,
    /// The server says so, and nothing else.
    Reported,
    /// Not applied, for all that was found.
    Assumed,
    /// Nothing certain.
    Unknown,
    /// Nothing yet: it waits, or is under way.
    Pending,
    /// There is no effect to speak of.
    NoneExpected,
}

#[derive(Subcommand, Debug)]
pub(crate) enum OpsCommand {
    /// Print operations with their whole history, a line of JSON each
    Export {
        #[command(flatten)]
        owner: Owner,
        /// Only those that changed since: a time as 2026-11-30T12:00:00Z, a day as 2026-11-30, or how long ago as 24h
        #[arg(long, value_name = "TIME", value_parser = since)]
        since: Option<Since>,
    },
}

/// A point in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Since {
    /// Itself, in milliseconds since 1970.
    At(i64),
    /// This long ago.
    Ago(Span),
}

fn since(text: &str) -> Result<Since, String> {
    let at = |text: &str| taskgate_wire::time::parse(text).map(|at| Since::At(at.0));
    at(text)
        .or_else(|| at(&format!("{text}T00:00:00Z")))
        .or_else(|| Span::parse(text).ok().map(Since::Ago))
        .ok_or_else(|| {
            "write a time as 2026-11-30T12:00:00Z, a day as 2026-11-30, or how long ago as 24h".to_owned()
        })
}

#[derive(Subcommand, Debug)]
pub(crate) enum Op {
    /// Show it
    Show {
        /// Its id, or the beginning of it
        id: String,
        #[command(flatten)]
        owner: Owner,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Reconcile {
    /// The operation: its id, or the beginning of it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) owner: Owner,
    /// How long to wait for the answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span)]
    pub(crate) wait: Span,
    /// Print the operation as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Resolve {
    /// The operation: its id, or the beginning of it
    pub(crate) id: String,
    /// What became of its effect
    pub(crate) verdict: Verdict,
    /// How you know. It stays in the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Who says so [default: your user name]
    #[arg(long, value_name = "WHO")]
    pub(crate) name: Option<String>,
    /// Put this in the place of what a person said before. The history keeps both
    #[arg(long)]
    pub(crate) correct: bool,
    #[command(flatten)]
    pub(crate) owner: Owner,
    /// Print the operation as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What became of an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Verdict {
    /// It was made.
    Applied,
    /// It was not made.
    NotApplied,
}

#[derive(Args, Debug)]
pub(crate) struct Tasks {
    #[command(flatten)]
    pub(crate) owner: Owner,
    /// Show this task: its id, or the beginning of it
    pub(crate) id: Option<String>,
    /// Print its result
    #[arg(long, requires = "id", conflicts_with = "cancel")]
    pub(crate) result: bool,
    /// Cancel it: what was done by then stays done
    #[arg(long, requires = "id")]
    pub(crate) cancel: bool,
    /// Only those of this server: its name, or the beginning of it
    #[arg(long, value_name = "NAME", conflicts_with = "id")]
    pub(crate) server: Option<String>,
    /// All, instead of the newest 20
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct KeeperProcess {
    /// Where it lives
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// That is not the usual place
    #[arg(long)]
    pub(crate) fallback: bool,
    /// It is to be the keeper itself, and not to start it
    #[arg(long)]
    pub(crate) detached: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Import {
    /// A host's configuration [default: those of all known hosts, for this user and the current folder]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Only this host; with FILE: whose file it is
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<Host>,
    /// Only this server; may be repeated
    #[arg(long = "server", value_name = "NAME")]
    pub(crate) servers: Vec<String>,
    /// Write the edit, and keep a backup beside the file
    #[arg(long)]
    pub(crate) write: bool,
    /// Take taskgate out of the entries again
    #[arg(long, conflicts_with = "write")]
    pub(crate) undo: bool,
    /// Only list the files and their servers
    #[arg(long, conflicts_with_all = ["write", "undo"])]
    pub(crate) list: bool,
    /// Print what was found and done as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Probe {
    /// A URL, or the name of a server in --config or --mcp-json
    #[arg(value_name = "PEER", required_unless_present = "command", conflicts_with = "command")]
    pub(crate) peer: Option<String>,
    /// Configuration in which the server's name stands [env: TASKGATE_CONFIG]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// mcp.json in which the server's name stands
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) mcp_json: Option<PathBuf>,
    /// A header to send, for a URL
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Print the manifest as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The command of a server that speaks over stdin and stdout
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Config {
    /// Say whether a configuration is sound, without opening a port or starting a server
    Check {
        /// Configuration in TOML
        #[arg(value_name = "FILE", required_unless_present = "mcp_json", conflicts_with = "mcp_json")]
        file: Option<PathBuf>,
        /// An mcp.json
        #[arg(long, value_name = "FILE")]
        mcp_json: Option<PathBuf>,
        /// Print what is wrong as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print all keys as Markdown
    #[command(hide = true)]
    Reference,
    /// Print the JSON Schema
    #[command(hide = true)]
    Schema,
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// End when all is shown, instead of staying for you to try
    #[arg(long)]
    pub(crate) exit: bool,
    /// Listen at this port [default: 7420, or a free one if that is taken]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// How long the slow report takes
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(12..=120))]
    pub(crate) report_seconds: u64,
}

#[derive(Args, Debug)]
pub(crate) struct DemoServer {
    /// Where to listen; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Speak over stdin and stdout, as a host's servers do, and end when stdin ends
    #[arg(long, conflicts_with_all = ["listen", "until_stdin_ends"])]
    pub(crate) stdio: bool,
    /// What it knows of tasks [default: b over HTTP, plain over stdio]
    #[arg(long, value_name = "DIALECT")]
    pub(crate) dialect: Option<Dialect>,
    /// Where effects are written down, one JSON object a line; without it, in memory only
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// How long `slow_report` takes, where the call does not say
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20_000)]
    pub(crate) report_ms: u64,
    /// End when stdin ends, so that nobody who starts it leaves it behind
    #[arg(long)]
    pub(crate) until_stdin_ends: bool,
}

/// What the demo server knows of tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Dialect {
    /// MCP 2025-11-25 with tasks.
    A,
    /// MCP 2026-07-28 with the extension `io.modelcontextprotocol/tasks`.
    B,
    /// MCP 2025-11-25 without tasks.
    Plain,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
