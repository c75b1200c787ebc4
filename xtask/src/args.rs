//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// taskgate's own chores.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask")]
pub(crate) struct Xtask {
    #[command(subcommand)]
    pub(crate) chore: Chore,
}

/// What is to be done.
#[derive(Subcommand, Debug)]
pub(crate) enum Chore {
    /// Measure the gateway against references taken in the same run
    Bench(Bench),
    /// Show which rows of the specification have a test, which are excused and which are missing
    Rows {
        /// Show the tests of these rows only, such as A-047
        #[arg(value_name = "ROW")]
        rows: Vec<String>,
    },
    /// Show what is read leniently, for which peer, and what holds it
    Leniency {
        /// Write docs/leniency.md instead
        #[arg(long)]
        write: bool,
    },
    /// Play every client with every server, and write docs/matrix.md and docs/captures.md
    Matrix(Matrix),
    /// Put bugs in, one after the other, and see that the tests find them
    SeededBugs {
        /// These only
        #[arg(value_name = "BUG")]
        bugs: Vec<String>,
    },
    /// Cut lines and kill processes around the gateway, and compare its ledger with the books of the bank
    Faults(Faults),
    /// Have clients of every kind call at once on the same endpoints, and check every message
    Load(Load),
    /// Run the official conformance suite against the gateway, and write docs/conformance.md
    Conformance(Conformance),
    /// The instant MCP server that the benchmarks call
    #[command(hide = true)]
    Back {
        /// The only era that it speaks
        #[arg(long)]
        era: Era,
    },
    /// A proxy that forwards bytes and decides nothing
    #[command(hide = true)]
    Thin {
        /// Where to
        #[arg(long)]
        upstream: SocketAddr,
    },
    /// The instant MCP server over stdin and stdout
    #[command(hide = true)]
    Stdio {
        /// Changes nothing but the command
        #[arg(long)]
        other: bool,
    },
    /// A server that answers every request with the same JSON
    #[command(hide = true)]
    Bare {
        /// Commit one row to this file before each answer
        #[arg(long)]
        store: Option<PathBuf>,
    },
}

/// How to measure.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// What to measure [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<Name>,
    /// One short run of each, to see that all works; its figures mean little
    #[arg(long)]
    pub(crate) quick: bool,
    /// Fail if a mark is missed
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: how far a mark may be missed, as a ratio. Marks in milliseconds and per second are first scaled
    /// by how much slower the disk is than the one that they were set on
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    pub(crate) slack: f64,
    /// The gateway's binary [default: a release build, made now]
    #[arg(long, value_name = "FILE")]
    pub(crate) gateway: Option<PathBuf>,
    /// Stated in the report [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) date: Option<String>,
    /// Runs of each measurement, of which the median counts [default: 3, quick: 1]
    #[arg(long)]
    pub(crate) runs: Option<usize>,
    /// Keep the folder with stores and logs
    #[arg(long)]
    pub(crate) keep: bool,
}

/// What to play. A part is only shown; the page is written of the whole.
#[derive(Args, Debug)]
pub(crate) struct Matrix {
    /// Only these clients, as `tests/peers/drive` calls them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) client: Vec<String>,
    /// Only these servers, as `tests/peers/serve` calls them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) server: Vec<String>,
    /// Compare with the page instead of writing it
    #[arg(long)]
    pub(crate) check: bool,
    /// Keep the folder with the logs
    #[arg(long)]
    pub(crate) keep: bool,
}

/// How long, and how many.
#[derive(Args, Debug)]
pub(crate) struct Load {
    /// How long they call
    #[arg(long, default_value_t = 5)]
    pub(crate) minutes: u64,
    /// Clients of each kind
    #[arg(long, default_value_t = 16)]
    pub(crate) clients: u64,
    /// What they choose follows from it [default: any, and printed]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The gateway's binary [default: a release build, made now]
    #[arg(long, value_name = "FILE")]
    pub(crate) gateway: Option<PathBuf>,
}

/// What of the suite to run. A part is only shown; the page is written of the whole.
#[derive(Args, Debug)]
pub(crate) struct Conformance {
    /// Only these scenarios, as the suite calls them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) scenario: Vec<String>,
    /// Only against the fixtures, without the gateway
    #[arg(long)]
    pub(crate) direct: bool,
    /// Compare with the page instead of writing it
    #[arg(long)]
    pub(crate) check: bool,
    /// Keep the folder with the logs and the suite's own results
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Which faults.
#[derive(Args, Debug)]
pub(crate) struct Faults {
    /// How many [default: 2000, as CI does]
    #[arg(long, value_name = "N")]
    pub(crate) trials: Option<u64>,
    /// Which of them and in which order; every run prints its own
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Cut at every byte of every message that there is, however many that are: this takes an hour
    #[arg(long)]
    pub(crate) every_byte: bool,
    /// Play again what a failed run wrote to this file, and nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trials", "seed", "every_byte"])]
    pub(crate) replay: Option<PathBuf>,
    /// Only the part whose name begins so: http, plain-line, modern-line, a-line, b-line, open, blows
    #[arg(long, value_name = "NAME")]
    pub(crate) lane: Option<String>,
}

/// One measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Name {
    /// What the machine gives without a gateway
    Floor,
    /// Read-only calls through the gateway and past it
    Pass,
    /// Durable creates
    Create,
    /// Tasks from the call to the result
    Life,
    /// Reads of a task's status
    Get,
    /// Memory of waiting tasks
    Memory,
    /// Kill and restart
    Restart,
    /// What `taskgate run` adds to a server on stdin and stdout
    Run,
}

impl Name {
    /// As it stands in file names.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Name::Floor => "floor",
            Name::Pass => "pass",
            Name::Create => "create",
            Name::Life => "life",
            Name::Get => "get",
            Name::Memory => "memory",
            Name::Restart => "restart",
            Name::Run => "run",
        }
    }
}

/// An era of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Era {
    /// 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl Era {
    /// As it stands in paths and reports.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }

    /// The version that is sent in `MCP-Protocol-Version`.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Era::Legacy => "2025-11-25",
            Era::Modern => "2026-07-28",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Xtask::command().debug_assert();
    }
}
